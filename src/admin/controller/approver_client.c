/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Approves requests for the client certificates of nodes, and revokes the token of a node once it
 * has been used. For each request:
 *
 *      pending    read the token and the Node, judge (verdict.h), claim the token (claim.h), and
 *                 approve
 *      approved   claim the token, even if somebody else approved; wait for the certificate
 *      issued     wait until the Node has joined, or for a grace period, since the machine still
 *                 needs the token to fetch the certificate; then revoke the token
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "admin/client/calls.h"
#include "admin/client/claim.h"
#include "admin/controller/controller.h"
#include "admin/controller/events.h"
#include "admin/controller/metrics.h"
#include "admin/policy/verdict.h"
#include "base/macro.h"
#include "kube/node_object.h"
#include "system/clock.h"
#include "system/log.h"

#define WAIT_FIRST_MS 2000
#define WAIT_CAP_MS (5 * 60 * 1000)
#define TOKEN_LAG_MS 2000
#define TURN_MS 20 /* about twice what a decision takes */

/* Everything that a decision is made of. */
struct look {
        struct nb_client_case facts;
        struct nb_bootstrap_token token;
        struct nb_inventory_node entry;
        struct nb_failure inventory_failure;
        struct nb_node_request request; /* read only if more than the record is needed */
};

static void look_done(struct look *look) {
        nb_bootstrap_token_done(&look->token);
        nb_node_request_done(&look->request);
}

static bool is_token_gone(const struct nb_controller *controller,
                          const struct nb_request_record *record) {
        return !nb_controller_find_token(controller, record->token_id);
}

/* --- Facts --- */

/* 1: read; 0: there is no such token. */
static int read_token(struct nb_controller *controller, const char *id,
                      struct nb_bootstrap_token *ret_token, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        char path[NB_ADMIN_PATH_MAX], what[64];
        int r;

        snprintf(what, sizeof(what), "reading token %s", id);
        snprintf(path, sizeof(path), NB_SECRETS_PATH "/" NB_TOKEN_SECRET_NAME_PREFIX "%s", id);
        r = nb_admin_get(&controller->admin, what, path, &json, f);
        if (r <= 0)
                return r;
        nb_bootstrap_token_read(&json, ret_token);
        return json.r < 0 ? json.r : 1;
}

/* 1: there is a Node of this name. */
static int read_node(struct nb_controller *controller, const char *name, bool *ret_is_ready,
                     time_t *ret_created, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        char path[NB_ADMIN_PATH_MAX], what[NB_NODE_NAME_MAX + 32];
        const char *ready, *created;
        int r;

        *ret_is_ready = false;
        *ret_created = 0;
        snprintf(what, sizeof(what), "reading Node %s", name);
        snprintf(path, sizeof(path), NB_NODES_PATH "/%s", name);
        r = nb_admin_get(&controller->admin, what, path, &json, f);
        if (r <= 0)
                return r;
        ready = nb_json_string(&json, "status.conditions[type=Ready].status");
        created = nb_json_string(&json, "metadata.creationTimestamp");
        *ret_is_ready = ready && !strcmp(ready, "True");
        if (created && nb_rfc3339_parse(created, ret_created) < 0)
                nb_json_refuse(&json, "metadata.creationTimestamp", "a time", created);
        return json.r < 0 ? json.r : 1;
}

/* 1: the facts that need no Node are complete; 0: the CSR does not exist any more. */
static int look_at_request(struct nb_controller *controller, const struct nb_request_record *record,
                           struct look *look, struct nb_failure *f) {
        struct nb_client_case *facts = &look->facts;
        int r;

        facts->token_id = record->token_id;
        facts->node = record->node;
        facts->flaw = "";
        facts->attestation = NB_ATTESTATION_MISSING;
        facts->is_attestation_required = controller->settings.is_attestation_required;
        facts->has_inventory = controller->inventory.path;
        facts->requested = record->created;
        facts->now = time(NULL);
        if (facts->has_inventory && record->node[0]) {
                r = nb_inventory_find(&controller->inventory, record->node, &look->entry,
                                      &look->inventory_failure);
                facts->entry = r > 0 ? &look->entry : NULL;
                if (r < 0)
                        facts->inventory_flaw = look->inventory_failure.detail;
        }
        if (record->has_flaw || (facts->entry && facts->entry->public_key[0])) {
                r = nb_controller_read_request(controller, record, &look->request, f);
                if (r <= 0)
                        return r;
                facts->flaw = look->request.flaw;
        }
        if (facts->entry && facts->entry->public_key[0] && look->request.pem)
                facts->attestation = nb_attestation_verify(look->request.pem, look->request.pem_len,
                                                           facts->entry->public_key);
        r = read_token(controller, record->token_id, &look->token, f);
        if (r > 0)
                facts->token = &look->token;
        return r < 0 ? r : 1;
}

/* --- Verdicts --- */

static int approve_request(struct nb_controller *controller, struct nb_request_record *record,
                           const struct nb_client_case *facts, struct nb_failure *f) {
        char text[NB_REASON_TEXT_SIZE];
        int r;

        (void)nb_reason_describe(NB_REASON_NONE, facts, text);
        r = nb_controller_write_condition(controller, record, "Approved",
                                          nb_reason_name(NB_REASON_NONE), text, f);
        if (r <= 0)
                return r < 0 ? r : -EAGAIN;
        nb_log(LOG_INFO, NB_ADMIN_APPROVED, "approved CSR %s: %s", record->name, text);
        nb_metrics_decide(controller, record, NB_DECISION_APPROVED, nb_reason_name(NB_REASON_NONE));
        return 0;
}

/* An unchanged reason is told once, so a request that waits for long is one line. */
static void tell_reason(struct nb_controller *controller, struct nb_request_record *record,
                        enum nb_reason reason, enum nb_code code, const char *text) {
        struct nb_event event = {
                .bit = 1u << reason, .code = code, .reason = nb_reason_name(reason), .message = text
        };

        (void)nb_event_tell(controller, record, &event);
}

/* The request is judged again at this time, or before if its token or Node changes. */
static int wait_for_change(struct nb_controller *controller, struct nb_request_record *record) {
        record->is_waiting = true;
        nb_controller_queue(controller, &record->work,
                            nb_now_ms() + nb_backoff_ms(record->work.attempt++, WAIT_FIRST_MS,
                                                        WAIT_CAP_MS, nb_random()));
        return 0;
}

static int refuse_request(struct nb_controller *controller, struct nb_request_record *record,
                          const struct nb_client_case *facts, enum nb_reason reason,
                          struct nb_failure *f) {
        char text[NB_REASON_TEXT_SIZE];
        int r;

        if (nb_reason_verdict(reason) == NB_VERDICT_IGNORE) {
                nb_controller_drop_request(controller, record);
                return 0;
        }
        (void)nb_reason_describe(reason, facts, text);
        if (nb_reason_verdict(reason) == NB_VERDICT_REFUSE && controller->settings.is_denying) {
                r = nb_controller_write_condition(controller, record, "Denied",
                                                  nb_reason_name(reason), text, f);
                if (r <= 0)
                        return r < 0 ? r : -EAGAIN;
                tell_reason(controller, record, reason, NB_ADMIN_DENIED, text);
                nb_metrics_decide(controller, record, NB_DECISION_DENIED, nb_reason_name(reason));
                return 0;
        }
        nb_metrics_decide(controller, record, NB_DECISION_PENDING, nb_reason_name(reason));
        tell_reason(controller, record, reason, NB_ADMIN_LEFT_PENDING, text);
        return nb_reason_verdict(reason) == NB_VERDICT_WAIT ? wait_for_change(controller, record)
                                                            : 0;
}

/* 1: claimed for this request; 0: for another one. */
static int claim_token(struct nb_controller *controller, struct nb_request_record *record,
                       const struct nb_bootstrap_token *token, struct nb_failure *f) {
        int r;

        if (record->is_claimed && !strcmp(record->claimed_uid, token->uid))
                return 1;
        r = nb_claim_make(&controller->admin, token, record->name, record->uid, f);
        if (r < 0)
                return r;
        record->is_claimed = r > 0;
        memcpy(record->claimed_uid, token->uid, sizeof(record->claimed_uid));
        return r;
}

/* Whether this token is another one than that which the request was made with. */
static bool is_other_token(const struct nb_request_record *record,
                           const struct nb_bootstrap_token *token) {
        if (record->is_claimed)
                return strcmp(record->claimed_uid, token->uid) != 0;
        return record->created != 0 && token->created > record->created;
}

/* The order matters: the claim is made last, since it is never released, and before the approval,
 * so that no second request can be approved. */
static int decide_request(struct nb_controller *controller, struct nb_request_record *record,
                          struct nb_failure *f) {
        _cleanup_(look_done) struct look look = { 0 };
        struct nb_client_case *facts = &look.facts;
        enum nb_reason reason;
        time_t created;
        int r;

        r = look_at_request(controller, record, &look, f);
        if (r <= 0)
                return r;
        reason = nb_client_judge(facts);
        if (reason == NB_REASON_NONE) {
                r = read_node(controller, record->node, &facts->is_node_ready, &created, f);
                if (r < 0)
                        return r;
                reason = nb_client_judge(facts);
        }
        if (reason == NB_REASON_NONE && look.token.node[0]) {
                r = claim_token(controller, record, &look.token, f);
                if (r < 0)
                        return r;
                facts->is_claimed_by_other = r == 0;
                reason = nb_client_judge(facts);
        }
        return reason == NB_REASON_NONE ? approve_request(controller, record, facts, f)
                                        : refuse_request(controller, record, facts, reason, f);
}

/* --- After the approval --- */

static int revoke_token(struct nb_controller *controller, struct nb_request_record *record,
                        const struct nb_bootstrap_token *token, const char *why,
                        struct nb_failure *f) {
        int r = nb_token_secret_delete(&controller->admin, token->id, token->uid, f);

        if (r < 0)
                return r;
        if (r > 0) {
                nb_log(LOG_INFO, NB_ADMIN_REVOKED, "revoked token %s of node %s: %s", token->id,
                       token->node, why);
                nb_controller_note(controller, "revoked token %s", token->id);
        }
        nb_controller_drop_request(controller, record);
        return 0;
}

/* Somebody else approved a request that the token is not for: most likely an automatic approval of
 * the token's group let a stolen token through. */
static int warn_of_misuse(struct nb_controller *controller, struct nb_request_record *record,
                          const struct nb_client_case *facts, enum nb_reason reason) {
        char text[NB_REASON_TEXT_SIZE], message[NB_REASON_TEXT_SIZE + 64];

        (void)nb_reason_describe(reason, facts, text);
        snprintf(message, sizeof(message), "Somebody else approved this request. %s", text);
        tell_reason(controller, record, reason, NB_ADMIN_TOKEN_MISUSED, message);
        nb_controller_drop_request(controller, record);
        return 0;
}

/* Returns 1 if the token may be revoked now. */
static int has_been_fetched(struct nb_controller *controller, struct nb_request_record *record,
                            struct nb_failure *f) {
        uint64_t end_ms = record->issued_ms + controller->grace_ms;
        bool is_ready;
        time_t created;
        int r;

        if (nb_now_ms() >= end_ms)
                return 1;
        r = read_node(controller, record->node, &is_ready, &created, f);
        if (r < 0)
                return r;
        if (r > 0 && record->approved > 0 && created >= record->approved)
                return 1;
        record->is_waiting = true;
        nb_controller_queue(controller, &record->work, end_ms);
        return 0;
}

/* Anyone who may create Leases can name any request in a claim. */
static bool is_request_of(const struct nb_request_record *record,
                          const struct nb_node_request *request) {
        return request->kind == record->kind && strcmp(request->token_id, record->token_id) == 0 &&
               strcmp(request->node, record->node) == 0;
}

/* A CSR that was deleted, or that a claim of an earlier run names: is it really gone? 1: its token
 * is kept, since it got no certificate, or was not made with the token. */
static int check_gone(struct nb_controller *controller, struct nb_request_record *record,
                      struct nb_failure *f) {
        _cleanup_(nb_node_request_done) struct nb_node_request request = { 0 };
        int r;

        if (!record->is_gone)
                return 0;
        r = nb_controller_read_request(controller, record, &request, f);
        if (r < 0)
                return r;
        record->is_gone = r == 0;
        if (r > 0 && !is_request_of(record, &request))
                return 1;
        if (r > 0) {
                record->has_flaw = request.flaw[0];
                record->created = request.created;
                record->state = request.state;
                record->has_certificate = request.has_certificate;
                memcpy(record->resource_version, request.resource_version,
                       sizeof(record->resource_version));
                if (record->has_certificate && record->issued_ms == 0)
                        record->issued_ms = nb_now_ms();
        }
        return record->state == NB_CSR_STATE_DENIED || record->state == NB_CSR_STATE_FAILED;
}

static int finish_request(struct nb_controller *controller, struct nb_request_record *record,
                          struct nb_failure *f) {
        _cleanup_(nb_bootstrap_token_done) struct nb_bootstrap_token token = { 0 };
        struct nb_client_case facts = {
                .token_id = record->token_id, .node = record->node, .flaw = "", .token = &token
        };
        int r;

        r = read_token(controller, record->token_id, &token, f);
        if (r < 0)
                return r;
        if (r == 0 || !token.node[0] || is_other_token(record, &token)) {
                nb_controller_drop_request(controller, record);
                return 0;
        }
        if (strcmp(token.node, record->node) != 0)
                return warn_of_misuse(controller, record, &facts, NB_REASON_TOKEN_FOR_ANOTHER_NODE);
        r = claim_token(controller, record, &token, f);
        if (r < 0)
                return r;
        if (r == 0)
                return warn_of_misuse(controller, record, &facts, NB_REASON_TOKEN_USED);
        if (record->is_gone)
                return revoke_token(controller, record, &token, "its request was removed", f);
        if (!record->has_certificate)
                return 0;
        r = has_been_fetched(controller, record, f);
        return r <= 0 ? r : revoke_token(controller, record, &token, "it was used", f);
}

/* --- Work --- */

static int run_request(void *userdata, struct nb_work *work, struct nb_failure *f) {
        struct nb_request_record *record = userdata;
        struct nb_controller *controller = record->controller;
        int r;

        if (record->state != NB_CSR_STATE_PENDING && is_token_gone(controller, record)) {
                nb_controller_drop_request(controller, record);
                return 0;
        }
        /* Without its token a waiting request cannot be approved, so do not read it again. */
        if (record->is_waiting && work->attempt > 0 && is_token_gone(controller, record))
                return wait_for_change(controller, record);
        record->is_waiting = false;
        nb_log_field(NB_FIELD_CSR, "%s", record->name);
        nb_log_field(NB_FIELD_NODE, "%s", record->node);
        nb_log_field(NB_FIELD_TOKEN_ID, "%s", record->token_id);
        r = check_gone(controller, record, f);
        if (r > 0)
                nb_controller_drop_request(controller, record);
        else if (r == 0 && record->state == NB_CSR_STATE_PENDING && !record->is_gone)
                r = decide_request(controller, record, f);
        else if (r == 0)
                r = finish_request(controller, record, f);
        nb_log_field(NB_FIELD_CSR, NULL);
        nb_log_field(NB_FIELD_NODE, NULL);
        nb_log_field(NB_FIELD_TOKEN_ID, NULL);
        return r < 0 ? r : 0;
}

/* The requests by one token are judged one per turn, so that a flood with a stolen token does not
 * delay the requests by other tokens. */
static void queue_pending(struct nb_controller *controller, struct nb_request_record *record) {
        struct nb_token_record *token = nb_controller_find_token(controller, record->token_id);
        uint64_t now_ms = nb_now_ms();
        uint64_t turn_ms = token && token->turn_ms > now_ms ? token->turn_ms : now_ms;

        record->work.is_urgent = true;
        /* It keeps its turn, however often its token or Node is written. */
        if (record->work.queue == &controller->urgent && record->work.due_ms <= turn_ms)
                return;
        if (token)
                token->turn_ms = turn_ms + TURN_MS;
        nb_controller_queue(controller, &record->work, turn_ms);
}

/* A machine waits for a decision. What follows an approval is not urgent. */
static void queue_now(struct nb_controller *controller, struct nb_request_record *record) {
        record->work.attempt = 0;
        if (record->state == NB_CSR_STATE_PENDING) {
                queue_pending(controller, record);
                return;
        }
        record->work.is_urgent = false;
        nb_controller_queue(controller, &record->work, nb_now_ms());
}

/* Requests of nodes (renewals), of other users and, without an inventory, of tokens for any node
 * are kube-controller-manager's. */
static bool is_ours(const struct nb_controller *controller, const struct nb_node_request *request) {
        const struct nb_token_record *token = nb_controller_find_token(controller,
                                                                       request->token_id);

        if (!request->token_id[0] || request->state == NB_CSR_STATE_DENIED ||
            request->state == NB_CSR_STATE_FAILED)
                return false;
        return !token || token->node ||
               (controller->inventory.path && request->state == NB_CSR_STATE_PENDING);
}

static bool on_request(struct nb_controller *controller, struct nb_request_record *record,
                       const struct nb_node_request *request, bool is_changed) {
        if (!is_ours(controller, request))
                return false;
        record->work.run = run_request;
        record->work.userdata = record;
        if (!is_changed)
                return true;
        queue_now(controller, record);
        /* The watch of the tokens may be behind. Most requests with a certificate are old, and
         * their tokens are gone. */
        if (request->state == NB_CSR_STATE_APPROVED && is_token_gone(controller, record))
                nb_controller_queue(controller, &record->work, nb_now_ms() + TOKEN_LAG_MS);
        return true;
}

static bool on_request_deleted(struct nb_controller *controller, struct nb_request_record *record) {
        if (!record->is_gone && record->state == NB_CSR_STATE_PENDING && !record->is_claimed)
                return false;
        record->is_gone = true;
        queue_now(controller, record);
        return true;
}

/* --- What a request waits for --- */

static void on_token(struct nb_controller *controller, struct nb_token_record *token,
                     const struct nb_bootstrap_token *content) {
        if (!content)
                return;
        for (size_t i = 0; i < controller->requests.n; i++) {
                struct nb_request_record *record = (struct nb_request_record *)
                                                           controller->requests.records[i];

                if (record->is_waiting && !strcmp(record->token_id, token->id))
                        queue_now(controller, record);
        }
}

static void on_node(struct nb_controller *controller, const char *name) {
        for (size_t i = 0; i < controller->requests.n; i++) {
                struct nb_request_record *record = (struct nb_request_record *)
                                                           controller->requests.records[i];

                if (record->is_waiting && (!name || !strcmp(record->node, name)))
                        queue_now(controller, record);
        }
}

/* --- Claims of earlier runs --- */

struct adoption {
        struct nb_controller *controller;
        int r;
};

/* A token that was claimed, but whose request is not in the list: it was removed while no
 * controller ran, or the claim is newer than the list. */
static void adopt_claim(void *userdata, const struct nb_claim *claim) {
        struct adoption *adoption = userdata;
        struct nb_controller *controller = adoption->controller;
        const struct nb_token_record *token = nb_controller_find_token(controller, claim->token_id);
        struct nb_request_record *record;

        /* Kubernetes removes the claim of an earlier token with this ID. */
        if (!token || !token->node || strcmp(claim->token_uid, token->uid) != 0 ||
            nb_records_find(&controller->requests, claim->csr_name))
                return;
        record = nb_controller_add_request(controller, claim->csr_name, token->node);
        if (!record) {
                adoption->r = -ENOMEM;
                return;
        }
        memcpy(record->uid, claim->csr_uid, sizeof(record->uid));
        memcpy(record->token_id, claim->token_id, sizeof(record->token_id));
        record->kind = NB_NODE_REQUEST_CLIENT;
        record->state = NB_CSR_STATE_APPROVED;
        record->work.run = run_request;
        record->work.userdata = record;
        record->is_gone = record->is_claimed = true;
        memcpy(record->claimed_uid, claim->token_uid, sizeof(record->claimed_uid));
        queue_now(controller, record);
}

static int on_lead(struct nb_controller *controller, struct nb_failure *f) {
        struct adoption adoption = { .controller = controller };
        int r = nb_claim_list(&controller->admin, adopt_claim, &adoption, f);

        if (r >= 0 && adoption.r < 0)
                return nb_failure_set_memory(f);
        return r;
}

const struct nb_part nb_part_approve_client = {
        .name = "approve-client",
        .is_default = true,
        .kind = NB_NODE_REQUEST_CLIENT,
        .on_request = on_request,
        .on_request_deleted = on_request_deleted,
        .on_token = on_token,
        .on_node = on_node,
        .on_lead = on_lead,
};
