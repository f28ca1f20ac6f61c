/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "admin/policy/bootstrap_token.h"
#include "base/encoding.h"

#include "allocation.h"
#include "case.h"

#define AT 1767366245 /* 2026-01-02T15:04:05Z */

/* --- Groups --- */

/* --- Reading --- */

#define META "\"uid\":\"u-1\",\"resourceVersion\":\"7\""
#define NAME "\"name\":\"bootstrap-token-abcdef\","
#define TYPE "\"type\":\"bootstrap.kubernetes.io/token\","
#define ID "\"token-id\":\"YWJjZGVm\","                        /* abcdef */
#define SECRET "\"token-secret\":\"MDEyMzQ1Njc4OWFiY2RlZg==\"" /* 0123456789abcdef */
#define SECRET_TEXT "0123456789abcdef"
#define DATA(more) "{\"metadata\":{" NAME META "}," TYPE "\"data\":{" ID SECRET more "}}"
#define ANNOTATED(annotations) \
        "{\"metadata\":{" NAME META ",\"annotations\":" annotations "}," TYPE \
        "\"data\":{" ID SECRET "}}"

struct read_case {
        const char *name, *json;
        struct nb_bootstrap_token expected;
};

static struct read_case readable[] = {
        { "only what is required", DATA(""), { .expires = 0 } },
        { "fields that are empty",
          DATA(",\"expiration\":\"\",\"description\":\"\","
               "\"auth-extra-groups\":\"\""),
          { .expires = 0 } },
        { "an expiration",
          DATA(",\"expiration\":\"MjAyNi0wMS0wMlQxNTowNDowNVo=\""),
          { .expires = AT } },
        { "an expiration with an offset",
          DATA(",\"expiration\":\"MjAyNi0wMS0wMlQxNzowNDowNSswMjowMA==\""),
          { .expires = AT } },
        { "an expiration that is no time",
          DATA(",\"expiration\":\"dG9tb3Jyb3c=\""),
          { .expires = NB_TOKEN_EXPIRATION_MALFORMED } },
        { "an expiration that is not base64",
          DATA(",\"expiration\":\"2026\\n\""),
          { .expires = NB_TOKEN_EXPIRATION_MALFORMED } },
        { "the epoch is an expiration",
          DATA(",\"expiration\":\"MTk3MC0wMS0wMVQwMDowMDowMFo=\""),
          { .expires = NB_TOKEN_EXPIRATION_MALFORMED } },
        { "both usages",
          DATA(",\"usage-bootstrap-signing\":\"dHJ1ZQ==\","
               "\"usage-bootstrap-authentication\":\"dHJ1ZQ==\""),
          { .may_sign = true, .may_authenticate = true } },
        { "usage: True is not true",
          DATA(",\"usage-bootstrap-signing\":\"VHJ1ZQ==\""),
          { .expires = 0 } },
        { "usage: true with a newline",
          DATA(",\"usage-bootstrap-signing\":\"dHJ1ZQo=\""),
          { .expires = 0 } },
        { "usage: true with a NUL",
          DATA(",\"usage-bootstrap-signing\":\"dHJ1ZQA=\""),
          { .expires = 0 } },
        { "usage: 1", DATA(",\"usage-bootstrap-authentication\":\"MQ==\""), { .expires = 0 } },
        { "groups",
          DATA(",\"auth-extra-groups\":\"c3lzdGVtOmJvb3RzdHJhcHBlcnM6YQ==\""),
          { .groups = "system:bootstrappers:a" } },
        { "control characters in the description",
          DATA(",\"description\":\"YRtbMzFtCmI=\""),
          { .description = "a [31m b" } },
        { "other annotations", ANNOTATED("{\"a/b\":\"c\"}"), { .expires = 0 } },
        { "a node",
          ANNOTATED("{\"node-bootstrap/node\":\"node-1.example\"}"),
          { .node = "node-1.example" } },
};

static void reads(void **state) {
        const struct read_case *c = *state;
        const struct nb_bootstrap_token *expected = &c->expected;
        struct nb_bootstrap_token token = { 0 };
        struct nb_failure f = { 0 };
        struct nb_json json = nb_json_parse(c->json, strlen(c->json), "Secret", NB_ANSWER_MALFORMED,
                                            &f);

        nb_bootstrap_token_read(&json, &token);
        assert_string_equal(f.detail, "");
        assert_int_equal(json.r, 0);
        assert_null(token.flaw);
        assert_string_equal(token.id, "abcdef");
        assert_string_equal(token.secret, SECRET_TEXT);
        assert_string_equal(token.uid, "u-1");
        assert_string_equal(token.resource_version, "7");
        assert_int_equal(token.expires, expected->expires);
        assert_int_equal(token.may_sign, expected->may_sign);
        assert_int_equal(token.may_authenticate, expected->may_authenticate);
        assert_string_equal(token.groups, expected->groups);
        assert_string_equal(token.description, expected->description);
        assert_string_equal(token.node, expected->node);
        nb_bootstrap_token_done(&token);
        assert_string_equal(token.secret, "");
        nb_json_done(&json);
}

struct refused_case {
        const char *name, *json, *part; /* of the flaw or the message */
};

#define OF(metadata, type, data) "{\"metadata\":{" metadata "}," type "\"data\":{" data "}}"

static struct refused_case flawed[] = {
        { "a flaw: another type", OF(NAME META, "\"type\":\"Opaque\",", ID SECRET),
          "type: expected bootstrap.kubernetes.io/token" },
        { "a flaw: no type", OF(NAME META, "", ID SECRET), "type: expected" },
        { "a flaw: the name of another token",
          OF("\"name\":\"bootstrap-token-zzzzzz\"," META, TYPE, ID SECRET), "data.token-id" },
        { "a flaw: a name without prefix", OF("\"name\":\"abcdef\"," META, TYPE, ID SECRET),
          "data.token-id" },
        { "a flaw: no data",
          "{\"metadata\":{" NAME META "},\"type\":"
          "\"bootstrap.kubernetes.io/token\"}",
          "data.token-id: expected base64 of ID, 6 characters" },
        { "a flaw: no secret", OF(NAME META, TYPE, "\"token-id\":\"YWJjZGVm\""),
          "data.token-secret: expected base64 of 16 characters" },
        { "a flaw: an ID that is too long",
          OF(NAME META, TYPE, "\"token-id\":\"YWJjZGVmZw==\"," SECRET), "data.token-id" },
        { "a flaw: an ID with a newline",
          OF(NAME META, TYPE, "\"token-id\":\"YWJjZGVmCg==\"," SECRET), "data.token-id" },
        { "a flaw: a secret that is too short",
          OF(NAME META, TYPE, ID "\"token-secret\":\"MDEyMzQ1Njc4OWFiY2Rl\""),
          "data.token-secret" },
        { "a flaw: a secret with a capital letter",
          OF(NAME META, TYPE, ID "\"token-secret\":\"MDEyMzQ1Njc4OWFiY2RlRg==\""),
          "data.token-secret" },
        { "a flaw: a secret that is not base64",
          OF(NAME META, TYPE, ID "\"token-secret\":\"" SECRET_TEXT "!\""), "data.token-secret" },
        { "a flaw: groups with a NUL", DATA(",\"auth-extra-groups\":\"YQBi\""),
          "data.auth-extra-groups" },
        { "a flaw: a time of creation that is no time",
          OF(NAME META ",\"creationTimestamp\":\"today\"", TYPE, ID SECRET),
          "metadata.creationTimestamp: expected a time" },
        { "a flaw: a Secret that is being deleted",
          OF(NAME META ",\"deletionTimestamp\":\"2026-01-02T15:04:05Z\"", TYPE, ID SECRET),
          "metadata.deletionTimestamp: the Secret is being deleted" },
        { "a flaw: an empty node name", ANNOTATED("{\"node-bootstrap/node\":\"\"}"),
          "expected the name of a node" },
        { "a flaw: a node name with a capital letter",
          ANNOTATED("{\"node-bootstrap/node\":\"Node1\"}"), "expected the name of a node" },
        { "a flaw: a node name with a blank", ANNOTATED("{\"node-bootstrap/node\":\"node1 \"}"),
          "expected the name of a node" },
        { "a flaw: two node names", ANNOTATED("{\"node-bootstrap/node\":\"node1,node2\"}"),
          "expected the name of a node" },
        { "a flaw: every node", ANNOTATED("{\"node-bootstrap/node\":\"*\"}"),
          "metadata.annotations.node-bootstrap/node: expected the name of a node" },
};

static void finds_flaw(void **state) {
        const struct refused_case *c = *state;
        struct nb_bootstrap_token token = { 0 };
        struct nb_failure f = { 0 };
        struct nb_json json = nb_json_parse(c->json, strlen(c->json), "Secret", NB_ANSWER_MALFORMED,
                                            &f);

        nb_bootstrap_token_read(&json, &token);
        assert_int_equal(json.r, 0);
        assert_non_null(token.flaw);
        assert_non_null(strstr(token.flaw, c->part));
        assert_null(strstr(token.flaw, "0123456789"));
        nb_bootstrap_token_done(&token);
        nb_json_done(&json);
}

/* Groups that are cut could hide that the token is bound. */
static void long_groups_are_a_flaw(_unused_ void **state) {
        for (size_t len = NB_TOKEN_GROUPS_MAX; len <= NB_TOKEN_GROUPS_MAX + 1; len++) {
                _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(65536);
                char list[NB_TOKEN_GROUPS_MAX + 2] = "";
                struct nb_bootstrap_token token = { 0 };
                struct nb_failure f = { 0 };
                struct nb_json json;

                memset(list, 'a', len);
                nb_buffer_append_string(&text, "{\"metadata\":{" NAME META "}," TYPE
                                               "\"data\":{" ID SECRET ",\"auth-extra-groups\":\"");
                nb_base64_encode(list, len, &text);
                nb_buffer_append_string(&text, "\"}}");
                json = nb_json_parse(text.data, text.len, "Secret", NB_ANSWER_MALFORMED, &f);
                nb_bootstrap_token_read(&json, &token);
                assert_int_equal(json.r, 0);
                assert_int_equal(token.flaw != NULL, len > NB_TOKEN_GROUPS_MAX);
                nb_json_done(&json);
        }
}

static struct refused_case refused[] = {
        { "refused: an empty object", "{}", "metadata.name: expected" },
        { "refused: no uid", OF("\"name\":\"bootstrap-token-abcdef\"", TYPE, ID SECRET),
          "metadata.uid: expected" },
        { "refused: groups of another type", DATA(",\"auth-extra-groups\":[]"),
          "data.auth-extra-groups: expected a string" },
        { "refused: a node name of another type", ANNOTATED("{\"node-bootstrap/node\":1}"),
          "metadata.annotations.node-bootstrap/node: expected a string" },
        { "refused: annotations that are no object", ANNOTATED("[]"), "expected an object" },
};

static void refuses(void **state) {
        const struct refused_case *c = *state;
        struct nb_bootstrap_token token = { .id = "kept" };
        struct nb_failure f = { 0 };
        struct nb_json json = nb_json_parse(c->json, strlen(c->json), "Secret", NB_ANSWER_MALFORMED,
                                            &f);

        nb_bootstrap_token_read(&json, &token);
        assert_int_equal(f.code, NB_ANSWER_MALFORMED);
        assert_true(json.r < 0);
        assert_string_equal(token.id, "kept");
        assert_non_null(strstr(f.detail, c->part));
        assert_null(strstr(f.detail, "0123456789"));
        assert_null(strstr(f.detail, "MDEyMzQ1"));
        nb_json_done(&json);
}

/* --- What is not for an approval --- */

#define TEXT_MAX 8192

#define TEN "0123456789"
#define FIFTY TEN TEN TEN TEN TEN
#define KEY_256 FIFTY FIFTY FIFTY FIFTY FIFTY "012345"
#define KEY_1024 KEY_256 KEY_256 KEY_256 KEY_256

struct row {
        const char *name;
        const char *secret_name; /* NULL: bootstrap-token-abcdef */
        /* Of the data; NULL: the usual value; "-": the key is missing. */
        const char *id, *secret, *usage, *expiration;
        const char *expected_id; /* of the signer */
        time_t expected_expires;
};

/* What bootstrapsigner and tokencleaner make of it (pkg/controller/bootstrap/util.go). */
static struct row rows[] = {
        { "a token", .expected_id = "abcdef" },
        { "a secret of another length", .secret = "short", .expected_id = "abcdef" },
        { "the longest secret", .secret = KEY_1024, .expected_id = "abcdef" },
        { "a longer secret", .secret = KEY_1024 "x", .expected_id = "" },
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
          .expected_expires = NB_TOKEN_EXPIRATION_MALFORMED },
        { "an expiration at the epoch", .expiration = "1970-01-01T00:00:00Z",
          .expected_id = "abcdef", .expected_expires = NB_TOKEN_EXPIRATION_MALFORMED },
        { "an expiration before the epoch", .expiration = "1960-01-01T00:00:00Z",
          .expected_id = "abcdef", .expected_expires = -315619200 },
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
        struct nb_bootstrap_token token = { 0 };
        struct nb_failure f = { 0 };

        write_secret(row, &text);
        json = nb_json_parse(text.data, text.len, "the Secret", NB_ANSWER_MALFORMED, &f);
        nb_bootstrap_token_read(&json, &token);
        assert_int_equal(json.r, 0);
        assert_string_equal(token.is_signer ? token.id : "", row->expected_id);
        assert_int_equal(token.expires, row->expected_expires);
        assert_int_equal(token.created, 1767366245);
        assert_string_equal(token.uid, "u1");
        assert_string_equal(token.resource_version, "17");
        if (token.is_signer)
                assert_string_equal(token.secret, row->secret ? row->secret : SECRET_TEXT);
        nb_bootstrap_token_done(&token);
        assert_memory_equal(token.secret, (char[sizeof(token.secret)]){ 0 }, sizeof(token.secret));
}

/* --- Expiry --- */

struct expiry_case {
        const char *name;
        time_t expires;
        bool is_expired;
};

static struct expiry_case expiries[] = {
        { "expiry: never", 0, false },
        { "expiry: in a second", AT + 1, false },
        { "expiry: now", AT, true },
        { "expiry: a second ago", AT - 1, true },
        { "expiry: before the epoch", -1000, true },
        { "expiry: malformed", NB_TOKEN_EXPIRATION_MALFORMED, true },
};

static void expires(void **state) {
        const struct expiry_case *c = *state;

        assert_int_equal(nb_bootstrap_token_is_expired(c->expires, AT), c->is_expired);
}

/* Such as that of a request whose time of creation is not known. */
static void is_expired_at_any_time(_unused_ void **state) {
        assert_true(nb_bootstrap_token_is_expired(NB_TOKEN_EXPIRATION_MALFORMED, 0));
}

/* --- Generating and formatting --- */

static void generates_distinct_tokens_of_all_characters(_unused_ void **state) {
        struct nb_bootstrap_token token = { 0 }, previous = { 0 };
        bool is_seen[256] = { false };
        unsigned n_seen = 0;

        for (int i = 0; i < 500; i++) {
                char text[NB_TOKEN_LEN + 1];

                assert_int_equal(nb_bootstrap_token_generate(&token), 0);
                memcpy(text, token.id, NB_TOKEN_ID_LEN);
                text[NB_TOKEN_ID_LEN] = '.';
                memcpy(text + NB_TOKEN_ID_LEN + 1, token.secret, NB_TOKEN_SECRET_LEN + 1);
                assert_int_equal(nb_token_verify(text, strlen(text)), 0);
                assert_string_not_equal(token.secret, previous.secret);
                for (const char *p = text; *p; p++)
                        is_seen[(unsigned char)*p] = true;
                previous = token;
        }
        for (size_t i = 0; i < N_ELEMENTS(is_seen); i++)
                n_seen += is_seen[i];
        assert_int_equal(n_seen, 36 + 1);
}

static const struct nb_bootstrap_token full = {
        .id = "abcdef",
        .secret = SECRET_TEXT,
        .expires = AT,
        .may_sign = true,
        .may_authenticate = true,
        .groups = NB_TOKEN_GROUP_NODE,
        .description = "a \"new\" node",
        .node = "node-1",
};

static void formats_as_kubeadm_does(_unused_ void **state) {
        static const char expected[] =
                "{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"metadata\":{\"name\":"
                "\"bootstrap-token-abcdef\",\"namespace\":\"kube-system\",\"annotations\":{"
                "\"node-bootstrap/node\":\"node-1\"}},\"type\":\"bootstrap.kubernetes.io/token\","
                "\"data\":{" ID SECRET ",\"description\":\"YSAibmV3IiBub2Rl\",\"expiration\":"
                "\"MjAyNi0wMS0wMlQxNTowNDowNVo=\",\"usage-bootstrap-signing\":\"dHJ1ZQ==\","
                "\"usage-bootstrap-authentication\":\"dHJ1ZQ==\",\"auth-extra-groups\":"
                "\"c3lzdGVtOmJvb3RzdHJhcHBlcnM6bm9kZS1ib290c3RyYXA=\"}}";
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(65536);

        assert_int_equal(nb_bootstrap_token_format(&full, &text), 0);
        assert_string_equal(text.data, expected);
}

static void a_token_without_options_has_only_id_and_secret(_unused_ void **state) {
        static const struct nb_bootstrap_token least = { .id = "abcdef", .secret = SECRET_TEXT };
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(65536);

        assert_int_equal(nb_bootstrap_token_format(&least, &text), 0);
        assert_null(strstr(text.data, "annotations"));
        assert_non_null(strstr(text.data, "\"data\":{" ID SECRET "}}"));
}

static int run_format(_unused_ const void *input) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(65536);

        return nb_bootstrap_token_format(&full, &text);
}

static void memory_runs_out_while_formatting(_unused_ void **state) {
        allocation_try_all(run_format, NULL);
}

int main(void) {
        CASES(readable, reads);
        CASES(flawed, finds_flaw);
        CASE(long_groups_are_a_flaw);
        CASES(refused, refuses);
        CASES(rows, agrees_with_kubernetes);
        CASES(expiries, expires);
        CASE(is_expired_at_any_time);
        CASE(generates_distinct_tokens_of_all_characters);
        CASE(formats_as_kubeadm_does);
        CASE(a_token_without_options_has_only_id_and_secret);
        CASE(memory_runs_out_while_formatting);
        return case_run("bootstrap_token");
}
