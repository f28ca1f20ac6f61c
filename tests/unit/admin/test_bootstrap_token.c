/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "admin/policy/bootstrap_token.h"
#include "base/encoding.h"

#include "allocation.h"
#include "case.h"

#define AT 1767366245 /* 2026-01-02T15:04:05Z */

/* --- Groups --- */

#define TEN "0123456789"
#define FIFTY TEN TEN TEN TEN TEN
#define REST_255 FIFTY FIFTY FIFTY FIFTY FIFTY "01234"

struct group_case {
        const char *name, *group;
        bool is_valid;
};

static struct group_case groups[] = {
        { "group: of kubeadm", NB_TOKEN_GROUP_DEFAULT, true },
        { "group: of a token for one node", NB_TOKEN_GROUP_NODE, true },
        { "group: one character", "system:bootstrappers:a", true },
        { "group: the longest", "system:bootstrappers:" REST_255 "a", true },
        { "group: one character more", "system:bootstrappers:" REST_255 "aa", false },
        { "group: nothing", "", false },
        { "group: only the prefix", "system:bootstrappers:", false },
        { "group: without the last colon", "system:bootstrappers", false },
        { "group: of the administrators", "system:masters", false },
        { "group: of the nodes", "system:nodes", false },
        { "group: a colon at the end", "system:bootstrappers:a:", false },
        { "group: a hyphen at the end", "system:bootstrappers:a-", false },
        { "group: a hyphen at the beginning", "system:bootstrappers:-a", true },
        { "group: a dot", "system:bootstrappers:a.b", false },
        { "group: a capital letter", "system:bootstrappers:A", false },
        { "group: a comma", "system:bootstrappers:a,b", false },
        { "group: a newline at the end", "system:bootstrappers:a\n", false },
        { "group: text before", " system:bootstrappers:a", false },
};

static void checks_group(void **state) {
        const struct group_case *c = *state;

        assert_int_equal(nb_bootstrap_group_is_valid(c->group, strlen(c->group)), c->is_valid);
}

static void a_nul_in_a_group_is_refused(_unused_ void **state) {
        assert_false(nb_bootstrap_group_is_valid("system:bootstrappers:a\0b", 24));
}

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
          { .is_expiration_malformed = true } },
        { "the epoch is an expiration",
          DATA(",\"expiration\":\"MTk3MC0wMS0wMVQwMDowMDowMFo=\""),
          { .expires = 1 } },
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
        assert_string_equal(token.id, "abcdef");
        assert_string_equal(token.secret, SECRET_TEXT);
        assert_string_equal(token.uid, "u-1");
        assert_string_equal(token.resource_version, "7");
        assert_int_equal(token.expires, expected->expires);
        assert_int_equal(token.is_expiration_malformed, expected->is_expiration_malformed);
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
        const char *name, *json, *part; /* of the message */
};

#define OF(metadata, type, data) "{\"metadata\":{" metadata "}," type "\"data\":{" data "}}"

static struct refused_case refused[] = {
        { "refused: an empty object", "{}", "type: expected" },
        { "refused: another type", OF(NAME META, "\"type\":\"Opaque\",", ID SECRET),
          "type: expected 'bootstrap.kubernetes.io/token', found 'Opaque'" },
        { "refused: the name of another token",
          OF("\"name\":\"bootstrap-token-zzzzzz\"," META, TYPE, ID SECRET),
          "metadata.name: expected 'bootstrap-token-abcdef', found 'bootstrap-token-zzzzzz'" },
        { "refused: a name without prefix", OF("\"name\":\"abcdef\"," META, TYPE, ID SECRET),
          "metadata.name: expected" },
        { "refused: no uid", OF("\"name\":\"bootstrap-token-abcdef\"", TYPE, ID SECRET),
          "metadata.uid: expected" },
        { "refused: no data",
          "{\"metadata\":{" NAME META "},\"type\":"
          "\"bootstrap.kubernetes.io/token\"}",
          "data.token-id: expected base64 of 6 characters" },
        { "refused: no secret", OF(NAME META, TYPE, "\"token-id\":\"YWJjZGVm\""),
          "data.token-secret: expected base64 of 16 characters" },
        { "refused: an ID that is too long",
          OF(NAME META, TYPE, "\"token-id\":\"YWJjZGVmZw==\"," SECRET),
          "data.token-id: expected base64 of 6 characters" },
        { "refused: an ID with a newline",
          OF(NAME META, TYPE, "\"token-id\":\"YWJjZGVmCg==\"," SECRET), "data.token-id" },
        { "refused: a secret that is too short",
          OF(NAME META, TYPE, ID "\"token-secret\":\"MDEyMzQ1Njc4OWFiY2Rl\""),
          "data.token-secret" },
        { "refused: a secret with a capital letter",
          OF(NAME META, TYPE, ID "\"token-secret\":\"MDEyMzQ1Njc4OWFiY2RlRg==\""),
          "data.token-secret" },
        { "refused: a secret that is not base64",
          OF(NAME META, TYPE, ID "\"token-secret\":\"" SECRET_TEXT "!\""), "data.token-secret" },
        { "refused: a NUL in a usage", DATA(",\"usage-bootstrap-signing\":\"dHJ1ZQA=\""),
          "data.usage-bootstrap-signing" },
        { "refused: an expiration that is not base64", DATA(",\"expiration\":\"2026\\n\""),
          "data.expiration" },
        { "refused: groups of another type", DATA(",\"auth-extra-groups\":[]"),
          "data.auth-extra-groups: expected a string" },
        { "refused: an empty node name", ANNOTATED("{\"node-bootstrap/node\":\"\"}"),
          "expected the name of a node" },
        { "refused: a node name with a capital letter",
          ANNOTATED("{\"node-bootstrap/node\":\"Node1\"}"), "expected the name of a node" },
        { "refused: a node name with a blank", ANNOTATED("{\"node-bootstrap/node\":\"node1 \"}"),
          "expected the name of a node" },
        { "refused: two node names", ANNOTATED("{\"node-bootstrap/node\":\"node1,node2\"}"),
          "expected the name of a node" },
        { "refused: every node", ANNOTATED("{\"node-bootstrap/node\":\"*\"}"),
          "expected the name of a node" },
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

/* --- Expiry --- */

struct expiry_case {
        const char *name;
        struct nb_bootstrap_token token;
        bool is_expired;
};

static struct expiry_case expiries[] = {
        { "expiry: never", { .expires = 0 }, false },
        { "expiry: in a second", { .expires = AT + 1 }, false },
        { "expiry: now", { .expires = AT }, true },
        { "expiry: a second ago", { .expires = AT - 1 }, true },
        { "expiry: before the epoch", { .expires = -1 }, true },
        { "expiry: malformed", { .is_expiration_malformed = true }, true },
};

static void expires(void **state) {
        const struct expiry_case *c = *state;

        assert_int_equal(nb_bootstrap_token_is_expired(&c->token, AT), c->is_expired);
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

static int run_read(const void *input) {
        struct nb_bootstrap_token token;
        struct nb_failure f = { 0 };
        _cleanup_(nb_json_done) struct nb_json json = nb_json_parse(input, strlen(input), "Secret",
                                                                    NB_ANSWER_MALFORMED, &f);

        nb_bootstrap_token_read(&json, &token);
        return f.errnum == ENOMEM ? -ENOMEM : json.r;
}

static void memory_runs_out_while_reading(_unused_ void **state) {
        allocation_try_all(run_read, readable[1].json);
}

int main(void) {
        CASES(groups, checks_group);
        CASE(a_nul_in_a_group_is_refused);
        CASES(readable, reads);
        CASES(refused, refuses);
        CASES(expiries, expires);
        CASE(generates_distinct_tokens_of_all_characters);
        CASE(formats_as_kubeadm_does);
        CASE(a_token_without_options_has_only_id_and_secret);
        CASE(memory_runs_out_while_formatting);
        CASE(memory_runs_out_while_reading);
        return case_run("bootstrap_token");
}
