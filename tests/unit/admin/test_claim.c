/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/client/claim.h"
#include "admin/client/facts.h"
#include "base/encoding.h"

#include "answers.h"

#define PATH NB_LEASES_PATH "/" NB_CLAIM_NAME_PREFIX "abcdef"

static const struct nb_bootstrap_token token = { .id = "abcdef", .uid = "u" };
static const uint8_t key[NB_SHA256_SIZE] = { 1 };

/* The Lease that nb_claim_add() creates, as it is read afterwards. */
static struct {
        const char *name;
        struct nb_bootstrap_token token;
        uint8_t key[NB_SHA256_SIZE];
        long status; /* of the answer; 0: it fails */
        int r;
} rows[] = {
        { "one's own", { .id = "abcdef", .uid = "u" }, { 1 }, 200, NB_CLAIM_OWN },
        { "of another key", { .id = "abcdef", .uid = "u" }, { 1, 1 }, 200, NB_CLAIM_OTHER },
        { "of an earlier token", { .id = "abcdef", .uid = "t" }, { 1 }, 200, NB_CLAIM_FOREIGN },
        { "none", { .id = "abcdef", .uid = "u" }, { 1 }, 404, NB_CLAIM_NONE },
        { "not readable", { .id = "abcdef", .uid = "u" }, { 1 }, 0, -EIO },
};

static void judges_the_claim(void **state) {
        const __typeof__(rows[0]) *row = *state;
        struct nb_plan written = { 0 }, read = { 0 };
        struct nb_admin admin = { 0 };
        struct nb_claim claim = { 0 };
        struct nb_failure f = { 0 };
        char holder[2 * NB_SHA256_SIZE + 1];

        nb_claim_add(&written, &row->token, "node-csr-x", row->key);
        assert_int_equal(written.n_writes, 1);
        nb_facts_add(&read, NB_READ_CLAIM, token.id);
        answer(&read.reads[NB_READ_CLAIM], "GET", PATH, row->status,
               row->status == 404 ? "{\"kind\":\"Status\",\"code\":404}"
                                  : written.writes[0].body.data);
        assert_int_equal(nb_claim_take(&read, &admin, &token, key, &claim, &f), row->r);
        assert_int_equal(f.code, row->r < 0 ? NB_SERVER_ERROR : NB_NONE);
        if (row->status == 200) {
                nb_hex_encode(row->key, sizeof(row->key), holder);
                assert_string_equal(claim.key, holder);
                assert_string_equal(claim.token_id, row->token.id);
                assert_string_equal(claim.token_uid, row->token.uid);
                assert_string_equal(claim.csr_name, "node-csr-x");
        }
        nb_plan_done(&written);
        nb_plan_done(&read);
}

/* Anyone who may create Leases writes these. */
static struct {
        const char *name, *text;
} others[] = {
        { "another Lease", "{\"metadata\":{\"name\":\"node-bootstrap-lease-x\"}}" },
        { "a long ID", "{\"metadata\":{\"name\":\"node-bootstrap-token-abcdefg\","
                       "\"ownerReferences\":[{\"uid\":\"u\"}]},"
                       "\"spec\":{\"holderIdentity\":\"x\"}}" },
        { "of no token", "{\"metadata\":{\"name\":\"node-bootstrap-token-abcdef\"},\"spec\":{"
                         "\"holderIdentity\":\"x\"}}" },
        { "of no key", "{\"metadata\":{\"name\":\"node-bootstrap-token-abcdef\","
                       "\"ownerReferences\":[{\"uid\":\"u\"}]},"
                       "\"spec\":{}}" },
};

static void is_no_claim(void **state) {
        const __typeof__(others[0]) *row = *state;
        struct nb_failure f = { 0 };
        _cleanup_(nb_json_done) struct nb_json json = nb_json_parse(row->text, strlen(row->text),
                                                                    "a Lease", NB_SERVER_ERROR, &f);
        struct nb_claim claim;

        assert_int_equal(json.r, 0);
        assert_false(nb_claim_read(&json, &claim));
}

int main(void) {
        CASES(rows, judges_the_claim);
        CASES(others, is_no_claim);
        return case_run("claim");
}
