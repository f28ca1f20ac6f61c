/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "admin/policy/data_fields.h"
#include "admin/policy/verdict.h"
#include "base/text.h"

enum nb_reason nb_client_judge_from(const struct nb_request_case *facts, enum nb_reason begin,
                                    enum nb_reason end) {
        static const struct nb_bootstrap_token no_token = { 0 };
        const struct nb_node_request *request = facts->request;
        const struct nb_bootstrap_token *token = facts->token ? facts->token : &no_token;
        const bool is_bound = request->is_in_bound_group || token->node[0] ||
                              nb_list_has(token->groups, NB_TOKEN_GROUP_NODE);
        const bool is_enrolled = request->is_in_enrolled_group ||
                                 nb_list_has(token->groups, NB_TOKEN_GROUP_ENROLLED);
        const bool has_key = facts->record && facts->record->public_key[0];
        const bool applies[_NB_REASON_N] = {
                [NB_REASON_NOT_A_TOKEN] = !request->token_id[0],
                [NB_REASON_NOT_OURS] = !facts->is_asked && !is_bound && !is_enrolled,
                [NB_REASON_TOKEN_MISSING] = !facts->token,
                /* The user name in a request has only the ID. A request that was made with a
                 * deleted token must not be approved because a new token has the same ID. */
                [NB_REASON_TOKEN_RECREATED] = token->created > request->created,
                [NB_REASON_MALFORMED] = request->flaw[0] || !request->node[0],
                /* When the request was made, by the clock of the API server: a request that was
                 * made in time may be decided late, and this machine's clock may be wrong. */
                [NB_REASON_TOKEN_EXPIRED] = nb_bootstrap_token_is_expired(token->expires,
                                                                          request->created),
                [NB_REASON_TOKEN_DISABLED] = !token->may_authenticate,
                [NB_REASON_TOKEN_WITHOUT_NODE] = is_bound && !token->node[0],
                [NB_REASON_TOKEN_FOR_ANOTHER_NODE] = token->node[0] &&
                                                     strcmp(token->node, request->node) != 0,
                /* Nothing is approved, since the policy or the record may require a proof. */
                [NB_REASON_POLICY_UNUSABLE] = facts->policy_flaw,
                [NB_REASON_RECORD_UNUSABLE] = facts->record_flaw,
                [NB_REASON_NODE_REMOVED] = nb_request_case_is_removed(facts),
                [NB_REASON_NOT_ENROLLED] = (is_enrolled || facts->policy->is_proof_required) &&
                                           !has_key,
                /* An enrolled key is always required: a thief could omit the proof. */
                [NB_REASON_PROOF_MISSING] = has_key && facts->proof == NB_ATTESTATION_MISSING,
                [NB_REASON_PROOF_INVALID] = has_key && facts->proof != NB_ATTESTATION_VALID,
                [NB_REASON_NODE_READY] = facts->node && facts->node->is_ready,
                [NB_REASON_TOKEN_USED] = facts->claim == NB_CLAIM_OTHER,
                [NB_REASON_TOKEN_CLAIM_FOREIGN] = facts->claim == NB_CLAIM_FOREIGN,
        };

        for (enum nb_reason i = begin; i < end; i++)
                if (applies[i])
                        return i;
        return NB_REASON_NONE;
}

enum nb_reason nb_client_judge(const struct nb_request_case *facts, enum nb_reason end) {
        return nb_client_judge_from(facts, NB_REASON_NONE + 1, end);
}

/* In a text, "$t" and the like are replaced: see nb_reason_describe(). */
static const struct row {
        enum nb_verdict verdict;
        unsigned facts;
        const char *name, *text;
} rows[_NB_REASON_N] = {
        [NB_REASON_NONE] = { NB_VERDICT_APPROVE, 0, NB_APPROVED_REASON,
                             "The bootstrap token $t may join as node $n" },
        [NB_REASON_NOT_A_TOKEN] = { NB_VERDICT_IGNORE, 0, "NotAToken",
                                    "The requestor is not a bootstrap token" },
        [NB_REASON_NOT_OURS] = { NB_VERDICT_IGNORE, 0, "UnboundToken",
                                 "The bootstrap token $t is unbound" },
        [NB_REASON_TOKEN_MISSING] = { NB_VERDICT_WAIT, NB_FACT_TOKEN, "TokenMissing",
                                      "The bootstrap token $t does not exist any more, or its "
                                      "Secret is malformed" },
        [NB_REASON_TOKEN_RECREATED] = { NB_VERDICT_REFUSE, NB_FACT_TOKEN, "TokenRecreated",
                                        "The bootstrap token $t was created after the request, "
                                        "which was made with an earlier one of this ID" },
        [NB_REASON_MALFORMED] = { NB_VERDICT_REFUSE, 0, "RequestMalformed",
                                  "The request is not for a node's client certificate: $f" },
        [NB_REASON_TOKEN_EXPIRED] = { NB_VERDICT_REFUSE, NB_FACT_TOKEN, "TokenExpired",
                                      "The bootstrap token $t had expired when the request was "
                                      "made" },
        [NB_REASON_TOKEN_DISABLED] = { NB_VERDICT_WAIT, NB_FACT_TOKEN, "TokenDisabled",
                                       "The bootstrap token $t may no longer authenticate" },
        [NB_REASON_TOKEN_WITHOUT_NODE] = { NB_VERDICT_REFUSE, NB_FACT_TOKEN, "TokenWithoutNode",
                                           "The bootstrap token $t is in the "
                                           "group " NB_TOKEN_GROUP_NODE ", but its Secret has no "
                                           "annotation " NB_TOKEN_NODE_ANNOTATION },
        [NB_REASON_TOKEN_FOR_ANOTHER_NODE] = { NB_VERDICT_REFUSE, NB_FACT_TOKEN,
                                               "TokenForAnotherNode",
                                               "The bootstrap token $t is for node $o, but the "
                                               "request is for node $n" },
        [NB_REASON_POLICY_UNUSABLE] = { NB_VERDICT_WAIT, NB_FACT_LIMITS, "PolicyUnusable",
                                        "The policy cannot be used: $p" },
        [NB_REASON_RECORD_UNUSABLE] = { NB_VERDICT_WAIT, NB_FACT_LIMITS, "RecordUnusable",
                                        "The record of node $n cannot be used: $r" },
        [NB_REASON_NODE_REMOVED] = { NB_VERDICT_REFUSE, NB_FACT_LIMITS, "NodeRemoved",
                                     "The request was made before the enrolled node $n was "
                                     "removed" },
        [NB_REASON_NOT_ENROLLED] = { NB_VERDICT_WAIT, NB_FACT_LIMITS, "NotEnrolled",
                                     "Node $n is not enrolled, but a proof by an enrolled key is "
                                     "required$k" },
        [NB_REASON_PROOF_MISSING] = { NB_VERDICT_REFUSE, NB_FACT_LIMITS, "AttestationMissing",
                                      "The request has no signature with the enrolled key of "
                                      "node $n" },
        [NB_REASON_PROOF_INVALID] = { NB_VERDICT_REFUSE, NB_FACT_LIMITS, "AttestationInvalid",
                                      "The request is not signed with the enrolled key of node $n "
                                      "for the bootstrap token $t$k" },
        [NB_REASON_NODE_READY] = { NB_VERDICT_WAIT, NB_FACT_NODE, "NodeReady",
                                   "The Node $n exists and is Ready" },
        [NB_REASON_TOKEN_USED] = { NB_VERDICT_REFUSE, NB_FACT_TOKEN, "TokenUsed",
                                   "The bootstrap token $t is for one use, and another request "
                                   "has used it ($c)" },
        [NB_REASON_TOKEN_CLAIM_FOREIGN] = { NB_VERDICT_WAIT, NB_FACT_TOKEN, "TokenClaimForeign",
                                            "The Lease node-bootstrap-token-$t in kube-system "
                                            "was not made for this bootstrap token" },
        [NB_REASON_APPROVED_BY_OTHERS] = { NB_VERDICT_IGNORE, 0, "ApprovedByOthers",
                                           "Somebody else approved this request of the bootstrap "
                                           "token $t for node $n" },
};

enum nb_verdict nb_reason_verdict(enum nb_reason reason) {
        return rows[reason].verdict;
}

unsigned nb_reason_facts(enum nb_reason reason) {
        return rows[reason].facts;
}

const char *nb_reason_name(enum nb_reason reason) {
        return rows[reason].name;
}

/* What an administrator compares with the machine. The requestor wrote it. */
static void describe_key(const struct nb_request_case *facts, char *ret, size_t size) {
        const bool has_key = facts->record && facts->record->public_key[0];
        char enrolled[NB_PIN_TEXT_SIZE] = "";

        ret[0] = '\0';
        if (has_key)
                nb_pin_format(facts->record->key_id, enrolled);
        if (facts->request->proof_key[0])
                snprintf(ret, size, "; the request names the key %s (not verified)%s%s",
                         facts->request->proof_key, has_key ? "; the enrolled key is " : "",
                         enrolled);
}

const char *nb_reason_describe(enum nb_reason reason, const struct nb_request_case *facts,
                               char ret[static NB_REASON_TEXT_SIZE]) {
        char key[256];
        const char *const values[] = {
                ['c'] = facts->claimed_by,
                ['f'] = facts->request->flaw,
                ['k'] = key,
                ['n'] = facts->request->node,
                ['o'] = facts->token ? facts->token->node : "",
                ['p'] = facts->policy_flaw,
                ['r'] = facts->record_flaw,
                ['t'] = facts->request->token_id[0] ? facts->request->token_id : "(none)",
        };
        const char *text = rows[reason].text;

        describe_key(facts, key, sizeof(key));
        for (size_t n = 0; n < NB_REASON_TEXT_SIZE;) {
                size_t len = strcspn(text, "$");

                n += (size_t)snprintf(ret + n, NB_REASON_TEXT_SIZE - n, "%.*s%s", (int)len, text,
                                      text[len] ? values[(int)text[len + 1]] : "");
                if (!text[len])
                        break;
                text += len + 2;
        }
        nb_text_copy_line(ret, strlen(ret), ret, NB_REASON_TEXT_SIZE);
        return ret;
}
