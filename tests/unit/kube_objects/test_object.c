/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kube_objects/object.h"

#include "case.h"

struct object_case {
        const char *name, *text;
        const char *kind, *api_version; /* expected; NULL: any */
        const char *detail;             /* of the failure; NULL: accepted */
};

static struct object_case cases[] = {
        { "of this type", "{\"kind\":\"Node\",\"apiVersion\":\"v1\"}", "Node", "v1", NULL },
        { "of any version", "{\"kind\":\"Node\",\"apiVersion\":\"v2\"}", "Node", NULL, NULL },
        { "of any type", "{}", NULL, NULL, NULL },
        { "of another kind", "{\"kind\":\"Pod\",\"apiVersion\":\"v1\"}", "Node", "v1",
          "x: kind: expected 'Node', found 'Pod'" },
        { "of another version", "{\"kind\":\"Node\",\"apiVersion\":\"v2\"}", "Node", "v1",
          "x: apiVersion: expected 'v1', found 'v2'" },
        { "without a kind", "{\"apiVersion\":\"v1\"}", "Node", "v1",
          "x: kind: expected 'Node', found nothing" },
        { "a list", "[]", "Node", "v1", "x: expected an object, found a list" },
        { "of the maximum size", "{\"kind\":\"Node\",\"apiVersion\":\"v1\",\"metadata\":{\"n\":1}}",
          "Node", "v1", NULL },
        { "above the maximum size",
          "{\"kind\":\"Node\",\"apiVersion\":\"v1\",\"metadata\":{\"n\":12}}", "Node", "v1",
          "x: expected at most 52 bytes, found 53" },
};

static void parses(void **state) {
        const struct object_case *c = *state;
        const struct nb_object_type type = {
                .what = "x", .kind = c->kind, .api_version = c->api_version, .max = 52
        };
        struct nb_failure f = { 0 };
        struct nb_json json = nb_object_parse(c->text, strlen(c->text), &type, &f);

        assert_string_equal(f.detail, c->detail ? c->detail : "");
        assert_int_equal(f.code, c->detail ? NB_ANSWER_MALFORMED : NB_NONE);
        assert_true(c->detail ? json.r < 0 : json.r >= 0);
        nb_json_done(&json);
}

/* Other objects in the same answer, such as those of a watch. */
static void verifies_what_is_parsed(void **state) {
        const struct nb_object_type node = { .kind = "Node" }, pod = { .kind = "Pod" };
        static const char text[] = "{\"kind\":\"Node\"}";
        struct nb_failure f = { 0 };
        struct nb_json json = nb_json_parse(text, strlen(text), "x", NB_ANSWER_MALFORMED, &f);

        nb_object_verify_type(&json, &node);
        assert_true(json.r >= 0);
        nb_object_verify_type(&json, &pod);
        assert_true(json.r < 0);
        nb_json_done(&json);
}

static void reads_a_status_in_an_object(void **state) {
        static const char text[] =
                "{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\",\"message\":\"too "
                "old\"}",
                          other[] = "{\"kind\":\"Node\",\"code\":410}";
        struct nb_status status = { .code = 1 };
        struct nb_failure f = { 0 };
        struct nb_json json = nb_json_parse(other, strlen(other), "x", NB_ANSWER_MALFORMED, &f);

        nb_status_read(&json, &status);
        assert_int_equal(status.code, 1);
        nb_json_done(&json);
        nb_failure_clear(&f);
        json = nb_json_parse(text, strlen(text), "x", NB_ANSWER_MALFORMED, &f);
        nb_status_read(&json, &status);
        assert_int_equal(status.code, 410);
        assert_string_equal(status.reason, "Expired");
        assert_string_equal(status.message, "too old");
        nb_json_done(&json);
}

int main(void) {
        CASES(cases, parses);
        CASE(verifies_what_is_parsed);
        CASE(reads_a_status_in_an_object);
        return case_run("object");
}
