/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "codec/json.h"
#include "kube_objects/access_review.h"

#include "case.h"

#define REVIEW(status) \
        "{\"kind\":\"SelfSubjectAccessReview\",\"apiVersion\":\"authorization.k8s.io/" \
        "v1\",\"spec\":{},\"status\":" status "}"

struct review_case {
        const char *name;
        const char *text;
        int allowed;        /* -1: refused */
        const char *detail; /* a part of it */
};

static struct review_case reviews[] = {
        { "allowed",
          REVIEW("{\"allowed\":true,\"reason\":\"RBAC: allowed by ClusterRoleBinding\"}"), 1,
          NULL },
        { "not allowed", REVIEW("{\"allowed\":false}"), 0, NULL },
        { "denied", REVIEW("{\"allowed\":false,\"denied\":true}"), 0, NULL },
        { "not allowed, since it could not be found out",
          REVIEW("{\"allowed\":false,\"evaluationError\":\"webhook down\"}"), -1,
          "could not evaluate it: 'webhook down'" },
        { "allowed in spite of an error",
          REVIEW("{\"allowed\":true,\"evaluationError\":\"one of two\"}"), 1, NULL },
        { "no status", REVIEW("null"), -1,
          "status.allowed: expected true or false, found nothing" },
        { "a string", REVIEW("{\"allowed\":\"true\"}"), -1, "status.allowed" },
        { "another kind",
          "{\"kind\":\"SubjectAccessReview\",\"apiVersion\":\"authorization.k8s.io/"
          "v1\",\"status\":{\"allowed\":true}}",
          -1, "kind" },
        { "another version",
          "{\"kind\":\"SelfSubjectAccessReview\",\"apiVersion\":\"authorization.k8s.io/"
          "v1beta1\",\"status\":{\"allowed\":true}}",
          -1, "apiVersion" },
        { "a web page", "<html>", -1, "access review" },
        { "nothing", "", -1, "access review" },
};

static void parses(void **state) {
        const struct review_case *c = *state;
        struct nb_failure f = { 0 };
        bool is_allowed = c->allowed != 1;
        int r = nb_access_review_parse(c->text, strlen(c->text), &is_allowed, &f);

        if (c->allowed >= 0) {
                assert_int_equal(r, 0);
                assert_int_equal(is_allowed, c->allowed);
                return;
        }
        assert_true(r < 0);
        assert_int_equal(f.code, NB_ANSWER_MALFORMED);
        assert_non_null(strstr(f.detail, c->detail));
        assert_true(is_allowed);
}

static void asks_for_each_right(void **state) {
        static const struct {
                const char *path, *expected;
        } parts[] = {
                { "kind", "SelfSubjectAccessReview" },
                { "apiVersion", "authorization.k8s.io/v1" },
                { "spec.resourceAttributes.verb", "create" },
                { "spec.resourceAttributes.group", "certificates.k8s.io" },
                { "spec.resourceAttributes.resource", "certificatesigningrequests" },
        };

        for (enum nb_right right = NB_RIGHT_CREATE_CSR; right <= NB_RIGHT_NODECLIENT; right++) {
                const char *body = nb_access_review_body[right], *subresource;
                struct nb_failure f = { 0 };
                _cleanup_(nb_json_done) struct nb_json json = nb_json_parse(
                        body, strlen(body), "review", NB_ANSWER_MALFORMED, &f);

                for (size_t i = 0; i < N_ELEMENTS(parts); i++)
                        nb_json_expect(&json, parts[i].path, parts[i].expected);
                subresource = nb_json_string(&json, "spec.resourceAttributes.subresource");
                assert_int_equal(json.r, 0);
                if (right == NB_RIGHT_NODECLIENT)
                        assert_string_equal(subresource, "nodeclient");
                else
                        assert_null(subresource);
        }
}

int main(void) {
        CASES(reviews, parses);
        CASE(asks_for_each_right);
        return case_run("access_review");
}
