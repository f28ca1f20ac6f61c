/* SPDX-License-Identifier: Apache-2.0 */

/* The objects that the controller watches, its records of them, and the parts that it tells. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/client/calls.h"
#include "admin/client/facts.h"
#include "admin/controller/controller.h"
#include "admin/controller/enrolled.h"
#include "base/macro.h"
#include "system/clock.h"
#include "system/log.h"

#define PARTIAL_OBJECT "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

#define SIGNER_QUERY "?fieldSelector=spec.signerName%3Dkubernetes.io%2F"

/* --- Requests --- */

static void take_kept(void *userdata);

static struct nb_records *requests_of(const struct nb_request_record *record) {
        return &record->controller->requests[record->kind];
}

static void free_request(struct nb_request_record *record) {
        free(record->next);
        free(record->name);
        free(record->node);
        free(record);
}

struct nb_request_record *nb_controller_add_request(struct nb_controller *controller,
                                                    enum nb_node_request_kind kind,
                                                    const char *name, const char *node) {
        struct nb_request_record *record = calloc(1, sizeof(*record));

        if (!record)
                return NULL;
        record->name = strdup(name);
        record->node = strdup(node);
        record->record.key = record->name;
        record->controller = controller;
        record->kind = kind;
        record->work.on_change = take_kept;
        record->work.userdata = record;
        if (record->name && record->node &&
            nb_records_add(requests_of(record), &record->record) >= 0)
                return record;
        free_request(record);
        return NULL;
}

void nb_controller_drop_request(struct nb_controller *controller,
                                struct nb_request_record *record) {
        nb_controller_drop_work(controller, &record->work);
        nb_records_remove(requests_of(record), &record->record);
        controller->is_changed = true;
        free_request(record);
}

static const struct nb_part *find_part(const struct nb_controller *controller,
                                       enum nb_node_request_kind kind) {
        for (size_t i = 0; i < controller->n_parts; i++)
                if (controller->parts[i]->kind == kind)
                        return controller->parts[i];
        return NULL;
}

static void delete_request(struct nb_controller *controller, struct nb_request_record *record) {
        const struct nb_part *part = find_part(controller, record->kind);

        if (!part || !part->on_request_deleted || !part->on_request_deleted(controller, record))
                nb_controller_drop_request(controller, record);
}

/* Returns whether the request is new, or has another state, or a certificate. */
static bool update_record(struct nb_request_record *record, const struct nb_node_request *request) {
        bool is_changed = strcmp(record->uid, request->uid) != 0 ||
                          record->state != request->state ||
                          record->has_certificate != request->has_certificate;

        record->state = request->state;
        record->has_certificate = request->has_certificate;
        record->has_flaw = request->flaw[0];
        record->created = request->created;
        record->approved = request->approved;
        record->is_by_others = request->state == NB_CSR_STATE_APPROVED &&
                               !request->is_approved_by_controller;
        record->is_gone = false;
        if (record->has_certificate && record->issued_ms == 0)
                record->issued_ms = nb_now_ms();
        memcpy(record->key, request->facts.key, sizeof(record->key));
        memcpy(record->token_id, request->token_id, sizeof(record->token_id));
        memcpy(record->uid, request->uid, sizeof(record->uid));
        memcpy(record->resource_version, request->resource_version,
               sizeof(record->resource_version));
        return is_changed;
}

/* Neither node nor token of a request ever changes. But a record that was made from a claim of an
 * earlier run has those of the claimed token, and anyone who may create Leases can name any request
 * in a claim. */
static bool is_record_of(const struct nb_request_record *record,
                         const struct nb_node_request *request) {
        return strcmp(record->uid, request->uid) == 0 && strcmp(record->node, request->node) == 0 &&
               strcmp(record->token_id, request->token_id) == 0;
}

/* The requests of one party take turns with those of others. A fleet may share an enrolled token,
 * so the node that the request names counts as well. A bound token is for one node: other names,
 * which a thief can invent, would be turns for nothing. What follows a decision has a turn of its
 * own. */
static int set_flow(struct nb_controller *controller, struct nb_request_record *record,
                    const struct nb_node_request *request) {
        char flow[sizeof(request->username) + sizeof(request->node) + 1];

        if (request->state != NB_CSR_STATE_PENDING) {
                nb_work_done(&controller->queue, &record->work);
                return 0;
        }
        if (record->work.flow)
                return 0;
        record->work.is_last = request->kind == NB_NODE_REQUEST_CLIENT &&
                               nb_enrolled_lacks_proof(controller, request);
        snprintf(flow, sizeof(flow), "%s %s", request->username,
                 request->is_in_enrolled_group ? request->node : "");
        return nb_work_set_flow(&controller->queue, &record->work, flow);
}

static void write_request(struct nb_controller *controller, struct nb_request_record *record,
                          const struct nb_node_request *request) {
        const struct nb_part *part = find_part(controller, request->kind);
        bool is_changed, was_pending;

        if (record && !is_record_of(record, request)) {
                nb_controller_drop_request(controller, record);
                record = NULL;
        }
        was_pending = record && record->state == NB_CSR_STATE_PENDING;
        if (!part || request->kind == NB_NODE_REQUEST_OTHER) {
                if (record)
                        nb_controller_drop_request(controller, record);
                return;
        }
        if (!record)
                record = nb_controller_add_request(controller, request->kind, request->name,
                                                   request->node);
        if (!record || set_flow(controller, record, request) < 0) {
                nb_log(LOG_ERR, NB_NONE, "CSR %s: memory ran out", request->name);
                return;
        }
        nb_records_touch(requests_of(record), &record->record);
        is_changed = update_record(record, request);
        if (!part->on_request(controller, record, request, is_changed))
                nb_controller_drop_request(controller, record);
        else if (was_pending && request->state == NB_CSR_STATE_APPROVED && controller->is_leading &&
                 request->kind == NB_NODE_REQUEST_CLIENT && !request->is_approved_by_controller)
                controller->metrics.n_approved_by_others++;
}

/* The work of a request must find the same facts in each of its runs, so what was written meanwhile
 * is kept until the work has ended. Returns whether it was kept. */
static bool keep_for_later(struct nb_request_record *record, const struct nb_node_request *request,
                           enum nb_change change) {
        if (!record->work.slot || (change != NB_CHANGE_DELETED && !is_record_of(record, request)))
                return false;
        nb_records_touch(requests_of(record), &record->record);
        record->work.is_changed = true;
        record->is_deleted = change == NB_CHANGE_DELETED;
        if (record->is_deleted)
                return true;
        if (!record->next)
                record->next = malloc(sizeof(*record->next));
        if (!record->next)
                return false;
        *record->next = *request;
        record->next->pem = NULL;
        return true;
}

static void take_kept(void *userdata) {
        struct nb_request_record *record = userdata;
        _cleanup_(nb_freep) struct nb_node_request *next = TAKE(record->next);

        if (record->is_deleted)
                delete_request(record->controller, record);
        else {
                /* Something else may have changed as well. */
                nb_controller_queue(record->controller, &record->work, nb_now_ms());
                if (next)
                        write_request(record->controller, record, next);
        }
}

static void on_request(void *userdata, struct nb_json *object, enum nb_change change) {
        struct nb_controller *controller = userdata;
        _cleanup_(nb_node_request_done) struct nb_node_request request = { 0 };
        struct nb_request_record *record;

        nb_node_request_read(object, &request);
        if (object->r < 0)
                return;
        controller->is_changed = true;
        record = (struct nb_request_record *)nb_records_find(&controller->requests[request.kind],
                                                             request.name);
        if (change == NB_CHANGE_DELETED && (!record || strcmp(record->uid, request.uid) != 0))
                return;
        if (record && keep_for_later(record, &request, change))
                return;
        if (change != NB_CHANGE_DELETED)
                write_request(controller, record, &request);
        else
                delete_request(controller, record);
}

static void sweep_request(void *userdata, struct nb_record *swept) {
        struct nb_request_record *record = (struct nb_request_record *)swept;

        if (!keep_for_later(record, NULL, NB_CHANGE_DELETED))
                delete_request(userdata, record);
}

static void list_requests(struct nb_controller *controller, enum nb_node_request_kind kind,
                          bool is_complete) {
        if (is_complete)
                nb_records_sweep(&controller->requests[kind], sweep_request, controller);
        else
                nb_records_begin(&controller->requests[kind]);
}

static void on_client_requests_listed(void *userdata, bool is_complete) {
        list_requests(userdata, NB_NODE_REQUEST_CLIENT, is_complete);
}

static void on_serving_requests_listed(void *userdata, bool is_complete) {
        list_requests(userdata, NB_NODE_REQUEST_SERVING, is_complete);
}

int nb_controller_read_request(struct nb_controller *controller,
                               const struct nb_request_record *record,
                               struct nb_node_request *ret_request, struct nb_failure *f) {
        int r = nb_facts_read_request(&controller->admin, record->name, ret_request, f);

        if (r <= 0)
                return r;
        /* A claim names the request, and has its key, but not its UID. */
        return record->uid[0]
                       ? strcmp(ret_request->uid, record->uid) == 0
                       : memcmp(ret_request->facts.key, record->key, sizeof(record->key)) == 0;
}

/* --- What a request waits for --- */

/* Judges the waiting requests of a token or a node again; NULL: of any. Also judges requests whose
 * work runs, since it may have read the object before the change. */
static void wake_kind(struct nb_controller *controller, const struct nb_records *requests,
                      const char *token_id, const char *node) {
        for (size_t i = 0; i < requests->n; i++) {
                struct nb_request_record *record = (struct nb_request_record *)requests->records[i];

                if ((!record->is_waiting && !record->work.slot) ||
                    (token_id && strcmp(record->token_id, token_id) != 0) ||
                    (node && strcmp(record->node, node) != 0))
                        continue;
                record->work.attempt = record->n_waits = 0;
                record->work.is_last = false;
                nb_controller_queue(controller, &record->work, nb_now_ms());
        }
}

void nb_controller_wake_requests(struct nb_controller *controller, const char *token_id,
                                 const char *node) {
        for (size_t i = 0; i < _NB_NODE_REQUEST_KIND_N; i++)
                wake_kind(controller, &controller->requests[i], token_id, node);
}

/* --- Tokens --- */

struct nb_token_record *nb_controller_find_token(const struct nb_controller *controller,
                                                 const char *id) {
        return (struct nb_token_record *)nb_records_find(&controller->tokens, id);
}

static void drop_token(struct nb_controller *controller, struct nb_token_record *record) {
        nb_records_remove(&controller->tokens, &record->record);
        controller->is_changed = true;
        free(record->node);
        free(record);
}

static void delete_token(struct nb_controller *controller, struct nb_token_record *record) {
        drop_token(controller, record);
}

static struct nb_token_record *add_token(struct nb_controller *controller, const char *id) {
        struct nb_token_record *record = calloc(1, sizeof(*record));

        if (!record)
                return NULL;
        snprintf(record->id, sizeof(record->id), "%s", id);
        record->record.key = record->id;
        if (nb_records_add(&controller->tokens, &record->record) >= 0)
                return record;
        free(record);
        return NULL;
}

static void write_token(struct nb_controller *controller, const struct nb_bootstrap_token *token) {
        struct nb_token_record *record = nb_controller_find_token(controller, token->id);
        char *node = token->node[0] ? strdup(token->node) : NULL;

        if (!record)
                record = add_token(controller, token->id);
        if (!record || (token->node[0] && !node)) {
                nb_log(LOG_ERR, NB_NONE, "token %s: memory ran out", token->id);
                free(node);
                return;
        }
        nb_records_touch(&controller->tokens, &record->record);
        free(record->node);
        record->node = node;
        record->expires = token->expires;
        record->is_expiration_malformed = token->is_expiration_malformed;
        record->may_sign = token->may_sign;
        record->may_authenticate = token->may_authenticate;
        memcpy(record->uid, token->uid, sizeof(record->uid));
        nb_controller_wake_requests(controller, token->id, NULL);
}

static void on_token(void *userdata, struct nb_json *object, enum nb_change change) {
        struct nb_controller *controller = userdata;
        _cleanup_(nb_bootstrap_token_done) struct nb_bootstrap_token token = { 0 };
        struct nb_failure f = { 0 };
        struct nb_json view = { object->root, object->what, object->code, &f, object->r };
        struct nb_token_record *record;

        for (size_t i = 0; i < controller->n_parts; i++)
                if (controller->parts[i]->on_secret)
                        controller->parts[i]->on_secret(controller, object, change);
        nb_bootstrap_token_read(&view, &token);
        if (view.r < 0) {
                nb_log(LOG_DEBUG, NB_NONE, "%s", f.detail);
                return;
        }
        controller->is_changed = true;
        record = nb_controller_find_token(controller, token.id);
        if (change != NB_CHANGE_DELETED)
                write_token(controller, &token);
        else if (record)
                delete_token(controller, record);
}

static void sweep_token(void *userdata, struct nb_record *record) {
        delete_token(userdata, (struct nb_token_record *)record);
}

static void on_tokens_listed(void *userdata, bool is_complete) {
        struct nb_controller *controller = userdata;

        if (is_complete)
                nb_records_sweep(&controller->tokens, sweep_token, controller);
        else
                nb_records_begin(&controller->tokens);
        for (size_t i = 0; i < controller->n_parts; i++)
                if (controller->parts[i]->on_secrets_listed)
                        controller->parts[i]->on_secrets_listed(controller, is_complete);
}

/* --- cluster-info and Nodes --- */

static void tell_cluster_info(struct nb_controller *controller, struct nb_json *object) {
        for (size_t i = 0; i < controller->n_parts; i++)
                if (controller->parts[i]->on_cluster_info)
                        controller->parts[i]->on_cluster_info(controller, object);
}

static void on_cluster_info(void *userdata, struct nb_json *object, enum nb_change change) {
        struct nb_controller *controller = userdata;

        controller->has_cluster_info = change != NB_CHANGE_DELETED;
        tell_cluster_info(controller, change == NB_CHANGE_DELETED ? NULL : object);
}

static void on_cluster_info_listed(void *userdata, bool is_complete) {
        struct nb_controller *controller = userdata;

        if (!is_complete)
                controller->has_cluster_info = false;
        else if (!controller->has_cluster_info)
                tell_cluster_info(controller, NULL);
}

static void on_node(void *userdata, struct nb_json *object, _unused_ enum nb_change change) {
        const char *name = nb_json_string(object, "metadata.name");

        if (name)
                nb_controller_wake_requests(userdata, NULL, name);
}

static void on_nodes_listed(void *userdata, bool is_complete) {
        if (is_complete)
                nb_controller_wake_requests(userdata, NULL, NULL);
}

/* --- Watches --- */

enum watched {
        WATCHED_TOKENS, /* before the requests, which refer to them */
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
                             .path = NB_SECRETS_PATH "?" NB_SECRETS_OF_TOKENS_QUERY,
                             .on_object = on_token,
                             .on_list = on_tokens_listed },
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
                                      .on_object = on_request,
                                      .on_list = on_client_requests_listed },
        [WATCHED_SERVING_REQUESTS] = { .what = "CSRs of servers",
                                       .path = NB_CSRS_PATH SIGNER_QUERY "kubelet-serving",
                                       .on_object = on_request,
                                       .on_list = on_serving_requests_listed },
};

void nb_controller_add_watches(struct nb_controller *controller) {
        bool is_needed[_WATCHED_N] = { 0 };

        for (size_t i = 0; i < controller->n_parts; i++) {
                const struct nb_part *part = controller->parts[i];

                is_needed[WATCHED_TOKENS] |= part->on_request || part->on_secret;
                is_needed[WATCHED_CLUSTER_INFO] |= part->on_cluster_info != NULL;
                if (part->on_request)
                        is_needed[WATCHED_NODES] = is_needed[WATCHED_NODE_RECORDS] =
                                is_needed[WATCHED_POLICY] = true;
                is_needed[WATCHED_CLIENT_REQUESTS] |= part->kind == NB_NODE_REQUEST_CLIENT;
                is_needed[WATCHED_SERVING_REQUESTS] |= part->kind == NB_NODE_REQUEST_SERVING;
        }
        for (size_t i = 0; i < _WATCHED_N; i++)
                if (is_needed[i])
                        controller->watches[controller->n_watches++] = (struct nb_watch)
                                NB_WATCH_INIT(&kinds[i], controller);
}

void nb_controller_drop_records(struct nb_controller *controller) {
        for (size_t i = 0; i < _NB_NODE_REQUEST_KIND_N; i++) {
                struct nb_records *requests = &controller->requests[i];

                while (requests->n > 0)
                        nb_controller_drop_request(
                                controller,
                                (struct nb_request_record *)requests->records[requests->n - 1]);
                nb_records_done(requests);
        }
        nb_records_begin(&controller->tokens);
        nb_records_sweep(&controller->tokens, sweep_token, controller);
        nb_enrolled_done(controller);
        nb_records_done(&controller->tokens);
}
