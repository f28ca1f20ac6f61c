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
#include "admin/controller/decision.h"
#include "admin/policy/verdict.h"
#include "base/encoding.h"
#include "base/macro.h"
#include "kube/node_object.h"
#include "system/clock.h"
#include "system/log.h"

static int drop_request(struct nb_request_record *record) {
        nb_controller_drop_request(record);
        return 0;
}

/* --- Verdicts --- */

/* A refusal is final for these facts only: an administrator may extend the token, or correct its
 * annotation. */
static int act(struct nb_request_record *record, const struct nb_client_case *facts,
               enum nb_reason reason, struct nb_failure *f) {
        const enum nb_verdict verdict = nb_reason_verdict(reason);
        char text[NB_REASON_TEXT_SIZE];

        (void)nb_reason_describe(reason, facts, text);
        if (verdict == NB_VERDICT_APPROVE ||
            (verdict == NB_VERDICT_REFUSE && record->controller->settings.is_denying))
                return nb_decision_make(record, facts->request, reason, text, f);
        if (verdict == NB_VERDICT_IGNORE)
                return drop_request(record);
        /* An earlier token's claim is removed within seconds, which no watch tells. */
        return nb_decision_leave(record, reason,
                                 verdict == NB_VERDICT_REFUSE              ? NB_PAUSE_LONG
                                 : reason == NB_REASON_TOKEN_CLAIM_FOREIGN ? NB_PAUSE_SILENT
                                                                           : NB_PAUSE_GROWING,
                                 text);
}

/* Whether the token is claimed for the key of this request. */
static int claim_token(struct nb_request_record *record, const struct nb_bootstrap_token *token,
                       struct nb_claim *ret_other, struct nb_failure *f) {
        struct nb_controller *controller = record->controller;
        int r;

        if (strcmp(record->claimed_uid, token->uid) == 0)
                return NB_CLAIM_OWN;
        if (controller->settings.is_dry_run)
                return nb_claim_look(&controller->admin, token, record->key, ret_other, f);
        r = nb_claim_make(&controller->admin, token, record->name, record->key, ret_other, f);
        if (r == NB_CLAIM_OWN)
                memcpy(record->claimed_uid, token->uid, sizeof(record->claimed_uid));
        return r;
}

/* Whether the request was made with another token than this one. */
static bool is_other_token(const struct nb_request_record *record,
                           const struct nb_bootstrap_token *token) {
        if (record->claimed_uid[0])
                return strcmp(record->claimed_uid, token->uid) != 0;
        return record->created != 0 && token->created > record->created;
}

/* The order matters: the claim is made last, since it is never released, and before the approval,
 * so that no second request can be approved. */
static int decide_request(struct nb_request_record *record, const struct nb_node_request *request,
                          struct nb_failure *f) {
        _cleanup_(nb_client_look_done) struct nb_client_look look = { 0 };
        struct nb_claim other = { 0 };
        enum nb_reason reason;
        int r;

        r = nb_client_look(&record->controller->admin, request, false, &look, f);
        if (r < 0)
                return r;
        reason = (enum nb_reason)r;
        if (reason == NB_REASON_NONE && look.token.node[0]) {
                r = claim_token(record, &look.token, &other, f);
                if (r < 0)
                        return r;
                look.facts.claim = (enum nb_claim_state)r;
                look.facts.claimed_by = other.csr_name;
                reason = nb_client_judge(&look.facts, _NB_REASON_N);
        }
        return act(record, &look.facts, reason, f);
}

/* --- After the approval --- */

static int revoke_token(struct nb_request_record *record, const struct nb_bootstrap_token *token,
                        struct nb_failure *f) {
        struct nb_controller *controller = record->controller;
        const char *why = record->is_gone ? "its request was removed" : "it was used";
        char name[sizeof(NB_TOKEN_SECRET_NAME_PREFIX) + NB_TOKEN_ID_LEN];
        int r = 0;

        snprintf(name, sizeof(name), NB_TOKEN_SECRET_NAME_PREFIX "%s", record->token_id);
        if (controller->settings.is_dry_run)
                nb_log(LOG_INFO, NB_NONE, "dry run: token %s of node %s would be revoked: %s",
                       record->token_id, record->node, why);
        else
                r = nb_secret_delete(&controller->admin, name, token->uid, NULL, f);
        if (r < 0)
                return r;
        if (r > 0)
                nb_log(LOG_INFO, NB_ADMIN_REVOKED, "revoked token %s of node %s: %s",
                       record->token_id, record->node, why);
        return drop_request(record);
}

/* Somebody else approved a request that the token is not for: most likely an automatic approval of
 * the token's group let a stolen token through. */
static int warn_of_misuse(struct nb_request_record *record, const struct nb_client_case *facts,
                          enum nb_reason reason) {
        char text[NB_REASON_TEXT_SIZE], message[NB_REASON_TEXT_SIZE + 64];

        (void)nb_reason_describe(reason, facts, text);
        snprintf(message, sizeof(message), "Somebody else approved this request. %s", text);
        if (nb_decision_tell(record, reason, NB_ADMIN_TOKEN_MISUSED, message) < 0)
                return -EINPROGRESS;
        return drop_request(record);
}

/* Returns 1 if the token may be revoked now. */
static int has_been_fetched(struct nb_request_record *record, struct nb_failure *f) {
        struct nb_controller *controller = record->controller;
        bool is_look_due;
        uint64_t wait_ms = nb_grace_wait(&record->grace, controller->grace_ms, nb_now_ms(),
                                         &is_look_due);
        struct nb_node_facts node;
        int r;

        if (wait_ms == 0)
                return 1;
        if (!is_look_due)
                return nb_decision_wait(record, wait_ms);
        r = nb_facts_read_node(&controller->admin, record->node, &node, f);
        if (r < 0)
                return r;
        if (r > 0 && record->approved > 0 && node.created >= record->approved)
                return 1;
        return nb_decision_wait(record, wait_ms);
}

/* Whether the machine of a request that was removed has submitted it again: then the token is
 * revoked after that request. */
static bool is_submitted_again(const struct nb_request_record *record) {
        const struct nb_records *requests = &record->controller->requests[NB_NODE_REQUEST_CLIENT];

        for (size_t i = 0; i < requests->n; i++) {
                const struct nb_request_record *other = (struct nb_request_record *)
                                                                requests->records[i];

                /* A copy that nobody approves must not keep the token. */
                if (!other->is_gone && other->state == NB_CSR_STATE_APPROVED &&
                    strcmp(other->token_id, record->token_id) == 0 &&
                    memcmp(other->key, record->key, sizeof(record->key)) == 0)
                        return true;
        }
        return false;
}

/* What would have been decided on a request that somebody else approved. */
static int judge_afterwards(struct nb_request_record *record, const struct nb_node_request *request,
                            struct nb_failure *f) {
        _cleanup_(nb_client_look_done) struct nb_client_look look = { 0 };
        enum nb_verdict verdict;
        int r;

        r = nb_client_look(&record->controller->admin, request, false, &look, f);
        if (r < 0)
                return r;
        verdict = nb_reason_verdict((enum nb_reason)r);
        /* The Node is there because it was approved. */
        if (r == NB_REASON_NODE_READY || r == NB_REASON_TOKEN_MISSING ||
            verdict == NB_VERDICT_APPROVE || verdict == NB_VERDICT_IGNORE)
                return NB_REASON_NONE;
        r = warn_of_misuse(record, &look.facts, (enum nb_reason)r);
        return r < 0 ? r : 1;
}

/* `request` has only a token and a node if it is gone. */
static int finish_request(struct nb_request_record *record, const struct nb_node_request *request,
                          bool is_fetched, struct nb_failure *f) {
        _cleanup_(nb_bootstrap_token_done) struct nb_bootstrap_token token = { 0 };
        struct nb_client_case facts = { .request = request, .token = &token };
        struct nb_claim other = { 0 };
        bool is_flawed;
        int r;

        r = nb_facts_read_token(&record->controller->admin, record->token_id, &token, f);
        if (r < 0)
                return r;
        /* Kubernetes accepts a token that has a flaw. */
        is_flawed = r == 0 && token.flaw && !token.is_being_deleted && record->claimed_uid[0];
        if ((r == 0 && !is_flawed) || is_other_token(record, &token) ||
            (record->is_gone && is_submitted_again(record)))
                return drop_request(record);
        if (!record->is_gone && !request->is_approved_by_controller) {
                r = judge_afterwards(record, request, f);
                if (r != 0)
                        return r < 0 ? r : 0;
        }
        if (!token.node[0] && !is_flawed)
                return drop_request(record);
        r = claim_token(record, &token, &other, f);
        if (r < 0)
                return r;
        facts.claimed_by = other.csr_name;
        if (r != NB_CLAIM_OWN)
                return warn_of_misuse(record, &facts,
                                      r == NB_CLAIM_OTHER ? NB_REASON_TOKEN_USED
                                                          : NB_REASON_TOKEN_CLAIM_FOREIGN);
        if (!record->has_certificate && !record->is_gone)
                return 0;
        /* Without its request, the machine submits the same one again. */
        if (record->grace.issued_ms == 0)
                record->grace.issued_ms = nb_now_ms();
        r = is_fetched ? 1 : has_been_fetched(record, f);
        return r <= 0 ? r : revoke_token(record, &token, f);
}

/* --- Work --- */

static int run_request(struct nb_request_record *record, struct nb_failure *f) {
        struct nb_controller *controller = record->controller;
        const struct nb_token_record *token = nb_controller_find_token(controller,
                                                                       record->token_id);
        _cleanup_(nb_node_request_done) struct nb_node_request request = { 0 };
        bool is_fetched = false;
        int r;

        /* Not while an answer is awaited: this work may just have revoked the token. A token that
         * was claimed was read, so the watch may only be behind. */
        if (!token && !record->claimed_uid[0] &&
            !nb_exchange_has_calls(controller->admin.exchange)) {
                if (record->state != NB_CSR_STATE_PENDING)
                        return drop_request(record);
                /* It cannot be approved, so do not read it again. */
                if (record->is_waiting && record->n_waits > 0)
                        return nb_decision_wait_longer(record);
        }
        record->is_waiting = false;
        /* Without a call, if it has to wait. */
        if (token && record->grace.issued_ms > 0 && strcmp(token->uid, record->claimed_uid) == 0) {
                r = has_been_fetched(record, f);
                if (r <= 0)
                        return r;
                is_fetched = true;
        }
        r = nb_controller_read_request(record, &request, f);
        if (r < 0)
                return r;
        if (r > 0 && record->state == NB_CSR_STATE_PENDING)
                return decide_request(record, &request, f);
        if (r == 0 && (!record->is_gone ||
                       (record->state == NB_CSR_STATE_PENDING && !record->claimed_uid[0])))
                return drop_request(record);
        memcpy(request.token_id, record->token_id, sizeof(request.token_id));
        snprintf(request.node, sizeof(request.node), "%s", record->node);
        return finish_request(record, &request, is_fetched, f);
}

/* Requests of nodes (renewals), of other users and of unbound tokens are
 * kube-controller-manager's. */
static bool is_wanted(const struct nb_controller *controller,
                      const struct nb_node_request *request) {
        const struct nb_token_record *token = nb_controller_find_token(controller,
                                                                       request->token_id);

        if (!request->token_id[0] || request->state == NB_CSR_STATE_DENIED ||
            request->state == NB_CSR_STATE_FAILED)
                return false;
        return !token || token->node[0] ||
               (!request->is_approved_by_controller &&
                (request->is_in_bound_group || request->is_in_enrolled_group));
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
        if (!token || !token->node[0] || strcmp(claim.token_uid, token->uid) != 0 ||
            nb_records_find(&controller->requests[NB_NODE_REQUEST_CLIENT], claim.csr_name))
                return 0;
        record = nb_controller_add_request(controller, NB_NODE_REQUEST_CLIENT, claim.csr_name,
                                           token->node);
        if (!record)
                return nb_failure_set_memory(item->f);
        (void)nb_hex_decode(claim.key, strlen(claim.key), record->key, sizeof(record->key));
        memcpy(record->token_id, claim.token_id, sizeof(record->token_id));
        record->state = NB_CSR_STATE_APPROVED;
        memcpy(record->claimed_uid, claim.token_uid, sizeof(record->claimed_uid));
        nb_controller_queue(controller, &record->work, 0);
        return 0;
}

int nb_claims_adopt(void *userdata, struct nb_work *work _unused_, struct nb_failure *f) {
        struct nb_controller *controller = userdata;

        return nb_admin_list(&controller->admin, "listing the claims of tokens", NB_CLAIMS_PATH,
                             adopt_claim, controller, NULL, f);
}

const struct nb_part nb_part_approve_client = {
        .name = "approve-client",
        .is_default = true,
        .is_wanted = is_wanted,
        .run_request = run_request,
};
