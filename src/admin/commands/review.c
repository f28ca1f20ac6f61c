/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/client/calls.h"
#include "admin/commands/review.h"
#include "base/encoding.h"
#include "base/macro.h"
#include "base/text.h"
#include "os/clock.h"

void nb_review_free(struct nb_review *review) {
        if (review)
                nb_node_request_done(&review->request);
        free(review);
}

bool nb_review_permits(const struct nb_review *review, bool is_forced) {
        return !strcmp(review->verdict, NB_REVIEW_OK) ||
               !strcmp(review->verdict, NB_REVIEW_CHECK) || (is_forced && review->is_forcible);
}

bool nb_review_has_verdict(const char *verdict) {
        bool has = !strcmp(verdict, NB_REVIEW_OK) || !strcmp(verdict, NB_REVIEW_CHECK);

        for (enum nb_reason i = NB_REASON_NONE + 1; i < _NB_REASON_N; i++)
                has |= !strcmp(verdict, nb_reason_name(i));
        for (enum nb_serving_verdict i = NB_SERVING_APPROVED + 1; i < _NB_SERVING_VERDICT_N; i++)
                has |= !strcmp(verdict, nb_serving_verdict_name(i));
        return has;
}

/* --- Judging --- */

/* kube-controller-manager usually approves these automatically. */
static bool is_renewal(const struct nb_node_request *request) {
        return request->node[0] && !request->flaw[0] && request->is_group_exact &&
               strcmp(request->username, request->facts.common_name) == 0;
}

/* Of another one than it names: no node has a reason to ask for the certificate of another. */
static bool is_of_a_node(const struct nb_node_request *request) {
        return request->is_group_exact ||
               !strncmp(request->username, "system:node:", strlen("system:node:"));
}

static void set_verdict(struct nb_review *review, const char *verdict, const char *text) {
        review->verdict = verdict;
        NB_TEXT_COPY_LINE(review->text, text);
}

static enum nb_reason find_reason(const struct nb_review *review, enum nb_reason end) {
        const struct nb_node_request *request = &review->request;
        const struct nb_request_case *facts = &review->facts;
        const enum nb_reason reason = nb_client_judge(facts, end);

        if (reason != NB_REASON_NOT_A_TOKEN || request->flaw[0] || is_of_a_node(request) ||
            !nb_list_has(facts->policy->requestors, request->username))
                return reason;
        return nb_client_judge_from(facts, NB_REASON_POLICY_UNUSABLE, end);
}

static void judge_client(struct nb_review *review) {
        static const char *const proofs[] = {
                [NB_ATTESTATION_VALID] = "valid",
                [NB_ATTESTATION_MISSING] = "missing",
                [NB_ATTESTATION_INVALID] = "INVALID",
                [NB_ATTESTATION_UNUSABLE] = "INVALID",
        };
        const struct nb_node_request *request = &review->request;
        const struct nb_request_case *facts = &review->facts;
        const enum nb_reason reason = find_reason(review, _NB_REASON_N);
        char text[NB_REASON_TEXT_SIZE];

        review->proof = facts->record && facts->record->public_key[0] ? proofs[facts->proof] : "-";
        review->is_forcible = reason != NB_REASON_NOT_A_TOKEN || !is_of_a_node(request);
        review->is_blocked = reason != NB_REASON_NODE_READY &&
                             nb_reason_verdict(reason) == NB_VERDICT_WAIT;
        if (facts->token)
                review->description = facts->token->description;
        if (is_renewal(request))
                set_verdict(review, NB_REVIEW_OK, "the node itself renews its certificate");
        else if (reason == NB_REASON_NOT_A_TOKEN) {
                review->verdict = nb_reason_name(reason);
                snprintf(review->text, sizeof(review->text), "%s '%s' asks for node '%s'%s%s",
                         review->is_forcible ? "unknown requestor:" : "FORGED? another node,",
                         request->username, request->facts.common_name,
                         request->flaw[0] ? ", and " : "", request->flaw);
        } else if (reason != NB_REASON_NONE) {
                review->verdict = nb_reason_name(reason);
                snprintf(review->text, sizeof(review->text), "%s%s",
                         reason == NB_REASON_NODE_READY                   ? "TAKEOVER? "
                         : nb_reason_verdict(reason) == NB_VERDICT_REFUSE ? "FORGED? "
                                                                          : "",
                         nb_reason_describe(reason, facts, text));
        } else if (!request->token_id[0])
                set_verdict(review, NB_REVIEW_CHECK,
                            "the policy lists the requestor, which can ask for any node");
        else if (facts->token && facts->token->node[0])
                set_verdict(review, NB_REVIEW_OK, "the token is for this node");
        else if (!strcmp(review->proof, "valid"))
                set_verdict(review, NB_REVIEW_OK,
                            "the proof by the enrolled key of the node is valid");
        else
                set_verdict(review, NB_REVIEW_CHECK,
                            "the token is unbound, so whoever has it can ask for any node");
}

static void judge_serving(struct nb_review *review, enum nb_serving_verdict verdict,
                          const char *reason) {
        review->proof = review->node_state = "-";
        if (verdict == NB_SERVING_APPROVED || verdict == NB_SERVING_NEEDS_LIST) {
                set_verdict(review, NB_REVIEW_OK,
                            "the node itself asks, and all names are allowed to it");
                return;
        }
        review->verdict = nb_serving_verdict_name(verdict);
        review->is_blocked = verdict != NB_SERVING_MALFORMED && verdict != NB_SERVING_NOT_ITS_OWN;
        snprintf(review->text, sizeof(review->text), "%s%s", review->is_blocked ? "" : "FORGED? ",
                 reason);
}

/* The list may be long, so it is read only if it decides. */
static int decide_serving(struct nb_admin *admin, struct nb_hosts *hosts,
                          struct nb_request_case *facts,
                          char ret_reason[static NB_SERVING_REASON_SIZE], struct nb_failure *f) {
        int r = (int)nb_serving_decide(facts, ret_reason);

        if (r != NB_SERVING_NEEDS_LIST)
                return r;
        if (!nb_hosts_is_fresh(hosts, nb_now_ms())) {
                nb_hosts_done(hosts);
                r = nb_facts_read_hosts(admin, hosts, f);
        }
        facts->hosts = hosts;
        return r < 0 ? r : (int)nb_serving_decide(facts, ret_reason);
}

/* Judges with the Node. */
static int judge(struct nb_admin *admin, struct nb_hosts *hosts, struct nb_review *review,
                 struct nb_failure *f) {
        char reason[NB_SERVING_REASON_SIZE], ignored[NB_SERVING_REASON_SIZE];
        struct nb_request_case *facts = &review->facts;
        int r;

        if (review->request.kind == NB_NODE_REQUEST_CLIENT) {
                review->node_state = !facts->node            ? "absent"
                                     : facts->node->is_ready ? "Ready"
                                                             : "not Ready";
                judge_client(review);
                return 0;
        }
        facts->is_forced = false;
        r = decide_serving(admin, hosts, facts, reason, f);
        if (r < 0)
                return r;
        judge_serving(review, (enum nb_serving_verdict)r, reason);
        if (r == NB_SERVING_APPROVED || !nb_serving_is_brief((enum nb_serving_verdict)r))
                return 0;
        facts->is_forced = true;
        r = decide_serving(admin, hosts, facts, ignored, f);
        review->is_forcible = r == NB_SERVING_APPROVED;
        return r < 0 ? r : 0;
}

/* --- Facts that were listed --- */

struct known_item {
        struct nb_record record;
        union {
                struct nb_bootstrap_token token;
                struct nb_node_record node;
                struct nb_claim claim;
        };
        struct nb_failure flaw;
};

static int keep_item(void *userdata, struct nb_json *json) {
        const char *type = nb_json_string(json, "type"),
                   *name = nb_json_string(json, "metadata.name");
        struct nb_known *known = userdata;
        const bool is_node = type && !strcmp(type, NB_NODE_RECORD_TYPE);
        /* Objects of different kinds may have the same name. */
        struct known_item *item = nb_records_put(!type     ? &known->claims
                                                 : is_node ? &known->nodes
                                                           : &known->tokens,
                                                 name ? name : "", sizeof(*item));
        struct nb_json view = *json;

        if (!item)
                return nb_failure_set_memory(json->f);
        view.f = &item->flaw;
        if (!type)
                (void)nb_claim_read(&view, &item->claim);
        else if (is_node)
                nb_node_record_read(&view, &item->node);
        else {
                nb_bootstrap_token_read(&view, &item->token);
                nb_bootstrap_token_done(&item->token);
        }
        return 0;
}

int nb_known_read(struct nb_admin *admin, struct nb_known *ret_known, struct nb_failure *f) {
        static const char *const lists[][2] = {
                { "the tokens", NB_TOKENS_PATH },
                { "the enrolled nodes", NB_RECORDS_PATH },
                { "the claims of tokens", NB_CLAIMS_PATH },
        };
        int r = nb_facts_read_policy(admin, &ret_known->policy, &ret_known->policy_flaw, f);

        for (size_t i = 0; i < N_ELEMENTS(lists) && r >= 0; i++)
                r = nb_admin_list(admin, lists[i][0], lists[i][1], keep_item, ret_known, f);
        return r < 0 ? r : 0;
}

void nb_known_done(struct nb_known *known) {
        nb_records_done(&known->tokens);
        nb_records_done(&known->nodes);
        nb_records_done(&known->claims);
        nb_hosts_done(&known->hosts);
        *known = (struct nb_known){ 0 };
}

/* The record of the node, and why it cannot be used. */
static const struct nb_node_record *find_record(const struct nb_known *known, const char *node,
                                                const char **ret_flaw) {
        char name[NB_NODE_RECORD_NAME_SIZE];
        const struct known_item *item;

        *ret_flaw = NULL;
        nb_node_record_name(node, name);
        item = node[0] ? nb_records_find(&known->nodes, name) : NULL;
        if (item && item->flaw.code != NB_NONE)
                *ret_flaw = item->flaw.detail;
        else if (item && strcmp(item->node.node, node) != 0)
                *ret_flaw = "it is the record of another node";
        return item && !*ret_flaw ? &item->node : NULL;
}

/* A token is claimed for a request only if it is for this node. */
static bool is_bound(const struct nb_review *review) {
        const struct nb_bootstrap_token *token = review->facts.token;

        return review->request.kind == NB_NODE_REQUEST_CLIENT && token && token->node[0] &&
               !strcmp(token->node, review->request.node);
}

/* The token, or the claim, whose name has this prefix. NULL if there is none. */
static const struct known_item *find_item(const struct nb_records *records, const char *prefix,
                                          const char *token_id) {
        char name[64];

        snprintf(name, sizeof(name), "%s%s", prefix, token_id);
        return nb_records_find(records, name);
}

void nb_review_guess(const struct nb_known *known, struct nb_review *review) {
        const struct nb_node_request *request = &review->request;
        const struct known_item *token = find_item(&known->tokens, NB_TOKEN_SECRET_NAME_PREFIX,
                                                   request->token_id);
        const struct known_item *claim = find_item(&known->claims, NB_CLAIM_NAME_PREFIX,
                                                   request->token_id);
        struct nb_request_case *facts = &review->facts;
        char reason[NB_SERVING_REASON_SIZE];

        *facts = (struct nb_request_case){
                .request = request,
                .policy = &known->policy,
                .policy_flaw = nb_facts_flaw(&known->policy_flaw),
                .token = token && token->flaw.code == NB_NONE && !token->token.flaw ? &token->token
                                                                                    : NULL,
                .claimed_by = review->user,
                .is_asked = true,
                .is_forced = true, /* the Node is not known */
        };
        facts->record = find_record(known, request->node, &facts->record_flaw);
        review->description = review->node_state = "";
        if (request->kind == NB_NODE_REQUEST_SERVING) {
                judge_serving(review, nb_serving_decide(facts, reason), reason);
                review->needs_node = nb_review_permits(review, false);
                return;
        }
        nb_request_case_prove(facts);
        if (claim && is_bound(review)) {
                facts->claim = nb_claim_judge(&claim->claim, facts->token, request->facts.key);
                NB_TEXT_COPY(review->user, claim->claim.csr_name);
        }
        review->needs_node = find_reason(review, NB_REASON_NODE_READY) == NB_REASON_NONE;
        judge_client(review);
}

int nb_review_with_node(struct nb_admin *admin, struct nb_known *known, struct nb_review *review,
                        struct nb_failure *f) {
        _cleanup_(nb_plan_done) struct nb_plan plan = { 0 };
        const struct nb_node_request *request = &review->request;
        struct nb_node_facts node;
        int r;

        /* A malformed request for a serving certificate needs no Node. */
        if (request->node[0] && !(request->kind == NB_NODE_REQUEST_SERVING && request->flaw[0]))
                nb_facts_add(&plan, NB_READ_NODE, request->node);
        r = nb_plan_perform(&plan, admin, f);
        if (r >= 0)
                r = nb_facts_take_node(&plan, admin, &node, f);
        if (r < 0)
                return r;
        review->facts.node = r > 0 ? &node : NULL;
        r = judge(admin, &known->hosts, review, f);
        review->facts.node = NULL;
        return r;
}

/* --- One request --- */

/* Finds a request that somebody has approved for another key, with the token of the review. It has
 * used the token, although it may not have claimed it yet: no controller may be running. */
static int find_approved(void *userdata, struct nb_json *item) {
        _cleanup_(nb_node_request_done) struct nb_node_request other = { 0 };
        struct nb_review *review = userdata;
        const struct nb_node_request *request = &review->request;

        nb_node_request_read(item, &other);
        if (other.kind != NB_NODE_REQUEST_CLIENT || other.state != NB_CSR_STATE_APPROVED ||
            strcmp(other.username, request->username) != 0 ||
            (other.node[0] && strcmp(other.node, request->node) != 0) ||
            other.created < review->facts.token->created ||
            nb_digest_is_equal(other.facts.key, request->facts.key))
                return 0;
        review->facts.claim = NB_CLAIM_OTHER;
        NB_TEXT_COPY_LINE(review->user, other.name);
        return 0;
}

static int look_for_user(struct nb_admin *admin, struct nb_review *review, bool is_forced,
                         struct nb_failure *f) {
        int r = nb_admin_list(admin, "certificate signing requests", NB_CSRS_PATH, find_approved,
                              review, f);

        if (r > 0 && review->facts.claim != NB_CLAIM_OTHER && !is_forced)
                return nb_failure_set(f, NB_ADMIN_REQUEST_SUSPICIOUS, 0,
                                      "CSR %s: another request cannot be read, so it is unknown "
                                      "whether it has used the bootstrap token %s",
                                      review->request.name, review->request.token_id);
        judge_client(review);
        review->needs_claim = review->facts.claim == NB_CLAIM_NONE;
        return r;
}

static int read_facts(struct nb_admin *admin, struct nb_look *look, struct nb_review *review,
                      struct nb_failure *f) {
        _cleanup_(nb_plan_done) struct nb_plan plan = { 0 };
        _cleanup_(nb_json_done) struct nb_json record = { 0 };
        const struct nb_node_request *request = &review->request;
        struct nb_claim claim = { 0 };
        int r;

        nb_look_add(&plan, request->token_id, request->node);
        if (request->token_id[0])
                nb_facts_add(&plan, NB_READ_CLAIM, request->token_id);
        r = nb_plan_perform(&plan, admin, f);
        /* The record may require a proof, so --force must not override an answer without it. */
        if (r >= 0 && plan.reads[NB_READ_RECORD].method)
                r = nb_call_read(&plan.reads[NB_READ_RECORD], admin, &record, f);
        if (r >= 0)
                r = nb_look_take(&plan, admin, request, look, f);
        if (r < 0)
                return r;
        review->facts = look->facts;
        review->facts.is_asked = true;
        review->facts.claimed_by = review->user;
        r = is_bound(review)
                    ? nb_claim_take(&plan, admin, &look->token, request->facts.key, &claim, f)
                    : 0;
        if (r >= 0)
                review->facts.claim = (enum nb_claim_state)r;
        NB_TEXT_COPY(review->user, claim.csr_name);
        return r;
}

int nb_review_read(struct nb_admin *admin, struct nb_hosts *hosts, struct nb_look *look,
                   struct nb_review *review, bool is_forced, struct nb_failure *f) {
        int r = read_facts(admin, look, review, f);

        if (r >= 0)
                r = judge(admin, hosts, review, f);
        return r >= 0 && is_bound(review) && nb_review_permits(review, is_forced)
                       ? look_for_user(admin, review, is_forced, f)
                       : r;
}

/* --- Several requests --- */

struct noted_claim {
        struct nb_record record; /* key: the ID of the token */
        uint8_t key[NB_SHA256_SIZE];
        char csr_name[NB_CSR_NAME_MAX + 1];
};

int nb_review_note_claim(struct nb_records *claims, const struct nb_review *review,
                         struct nb_failure *f) {
        const struct nb_node_request *request = &review->request;
        struct noted_claim *noted;

        if (!review->needs_claim)
                return 0;
        noted = nb_records_put(claims, request->token_id, sizeof(*noted));
        if (!noted)
                return nb_failure_set_memory(f);
        if (!noted->csr_name[0]) {
                memcpy(noted->key, request->facts.key, sizeof(noted->key));
                NB_TEXT_COPY(noted->csr_name, request->name);
        }
        if (nb_digest_is_equal(noted->key, request->facts.key))
                return 0;
        return nb_failure_set(f, NB_ADMIN_REQUEST_SUSPICIOUS, 0,
                              "%s: FORGED? The bootstrap token %s is for one use, and %s is to be "
                              "approved for another key with it; nothing was decided",
                              request->name, request->token_id, noted->csr_name);
}
