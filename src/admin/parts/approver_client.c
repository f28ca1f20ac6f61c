/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Approves requests for the client certificates of nodes, and revokes the token of a node once it
 * has been used. For each request:
 *
 *      pending    read the token, the node's record, the policy, the Node and the claim; judge
 *                 (verdict.h); claim the token (claim.h), and approve
 *      approved   claim the token, even if somebody else approved; wait for the certificate
 *      issued     wait until the Node has joined, or for a grace period, since the machine still
 *                 needs the token to fetch the certificate; then revoke the token
 */

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "admin/client/calls.h"
#include "admin/client/claim.h"
#include "admin/client/facts.h"
#include "admin/parts/decision.h"
#include "admin/parts/parts.h"
#include "admin/policy/verdict.h"
#include "base/encoding.h"
#include "base/macro.h"
#include "kube_objects/node_object.h"
#include "os/clock.h"
#include "systemd/log.h"

/* A request whose claim comes before the event of the request: the watch may be behind. */
#define ADOPTION_LAG_MS 2000
#define TOKEN_WAIT_MS (60 * 60 * 1000) /* for a token, which wakes the request */

/* Nothing is left to do for it. An approved request is kept until it is deleted: it says who has
 * used the token, and that it was judged. */
static int leave_request(struct nb_request_record *record) {
        record->is_over = record->is_gone || record->state != NB_CSR_STATE_APPROVED ||
                          (!record->is_in_bound_group && !record->is_in_enrolled_group);
        return 0;
}

/* Whether the request was made with another token than this one. */
static bool is_other_token(const struct nb_request_record *record,
                           const struct nb_bootstrap_token *token) {
        if (record->claimed_uid[0])
                return strcmp(record->claimed_uid, token->uid) != 0;
        return record->created != 0 && token->created > record->created;
}

/* Another approved request with this token (NULL: with its ID) for the same node, with the key of
 * this one or with another. With another key it has used the token, although it may not have
 * claimed it yet. */
static const struct nb_request_record *find_approved(const struct nb_request_record *record,
                                                     const struct nb_bootstrap_token *token,
                                                     bool has_same_key) {
        const struct nb_request_record *other = nb_controller_find_users(record->controller,
                                                                         record->token_id);

        for (; other && other->state == NB_CSR_STATE_APPROVED; other = other->next)
                if (other != record && strcmp(other->token_id, record->token_id) == 0 &&
                    /* The API server may have read a request that is unreadable here. */
                    (!other->node[0] || strcmp(other->node, record->node) == 0) &&
                    (!token || !is_other_token(other, token)) &&
                    nb_digest_is_equal(other->key, record->key) == has_same_key &&
                    (!has_same_key || !other->is_gone))
                        return other;
        return NULL;
}

/* A shared token is never claimed, and therefore never revoked. */
static void add_claim(struct nb_request_record *record, struct nb_plan *plan,
                      const struct nb_bootstrap_token *token) {
        assert(token->node[0]);
        memcpy(record->claiming_uid, token->uid, sizeof(record->claiming_uid));
        nb_claim_add(plan, token, record->name, record->key);
}

/* --- Pending requests --- */

/* A refusal is final for these facts only: an administrator may extend the token, or correct its
 * annotation. The claim is made last, since it is never released, and before the approval, so that
 * no second request can be approved. */
static int act(struct nb_request_record *record, struct nb_plan *plan,
               const struct nb_request_case *facts, enum nb_reason reason) {
        const enum nb_verdict verdict = nb_reason_verdict(reason);
        const bool is_dry_run = record->controller->settings.is_dry_run;
        char text[NB_REASON_TEXT_SIZE];

        (void)nb_reason_describe(reason, facts, text);
        /* It comes last until the enrolled nodes change; then it has one turn like all others. */
        record->work.is_last = reason == NB_REASON_NOT_ENROLLED ||
                               reason == NB_REASON_PROOF_MISSING ||
                               reason == NB_REASON_PROOF_INVALID;
        if (verdict == NB_VERDICT_APPROVE && facts->token->node[0] &&
            facts->claim == NB_CLAIM_NONE && !is_dry_run)
                add_claim(record, plan, facts->token);
        if (verdict == NB_VERDICT_APPROVE ||
            (verdict == NB_VERDICT_REFUSE && record->controller->settings.is_denying &&
             nb_csr_name_is_usable(record->name)))
                nb_decision_make(record, plan, facts->request, reason, text);
        else if (verdict == NB_VERDICT_IGNORE)
                record->is_others = true;
        else
                /* An earlier token's claim is removed within seconds, which no watch tells. */
                nb_decision_leave(record, plan, reason,
                                  verdict == NB_VERDICT_REFUSE              ? NB_PAUSE_LONG
                                  : reason == NB_REASON_TOKEN_CLAIM_FOREIGN ? NB_PAUSE_SILENT
                                                                            : NB_PAUSE_GROWING,
                                  nb_reason_facts(reason), text);
        return 0;
}

static int decide_request(struct nb_request_record *record, struct nb_plan *plan,
                          const struct nb_node_request *request, struct nb_failure *f) {
        _cleanup_(nb_look_done) struct nb_look look = { 0 };
        struct nb_admin *admin = &record->controller->admin;
        const struct nb_request_record *user;
        struct nb_claim claim = { 0 };
        enum nb_reason reason;
        int r = nb_look_take(plan, admin, request, &look, f);

        if (r < 0)
                return r;
        reason = nb_client_judge(&look.facts, NB_REASON_TOKEN_USED);
        user = find_approved(record, look.facts.token, false);
        if (reason == NB_REASON_TOKEN_MISSING && request->is_in_bound_group && user) {
                look.facts.claimed_by = user->name;
                reason = NB_REASON_TOKEN_USED;
        }
        if (reason == NB_REASON_NONE && look.token.node[0]) {
                r = user ? NB_CLAIM_OTHER
                         : nb_claim_take(plan, admin, &look.token, record->key, &claim, f);
                if (r < 0)
                        return r;
                look.facts.claim = (enum nb_claim_state)r;
                look.facts.claimed_by = user ? user->name : claim.csr_name;
                reason = nb_client_judge(&look.facts, _NB_REASON_N);
        }
        if (reason == NB_REASON_NONE && look.facts.claim == NB_CLAIM_OWN)
                memcpy(record->claimed_uid, look.token.uid, sizeof(record->claimed_uid));
        return act(record, plan, &look.facts, reason);
}

/* --- After the approval --- */

static int revoke_token(struct nb_request_record *record, struct nb_plan *plan,
                        const struct nb_bootstrap_token *token) {
        char name[sizeof(NB_TOKEN_SECRET_NAME_PREFIX) + NB_TOKEN_ID_LEN];

        assert(token->node[0] || (token->flaw && !strcmp(record->claimed_uid, token->uid)));
        snprintf(name, sizeof(name), NB_TOKEN_SECRET_NAME_PREFIX "%s", record->token_id);
        if (record->controller->settings.is_dry_run)
                nb_log(LOG_INFO, NB_NONE, "dry run: token %s of node %s would be revoked",
                       record->token_id, record->node);
        else
                nb_secret_add_deletion(plan, name, token->uid, NULL);
        return leave_request(record);
}

/* Somebody else approved a request that the token is not for: most likely an automatic approval of
 * the token's group let a stolen token through. */
static void warn_of_misuse(struct nb_request_record *record, struct nb_plan *plan,
                           const struct nb_request_case *facts, enum nb_reason reason) {
        char text[NB_REASON_TEXT_SIZE], message[NB_REASON_TEXT_SIZE + 64];

        (void)nb_reason_describe(reason, facts, text);
        snprintf(message, sizeof(message), "Somebody else approved this request. %s", text);
        nb_decision_tell(record, plan, reason, NB_ADMIN_TOKEN_MISUSED, message);
        record->controller->metrics.n_misused[reason]++;
}

/* Also of approvals that were made while no controller was the leader. */
static void tell_of_approval(struct nb_request_record *record, struct nb_plan *plan,
                             const struct nb_node_request *request) {
        const struct nb_request_case facts = { .request = request };
        const unsigned bit = 1U << NB_REASON_APPROVED_BY_OTHERS;
        char text[NB_REASON_TEXT_SIZE];

        if (record->counted & bit)
                return;
        record->counted |= bit;
        (void)nb_reason_describe(NB_REASON_APPROVED_BY_OTHERS, &facts, text);
        nb_decision_tell(record, plan, NB_REASON_APPROVED_BY_OTHERS, NB_NONE, text);
        record->controller->metrics.n_approved_by_others++;
}

/* Whether the facts say nothing about the request. */
static bool is_unclear(enum nb_reason reason) {
        return reason == NB_REASON_POLICY_UNUSABLE || reason == NB_REASON_RECORD_UNUSABLE;
}

/* The Node exists because the request was approved, and the enrolled node may have been removed
 * since. */
static bool is_later(enum nb_reason reason, const struct nb_request_case *facts) {
        const time_t approved = facts->request->approved;

        return reason == NB_REASON_NODE_READY ||
               (reason == NB_REASON_NODE_REMOVED && approved != 0 &&
                facts->record->removed >= approved);
}

/*
 * Judges an approved request once. Who approved it is not what the condition says, which whoever
 * approves can write: this controller knows what it approved, and one that ran before, or the
 * command, has claimed the token of a node first. Only of other tokens, the text makes an approval
 * that is allowed one of ours. 0; 1 if the token does not allow it, or that is not clear yet.
 */
static int judge_approval(struct nb_request_record *record, struct nb_plan *plan,
                          const struct nb_node_request *request,
                          const struct nb_bootstrap_token *token, int claim,
                          const struct nb_claim *other, struct nb_failure *f) {
        _cleanup_(nb_look_done) struct nb_look look = { 0 };
        const bool is_named = request->is_approved_by_controller || request->is_approved_by_command;
        int r = nb_look_take(plan, &record->controller->admin, request, &look, f);
        enum nb_reason reason;

        if (r < 0)
                return r;
        reason = nb_client_judge(&look.facts, NB_REASON_TOKEN_USED);
        if (is_later(reason, &look.facts) || reason == NB_REASON_TOKEN_MISSING ||
            nb_reason_verdict(reason) == NB_VERDICT_IGNORE)
                reason = NB_REASON_NONE;
        if (token->node[0] ? record->is_by_others
                           : !is_named || (reason != NB_REASON_NONE && !is_unclear(reason)))
                tell_of_approval(record, plan, request);
        if (claim == NB_CLAIM_OTHER || claim == NB_CLAIM_FOREIGN) {
                look.facts.claimed_by = other->csr_name;
                reason = claim == NB_CLAIM_OTHER ? NB_REASON_TOKEN_USED
                                                 : NB_REASON_TOKEN_CLAIM_FOREIGN;
        }
        if (is_unclear(reason)) {
                nb_decision_wait_longer(record, nb_reason_facts(reason));
                return 1;
        }
        record->is_judged = true;
        if (reason != NB_REASON_NONE)
                warn_of_misuse(record, plan, &look.facts, reason);
        return reason != NB_REASON_NONE;
}

/* Whether the token may be revoked now. If not, the request waits. */
static int has_been_fetched(struct nb_request_record *record, struct nb_plan *plan,
                            struct nb_failure *f) {
        struct nb_controller *controller = record->controller;
        bool is_look_due;
        uint64_t wait_ms;
        struct nb_node_facts node;
        int r;

        /* Without its request, the machine submits the same one again. */
        if (record->grace.issued_ms == 0)
                record->grace.issued_ms = nb_now_ms();
        wait_ms = nb_grace_wait(&record->grace, controller->grace_ms, nb_now_ms(), &is_look_due);
        if (wait_ms == 0)
                return 1;
        if (is_look_due) {
                r = nb_facts_take_node(plan, &controller->admin, &node, f);
                if (r < 0)
                        return r;
                if (r > 0 && record->approved > 0 && node.created >= record->approved)
                        return 1;
        }
        nb_decision_wait(record, NB_FACT_NODE, wait_ms);
        return 0;
}

/* Claims the token for a request that is already approved, unless the token is for another node,
 * which must still be able to use it. Returns NB_CLAIM_OWN if there is nothing to claim (any more),
 * NB_CLAIM_NONE if the claim is being made, NB_CLAIM_OTHER or NB_CLAIM_FOREIGN if another claim is
 * in the way; or a failure. */
static int claim_afterwards(struct nb_request_record *record, struct nb_plan *plan,
                            const struct nb_bootstrap_token *token, bool is_for_node,
                            struct nb_claim *ret_other, struct nb_failure *f) {
        int r = NB_CLAIM_OWN;

        if (is_for_node && strcmp(record->claimed_uid, token->uid) != 0)
                r = nb_claim_take(plan, &record->controller->admin, token, record->key, ret_other,
                                  f);
        if (r < 0)
                return r;
        record->is_by_others |= !record->is_own && !record->is_gone &&
                                (r != NB_CLAIM_OWN || !is_for_node);
        if (r == NB_CLAIM_NONE && !record->controller->settings.is_dry_run) {
                add_claim(record, plan, token);
                return NB_CLAIM_NONE;
        }
        if (r == NB_CLAIM_OWN && is_for_node)
                memcpy(record->claimed_uid, token->uid, sizeof(record->claimed_uid));
        return r == NB_CLAIM_NONE ? NB_CLAIM_OWN : r;
}

/* `request` has only a token and a node if it is gone. */
static int follow_request(struct nb_request_record *record, struct nb_plan *plan,
                          const struct nb_node_request *request, struct nb_failure *f) {
        _cleanup_(nb_bootstrap_token_done) struct nb_bootstrap_token token = { 0 };
        struct nb_admin *admin = &record->controller->admin;
        struct nb_claim other = { 0 };
        bool is_flawed, is_for_node;
        int r = nb_facts_take_token(plan, admin, &token, f), claim;

        if (r < 0)
                return r;
        /* Kubernetes accepts a token that has a flaw. This one had a node when it was claimed,
         * unless somebody has made it a shared one since. */
        is_flawed = r == 0 && token.flaw && !token.is_being_deleted && record->claimed_uid[0] &&
                    !nb_list_has(token.groups, NB_TOKEN_GROUP_ENROLLED);
        if (r == 0 && !is_flawed) {
                if (!record->is_judged && !record->is_gone && record->is_seen_pending &&
                    !request->is_approved_by_controller && !request->is_approved_by_command)
                        tell_of_approval(record, plan, request);
                record->is_judged = true;
                return leave_request(record);
        }
        /* The machine of a request that was removed may have submitted it again: then the token is
         * revoked after that request. A copy that nobody approves must not keep the token. */
        if (is_other_token(record, &token) ||
            (record->is_gone && find_approved(record, &token, true)))
                return leave_request(record);
        /* Whatever else is wrong with it, the request has used the token, if that is for this node.
         * It must not use up the token of another one, or a shared token: a request without a node
         * is not for a token without one. */
        is_for_node = is_flawed || (token.node[0] && strcmp(token.node, record->node) == 0);
        claim = claim_afterwards(record, plan, &token, is_for_node, &other, f);
        if (claim <= 0)
                return claim;
        /* The claim comes before an approval of ours. */
        record->is_judged |= token.node[0] && !record->is_by_others;
        if (!record->is_gone && !record->is_judged) {
                r = judge_approval(record, plan, request, &token, claim, &other, f);
                if (r != 0)
                        return r < 0 ? r : leave_request(record);
        }
        if (!is_for_node || claim != NB_CLAIM_OWN)
                return leave_request(record);
        if (!record->has_certificate && !record->is_gone)
                return 0;
        r = has_been_fetched(record, plan, f);
        return r <= 0 ? r : revoke_token(record, plan, &token);
}

/* --- Steps --- */

static bool is_finished(const struct nb_request_record *record) {
        return record->state == NB_CSR_STATE_APPROVED && record->is_judged && !record->is_gone &&
               (!record->claimed_uid[0] && !record->is_own);
}

static int begin_request(struct nb_request_record *record, struct nb_plan *plan) {
        struct nb_controller *controller = record->controller;
        const bool has_token = nb_controller_find_token(controller, record->token_id) ||
                               record->claimed_uid[0];
        const bool is_pending = record->state == NB_CSR_STATE_PENDING;
        bool is_look_due = true;
        uint64_t wait_ms = 0;

        /* It cannot be approved, so do not read it again. */
        if (!has_token && is_pending && !record->is_gone && record->is_waiting &&
            record->n_waits > 0) {
                nb_decision_wait_longer(record, record->waits_for);
                return 1;
        }
        if ((!has_token && !is_pending && (record->is_judged || !record->is_seen_pending)) ||
            is_finished(record)) {
                /* After a restart, all that used their tokens are listed, so do not read them. But
                 * the watch of the tokens may be behind. */
                if (!record->is_judged && !record->is_gone)
                        nb_decision_wait(record, NB_FACT_TOKEN, TOKEN_WAIT_MS);
                else
                        (void)leave_request(record);
                return 1;
        }
        if (!is_pending && record->claimed_uid[0] && record->is_judged &&
            record->grace.issued_ms > 0)
                wait_ms = nb_grace_wait(&record->grace, controller->grace_ms, nb_now_ms(),
                                        &is_look_due);
        if (!is_look_due && wait_ms > 0) {
                nb_decision_wait(record, NB_FACT_NODE, wait_ms);
                return 1;
        }
        record->is_waiting = false;
        if (!record->is_gone && nb_csr_name_is_usable(record->name))
                nb_facts_add(plan, NB_READ_REQUEST, record->name);
        if (is_pending || !record->is_judged)
                nb_look_add(plan, record->token_id, record->node);
        else {
                nb_facts_add(plan, NB_READ_TOKEN, record->token_id);
                if (record->node[0])
                        nb_facts_add(plan, NB_READ_NODE, record->node);
        }
        nb_facts_add(plan, NB_READ_CLAIM, record->token_id);
        return 0;
}

static int judge_request(struct nb_request_record *record, struct nb_plan *plan,
                         struct nb_failure *f) {
        _cleanup_(nb_node_request_done) struct nb_node_request request = { 0 };
        int r = 0;

        if (plan->reads[NB_READ_REQUEST].method)
                r = nb_controller_take_request(record, plan, &request, f);
        if (r < 0)
                return r;
        nb_decision_confirm(record, &request);
        /* It is not for this controller any more, or was deleted before it was approved. */
        if (r == 0 &&
            (record->is_gone ? record->state == NB_CSR_STATE_PENDING && !record->claimed_uid[0]
                             : plan->reads[NB_READ_REQUEST].method != NULL)) {
                record->is_over = !record->is_others;
                return 0;
        }
        if (r == 0)
                nb_decision_copy(record, &request);
        return record->state == NB_CSR_STATE_PENDING && !record->is_gone
                       ? decide_request(record, plan, &request, f)
                       : follow_request(record, plan, &request, f);
}

static int note_write(struct nb_request_record *record, struct nb_plan *plan,
                      const struct nb_admin_call *call, int r, struct nb_failure *f) {
        r = nb_decision_written(record, plan, call, r, f);
        if (r <= 0)
                return r;
        if (strcmp(call->method, "POST") == 0) { /* the claim */
                r = nb_claim_written(call, r, f);
                if (r <= 0)
                        return r < 0 ? r : -EAGAIN;
                memcpy(record->claimed_uid, record->claiming_uid, sizeof(record->claimed_uid));
                if (record->state == NB_CSR_STATE_APPROVED || record->is_gone)
                        nb_work_again(&record->work, 0);
                return 0;
        }
        if (r < 300)
                nb_log(LOG_INFO, NB_ADMIN_REVOKED, "revoked token %s of node %s: %s",
                       record->token_id, record->node,
                       record->is_gone ? "its request was removed" : "it was used");
        return 0;
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
        return !token || token->node[0] || request->is_in_bound_group ||
               request->is_in_enrolled_group;
}

/* --- Claims of earlier runs --- */

/* A token that was claimed, but whose request is not in the list: it was removed while no
 * controller ran, or the claim is newer than the list. Anyone who may create Leases can make a
 * claim; then the token is used up, and is revoked. */
static void adopt_claim(struct nb_controller *controller, struct nb_json *item) {
        const struct nb_token_record *token;
        struct nb_request_record *record;
        uint8_t key[NB_SHA256_SIZE] = { 0 };
        struct nb_claim claim;
        char uid[32];

        if (!nb_claim_read(item, &claim))
                return;
        token = nb_controller_find_token(controller, claim.token_id);
        /* Kubernetes removes the claim of an earlier token with this ID. */
        if (!token || !token->node[0] || strcmp(claim.token_uid, token->uid) != 0)
                return;
        (void)nb_hex_decode(claim.key, strlen(claim.key), key, sizeof(key));
        for (record = nb_controller_find_users(controller, claim.token_id); record;
             record = record->next)
                if (strcmp(record->token_id, claim.token_id) == 0 &&
                    nb_digest_is_equal(record->key, key))
                        return;
        snprintf(uid, sizeof(uid), "claim/%s", claim.token_id);
        if (nb_records_find(&controller->requests[NB_NODE_REQUEST_CLIENT], uid))
                return;
        record = nb_controller_add_request(controller, NB_NODE_REQUEST_CLIENT, uid, claim.csr_name,
                                           token->node, claim.token_id);
        if (!record) {
                nb_log(LOG_ERR, NB_NONE, "memory ran out, so a claim was not handled");
                return;
        }
        memcpy(record->key, key, sizeof(key));
        memcpy(record->claimed_uid, claim.token_uid, sizeof(record->claimed_uid));
        record->is_gone = record->is_judged = true;
        nb_controller_note_approval(record);
        nb_controller_queue(controller, &record->work, ADOPTION_LAG_MS);
}

static void list_claims(struct nb_controller *controller) {
        nb_watch_list_again(&controller->lists[NB_LIST_CLAIMS]);
}

const struct nb_part nb_part_approve_client = {
        .name = "approve-client",
        .is_default = true,
        .kind = NB_NODE_REQUEST_CLIENT,
        .is_wanted = is_wanted,
        .begin_request = begin_request,
        .judge_request = judge_request,
        .written = note_write,
        .on_leading = list_claims,
        .on_claim = adopt_claim,
};
