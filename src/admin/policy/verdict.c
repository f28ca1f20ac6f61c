/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "admin/policy/verdict.h"

static bool is_bound(const struct nb_client_case *facts) {
        return facts->token->node[0];
}

static bool has_key(const struct nb_client_case *facts) {
        return facts->entry && facts->entry->public_key[0];
}

/* --- Reasons --- */

static bool is_not_of_a_token(const struct nb_client_case *facts) {
        return !facts->token_id[0];
}

static bool is_token_missing(const struct nb_client_case *facts) {
        return !facts->token;
}

/* kubeadm's own tokens: kube-controller-manager decides these requests. */
static bool is_token_for_any_node(const struct nb_client_case *facts) {
        return !is_bound(facts) && !facts->has_inventory;
}

/* The user name in a request has only the ID. A request that was made with a
 * deleted token must not be approved because a new token has the same ID. */
static bool is_token_recreated(const struct nb_client_case *facts) {
        return facts->requested != 0 && facts->token->created > facts->requested;
}

static bool is_malformed(const struct nb_client_case *facts) {
        return facts->flaw[0] || !facts->node[0];
}

static bool is_token_expired(const struct nb_client_case *facts) {
        return nb_bootstrap_token_is_expired(facts->token, facts->now);
}

static bool is_token_disabled(const struct nb_client_case *facts) {
        return !facts->token->may_authenticate;
}

static bool is_token_for_another_node(const struct nb_client_case *facts) {
        return is_bound(facts) && strcmp(facts->token->node, facts->node) != 0;
}

/* Nothing is approved: it may require a key. */
static bool is_inventory_unusable(const struct nb_client_case *facts) {
        return facts->inventory_flaw;
}

static bool is_not_in_inventory(const struct nb_client_case *facts) {
        return !is_bound(facts) &&
               (!facts->entry || (facts->entry->until != 0 && facts->entry->until <= facts->now));
}

static bool is_not_enrolled(const struct nb_client_case *facts) {
        return facts->is_attestation_required && !has_key(facts);
}

/* An enrolled key is always required: otherwise an attacker could omit the proof. */
static bool is_proof_missing(const struct nb_client_case *facts) {
        return has_key(facts) && facts->attestation == NB_ATTESTATION_MISSING;
}

static bool is_proof_invalid(const struct nb_client_case *facts) {
        return has_key(facts) && facts->attestation == NB_ATTESTATION_INVALID;
}

static bool is_enrolled_key_unusable(const struct nb_client_case *facts) {
        return has_key(facts) && facts->attestation != NB_ATTESTATION_VALID;
}

static bool is_node_ready(const struct nb_client_case *facts) {
        return facts->is_node_ready;
}

static bool is_token_used(const struct nb_client_case *facts) {
        return facts->is_claimed_by_other;
}

static const struct row {
        bool (*applies)(const struct nb_client_case *facts);
        enum nb_verdict verdict;
        const char *name;
        const char *text; /* %1: the token's ID, %2: the node of the request, %3: the flaw,
                             %4: the token's node, %5: the flaw of the inventory */
} rows[_NB_REASON_N] = {
        [NB_REASON_NONE] = { NULL, NB_VERDICT_APPROVE, NB_APPROVED_REASON,
                             "The bootstrap token %1 may join as node %2" },
        [NB_REASON_NOT_A_TOKEN] = { is_not_of_a_token, NB_VERDICT_IGNORE, "NotAToken",
                                    "The requestor is not a bootstrap token" },
        [NB_REASON_TOKEN_MISSING] = { is_token_missing, NB_VERDICT_WAIT, "TokenMissing",
                                      "The bootstrap token %1 does not exist any more" },
        [NB_REASON_TOKEN_FOR_ANY_NODE] = { is_token_for_any_node, NB_VERDICT_IGNORE,
                                           "TokenForAnyNode",
                                           "The bootstrap token %1 is not for one node" },
        [NB_REASON_TOKEN_RECREATED] = { is_token_recreated, NB_VERDICT_REFUSE, "TokenRecreated",
                                        "The bootstrap token %1 was created after the request, "
                                        "which was made with an earlier one of this ID" },
        [NB_REASON_MALFORMED] = { is_malformed, NB_VERDICT_REFUSE, "RequestMalformed",
                                  "The request is not for a node's client certificate: %3" },
        [NB_REASON_TOKEN_EXPIRED] = { is_token_expired, NB_VERDICT_REFUSE, "TokenExpired",
                                      "The bootstrap token %1 has expired" },
        [NB_REASON_TOKEN_DISABLED] = { is_token_disabled, NB_VERDICT_WAIT, "TokenDisabled",
                                       "The bootstrap token %1 may no longer authenticate" },
        [NB_REASON_TOKEN_FOR_ANOTHER_NODE] = { is_token_for_another_node, NB_VERDICT_REFUSE,
                                               "TokenForAnotherNode",
                                               "The bootstrap token %1 is for node %4, but the "
                                               "request is for node %2" },
        [NB_REASON_INVENTORY_UNUSABLE] = { is_inventory_unusable, NB_VERDICT_WAIT,
                                           "InventoryUnusable",
                                           "The inventory cannot be used: %5" },
        [NB_REASON_NOT_IN_INVENTORY] = { is_not_in_inventory, NB_VERDICT_WAIT, "NotInInventory",
                                         "The inventory does not allow node %2 to join now, and "
                                         "the bootstrap token %1 is for any node" },
        [NB_REASON_NOT_ENROLLED] = { is_not_enrolled, NB_VERDICT_WAIT, "NotEnrolled",
                                     "The inventory has no public key for node %2, and "
                                     "attestation is required" },
        [NB_REASON_PROOF_MISSING] = { is_proof_missing, NB_VERDICT_REFUSE, "AttestationMissing",
                                      "The request has no signature with the enrolled key of node "
                                      "%2" },
        [NB_REASON_PROOF_INVALID] = { is_proof_invalid, NB_VERDICT_REFUSE, "AttestationInvalid",
                                      "The request is not signed with the enrolled key of node "
                                      "%2" },
        [NB_REASON_ENROLLED_KEY_UNUSABLE] = { is_enrolled_key_unusable, NB_VERDICT_WAIT,
                                              "EnrolledKeyUnusable",
                                              "The publicKey of node %2 in the inventory is not a "
                                              "public key" },
        [NB_REASON_NODE_READY] = { is_node_ready, NB_VERDICT_WAIT, "NodeReady",
                                   "The Node %2 exists and is Ready" },
        [NB_REASON_TOKEN_USED] = { is_token_used, NB_VERDICT_REFUSE, "TokenUsed",
                                   "The bootstrap token %1 was used by another request before; it "
                                   "is for one use" },
};

/* --- Judgement --- */

enum nb_reason nb_client_judge(const struct nb_client_case *facts) {
        for (enum nb_reason i = NB_REASON_NONE + 1; i < _NB_REASON_N; i++)
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
        const char *values[] = { facts->token_id, facts->node, facts->flaw,
                                 facts->token ? facts->token->node : "", facts->inventory_flaw };
        size_t n = 0;

        ret[0] = '\0';
        for (const char *c = rows[reason].text; *c && n + 1 < NB_REASON_TEXT_SIZE; c++) {
                if (*c != '%')
                        n += (size_t)snprintf(ret + n, NB_REASON_TEXT_SIZE - n, "%c", *c);
                else {
                        n += (size_t)snprintf(ret + n, NB_REASON_TEXT_SIZE - n, "%s",
                                              values[c[1] - '1']);
                        c++;
                }
        }
        return ret;
}
