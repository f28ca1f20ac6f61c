/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "admin/controller/signatures.h"
#include "crypto/digest.h"

#include "case.h"

#define NOW 2000
#define TEXT_MAX ((size_t)2 * 1024 * 1024)

/* kubernetes cluster-bootstrap/token/jws/jws_test.go, with an ID that a Secret can have. */
#define CONTENT "payload"
#define SIGNATURE_ABC123 \
        "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiYzEyMyJ9..QSxpUG7Q542CirTI2ECPSZjvBOJURUW5a7XqFpNI958"

static void add_signature(struct nb_records *records, struct nb_signature *signature,
                          const char *id, time_t created, time_t expires) {
        static char key[] = "tokenSecret";
        const struct nb_token_secret secret = { .key = { .data = key, .len = strlen(key) } };

        *signature = (struct nb_signature){ .created = created, .expires = expires };
        snprintf(signature->id, sizeof(signature->id), "%s", id);
        signature->record.key = signature->id;
        assert_int_equal(nb_signature_compute(signature, &secret, CONTENT, strlen(CONTENT)), 0);
        assert_int_equal(nb_records_add(records, &signature->record), 0);
}

/* Applies to a ConfigMap with this data, and returns the patch. */
static ssize_t plan_change(const struct nb_records *records, const char *data, size_t body_max,
                           struct nb_buffer *ret_body, bool *ret_is_complete) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(TEXT_MAX);
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        struct nb_failure f = { 0 };

        nb_buffer_printf(&text, "{\"metadata\":{\"resourceVersion\":\"17\"},\"data\":{%s}}", data);
        json = nb_json_parse(text.data, text.len, "cluster-info", NB_ANSWER_MALFORMED, &f);
        assert_int_equal(json.r, 0);
        return nb_signatures_plan(records, &json, body_max, ret_body, ret_is_complete);
}

#define BODY(data) "{\"metadata\":{\"resourceVersion\":\"17\"},\"data\":{" data "}}"
#define GOOD "\"jws-kubeconfig-abc123\":\"" SIGNATURE_ABC123 "\""

struct plan_row {
        const char *name, *data, *expected;
        ssize_t n;
        time_t expires;
};

/* With the token abc123 alone. */
static struct plan_row plans[] = {
        { "adds a missing signature", "\"kubeconfig\":\"" CONTENT "\"", BODY(GOOD), 1, 0 },
        { "leaves a correct one alone", "\"kubeconfig\":\"" CONTENT "\"," GOOD, BODY(""), 0, 0 },
        { "replaces a wrong one", "\"jws-kubeconfig-abc123\":\"eyJ..x\"", BODY(GOOD), 1, 0 },
        { "removes that of an expired token", GOOD, BODY("\"jws-kubeconfig-abc123\":null"), 1,
          NOW },
        { "keeps that of a token that expires later", GOOD, BODY(""), 0, NOW + 1 },
        { "removes that of an unknown token", GOOD ",\"jws-kubeconfig-zzzzzz\":\"x\"",
          BODY("\"jws-kubeconfig-zzzzzz\":null"), 1, 0 },
        { "removes a key that is not of a token", GOOD ",\"jws-kubeconfig-\":\"x\"",
          BODY("\"jws-kubeconfig-\":null"), 1, 0 },
        { "leaves other keys alone", GOOD ",\"jws\":\"x\",\"other\":\"y\"", BODY(""), 0, 0 },
        { "removes and adds", "\"jws-kubeconfig-old123\":\"x\"",
          BODY("\"jws-kubeconfig-old123\":null," GOOD), 2, 0 },
};

static void plans_change(void **state) {
        const struct plan_row *row = *state;
        _cleanup_(nb_buffer_done) struct nb_buffer body = NB_BUFFER_INIT(TEXT_MAX);
        _cleanup_(nb_records_done) struct nb_records records = { 0 };
        struct nb_signature signature;
        bool is_complete = false;

        add_signature(&records, &signature, "abc123", 1, row->expires);
        assert_int_equal(nb_signatures_choose(&records, NOW, 10), 0);
        assert_int_equal(plan_change(&records, row->data, TEXT_MAX, &body, &is_complete), row->n);
        assert_string_equal(body.data, row->expected);
        assert_true(is_complete);
}

static void keeps_what_is_not_computed(void **state _unused_) {
        _cleanup_(nb_buffer_done) struct nb_buffer body = NB_BUFFER_INIT(TEXT_MAX);
        _cleanup_(nb_records_done) struct nb_records records = { 0 };
        struct nb_signature signature;
        bool is_complete;

        add_signature(&records, &signature, "abc123", 1, 0);
        signature.has_mac = false;
        assert_int_equal(nb_signatures_choose(&records, NOW, 10), 0);
        assert_int_equal(plan_change(&records, "\"jws-kubeconfig-abc123\":\"x\"", TEXT_MAX, &body,
                                     &is_complete),
                         0);
}

static void prefers_new_tokens(void **state _unused_) {
        _cleanup_(nb_records_done) struct nb_records records = { 0 };
        struct nb_signature signatures[4];

        add_signature(&records, &signatures[0], "oldest", 1, 0);
        add_signature(&records, &signatures[1], "newest", 9, 0);
        add_signature(&records, &signatures[2], "middle", 5, 0);
        add_signature(&records, &signatures[3], "expire", 8, NOW);
        assert_int_equal(nb_signatures_choose(&records, NOW, 2), 1);
        assert_false(signatures[0].is_wanted);
        assert_true(signatures[1].is_wanted);
        assert_true(signatures[2].is_wanted);
        assert_false(signatures[3].is_wanted);
        assert_int_equal(nb_signatures_choose(&records, NOW, 3), 0);
        assert_true(signatures[0].is_wanted);
}

/* Applies changes until nothing is left, as the controller does, and returns their number. */
static unsigned apply_batches(const struct nb_records *records, size_t n_expected) {
        _cleanup_(nb_buffer_done) struct nb_buffer data = NB_BUFFER_INIT(TEXT_MAX);
        size_t n_added = 0;

        for (unsigned n_batches = 0;; n_batches++) {
                _cleanup_(nb_buffer_done) struct nb_buffer body = NB_BUFFER_INIT(TEXT_MAX);
                const char *start;
                bool is_complete = false;
                ssize_t n = plan_change(records, data.data ? data.data : "", NB_SIGNATURES_BODY_MAX,
                                        &body, &is_complete);

                assert_true(n >= 0);
                if (n == 0) {
                        assert_true(is_complete);
                        assert_int_equal(n_added, n_expected);
                        return n_batches;
                }
                n_added += (size_t)n;
                assert_true(body.len < (size_t)64 * 1024);
                assert_int_equal(is_complete, n_added == n_expected);
                start = strstr(body.data, "\"data\":{") + strlen("\"data\":{");
                if (data.len > 0)
                        nb_buffer_append_string(&data, ",");
                nb_buffer_append(&data, start, strlen(start) - strlen("}}"));
        }
}

static void divides_many(void **state _unused_) {
        _cleanup_(nb_records_done) struct nb_records records = { 0 };
        static struct nb_signature signatures[2000];

        for (unsigned i = 0; i < N_ELEMENTS(signatures); i++) {
                char id[NB_TOKEN_ID_LEN + 1];

                snprintf(id, sizeof(id), "%06u", i);
                add_signature(&records, &signatures[i], id, i, 0);
        }
        assert_int_equal(nb_signatures_choose(&records, NOW, N_ELEMENTS(signatures)), 0);
        /* A change holds about 490 signatures. */
        assert_in_range(apply_batches(&records, N_ELEMENTS(signatures)), 4, 6);
}

int main(void) {
        CASES(plans, plans_change);
        CASE(keeps_what_is_not_computed);
        CASE(prefers_new_tokens);
        CASE(divides_many);
        return case_run("signatures");
}
