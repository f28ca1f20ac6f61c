/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kube/cluster_info.h"

#include "allocation.h"
#include "case.h"

#define HEAD \
        "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"cluster-info\"," \
        "\"namespace\":" \
        "\"kube-public\"},"

struct info_case {
        const char *name;
        const char *text;
        const char *kubeconfig; /* NULL: refused */
        const char *signature;  /* or what stands in `detail` */
        unsigned n_signatures;
};

static struct info_case cases[] = {
        { "signed for our token",
          HEAD "\"data\":{\"kubeconfig\":\"a: b\\n\",\"jws-kubeconfig-abc123\":\"x..y\"}}",
          "a: b\n", "x..y", 1 },
        { "signed for several tokens",
          HEAD "\"data\":{\"jws-kubeconfig-aaaaaa\":\"1\",\"jws-kubeconfig-abc123\":\"2\","
               "\"kubeconfig\":\"k\"}}",
          "k", "2", 2 },
        { "signed by other tokens only",
          HEAD "\"data\":{\"jws-kubeconfig-aaaaaa\":\"1\",\"kubeconfig\":\"k\"}}", "k", NULL, 1 },
        { "not signed", HEAD "\"data\":{\"kubeconfig\":\"k\"}}", "k", NULL, 0 },
        { "escapes are decoded once",
          HEAD "\"data\":{\"kubeconfig\":\"\\u00e9\\\\n\\/\\ud83d\\ude00\\t\"}}",
          "\xc3\xa9\\n/\xf0\x9f\x98\x80\t", NULL, 0 },
        { "an empty kubeconfig", HEAD "\"data\":{\"kubeconfig\":\"\"}}", "", NULL, 0 },
        { "no data", HEAD "\"binaryData\":{}}", NULL,
          "cluster-info: data.kubeconfig: expected a string, found nothing", 0 },
        { "data that is a list", HEAD "\"data\":[]}", NULL,
          "cluster-info: data: expected an object, found a list", 0 },
        { "no kubeconfig", HEAD "\"data\":{\"jws-kubeconfig-abc123\":\"x..y\"}}", NULL,
          "cluster-info: data.kubeconfig: expected a string, found nothing", 0 },
        { "a kubeconfig that is an object", HEAD "\"data\":{\"kubeconfig\":{}}}", NULL,
          "cluster-info: data.kubeconfig: expected a string, found an object", 0 },
        { "two kubeconfigs", HEAD "\"data\":{\"kubeconfig\":\"a\",\"kubeconfig\":\"b\"}}", NULL,
          "cluster-info: expected each key once, found one twice", 0 },
        { "a NUL in the kubeconfig", HEAD "\"data\":{\"kubeconfig\":\"a\\u0000b\"}}", NULL,
          "cluster-info: expected JSON, found at byte 122: \\u0000 in a string", 0 },
        { "a signature that is an integer",
          HEAD "\"data\":{\"kubeconfig\":\"k\",\"jws-kubeconfig-abc123\":1}}", NULL,
          "cluster-info: data.jws-kubeconfig-abc123: expected a string, found an integer", 0 },
        { "a Secret", "{\"kind\":\"Secret\",\"apiVersion\":\"v1\",\"data\":{\"kubeconfig\":\"k\"}}",
          NULL, "cluster-info: kind: expected 'ConfigMap', found 'Secret'", 0 },
        { "a Status", "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"code\":403}", NULL,
          "cluster-info: kind: expected 'ConfigMap', found 'Status'", 0 },
        { "another API version",
          "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v2\",\"data\":{\"kubeconfig\":\"k\"}}", NULL,
          "cluster-info: apiVersion: expected 'v1', found 'v2'", 0 },
        { "an empty object", "{}", NULL, "cluster-info: kind: expected 'ConfigMap', found nothing",
          0 },
        { "the page of a proxy", "<html><body>Log in</body></html>", NULL,
          "cluster-info: expected JSON, found at byte 0: an unexpected character", 0 },
};

static void parses(void **state) {
        const struct info_case *c = *state;
        _cleanup_(nb_cluster_info_done) struct nb_cluster_info info = {};
        struct nb_failure f = {};
        int r;

        r = nb_cluster_info_parse(c->text, strlen(c->text), "abc123", &info, &f);
        if (!c->kubeconfig) {
                assert_true(r < 0);
                assert_int_equal(f.code, NB_ANSWER_MALFORMED);
                assert_string_equal(f.detail, c->signature);
                assert_null(info.kubeconfig);
                return;
        }
        assert_string_equal(f.detail, "");
        assert_int_equal(r, 0);
        assert_string_equal(info.kubeconfig, c->kubeconfig);
        assert_int_equal(info.n_signatures, c->n_signatures);
        if (c->signature)
                assert_string_equal(info.signature, c->signature);
        else
                assert_null(info.signature);
}

static void size_has_a_limit(void **state) {
        _cleanup_(nb_cluster_info_done) struct nb_cluster_info info = {};
        struct nb_failure f = {};

        assert_true(nb_cluster_info_parse("{}", NB_CLUSTER_INFO_MAX + 1, "abc123", &info, &f) < 0);
        assert_string_equal(f.detail,
                            "cluster-info: expected at most 1048576 bytes, found 1048577");
}

static int run(const void *input) {
        _cleanup_(nb_cluster_info_done) struct nb_cluster_info info = {};
        struct nb_failure f = {};

        return nb_cluster_info_parse(input, strlen(input), "abc123", &info, &f);
}

static void memory_runs_out(void **state) {
        allocation_try_all(run, cases[0].text);
}

int main(void) {
        CASES(cases, parses);
        CASE(size_has_a_limit);
        CASE(memory_runs_out);
        return case_run("cluster_info");
}
