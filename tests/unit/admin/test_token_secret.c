/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "admin/policy/token_secret.h"
#include "base/encoding.h"

#include "allocation.h"
#include "case.h"

#define TEXT_MAX 4096

struct row {
        const char *name;
        const char *secret_name; /* NULL: bootstrap-token-abcdef */
        /* Of the data; NULL: the usual value; "-": the key is missing. */
        const char *id, *secret, *usage, *expiration;
        const char *expected_id;
        time_t expected_expires;
};

/* What bootstrapsigner and tokencleaner make of it (pkg/controller/bootstrap/util.go). */
static struct row rows[] = {
        { "a token", .expected_id = "abcdef" },
        { "a secret of another length", .secret = "short", .expected_id = "abcdef" },
        { "an empty secret", .secret = "", .expected_id = "" },
        { "no secret", .secret = "-", .expected_id = "" },
        { "another name", .secret_name = "token-abcdef", .expected_id = "" },
        { "a name with a longer ID", .secret_name = "bootstrap-token-abcdefg", .id = "abcdefg",
          .expected_id = "" },
        { "a name with more behind the ID", .secret_name = "bootstrap-token-abcdef.x",
          .expected_id = "" },
        { "a name with a capital", .secret_name = "bootstrap-token-Abcdef", .id = "Abcdef",
          .expected_id = "" },
        { "an ID that is not in the name", .id = "abcdeg", .expected_id = "" },
        { "no ID", .id = "-", .expected_id = "" },
        { "signing not allowed", .usage = "-", .expected_id = "" },
        { "signing false", .usage = "false", .expected_id = "" },
        { "signing in capitals", .usage = "True", .expected_id = "" },
        { "an expiration", .expiration = "2026-01-02T15:04:05Z", .expected_id = "abcdef",
          .expected_expires = 1767366245 },
        { "an expiration with an offset", .expiration = "2026-01-02T17:04:05+02:00",
          .expected_id = "abcdef", .expected_expires = 1767366245 },
        { "an empty expiration", .expiration = "", .expected_id = "abcdef" },
        { "an expiration that is not a time", .expiration = "tomorrow", .expected_id = "abcdef",
          .expected_expires = 1 },
        { "an expiration at the epoch", .expiration = "1970-01-01T00:00:00Z",
          .expected_id = "abcdef", .expected_expires = 1 },
        { "an expiration before the epoch", .expiration = "1960-01-01T00:00:00Z",
          .expected_id = "abcdef", .expected_expires = 1 },
};

static void add_value(struct nb_json_writer *writer, const char *key, const char *value,
                      const char *usual) {
        _cleanup_(nb_buffer_done) struct nb_buffer encoded = NB_BUFFER_INIT(TEXT_MAX);

        if (!value)
                value = usual;
        if (strcmp(value, "-") == 0)
                return;
        nb_base64_encode(value, strlen(value), &encoded);
        nb_json_put_string(writer, key, encoded.len > 0 ? encoded.data : "");
}

static void write_secret(const struct row *row, struct nb_buffer *ret) {
        struct nb_json_writer writer = { .buffer = ret };

        nb_json_open(&writer, NULL, '{');
        nb_json_open(&writer, "metadata", '{');
        nb_json_put_string(&writer, "name",
                           row->secret_name ? row->secret_name : "bootstrap-token-abcdef");
        nb_json_put_string(&writer, "uid", "u1");
        nb_json_put_string(&writer, "resourceVersion", "17");
        nb_json_put_string(&writer, "creationTimestamp", "2026-01-02T15:04:05Z");
        nb_json_close(&writer);
        nb_json_open(&writer, "data", '{');
        add_value(&writer, "token-id", row->id, "abcdef");
        add_value(&writer, "token-secret", row->secret, "0123456789abcdef");
        add_value(&writer, "usage-bootstrap-signing", row->usage, "true");
        add_value(&writer, "expiration", row->expiration, "-");
        assert_int_equal(nb_json_finish(&writer), 0);
}

static void agrees_with_kubernetes(void **state) {
        const struct row *row = *state;
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(TEXT_MAX);
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        struct nb_token_secret secret = { 0 };
        struct nb_failure f = { 0 };

        write_secret(row, &text);
        json = nb_json_parse(text.data, text.len, "the Secret", NB_ANSWER_MALFORMED, &f);
        nb_token_secret_read(&json, &secret);
        assert_int_equal(json.r, 0);
        assert_string_equal(secret.signer_id, row->expected_id);
        assert_int_equal(secret.expires, row->expected_expires);
        assert_int_equal(secret.created, 1767366245);
        assert_string_equal(secret.uid, "u1");
        assert_string_equal(secret.resource_version, "17");
        if (secret.signer_id[0])
                assert_string_equal(secret.key.data,
                                    row->secret ? row->secret : "0123456789abcdef");
        else
                assert_null(secret.key.data ? strstr(secret.key.data, "0123") : NULL);
        nb_token_secret_done(&secret);
}

static void expires_at_its_time(void **state _unused_) {
        assert_false(nb_token_secret_is_expired(0, 2000));
        assert_false(nb_token_secret_is_expired(2000, 1999));
        assert_true(nb_token_secret_is_expired(2000, 2000));
        assert_true(nb_token_secret_is_expired(1, 2000));
}

static int run(const void *input) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        struct nb_token_secret secret = { 0 };
        struct nb_failure f = { 0 };

        json = nb_json_parse(input, strlen(input), "the Secret", NB_ANSWER_MALFORMED, &f);
        nb_token_secret_read(&json, &secret);
        nb_token_secret_done(&secret);
        return json.r < 0 ? -ENOMEM : 0;
}

static void memory_runs_out(void **state _unused_) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(TEXT_MAX);
        const struct row row = { .expiration = "2026-01-02T15:04:05Z" };

        write_secret(&row, &text);
        allocation_try_all(run, text.data);
}

int main(void) {
        CASES(rows, agrees_with_kubernetes);
        CASE(expires_at_its_time);
        CASE(memory_runs_out);
        return case_run("token_secret");
}
