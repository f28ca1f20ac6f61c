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

#define MADE 1000000 /* when the request was made */
#define BOUND NB_TOKEN_GROUP_NODE
#define ENROLLED NB_TOKEN_GROUP_ENROLLED
#define KUBEADM NB_TOKEN_GROUP_DEFAULT

/* What differs from a request that is approved: of the bound token abcdef for the node n1, which
 * has not joined, and is not enrolled. */
static const struct row {
        const char *name;
        enum nb_reason reason;
        enum nb_verdict verdict;
        const char *text; /* part of the description; NULL: not checked */
        bool is_token_missing, is_disabled;
        time_t expires, created, removed;
        const char *token_id, *request_node, *token_node, *flaw, *record_flaw, *policy_flaw;
        const char *request_group, *token_group; /* NULL: BOUND */
        bool has_record, is_proof_required, is_asked;
        const char *proof_key;
        enum nb_attestation_verdict proof;
        bool is_node_ready;
        enum nb_claim_state claim;
        const char *claimed_by;
} rows[] = {
        { "a token for this node", NB_REASON_NONE, NB_VERDICT_APPROVE,
          "abcdef may join as node n1" },
        { "a user who is not a token", NB_REASON_NOT_A_TOKEN, NB_VERDICT_IGNORE, .token_id = "" },
        { "a token that does not exist", NB_REASON_TOKEN_MISSING, NB_VERDICT_WAIT, "abcdef",
          .is_token_missing = true },

        /* Whose decision it is. */
        { "a token of kubeadm's group", NB_REASON_NOT_OURS, NB_VERDICT_IGNORE, .token_node = "",
          .request_group = KUBEADM, .token_group = KUBEADM },
        { "a flawed request by a token of kubeadm's group", NB_REASON_NOT_OURS, NB_VERDICT_IGNORE,
          .token_node = "", .request_group = KUBEADM, .token_group = KUBEADM, .flaw = "a flaw" },
        { "a missing token of kubeadm's group", NB_REASON_NOT_OURS, NB_VERDICT_IGNORE,
          .is_token_missing = true, .request_group = KUBEADM },
        { "a token of kubeadm's group, for an administrator", NB_REASON_NONE, NB_VERDICT_APPROVE,
          .token_node = "", .request_group = KUBEADM, .token_group = KUBEADM, .is_asked = true },
        { "a token of kubeadm's group with the annotation", NB_REASON_TOKEN_FOR_ANOTHER_NODE,
          NB_VERDICT_REFUSE, .request_group = KUBEADM, .token_group = KUBEADM,
          .request_node = "n2" },
        { "a token of a group whose name begins with ours", NB_REASON_NOT_OURS, NB_VERDICT_IGNORE,
          .token_node = "", .request_group = BOUND "s", .token_group = BOUND "s," BOUND ":x" },
        { "a token that has left the bound group", NB_REASON_TOKEN_WITHOUT_NODE, NB_VERDICT_REFUSE,
          .token_node = "", .token_group = KUBEADM },
        { "a token that has joined the bound group", NB_REASON_TOKEN_WITHOUT_NODE,
          NB_VERDICT_REFUSE, .token_node = "", .request_group = KUBEADM,
          .token_group = KUBEADM "," BOUND },
        { "a bound token without the annotation", NB_REASON_TOKEN_WITHOUT_NODE, NB_VERDICT_REFUSE,
          "has no annotation node-bootstrap/node", .token_node = "" },
        { "a bound token without the annotation, with a valid proof", NB_REASON_TOKEN_WITHOUT_NODE,
          NB_VERDICT_REFUSE, .token_node = "", .has_record = true, .proof = NB_ATTESTATION_VALID },

        /* Time. */
        { "a token that is newer than the request", NB_REASON_TOKEN_RECREATED, NB_VERDICT_REFUSE,
          "abcdef was created after the request", .created = MADE + 1 },
        { "a request in the second in which the token was created", NB_REASON_NONE,
          NB_VERDICT_APPROVE, .created = MADE },
        { "a request after the token had expired", NB_REASON_TOKEN_EXPIRED, NB_VERDICT_REFUSE,
          .expires = MADE - 1 },
        { "a request in the second in which the token expired", NB_REASON_TOKEN_EXPIRED,
          NB_VERDICT_REFUSE, .expires = MADE },
        { "a request that was made in time, and is decided years later", NB_REASON_NONE,
          NB_VERDICT_APPROVE, .expires = MADE + 1 },
        { "a token with a malformed expiration", NB_REASON_TOKEN_EXPIRED, NB_VERDICT_REFUSE,
          .expires = NB_TOKEN_EXPIRATION_MALFORMED },

        { "a request with a flaw", NB_REASON_MALFORMED, NB_VERDICT_REFUSE, ": the usages are wrong",
          .flaw = "the usages are wrong" },
        { "a request without a node", NB_REASON_MALFORMED, NB_VERDICT_REFUSE, .request_node = "" },
        { "a token that may not authenticate any more", NB_REASON_TOKEN_DISABLED, NB_VERDICT_WAIT,
          .is_disabled = true },
        { "a stolen token, for another node", NB_REASON_TOKEN_FOR_ANOTHER_NODE, NB_VERDICT_REFUSE,
          "abcdef is for node n1, but the request is for node n2", .request_node = "n2" },
        { "a stolen token, for a name that begins with the node's",
          NB_REASON_TOKEN_FOR_ANOTHER_NODE, NB_VERDICT_REFUSE, .request_node = "n12" },
        { "a stolen token, for another node that is enrolled", NB_REASON_TOKEN_FOR_ANOTHER_NODE,
          NB_VERDICT_REFUSE, .request_node = "n2", .has_record = true,
          .proof = NB_ATTESTATION_VALID },

        /* Enrolled tokens. */
        { "an enrolled token, and a valid proof", NB_REASON_NONE, NB_VERDICT_APPROVE,
          .request_group = ENROLLED, .token_group = ENROLLED, .token_node = "", .has_record = true,
          .proof = NB_ATTESTATION_VALID },
        { "an enrolled token, and a node that is not enrolled", NB_REASON_NOT_ENROLLED,
          NB_VERDICT_WAIT, "Node n1 is not enrolled", .request_group = ENROLLED,
          .token_group = ENROLLED, .token_node = "" },
        { "a node that is not enrolled, whose request names a key", NB_REASON_NOT_ENROLLED,
          NB_VERDICT_WAIT, "is required; the request names the key sha256:12 (not verified)",
          .request_group = ENROLLED, .token_group = ENROLLED, .token_node = "",
          .proof_key = "sha256:12" },
        { "a proof with another key, which the request names", NB_REASON_PROOF_INVALID,
          NB_VERDICT_REFUSE,
          "abcdef; the request names the key sha256:12 (not verified); the enrolled key is "
          "sha256:ab0000000000",
          .has_record = true, .proof = NB_ATTESTATION_INVALID, .proof_key = "sha256:12" },
        { "an enrolled token, and no proof", NB_REASON_PROOF_MISSING, NB_VERDICT_REFUSE,
          .request_group = ENROLLED, .token_group = ENROLLED, .token_node = "",
          .has_record = true },
        { "a token that has left the enrolled group", NB_REASON_NOT_ENROLLED, NB_VERDICT_WAIT,
          .request_group = ENROLLED, .token_group = KUBEADM, .token_node = "" },
        { "a token of both groups, for this node, which is not enrolled", NB_REASON_NOT_ENROLLED,
          NB_VERDICT_WAIT, .token_group = BOUND "," ENROLLED },
        { "an enrolled token, and a node that was removed before the request",
          NB_REASON_NOT_ENROLLED, NB_VERDICT_WAIT, .request_group = ENROLLED,
          .token_group = ENROLLED, .token_node = "", .has_record = true, .removed = MADE - 1 },

        /* Records and the policy. */
        { "a record that cannot be read", NB_REASON_RECORD_UNUSABLE, NB_VERDICT_WAIT,
          "The record of node n1 cannot be used: forbidden", .record_flaw = "forbidden" },
        { "a policy that cannot be read", NB_REASON_POLICY_UNUSABLE, NB_VERDICT_WAIT,
          "The policy cannot be used: unknown key", .policy_flaw = "unknown key" },
        { "a proof is required, and the node is not enrolled", NB_REASON_NOT_ENROLLED,
          NB_VERDICT_WAIT, .is_proof_required = true },
        { "a proof is required and valid", NB_REASON_NONE, NB_VERDICT_APPROVE, .has_record = true,
          .proof = NB_ATTESTATION_VALID, .is_proof_required = true },
        { "the node is enrolled, and the request has no proof", NB_REASON_PROOF_MISSING,
          NB_VERDICT_REFUSE, .has_record = true },
        { "a proof with another key", NB_REASON_PROOF_INVALID, NB_VERDICT_REFUSE,
          .has_record = true, .proof = NB_ATTESTATION_INVALID },
        { "a key in the record that cannot be used", NB_REASON_PROOF_INVALID, NB_VERDICT_REFUSE,
          .has_record = true, .proof = NB_ATTESTATION_UNUSABLE },
        { "an administrator is asked, and the node is enrolled", NB_REASON_PROOF_MISSING,
          NB_VERDICT_REFUSE, .token_node = "", .request_group = KUBEADM, .token_group = KUBEADM,
          .is_asked = true, .has_record = true },
        { "the node was removed after the request", NB_REASON_NODE_REMOVED, NB_VERDICT_REFUSE,
          .has_record = true, .removed = MADE + 1 },
        { "the node was removed in the second of the request", NB_REASON_NODE_REMOVED,
          NB_VERDICT_REFUSE, .has_record = true, .removed = MADE },
        { "the node was removed before the request", NB_REASON_NONE, NB_VERDICT_APPROVE,
          .has_record = true, .removed = MADE - 1 },

        { "a Node of this name is Ready", NB_REASON_NODE_READY, NB_VERDICT_WAIT, "Node n1 exists",
          .is_node_ready = true },
        { "the token was used by another request", NB_REASON_TOKEN_USED, NB_VERDICT_REFUSE,
          "is for one use, and another request has used it (csr-1)", .claim = NB_CLAIM_OTHER,
          .claimed_by = "csr-1" },
        { "a token whose claim is foreign", NB_REASON_TOKEN_CLAIM_FOREIGN, NB_VERDICT_WAIT,
          "node-bootstrap-token-abcdef", .claim = NB_CLAIM_FOREIGN },
};

static const char *or_default(const char *value, const char *by_default) {
        return value ? value : by_default;
}

static struct nb_node_request request;
static struct nb_bootstrap_token token;
static struct nb_node_record record;
static struct nb_policy policy;
static const struct nb_node_facts ready = { .is_ready = true };

static struct nb_request_case make_case(const struct row *row) {
        const char *group = or_default(row->request_group, BOUND);

        request = (struct nb_node_request){
                .created = MADE,
                .is_in_bound_group = !strcmp(group, BOUND),
                .is_in_enrolled_group = !strcmp(group, ENROLLED),
        };
        snprintf(request.token_id, sizeof(request.token_id), "%s",
                 or_default(row->token_id, "abcdef"));
        snprintf(request.node, sizeof(request.node), "%s", or_default(row->request_node, "n1"));
        snprintf(request.proof_key, sizeof(request.proof_key), "%s",
                 or_default(row->proof_key, ""));
        snprintf(request.flaw, sizeof(request.flaw), "%s", or_default(row->flaw, ""));
        token = (struct nb_bootstrap_token){
                .expires = row->expires,
                .created = row->created,
                .may_authenticate = !row->is_disabled,
        };
        snprintf(token.node, sizeof(token.node), "%s", or_default(row->token_node, "n1"));
        snprintf(token.groups, sizeof(token.groups), "%s", or_default(row->token_group, BOUND));
        record = (struct nb_node_record){ .removed = row->removed, .key_id = { 0xab } };
        strcpy(record.public_key, row->removed ? "" : "key");
        policy.is_proof_required = row->is_proof_required;
        return (struct nb_request_case){
                .request = &request,
                .policy = &policy,
                .token = row->is_token_missing ? NULL : &token,
                .record = row->has_record ? &record : NULL,
                .record_flaw = row->record_flaw,
                .policy_flaw = row->policy_flaw,
                .proof = row->proof,
                .node = row->is_node_ready ? &ready : NULL,
                .claim = row->claim,
                .claimed_by = or_default(row->claimed_by, ""),
                .is_asked = row->is_asked,
        };
}

static void judges_each_case(_unused_ void **state) {
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct nb_request_case facts = make_case(&rows[i]);
                enum nb_reason reason = nb_client_judge(&facts, _NB_REASON_N);
                char text[NB_REASON_TEXT_SIZE];

                if (reason != rows[i].reason || nb_reason_verdict(reason) != rows[i].verdict)
                        fail_msg("%s: %s", rows[i].name, nb_reason_name(reason));
                (void)nb_reason_describe(reason, &facts, text);
                if (rows[i].text && !strstr(text, rows[i].text))
                        fail_msg("%s: %s", rows[i].name, text);
                assert_int_equal(nb_client_judge(&facts, reason), NB_REASON_NONE);
        }
}

/* Of a requestor without a token, in the order of the reasons. */
static void judges_without_a_token(_unused_ void **state) {
        static const struct row limits[] = {
                { "an unknown policy", NB_REASON_POLICY_UNUSABLE, .policy_flaw = "unknown key" },
                { "an unknown record", NB_REASON_RECORD_UNUSABLE, .record_flaw = "forbidden" },
                { "no record", NB_REASON_NOT_ENROLLED, .is_proof_required = true },
                { "no proof", NB_REASON_PROOF_MISSING, .has_record = true },
                { "a wrong proof", NB_REASON_PROOF_INVALID, .text = "the bootstrap token (none)",
                  .has_record = true, .proof = NB_ATTESTATION_INVALID },
                { "a Node that is Ready", NB_REASON_NODE_READY, .is_node_ready = true },
                { "nothing", NB_REASON_NONE },
        };

        for (size_t i = 0; i < N_ELEMENTS(limits); i++) {
                struct row row = limits[i];
                struct nb_request_case facts;
                char text[NB_REASON_TEXT_SIZE];

                row.token_id = row.request_group = "";
                row.is_token_missing = row.is_asked = true;
                facts = make_case(&row);
                assert_int_equal(nb_client_judge(&facts, _NB_REASON_N), NB_REASON_NOT_A_TOKEN);
                if (nb_client_judge_from(&facts, NB_REASON_POLICY_UNUSABLE, _NB_REASON_N) !=
                    row.reason)
                        fail_msg("%s", row.name);
                (void)nb_reason_describe(row.reason, &facts, text);
                if (row.text && !strstr(text, row.text))
                        fail_msg("%s: %s", row.name, text);
        }
}

/* Every reason has a row, so that none can be removed unnoticed. */
static void covers_every_reason(_unused_ void **state) {
        for (enum nb_reason reason = 0; reason < NB_REASON_APPROVED_BY_OTHERS; reason++) {
                size_t i = 0;

                while (i < N_ELEMENTS(rows) && rows[i].reason != reason)
                        i++;
                if (i == N_ELEMENTS(rows))
                        fail_msg("no row for %s", nb_reason_name(reason));
        }
}

static void cuts_a_description_that_is_too_long(_unused_ void **state) {
        char flaw[2 * NB_REASON_TEXT_SIZE], text[NB_REASON_TEXT_SIZE];
        struct nb_request_case facts = make_case(&rows[0]);

        memset(flaw, 'x', sizeof(flaw) - 1);
        flaw[sizeof(flaw) - 1] = '\0';
        facts.record_flaw = flaw;
        (void)nb_reason_describe(NB_REASON_RECORD_UNUSABLE, &facts, text);
        assert_int_equal(strlen(text), sizeof(text) - 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(judges_each_case),
                cmocka_unit_test(judges_without_a_token),
                cmocka_unit_test(covers_every_reason),
                cmocka_unit_test(cuts_a_description_that_is_too_long),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
