/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "admin/policy/verdict.h"
#include "base/macro.h"

#define NOW 1000000

/* What differs from a request that is approved: of the token abcdef for the node n1, which has not
 * joined. */
static const struct row {
        const char *name;
        enum nb_reason reason;
        enum nb_verdict verdict;
        const char *text; /* part of the description; NULL: not checked */
        bool is_token_missing, is_disabled, is_expiration_malformed;
        time_t expires, created, requested;
        const char *token_id, *request_node, *token_node, *flaw, *inventory_flaw;
        bool has_inventory, is_listed, has_key, is_attestation_required;
        time_t until;
        enum nb_attestation_verdict attestation;
        bool is_node_ready;
        enum nb_claim_state claim;
        const char *claimed_by;
} rows[] = {
        { "a token for this node", NB_REASON_NONE, NB_VERDICT_APPROVE,
          "abcdef may join as node n1" },
        { "a user who is not a token", NB_REASON_NOT_A_TOKEN, NB_VERDICT_IGNORE, .token_id = "" },
        { "a token that does not exist", NB_REASON_TOKEN_MISSING, NB_VERDICT_WAIT, "abcdef",
          .is_token_missing = true },
        { "a token for any node, without an inventory", NB_REASON_TOKEN_FOR_ANY_NODE,
          NB_VERDICT_IGNORE, .token_node = "" },
        { "a flawed request by a token for any node, without an inventory",
          NB_REASON_TOKEN_FOR_ANY_NODE, NB_VERDICT_IGNORE, .token_node = "", .flaw = "a flaw" },
        { "a token that is newer than the request", NB_REASON_TOKEN_RECREATED, NB_VERDICT_REFUSE,
          "abcdef was created after the request", .created = NOW, .requested = NOW - 1 },
        { "a request in the second in which the token was created", NB_REASON_NONE,
          NB_VERDICT_APPROVE, .created = NOW, .requested = NOW },
        { "a token for any node that is newer than the request", NB_REASON_TOKEN_FOR_ANY_NODE,
          NB_VERDICT_IGNORE, .token_node = "", .created = NOW, .requested = NOW - 1 },
        { "a request with a flaw", NB_REASON_MALFORMED, NB_VERDICT_REFUSE, ": the usages are wrong",
          .flaw = "the usages are wrong" },
        { "a request without a node", NB_REASON_MALFORMED, NB_VERDICT_REFUSE, .request_node = "" },
        { "an expired token", NB_REASON_TOKEN_EXPIRED, NB_VERDICT_REFUSE, .expires = NOW - 1 },
        { "a token that has not expired", NB_REASON_NONE, NB_VERDICT_APPROVE, .expires = NOW + 60 },
        { "a token with a malformed expiration", NB_REASON_TOKEN_EXPIRED, NB_VERDICT_REFUSE,
          .is_expiration_malformed = true },
        { "a token that may not authenticate any more", NB_REASON_TOKEN_DISABLED, NB_VERDICT_WAIT,
          .is_disabled = true },
        { "a stolen token, for another node", NB_REASON_TOKEN_FOR_ANOTHER_NODE, NB_VERDICT_REFUSE,
          "abcdef is for node n1, but the request is for node n2", .request_node = "n2" },
        { "a stolen token, for a name that begins with the node's",
          NB_REASON_TOKEN_FOR_ANOTHER_NODE, NB_VERDICT_REFUSE, .request_node = "n12" },
        { "a stolen token, for another node that the inventory lists",
          NB_REASON_TOKEN_FOR_ANOTHER_NODE, NB_VERDICT_REFUSE, .request_node = "n2",
          .has_inventory = true, .is_listed = true },
        { "a token for any node, and the inventory lists it", NB_REASON_NONE, NB_VERDICT_APPROVE,
          .token_node = "", .has_inventory = true, .is_listed = true },
        { "a token for any node, and the inventory does not list it", NB_REASON_NOT_IN_INVENTORY,
          NB_VERDICT_WAIT, .token_node = "", .has_inventory = true },
        { "a token for any node, and the time in the inventory has passed",
          NB_REASON_NOT_IN_INVENTORY, NB_VERDICT_WAIT, .token_node = "", .has_inventory = true,
          .is_listed = true, .until = NOW },
        { "a token for any node, and the time in the inventory has not passed", NB_REASON_NONE,
          NB_VERDICT_APPROVE, .token_node = "", .has_inventory = true, .is_listed = true,
          .until = NOW + 1 },
        { "an inventory that cannot be read", NB_REASON_INVENTORY_UNUSABLE, NB_VERDICT_WAIT,
          "The inventory cannot be used: line 1", .has_inventory = true,
          .inventory_flaw = "line 1" },
        { "a token for this node, which the inventory does not list", NB_REASON_NONE,
          NB_VERDICT_APPROVE, .has_inventory = true },
        { "attestation is required, and there is no key", NB_REASON_NOT_ENROLLED, NB_VERDICT_WAIT,
          .has_inventory = true, .is_listed = true, .is_attestation_required = true },
        { "attestation is required, and the node is not listed", NB_REASON_NOT_ENROLLED,
          NB_VERDICT_WAIT, .has_inventory = true, .is_attestation_required = true },
        { "attestation is required and valid", NB_REASON_NONE, NB_VERDICT_APPROVE,
          .has_inventory = true, .is_listed = true, .has_key = true,
          .is_attestation_required = true },
        { "the node has a key, and the request no proof", NB_REASON_PROOF_MISSING,
          NB_VERDICT_REFUSE, .has_inventory = true, .is_listed = true, .has_key = true,
          .attestation = NB_ATTESTATION_MISSING },
        { "the node has a key, its time has passed, and the request has no proof",
          NB_REASON_PROOF_MISSING, NB_VERDICT_REFUSE, .has_inventory = true, .is_listed = true,
          .has_key = true, .until = 1, .attestation = NB_ATTESTATION_MISSING },
        { "a proof with another key", NB_REASON_PROOF_INVALID, NB_VERDICT_REFUSE,
          .has_inventory = true, .is_listed = true, .has_key = true,
          .attestation = NB_ATTESTATION_INVALID },
        { "the key in the inventory is not one", NB_REASON_ENROLLED_KEY_UNUSABLE, NB_VERDICT_WAIT,
          .has_inventory = true, .is_listed = true, .has_key = true,
          .attestation = NB_ATTESTATION_UNUSABLE },
        { "a Node of this name is Ready", NB_REASON_NODE_READY, NB_VERDICT_WAIT, "Node n1 exists",
          .is_node_ready = true },
        { "the token was used by another request", NB_REASON_TOKEN_USED, NB_VERDICT_REFUSE,
          "was used by another request before, csr-1", .claim = NB_CLAIM_OTHER,
          .claimed_by = "csr-1" },
        { "a token whose claim is foreign", NB_REASON_TOKEN_CLAIM_FOREIGN, NB_VERDICT_WAIT,
          "node-bootstrap-token-abcdef", .claim = NB_CLAIM_FOREIGN },
};

static const char *or_default(const char *value, const char *by_default) {
        return value ? value : by_default;
}

static void fill_case(const struct row *row, struct nb_bootstrap_token *token,
                      struct nb_inventory_node *entry, struct nb_client_case *ret) {
        *token = (struct nb_bootstrap_token){
                .expires = row->expires,
                .created = row->created,
                .is_expiration_malformed = row->is_expiration_malformed,
                .may_authenticate = !row->is_disabled,
        };
        snprintf(token->node, sizeof(token->node), "%s", or_default(row->token_node, "n1"));
        *entry = (struct nb_inventory_node){ .until = row->until };
        if (row->has_key)
                strcpy(entry->public_key, "key");
        *ret = (struct nb_client_case){
                .token_id = or_default(row->token_id, "abcdef"),
                .node = or_default(row->request_node, "n1"),
                .flaw = or_default(row->flaw, ""),
                .inventory_flaw = row->inventory_flaw,
                .token = row->is_token_missing ? NULL : token,
                .entry = row->is_listed ? entry : NULL,
                .has_inventory = row->has_inventory,
                .is_attestation_required = row->is_attestation_required,
                .attestation = row->attestation,
                .is_node_ready = row->is_node_ready,
                .claim = row->claim,
                .claimed_by = row->claimed_by,
                .requested = row->requested,
                .now = NOW,
        };
}

static void judges_each_case(_unused_ void **state) {
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct nb_bootstrap_token token;
                struct nb_inventory_node entry;
                struct nb_client_case facts;
                char text[NB_REASON_TEXT_SIZE];
                enum nb_reason reason;

                fill_case(&rows[i], &token, &entry, &facts);
                reason = nb_client_judge(&facts);
                if (reason != rows[i].reason || nb_reason_verdict(reason) != rows[i].verdict)
                        fail_msg("%s: %s", rows[i].name, nb_reason_name(reason));
                (void)nb_reason_describe(reason, &facts, text);
                if (rows[i].text && !strstr(text, rows[i].text))
                        fail_msg("%s: %s", rows[i].name, text);
        }
}

/* Every reason has a row, so that none can be removed unnoticed. */
static void covers_every_reason(_unused_ void **state) {
        for (enum nb_reason reason = 0; reason < _NB_REASON_N; reason++) {
                size_t i = 0;

                while (i < N_ELEMENTS(rows) && rows[i].reason != reason)
                        i++;
                if (i == N_ELEMENTS(rows))
                        fail_msg("no row for %s", nb_reason_name(reason));
        }
}

static void cuts_a_description_that_is_too_long(_unused_ void **state) {
        char flaw[2 * NB_REASON_TEXT_SIZE], text[NB_REASON_TEXT_SIZE];
        struct nb_client_case facts = { .token_id = "abcdef", .node = "n1", .flaw = flaw };

        memset(flaw, 'x', sizeof(flaw) - 1);
        flaw[sizeof(flaw) - 1] = '\0';
        (void)nb_reason_describe(NB_REASON_MALFORMED, &facts, text);
        assert_int_equal(strlen(text), sizeof(text) - 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(judges_each_case),
                cmocka_unit_test(covers_every_reason),
                cmocka_unit_test(cuts_a_description_that_is_too_long),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
