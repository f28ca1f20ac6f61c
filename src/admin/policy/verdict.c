/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "admin/policy/verdict.h"
#include "base/macro.h"

static bool is_in_group(const struct nb_client_case *facts, const char *group) {
        const char *at = facts->token ? facts->token->groups : "";
        size_t len = strlen(group);

        for (;; at++) {
                size_t n = strcspn(at, ",");

                if (n == len && memcmp(at, group, n) == 0)
                        return true;
                at += n;
                if (!*at)
                        return false;
        }
}

static bool is_bound(const struct nb_client_case *facts) {
        return facts->request->is_in_bound_group || (facts->token && facts->token->node[0]) ||
               is_in_group(facts, NB_TOKEN_GROUP_NODE);
}

static bool is_enrolled(const struct nb_client_case *facts) {
        return facts->request->is_in_enrolled_group || is_in_group(facts, NB_TOKEN_GROUP_ENROLLED);
}

static bool has_key(const struct nb_client_case *facts) {
        return facts->record && facts->record->public_key[0];
}

/* --- Reasons --- */

static bool is_not_of_a_token(const struct nb_client_case *facts) {
        return !facts->request->token_id[0];
}

static bool is_not_ours(const struct nb_client_case *facts) {
        return !facts->is_asked && !is_bound(facts) && !is_enrolled(facts);
}

static bool is_token_missing(const struct nb_client_case *facts) {
        return !facts->token;
}

/* The user name in a request has only the ID. A request that was made with a
 * deleted token must not be approved because a new token has the same ID. */
static bool is_token_recreated(const struct nb_client_case *facts) {
        return facts->token->created > facts->request->created;
}

static bool is_malformed(const struct nb_client_case *facts) {
        return facts->request->flaw[0] || !facts->request->node[0];
}

/* When the request was made, by the clock of the API server: a request that was made in time may be
 * decided late, and this machine's clock may be wrong. */
static bool is_token_expired(const struct nb_client_case *facts) {
        return nb_bootstrap_token_is_expired(facts->token->expires, facts->request->created);
}

static bool is_token_disabled(const struct nb_client_case *facts) {
        return !facts->token->may_authenticate;
}

static bool is_token_without_node(const struct nb_client_case *facts) {
        return is_bound(facts) && !facts->token->node[0];
}

static bool is_token_for_another_node(const struct nb_client_case *facts) {
        return facts->token->node[0] && strcmp(facts->token->node, facts->request->node) != 0;
}

/* Nothing is approved, since the policy or the record may require a proof. */
static bool is_policy_unusable(const struct nb_client_case *facts) {
        return facts->policy_flaw;
}

static bool is_record_unusable(const struct nb_client_case *facts) {
        return facts->record_flaw;
}

/* When it was made, the request needed a proof. */
static bool is_node_removed(const struct nb_client_case *facts) {
        return facts->record && facts->record->removed >= facts->request->created &&
               facts->record->removed != 0;
}

static bool is_not_enrolled(const struct nb_client_case *facts) {
        return (is_enrolled(facts) || facts->is_proof_required) && !has_key(facts);
}

/* An enrolled key is always required: otherwise an attacker could omit the proof. */
static bool is_proof_missing(const struct nb_client_case *facts) {
        return has_key(facts) && facts->proof == NB_ATTESTATION_MISSING;
}

static bool is_proof_invalid(const struct nb_client_case *facts) {
        return has_key(facts) && facts->proof != NB_ATTESTATION_VALID;
}

static bool is_node_ready(const struct nb_client_case *facts) {
        return facts->is_node_ready;
}

static bool is_token_used(const struct nb_client_case *facts) {
        return facts->claim == NB_CLAIM_OTHER;
}

static bool is_claim_foreign(const struct nb_client_case *facts) {
        return facts->claim == NB_CLAIM_FOREIGN;
}

/* In a text, each of these is replaced by a value of the case. */
static const char token[] = "", node[] = "", flaw[] = "", token_node[] = "", policy_flaw[] = "",
                  record_flaw[] = "", claimed_by[] = "";

#define TEXT_PARTS 6

static const struct row {
        bool (*applies)(const struct nb_client_case *facts);
        enum nb_verdict verdict;
        const char *name;
        const char *text[TEXT_PARTS];
} rows[_NB_REASON_N] = {
        [NB_REASON_NONE] = { NULL,
                             NB_VERDICT_APPROVE,
                             NB_APPROVED_REASON,
                             { "The bootstrap token ", token, " may join as node ", node } },
        [NB_REASON_NOT_A_TOKEN] = { is_not_of_a_token,
                                    NB_VERDICT_IGNORE,
                                    "NotAToken",
                                    { "The requestor is not a bootstrap token" } },
        [NB_REASON_NOT_OURS] = { is_not_ours,
                                 NB_VERDICT_IGNORE,
                                 "UnboundToken",
                                 { "The bootstrap token ", token, " is unbound" } },
        [NB_REASON_TOKEN_MISSING] = { is_token_missing,
                                      NB_VERDICT_WAIT,
                                      "TokenMissing",
                                      { "The bootstrap token ", token,
                                        " does not exist any more, or its Secret is malformed" } },
        [NB_REASON_TOKEN_RECREATED] = { is_token_recreated,
                                        NB_VERDICT_REFUSE,
                                        "TokenRecreated",
                                        { "The bootstrap token ", token,
                                          " was created after the request, which was made with an "
                                          "earlier one of this ID" } },
        [NB_REASON_MALFORMED] = { is_malformed,
                                  NB_VERDICT_REFUSE,
                                  "RequestMalformed",
                                  { "The request is not for a node's client certificate: ",
                                    flaw } },
        [NB_REASON_TOKEN_EXPIRED] = { is_token_expired,
                                      NB_VERDICT_REFUSE,
                                      "TokenExpired",
                                      { "The bootstrap token ", token,
                                        " had expired when the request was made" } },
        [NB_REASON_TOKEN_DISABLED] = { is_token_disabled,
                                       NB_VERDICT_WAIT,
                                       "TokenDisabled",
                                       { "The bootstrap token ", token,
                                         " may no longer authenticate" } },
        [NB_REASON_TOKEN_WITHOUT_NODE] = { is_token_without_node,
                                           NB_VERDICT_REFUSE,
                                           "TokenWithoutNode",
                                           { "The bootstrap token ", token,
                                             " is in the group " NB_TOKEN_GROUP_NODE
                                             ", but its Secret has no "
                                             "annotation " NB_TOKEN_NODE_ANNOTATION } },
        [NB_REASON_TOKEN_FOR_ANOTHER_NODE] = { is_token_for_another_node,
                                               NB_VERDICT_REFUSE,
                                               "TokenForAnotherNode",
                                               { "The bootstrap token ", token, " is for node ",
                                                 token_node, ", but the request is for node ",
                                                 node } },
        [NB_REASON_POLICY_UNUSABLE] = { is_policy_unusable,
                                        NB_VERDICT_WAIT,
                                        "PolicyUnusable",
                                        { "The policy cannot be used: ", policy_flaw } },
        [NB_REASON_RECORD_UNUSABLE] = { is_record_unusable,
                                        NB_VERDICT_WAIT,
                                        "RecordUnusable",
                                        { "The record of node ", node,
                                          " cannot be used: ", record_flaw } },
        [NB_REASON_NODE_REMOVED] = { is_node_removed,
                                     NB_VERDICT_REFUSE,
                                     "NodeRemoved",
                                     { "The request was made before the enrolled node ", node,
                                       " was removed" } },
        [NB_REASON_NOT_ENROLLED] = { is_not_enrolled,
                                     NB_VERDICT_WAIT,
                                     "NotEnrolled",
                                     { "Node ", node,
                                       " is not enrolled, but a proof by an enrolled key is "
                                       "required" } },
        [NB_REASON_PROOF_MISSING] = { is_proof_missing,
                                      NB_VERDICT_REFUSE,
                                      "AttestationMissing",
                                      { "The request has no signature with the enrolled key of "
                                        "node ",
                                        node } },
        [NB_REASON_PROOF_INVALID] = { is_proof_invalid,
                                      NB_VERDICT_REFUSE,
                                      "AttestationInvalid",
                                      { "The request is not signed with the enrolled key of node ",
                                        node, " for the bootstrap token ", token } },
        [NB_REASON_NODE_READY] = { is_node_ready,
                                   NB_VERDICT_WAIT,
                                   "NodeReady",
                                   { "The Node ", node, " exists and is Ready" } },
        [NB_REASON_TOKEN_USED] = { is_token_used,
                                   NB_VERDICT_REFUSE,
                                   "TokenUsed",
                                   { "The bootstrap token ", token,
                                     " is for one use, and another request has used it (",
                                     claimed_by, ")" } },
        [NB_REASON_TOKEN_CLAIM_FOREIGN] = { is_claim_foreign,
                                            NB_VERDICT_WAIT,
                                            "TokenClaimForeign",
                                            { "The Lease node-bootstrap-token-", token,
                                              " in kube-system was not made for this bootstrap "
                                              "token" } },
};

/* --- Judgement --- */

enum nb_reason nb_client_judge(const struct nb_client_case *facts, enum nb_reason end) {
        for (enum nb_reason i = NB_REASON_NONE + 1; i < end; i++)
                if (rows[i].applies(facts))
                        return i;
        return NB_REASON_NONE;
}

enum nb_verdict nb_reason_verdict(enum nb_reason reason) {
        return rows[reason].verdict;
}

const char *nb_reason_name(enum nb_reason reason) {
        return rows[reason].name;
}

const char *nb_reason_describe(enum nb_reason reason, const struct nb_client_case *facts,
                               char ret[static NB_REASON_TEXT_SIZE]) {
        const struct {
                const char *part, *value;
        } values[] = {
                { token, facts->request->token_id },
                { node, facts->request->node },
                { flaw, facts->request->flaw },
                { token_node, facts->token ? facts->token->node : "" },
                { policy_flaw, facts->policy_flaw },
                { record_flaw, facts->record_flaw },
                { claimed_by, facts->claimed_by },
        };
        const char *const *text = rows[reason].text;
        size_t n = 0;

        for (size_t i = 0; i < TEXT_PARTS && text[i] && n < NB_REASON_TEXT_SIZE; i++) {
                const char *part = text[i];

                for (size_t k = 0; k < N_ELEMENTS(values); k++)
                        if (text[i] == values[k].part)
                                part = values[k].value;
                n += (size_t)snprintf(ret + n, NB_REASON_TEXT_SIZE - n, "%s", part);
        }
        return ret;
}
