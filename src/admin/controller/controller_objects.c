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

/* A request may be approved before the watch of the tokens shows its token. Most requests without a
 * token are old, though. */
#define TOKEN_LAG_MS 2000

/* One flow for what follows all decisions: a fleet that was approved has one turn in each round, so
 * it does not delay the next request. */
#define FOLLOW_UPS ""

bool nb_controller_has_part(const struct nb_controller *controller, const struct nb_part *part) {
        for (size_t i = 0; i < controller->n_parts; i++)
                if (controller->parts[i] == part)
                        return true;
        return false;
}

/* --- Requests --- */

static const struct nb_part *const deciders[_NB_NODE_REQUEST_KIND_N] = {
        [NB_NODE_REQUEST_CLIENT] = &nb_part_approve_client,
        [NB_NODE_REQUEST_SERVING] = &nb_part_approve_serving,
};

const char *nb_controller_reason(enum nb_node_request_kind kind, unsigned reason) {
        return kind == NB_NODE_REQUEST_CLIENT
                       ? nb_reason_name((enum nb_reason)reason)
                       : nb_serving_verdict_name((enum nb_serving_verdict)reason);
}

static struct nb_records *requests_of(const struct nb_request_record *record) {
        return &record->controller->requests[record->kind];
}

static void free_request(struct nb_request_record *record) {
        free(record->name);
        free(record->node);
        free(record);
}

static int run_request(void *userdata, struct nb_work *work _unused_, struct nb_failure *f) {
        struct nb_request_record *record = userdata;
        int r;

        nb_log_field(NB_FIELD_CSR, "%s", record->name);
        nb_log_field(NB_FIELD_NODE, "%s", record->node);
        nb_log_field(NB_FIELD_TOKEN_ID, "%s", record->token_id);
        r = deciders[record->kind]->run_request(record, f);
        nb_log_field(NB_FIELD_CSR, NULL);
        nb_log_field(NB_FIELD_NODE, NULL);
        nb_log_field(NB_FIELD_TOKEN_ID, NULL);
        return r;
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
        record->work.run = run_request;
        record->work.userdata = record;
        if (record->name && record->node &&
            nb_work_set_flow(&controller->queue, &record->work, FOLLOW_UPS) >= 0 &&
            nb_records_add(requests_of(record), &record->record) >= 0)
                return record;
        nb_work_done(&controller->queue, &record->work);
        free_request(record);
        return NULL;
}

void nb_controller_drop_request(struct nb_request_record *record) {
        nb_controller_drop_work(record->controller, &record->work);
        nb_records_remove(requests_of(record), &record->record);
        free_request(record);
}

static void queue_request(struct nb_request_record *record, uint64_t after_ms) {
        record->work.attempt = record->n_waits = 0;
        nb_controller_queue(record->controller, &record->work, after_ms);
}

/* The token of a request that was approved, or has claimed it, is revoked. A new leader finds such
 * tokens by their claims. */
static void delete_request(struct nb_request_record *record) {
        if (record->work.slot)
                record->work.is_changed = true;
        else if (record->controller->is_leading && record->kind == NB_NODE_REQUEST_CLIENT &&
                 (record->state != NB_CSR_STATE_PENDING || record->claimed_uid[0]))
                queue_request(record, 0);
        else
                nb_controller_drop_request(record);
}

/* The requests of one party take turns with those of others. A fleet may share an enrolled token,
 * so the node that the request names counts as well. A bound token is for one node: other names,
 * which a thief can invent, would be turns for nothing. */
static int set_flow(struct nb_controller *controller, struct nb_request_record *record,
                    const struct nb_node_request *request) {
        char flow[sizeof(request->username) + sizeof(request->node) + 1];

        record->work.is_last = false;
        if (request->state != NB_CSR_STATE_PENDING)
                return nb_work_set_flow(&controller->queue, &record->work, FOLLOW_UPS);
        record->work.is_last = request->kind == NB_NODE_REQUEST_CLIENT &&
                               nb_enrolled_lacks_proof(controller, request);
        snprintf(flow, sizeof(flow), "%s %s", request->username,
                 request->is_in_enrolled_group ? request->node : "");
        return nb_work_set_flow(&controller->queue, &record->work, flow);
}

/* Returns whether the request is new, or has another state, or a certificate. */
static bool update_record(struct nb_request_record *record, const struct nb_node_request *request) {
        struct nb_controller *controller = record->controller;
        bool is_changed = strcmp(record->uid, request->uid) != 0 ||
                          record->state != request->state ||
                          record->has_certificate != request->has_certificate;

        if (request->state != NB_CSR_STATE_PENDING && record->state == NB_CSR_STATE_PENDING) {
                nb_queue_remove(&record->work);
                (void)set_flow(controller, record, request);
        }
        if (record->uid[0] && record->state == NB_CSR_STATE_PENDING && controller->is_leading &&
            request->state == NB_CSR_STATE_APPROVED && !request->is_approved_by_controller)
                controller->metrics.n_approved_by_others++;
        record->state = request->state;
        record->has_certificate = request->has_certificate;
        record->has_flaw = request->flaw[0];
        record->created = request->created;
        record->approved = request->approved;
        record->is_gone = false;
        if (record->has_certificate && record->grace.issued_ms == 0)
                record->grace.issued_ms = nb_now_ms();
        memcpy(record->key, request->facts.key, sizeof(record->key));
        memcpy(record->token_id, request->token_id, sizeof(record->token_id));
        memcpy(record->uid, request->uid, sizeof(record->uid));
        return is_changed;
}

/* Neither node nor token of a request ever changes. But a record that was made from a claim of an
 * earlier run has those of the claimed token, and anyone who may create Leases can name any request
 * in a claim. */
static bool is_record_of(const struct nb_request_record *record,
                         const struct nb_node_request *request) {
        return request->kind == record->kind && strcmp(record->node, request->node) == 0 &&
               strcmp(record->token_id, request->token_id) == 0;
}

int nb_controller_read_request(struct nb_request_record *record,
                               struct nb_node_request *ret_request, struct nb_failure *f) {
        struct nb_controller *controller = record->controller;
        int r = nb_facts_read_request(&controller->admin, record->name, ret_request, f);

        if (r < 0)
                return r;
        /* A claim names the request, and has its key, but not its UID. */
        record->is_gone = r == 0 || (record->uid[0] ? strcmp(ret_request->uid, record->uid) != 0
                                                    : memcmp(ret_request->facts.key, record->key,
                                                             sizeof(record->key)) != 0);
        if (record->is_gone || !is_record_of(record, ret_request) ||
            !deciders[record->kind]->is_wanted(controller, ret_request))
                return 0;
        update_record(record, ret_request);
        return 1;
}

void nb_controller_note_approval(struct nb_request_record *record) {
        if (!record->claimed_uid[0]) {
                nb_controller_drop_request(record);
                return;
        }
        record->state = NB_CSR_STATE_APPROVED;
        (void)nb_work_set_flow(&record->controller->queue, &record->work, FOLLOW_UPS);
}

static void write_request(struct nb_controller *controller, struct nb_request_record *record,
                          const struct nb_node_request *request) {
        if (!record) {
                record = nb_controller_add_request(controller, request->kind, request->name,
                                                   request->node);
                if (!record || set_flow(controller, record, request) < 0) {
                        nb_log(LOG_ERR, NB_NONE, "CSR %s: memory ran out", request->name);
                        return;
                }
        }
        nb_records_touch(requests_of(record), &record->record);
        if (update_record(record, request))
                queue_request(record, request->state == NB_CSR_STATE_APPROVED &&
                                                      !nb_controller_find_token(controller,
                                                                                request->token_id)
                                              ? TOKEN_LAG_MS
                                              : 0);
}

static void on_request(void *userdata, struct nb_json *object, enum nb_change change) {
        struct nb_controller *controller = userdata;
        _cleanup_(nb_node_request_done) struct nb_node_request request = { 0 };
        struct nb_request_record *record;
        bool is_same;

        nb_node_request_read(object, &request);
        if (object->r < 0 || request.kind == NB_NODE_REQUEST_OTHER)
                return;
        record = (struct nb_request_record *)nb_records_find(&controller->requests[request.kind],
                                                             request.name);
        is_same = record && strcmp(record->uid, request.uid) == 0;
        if (change == NB_CHANGE_DELETED) {
                if (is_same)
                        delete_request(record);
                return;
        }
        if (record && (!is_same || !is_record_of(record, &request))) {
                nb_controller_drop_request(record);
                record = NULL;
        }
        if (record && record->work.slot) {
                /* Each run of its work must find the same facts. The approval that it waits for is
                 * no news. */
                nb_records_touch(requests_of(record), &record->record);
                record->work.is_changed |= !record->is_approving ||
                                           !request.is_approved_by_controller ||
                                           request.has_certificate;
        } else if (deciders[request.kind]->is_wanted(controller, &request))
                write_request(controller, record, &request);
        else if (record)
                nb_controller_drop_request(record);
}

static void sweep_request(void *userdata _unused_, struct nb_record *swept) {
        delete_request((struct nb_request_record *)swept);
}

static void list_requests(struct nb_records *requests, bool is_complete) {
        if (is_complete)
                nb_records_sweep(requests, sweep_request, NULL);
        else
                nb_records_begin(requests);
}

static void on_client_requests_listed(void *userdata, bool is_complete) {
        struct nb_controller *controller = userdata;

        list_requests(&controller->requests[NB_NODE_REQUEST_CLIENT], is_complete);
}

static void on_serving_requests_listed(void *userdata, bool is_complete) {
        struct nb_controller *controller = userdata;

        list_requests(&controller->requests[NB_NODE_REQUEST_SERVING], is_complete);
}

/* --- What a request waits for --- */

/* Also judges requests whose work runs, since it may have read the object before the change. */
void nb_controller_wake_requests(struct nb_controller *controller, const char *token_id,
                                 const char *node) {
        for (size_t kind = 0; kind < _NB_NODE_REQUEST_KIND_N; kind++)
                for (size_t i = 0; i < controller->requests[kind].n; i++) {
                        struct nb_request_record *record =
                                (struct nb_request_record *)controller->requests[kind].records[i];

                        if ((token_id && strcmp(record->token_id, token_id) != 0) ||
                            (node && strcmp(record->node, node) != 0))
                                continue;
                        record->grace.look_ms = 0;
                        if (!record->is_waiting && !record->work.slot)
                                continue;
                        record->work.is_last = false;
                        queue_request(record, 0);
                }
}

/* --- Tokens and cluster-info --- */

struct nb_token_record *nb_token_record_find(const struct nb_records *tokens, const char *id) {
        char name[sizeof(NB_TOKEN_SECRET_NAME_PREFIX) + NB_TOKEN_SECRET_NAME_MAX];

        snprintf(name, sizeof(name), NB_TOKEN_SECRET_NAME_PREFIX "%s", id);
        return (struct nb_token_record *)nb_records_find(tokens, name);
}

struct nb_token_record *nb_controller_find_token(const struct nb_controller *controller,
                                                 const char *id) {
        struct nb_token_record *record = nb_token_record_find(&controller->tokens, id);

        return record && !record->has_flaw ? record : NULL;
}

static void drop_token(void *userdata, struct nb_record *record) {
        struct nb_controller *controller = userdata;

        nb_records_remove(&controller->tokens, record);
        free(record);
        nb_signer_on_change(controller);
}

static struct nb_token_record *add_token(struct nb_controller *controller, const char *name) {
        struct nb_token_record *record = calloc(1, sizeof(*record) + strlen(name) + 1);

        if (!record)
                return NULL;
        record->record.key = memcpy(record->name, name, strlen(name) + 1);
        if (nb_records_add(&controller->tokens, &record->record) >= 0)
                return record;
        free(record);
        return NULL;
}

static void write_token(struct nb_controller *controller, struct nb_token_record *record,
                        const struct nb_bootstrap_token *token) {
        if (!record)
                record = add_token(controller, token->name);
        if (!record) {
                nb_log(LOG_ERR, NB_NONE, "Secret %s: memory ran out", token->name);
                return;
        }
        nb_records_touch(&controller->tokens, &record->record);
        record->due_ms = record->attempt = 0;
        record->created = token->created;
        record->expires = token->expires;
        record->has_flaw = token->flaw;
        memcpy(record->id, token->id, sizeof(record->id));
        memcpy(record->uid, token->uid, sizeof(record->uid));
        memcpy(record->node, token->node, sizeof(record->node));
        if (nb_signer_on_token(controller, record, token) < 0)
                nb_log(LOG_ERR, NB_NONE, "cannot sign cluster-info with the token %s", token->id);
        if (token->flaw)
                nb_log(LOG_DEBUG, NB_NONE, "Secret %s: %s", token->name, token->flaw);
        else
                nb_controller_wake_requests(controller, token->id, NULL);
}

static void on_token(void *userdata, struct nb_json *object, enum nb_change change) {
        struct nb_controller *controller = userdata;
        _cleanup_(nb_bootstrap_token_done) struct nb_bootstrap_token token = { 0 };
        struct nb_record *record;

        nb_bootstrap_token_read(object, &token);
        if (object->r < 0)
                return;
        record = nb_records_find(&controller->tokens, token.name);
        if (change != NB_CHANGE_DELETED)
                write_token(controller, (struct nb_token_record *)record, &token);
        else if (record)
                drop_token(controller, record);
}

static void on_tokens_listed(void *userdata, bool is_complete) {
        struct nb_controller *controller = userdata;

        if (is_complete) {
                nb_records_sweep(&controller->tokens, drop_token, controller);
                controller->signer.is_complete = true;
                nb_signer_on_change(controller);
        } else
                nb_records_begin(&controller->tokens);
}

static void on_cluster_info(void *userdata, struct nb_json *object _unused_,
                            enum nb_change change _unused_) {
        nb_signer_wake(userdata);
}

static void on_cluster_info_listed(void *userdata, bool is_complete _unused_) {
        nb_signer_wake(userdata);
}

/* --- Nodes --- */

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

void nb_controller_list_tokens(struct nb_controller *controller) {
        struct nb_watch *watch = &controller->watches[WATCHED_TOKENS];

        nb_watch_stop(watch);
        watch->wants_list = true;
        watch->version[0] = '\0';
}

void nb_controller_add_watches(struct nb_controller *controller) {
        const bool has_client = nb_controller_has_part(controller, &nb_part_approve_client),
                   has_serving = nb_controller_has_part(controller, &nb_part_approve_serving);
        const bool is_unneeded[_WATCHED_N] = {
                [WATCHED_CLUSTER_INFO] = !nb_controller_has_part(controller, &nb_part_signer),
                [WATCHED_NODES] = !has_client && !has_serving,
                [WATCHED_NODE_RECORDS] = !has_client && !has_serving,
                [WATCHED_POLICY] = !has_client && !has_serving,
                [WATCHED_CLIENT_REQUESTS] = !has_client,
                [WATCHED_SERVING_REQUESTS] = !has_serving,
        };

        for (size_t i = 0; i < _WATCHED_N; i++)
                if (!is_unneeded[i])
                        controller->watches[controller->n_watches++] = (struct nb_watch)
                                NB_WATCH_INIT(&kinds[i], controller);
}

static void drop_all(struct nb_records *records,
                     void (*drop)(void *userdata, struct nb_record *record), void *userdata) {
        while (records->n > 0)
                drop(userdata, records->records[records->n - 1]);
        nb_records_done(records);
}

static void drop_request(void *userdata _unused_, struct nb_record *record) {
        nb_controller_drop_request((struct nb_request_record *)record);
}

void nb_controller_drop_records(struct nb_controller *controller) {
        for (size_t i = 0; i < _NB_NODE_REQUEST_KIND_N; i++)
                drop_all(&controller->requests[i], drop_request, NULL);
        drop_all(&controller->tokens, drop_token, controller);
        drop_all(&controller->enrolled, nb_enrolled_drop, controller);
        nb_controller_drop_work(controller, &controller->cleaner.work);
        nb_controller_drop_work(controller, &controller->signer.work);
        free(controller->signer.content);
}
