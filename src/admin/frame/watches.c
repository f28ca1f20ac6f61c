/* SPDX-License-Identifier: Apache-2.0 */

/* What the controller watches and lists, for which of its parts. */

#include <stdlib.h>
#include <string.h>

#include "admin/client/calls.h"
#include "admin/frame/controller.h"
#include "admin/frame/enrolled.h"
#include "base/macro.h"
#include "os/clock.h"

#define PARTIAL_OBJECT "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

#define SIGNER_QUERY "?fieldSelector=spec.signerName%3Dkubernetes.io%2F"

static void on_cluster_info(void *userdata, struct nb_json *object _unused_,
                            enum nb_change change _unused_) {
        struct nb_controller *controller = userdata;

        controller->signing->on_cluster_info(controller);
}

static void on_cluster_info_listed(void *userdata, bool is_complete _unused_) {
        on_cluster_info(userdata, NULL, NB_CHANGE_LISTED);
}

static void on_node(void *userdata, struct nb_json *object, _unused_ enum nb_change change) {
        const char *name = nb_json_string(object, "metadata.name");

        if (name)
                nb_controller_wake(userdata, NB_FACT_NODE, NULL, name);
}

static void on_nodes_listed(void *userdata, bool is_complete) {
        if (is_complete)
                nb_controller_wake(userdata, NB_FACT_NODE, NULL, NULL);
}

/* --- Watches --- */

enum watched {
        WATCHED_TOKENS, /* always the first; the requests refer to them */
        WATCHED_CLUSTER_INFO,
        WATCHED_NODES,
        WATCHED_NODE_RECORDS,
        WATCHED_POLICY,
        WATCHED_CLIENT_REQUESTS, /* so that a flood of one kind does not delay the other */
        WATCHED_SERVING_REQUESTS,
        _WATCHED_N,
};

static const struct nb_watch_kind kinds[_WATCHED_N] = {
        [WATCHED_TOKENS] = { .what = "tokens",
                             .path = NB_TOKENS_PATH,
                             .on_object = nb_tokens_on_object,
                             .on_list = nb_tokens_on_list },
        [WATCHED_CLUSTER_INFO] = { .what = "cluster-info",
                                   .path = "/api/v1/namespaces/kube-public/"
                                           "configmaps?fieldSelector=metadata.name%3Dcluster-info",
                                   .on_object = on_cluster_info,
                                   .on_list = on_cluster_info_listed },
        /* Their number and size are large, and only their names are of interest. */
        [WATCHED_NODES] = { .what = "Nodes",
                            .path = NB_NODES_PATH,
                            .accept = PARTIAL_OBJECT,
                            .is_unlisted = true,
                            .on_object = on_node,
                            .on_list = on_nodes_listed },
        [WATCHED_NODE_RECORDS] = { .what = "records of nodes",
                                   .path = NB_RECORDS_PATH,
                                   .on_object = nb_enrolled_on_record,
                                   .on_list = nb_enrolled_on_list },
        [WATCHED_POLICY] = { .what = "the policy",
                             .path = "/api/v1/namespaces/kube-system/"
                                     "configmaps?fieldSelector=metadata.name%3D" NB_POLICY_NAME,
                             .on_object = nb_enrolled_on_policy,
                             .on_list = nb_enrolled_on_policy_list },
        [WATCHED_CLIENT_REQUESTS] = { .what = "CSRs of clients",
                                      .path = NB_CSRS_PATH SIGNER_QUERY
                                      "kube-apiserver-client-kubelet",
                                      .on_object = nb_requests_on_object,
                                      .on_list = nb_requests_on_client_list },
        [WATCHED_SERVING_REQUESTS] = { .what = "CSRs of servers",
                                       .path = NB_CSRS_PATH SIGNER_QUERY "kubelet-serving",
                                       .on_object = nb_requests_on_object,
                                       .on_list = nb_requests_on_serving_list },
};

/* --- The snapshot for serving certificates --- */

static void on_snapshot_object(void *userdata, struct nb_json *object,
                               enum nb_change change _unused_) {
        struct nb_controller *controller = userdata;

        (void)nb_hosts_add_object(&controller->next_hosts, object);
}

static void on_snapshot_nodes(void *userdata, bool is_complete) {
        struct nb_controller *controller = userdata;

        if (is_complete)
                nb_watch_list_again(&controller->lists[NB_LIST_RECORDS]);
        else
                nb_hosts_done(&controller->next_hosts);
}

/* A list that was interrupted begins again, and adds what it has added before. */
static void on_snapshot_records(void *userdata, bool is_complete) {
        struct nb_controller *controller = userdata;

        if (!is_complete)
                return;
        nb_hosts_done(&controller->hosts);
        controller->hosts = TAKE(controller->next_hosts);
        controller->hosts.read_ms = nb_now_ms();
        nb_controller_wake(controller, NB_FACT_HOSTS, NULL, NULL);
}

static void on_claims(void *userdata _unused_, bool is_complete _unused_) {
}

static void on_claim(void *userdata, struct nb_json *object, enum nb_change change _unused_) {
        struct nb_controller *controller = userdata;

        if (object->root)
                controller->deciders[NB_NODE_REQUEST_CLIENT]->on_claim(controller, object);
}

static const struct nb_watch_kind lists[_NB_CONTROLLER_LISTS_N] = {
        [NB_LIST_CLAIMS] = { .what = "the claims of tokens",
                             .path = NB_CLAIMS_PATH,
                             .is_unwatched = true,
                             .on_object = on_claim,
                             .on_list = on_claims },
        [NB_LIST_NODES] = { .what = "the Nodes",
                            .path = NB_NODES_PATH,
                            .is_unwatched = true,
                            .is_partial = true,
                            .on_object = on_snapshot_object,
                            .on_list = on_snapshot_nodes },
        /* What was added last is found first: a message names the record before the claim. */
        [NB_LIST_RECORDS] = { .what = "the enrolled nodes",
                              .path = NB_RECORDS_PATH,
                              .is_unwatched = true,
                              .is_partial = true,
                              .on_object = on_snapshot_object,
                              .on_list = on_snapshot_records },
};

void nb_controller_list_tokens(struct nb_controller *controller) {
        nb_watch_list_again(&controller->watches[WATCHED_TOKENS]);
}

void nb_controller_add_watches(struct nb_controller *controller) {
        const bool has_client = controller->deciders[NB_NODE_REQUEST_CLIENT],
                   has_serving = controller->deciders[NB_NODE_REQUEST_SERVING];
        const bool is_unneeded[_WATCHED_N] = {
                [WATCHED_CLUSTER_INFO] = !controller->signing,
                [WATCHED_NODES] = !has_client && !has_serving,
                [WATCHED_NODE_RECORDS] = !has_client && !has_serving,
                [WATCHED_POLICY] = !has_client && !has_serving,
                [WATCHED_CLIENT_REQUESTS] = !has_client,
                [WATCHED_SERVING_REQUESTS] = !has_serving,
        };

        controller->has_policy = is_unneeded[WATCHED_POLICY];
        for (size_t i = 0; i < _WATCHED_N; i++)
                if (!is_unneeded[i])
                        controller->watches[controller->n_watches++] = (struct nb_watch)
                                NB_WATCH_INIT(&kinds[i], controller);
        controller->lists = controller->watches + controller->n_watches;
        for (size_t i = 0; i < _NB_CONTROLLER_LISTS_N; i++) {
                controller->lists[i] = (struct nb_watch)NB_WATCH_INIT(&lists[i], controller);
                controller->lists[i].is_listed = true; /* nothing waits for it */
        }
}

_Static_assert(_WATCHED_N + _NB_CONTROLLER_LISTS_N <= NB_CONTROLLER_WATCHES_MAX, "room for all");

void nb_controller_drop_records(struct nb_controller *controller) {
        for (size_t i = 0; i < _NB_NODE_REQUEST_KIND_N; i++) {
                struct nb_records *requests = &controller->requests[i];

                while (requests->n > 0)
                        nb_controller_drop_request(requests->items[requests->n - 1]);
                nb_records_done(requests);
        }
        nb_records_done(&controller->tokens);
        nb_records_done(&controller->enrolled);
}
