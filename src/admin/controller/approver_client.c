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
#include "admin/client/facts.h"
#include "admin/controller/controller.h"
#include "admin/controller/events.h"
#include "admin/controller/metrics.h"
#include "admin/policy/verdict.h"
#include "base/encoding.h"
#include "base/macro.h"
#include "kube/node_object.h"
#include "system/clock.h"
#include "system/log.h"

#define WAIT_FIRST_MS 2000
#define WAIT_CAP_MS (5 * 60 * 1000)
#define TOKEN_LAG_MS 2000
#define UNREPORTED_WAITS 2 /* an earlier token's claim is removed within seconds */

static bool is_token_gone(const struct nb_controller *controller,
                          const struct nb_request_record *record) {
        return !nb_controller_find_token(controller, record->token_id);
}

/* --- Verdicts --- */

/* The request is judged again after this time, or earlier if its token or Node changes. */
static int judge_again(struct nb_controller *controller, struct nb_request_record *record,
                       uint64_t after_ms) {
        record->is_waiting = true;
        nb_controller_queue(controller, &record->work, nb_now_ms() + after_ms);
        return 0;
}

static int wait_for_change(struct nb_controller *controller, struct nb_request_record *record,
                           uint64_t first_ms) {
        return judge_again(controller, record,
                           nb_backoff_ms(record->n_waits++, first_ms, WAIT_CAP_MS, nb_random()));
}

/* 1: reported, for the first time or again. */
static int tell_reason(struct nb_controller *controller, struct nb_request_record *record,
                       enum nb_reason reason, enum nb_code code, const char *text) {
        return nb_event_tell(controller, record,
                             &(struct nb_event){ .bit = 1u << reason,
                                                 .code = code,
                                                 .reason = nb_reason_name(reason),
                                                 .message = text });
}

/* With --dry-run, an Event instead of a decision. */
static int tell_dry_run(struct nb_controller *controller, struct nb_request_record *record,
                        enum nb_reason reason, const char *decision, const char *text) {
        char message[NB_REASON_TEXT_SIZE + 64];
        int r;

        snprintf(message, sizeof(message), "Dry run: the request would be %s. %s", decision, text);
        r = tell_reason(controller, record, reason, NB_ADMIN_LEFT_PENDING, message);
        if (r < 0)
                return r;
        nb_metrics_decide(controller, record,
                          reason == NB_REASON_NONE ? NB_DECISION_APPROVED : NB_DECISION_DENIED,
                          nb_reason_name(reason));
        return judge_again(controller, record, NB_EVENTS_REPEAT_MS);
}

static int approve_request(struct nb_controller *controller, struct nb_request_record *record,
                           const struct nb_client_case *facts, struct nb_failure *f) {
        char text[NB_REASON_TEXT_SIZE];
        int r;

        (void)nb_reason_describe(NB_REASON_NONE, facts, text);
        if (controller->settings.is_dry_run)
                return tell_dry_run(controller, record, NB_REASON_NONE, "approved", text);
        r = nb_csr_decide(&controller->admin, facts->request, "Approved",
                          nb_reason_name(NB_REASON_NONE), text, f);
        if (r <= 0)
                return r < 0 ? r : -EAGAIN;
        nb_log(LOG_INFO, NB_ADMIN_APPROVED, "approved CSR %s: %s", record->name, text);
        nb_metrics_decide(controller, record, NB_DECISION_APPROVED, nb_reason_name(NB_REASON_NONE));
        return 0;
}

static int deny_request(struct nb_controller *controller, struct nb_request_record *record,
                        const struct nb_node_request *request, enum nb_reason reason,
                        const char *text, struct nb_failure *f) {
        int r;

        if (controller->settings.is_dry_run)
                return tell_dry_run(controller, record, reason, "denied", text);
        r = nb_csr_decide(&controller->admin, request, "Denied", nb_reason_name(reason), text, f);

        if (r <= 0)
                return r < 0 ? r : -EAGAIN;
        r = tell_reason(controller, record, reason, NB_ADMIN_DENIED, text);
        if (r < 0)
                return r;
        nb_metrics_decide(controller, record, NB_DECISION_DENIED, nb_reason_name(reason));
        return 0;
}

/* A refusal is final for these facts only: an administrator may extend the token, or correct its
 * annotation. */
static int refuse_request(struct nb_controller *controller, struct nb_request_record *record,
                          const struct nb_client_case *facts, enum nb_reason reason,
                          struct nb_failure *f) {
        const enum nb_verdict verdict = nb_reason_verdict(reason);
        char text[NB_REASON_TEXT_SIZE];
        int r = 0;

        if (verdict == NB_VERDICT_IGNORE) {
                nb_controller_drop_request(controller, record);
                return 0;
        }
        (void)nb_reason_describe(reason, facts, text);
        if (verdict == NB_VERDICT_REFUSE && controller->settings.is_denying)
                return deny_request(controller, record, facts->request, reason, text, f);
        if (reason != NB_REASON_TOKEN_CLAIM_FOREIGN || record->n_waits >= UNREPORTED_WAITS)
                r = tell_reason(controller, record, reason, NB_ADMIN_LEFT_PENDING, text);
        if (r < 0)
                return r;
        nb_metrics_decide(controller, record, NB_DECISION_PENDING, nb_reason_name(reason));
        if (verdict == NB_VERDICT_REFUSE)
                return judge_again(controller, record, NB_EVENTS_REPEAT_MS);
        /* No watch tells that the claim was removed. */
        return wait_for_change(controller, record,
                               reason == NB_REASON_TOKEN_CLAIM_FOREIGN ? NB_WORK_RETRY_FIRST_MS
                                                                       : WAIT_FIRST_MS);
}

/* Whether the token is claimed for the key of this request. */
static int claim_token(struct nb_controller *controller, struct nb_request_record *record,
                       const struct nb_bootstrap_token *token, struct nb_claim *ret_other,
                       struct nb_failure *f) {
        int r;

        if (record->is_claimed && strcmp(record->claimed_uid, token->uid) == 0)
                return NB_CLAIM_OWN;
        if (controller->settings.is_dry_run)
                return nb_claim_look(&controller->admin, token, record->key, ret_other, f);
        r = nb_claim_make(&controller->admin, token, record->name, record->key, ret_other, f);
        if (r < 0)
                return r;
        record->is_claimed = r == NB_CLAIM_OWN;
        memcpy(record->claimed_uid, token->uid, sizeof(record->claimed_uid));
        return r;
}

/* Whether the request was made with another token than this one. */
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
        _cleanup_(nb_node_request_done) struct nb_node_request request = { 0 };
        _cleanup_(nb_client_look_done) struct nb_client_look look = { 0 };
        struct nb_claim other = { 0 };
        enum nb_reason reason;
        int r;

        /* The watch reports what else happens to the request. */
        r = nb_controller_read_request(controller, record, &request, f);
        if (r <= 0 || request.state != NB_CSR_STATE_PENDING)
                return r < 0 ? r : 0;
        r = nb_client_look(&controller->admin, &request, false, &look, f);
        if (r < 0)
                return r;
        reason = (enum nb_reason)r;
        if (reason == NB_REASON_NONE && look.token.node[0]) {
                r = claim_token(controller, record, &look.token, &other, f);
                if (r < 0)
                        return r;
                look.facts.claim = (enum nb_claim_state)r;
                look.facts.claimed_by = other.csr_name;
                reason = nb_client_judge(&look.facts, _NB_REASON_N);
        }
        return reason == NB_REASON_NONE
                       ? approve_request(controller, record, &look.facts, f)
                       : refuse_request(controller, record, &look.facts, reason, f);
}

/* --- After the approval --- */

static int revoke_token(struct nb_controller *controller, struct nb_request_record *record,
                        const struct nb_bootstrap_token *token, const char *why,
                        struct nb_failure *f) {
        char name[sizeof(NB_TOKEN_SECRET_NAME_PREFIX) + NB_TOKEN_ID_LEN];
        int r;

        if (controller->settings.is_dry_run) {
                nb_log(LOG_INFO, NB_NONE, "dry run: token %s of node %s would be revoked: %s",
                       token->id, token->node, why);
                nb_controller_drop_request(controller, record);
                return 0;
        }
        snprintf(name, sizeof(name), NB_TOKEN_SECRET_NAME_PREFIX "%s", token->id);
        r = nb_secret_delete(&controller->admin, name, token->uid, NULL, f);
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
        if (tell_reason(controller, record, reason, NB_ADMIN_TOKEN_MISUSED, message) < 0)
                return -EINPROGRESS;
        nb_controller_drop_request(controller, record);
        return 0;
}

/* Returns 1 if the token may be revoked now. */
static int has_been_fetched(struct nb_controller *controller, struct nb_request_record *record,
                            struct nb_failure *f) {
        uint64_t end_ms = record->issued_ms + controller->grace_ms;
        struct nb_node_facts node;
        int r;

        if (nb_now_ms() >= end_ms)
                return 1;
        r = nb_facts_read_node(&controller->admin, record->node, &node, f);
        if (r < 0)
                return r;
        if (r > 0 && record->approved > 0 && node.created >= record->approved)
                return 1;
        record->is_waiting = true;
        nb_controller_queue(controller, &record->work, end_ms);
        return 0;
}

/* Whether the machine of a request that was removed has submitted it again. */
static bool is_submitted_again(const struct nb_controller *controller,
                               const struct nb_request_record *record) {
        const struct nb_records *requests = &controller->requests[NB_NODE_REQUEST_CLIENT];

        for (size_t i = 0; i < requests->n; i++) {
                const struct nb_request_record *other = (struct nb_request_record *)
                                                                requests->records[i];

                if (!other->is_gone && strcmp(other->token_id, record->token_id) == 0 &&
                    memcmp(other->key, record->key, sizeof(record->key)) == 0)
                        return true;
        }
        return false;
}

/* Anyone who may create Leases can name any request in a claim. */
static bool is_request_of(const struct nb_request_record *record,
                          const struct nb_node_request *request) {
        return request->kind == record->kind && strcmp(request->token_id, record->token_id) == 0 &&
               strcmp(request->node, record->node) == 0;
}

/* Whether a CSR that was deleted, or that a claim of an earlier run names, is really gone. 1: the
 * token is kept, since the CSR got no certificate, or was not made with this token. */
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
                memcpy(record->uid, request.uid, sizeof(record->uid));
                memcpy(record->resource_version, request.resource_version,
                       sizeof(record->resource_version));
                if (record->has_certificate && record->issued_ms == 0)
                        record->issued_ms = nb_now_ms();
        }
        return record->state == NB_CSR_STATE_DENIED || record->state == NB_CSR_STATE_FAILED;
}

/* What would have been decided on a request that somebody else approved. 1: it would have been
 * refused, and that was told. */
static int judge_afterwards(struct nb_controller *controller, struct nb_request_record *record,
                            struct nb_failure *f) {
        _cleanup_(nb_node_request_done) struct nb_node_request request = { 0 };
        _cleanup_(nb_client_look_done) struct nb_client_look look = { 0 };
        enum nb_reason reason;
        int r;

        r = nb_controller_read_request(controller, record, &request, f);
        if (r <= 0)
                return r;
        r = nb_client_look(&controller->admin, &request, false, &look, f);
        if (r < 0)
                return r;
        reason = (enum nb_reason)r;
        /* The Node is there because it was approved. */
        if (reason == NB_REASON_NODE_READY || reason == NB_REASON_TOKEN_MISSING ||
            nb_reason_verdict(reason) == NB_VERDICT_APPROVE ||
            nb_reason_verdict(reason) == NB_VERDICT_IGNORE)
                return 0;
        r = warn_of_misuse(controller, record, &look.facts, reason);
        return r < 0 ? r : 1;
}

static int finish_request(struct nb_controller *controller, struct nb_request_record *record,
                          struct nb_failure *f) {
        _cleanup_(nb_bootstrap_token_done) struct nb_bootstrap_token token = { 0 };
        struct nb_node_request request = { 0 };
        struct nb_client_case facts = { .request = &request, .token = &token };
        struct nb_claim other = { 0 };
        int r;

        memcpy(request.token_id, record->token_id, sizeof(request.token_id));
        snprintf(request.node, sizeof(request.node), "%s", record->node);
        r = nb_facts_read_token(&controller->admin, record->token_id, &token, f);
        if (r < 0)
                return r;
        if (r > 0 && record->is_by_others && !record->is_gone && !is_other_token(record, &token)) {
                r = judge_afterwards(controller, record, f);
                if (r != 0)
                        return r < 0 ? r : 0;
                r = 1;
        }
        if (r == 0 || !token.node[0] || is_other_token(record, &token)) {
                nb_controller_drop_request(controller, record);
                return 0;
        }
        r = claim_token(controller, record, &token, &other, f);
        if (r < 0)
                return r;
        facts.claimed_by = other.csr_name;
        if (r == NB_CLAIM_OTHER)
                return warn_of_misuse(controller, record, &facts, NB_REASON_TOKEN_USED);
        if (r == NB_CLAIM_FOREIGN)
                return warn_of_misuse(controller, record, &facts, NB_REASON_TOKEN_CLAIM_FOREIGN);
        if (!record->has_certificate && !record->is_gone)
                return 0;
        /* Without its request, the machine submits the same one again. */
        if (record->issued_ms == 0)
                record->issued_ms = nb_now_ms();
        r = has_been_fetched(controller, record, f);
        if (r > 0 && record->is_gone && is_submitted_again(controller, record)) {
                record->issued_ms = nb_now_ms();
                return judge_again(controller, record, controller->grace_ms + WAIT_FIRST_MS);
        }
        return r <= 0 ? r
                      : revoke_token(controller, record, &token,
                                     record->is_gone ? "its request was removed" : "it was used",
                                     f);
}

/* --- Work --- */

static int run_request(void *userdata, struct nb_work *work _unused_, struct nb_failure *f) {
        struct nb_request_record *record = userdata;
        struct nb_controller *controller = record->controller;
        int r;

        /* Not while an answer is awaited: this work may just have revoked the token. */
        if (!nb_exchange_has_calls(controller->admin.exchange) &&
            is_token_gone(controller, record)) {
                if (record->state != NB_CSR_STATE_PENDING) {
                        nb_controller_drop_request(controller, record);
                        return 0;
                }
                /* It cannot be approved, so do not read it again. */
                if (record->is_waiting && record->n_waits > 0)
                        return wait_for_change(controller, record, WAIT_FIRST_MS);
        }
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

static void queue_now(struct nb_controller *controller, struct nb_request_record *record) {
        record->work.attempt = record->n_waits = 0;
        nb_controller_queue(controller, &record->work, nb_now_ms());
}

/* Requests of nodes (renewals), of other users and of unbound tokens are
 * kube-controller-manager's. */
static bool is_ours(const struct nb_controller *controller, const struct nb_node_request *request) {
        const struct nb_token_record *token = nb_controller_find_token(controller,
                                                                       request->token_id);

        if (!request->token_id[0] || request->state == NB_CSR_STATE_DENIED ||
            request->state == NB_CSR_STATE_FAILED)
                return false;
        return !token || token->node ||
               (!request->is_approved_by_controller &&
                (request->is_in_bound_group || request->is_in_enrolled_group));
}

static bool on_request(struct nb_controller *controller, struct nb_request_record *record,
                       const struct nb_node_request *request, bool is_changed) {
        if (!is_ours(controller, request))
                return false;
        record->work.run = run_request;
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
        /* A new leader finds the tokens of such requests by their claims. */
        if (!controller->is_leading ||
            (!record->is_gone && record->state == NB_CSR_STATE_PENDING && !record->is_claimed))
                return false;
        record->is_gone = true;
        queue_now(controller, record);
        return true;
}

/* --- Claims of earlier runs --- */

/* A token that was claimed, but whose request is not in the list: it was removed while no
 * controller ran, or the claim is newer than the list. */
static int adopt_claim(void *userdata, struct nb_json *item) {
        struct nb_controller *controller = userdata;
        const struct nb_token_record *token;
        struct nb_request_record *record;
        struct nb_claim claim;

        if (!nb_claim_read(item, &claim))
                return 0;
        token = nb_controller_find_token(controller, claim.token_id);
        /* Kubernetes removes the claim of an earlier token with this ID. */
        if (!token || !token->node || strcmp(claim.token_uid, token->uid) != 0 ||
            nb_records_find(&controller->requests[NB_NODE_REQUEST_CLIENT], claim.csr_name))
                return 0;
        record = nb_controller_add_request(controller, NB_NODE_REQUEST_CLIENT, claim.csr_name,
                                           token->node);
        if (!record)
                return nb_failure_set_memory(item->f);
        (void)nb_hex_decode(claim.key, strlen(claim.key), record->key, sizeof(record->key));
        memcpy(record->token_id, claim.token_id, sizeof(record->token_id));
        record->state = NB_CSR_STATE_APPROVED;
        record->work.run = run_request;
        record->is_gone = record->is_claimed = true;
        memcpy(record->claimed_uid, claim.token_uid, sizeof(record->claimed_uid));
        queue_now(controller, record);
        return 0;
}

static int on_lead(struct nb_controller *controller, struct nb_failure *f) {
        return nb_admin_list(&controller->admin, "listing the claims of tokens", NB_CLAIMS_PATH,
                             adopt_claim, controller, NULL, f);
}

const struct nb_part nb_part_approve_client = {
        .name = "approve-client",
        .is_default = true,
        .kind = NB_NODE_REQUEST_CLIENT,
        .on_request = on_request,
        .on_request_deleted = on_request_deleted,
        .on_lead = on_lead,
};
