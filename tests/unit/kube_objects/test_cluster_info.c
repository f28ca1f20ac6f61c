/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kube_objects/cluster_info.h"

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

static struct copy_case {
        const char *name, *kubeconfig, *signature;
        bool is_equal;
} copies[] = {
        { "the same copy", "server: a", "x", true },
        { "a copy with another signature", "server: a", NULL, true },
        { "a copy with another byte", "server: b", "x", false },
        { "a copy that is cut", "server: ", "x", false },
        { "a copy that goes on", "server: ab", "x", false },
};

static void compares_what_is_signed(void **state) {
        char signed_text[] = "server: a", signature[] = "x";
        const struct copy_case *c = *state;
        const struct nb_cluster_info first = { .kubeconfig = signed_text, .signature = signature };
        const struct nb_cluster_info second = {
                .kubeconfig = (char *)(uintptr_t)c->kubeconfig,
                .signature = (char *)(uintptr_t)c->signature,
        };

        assert_int_equal(nb_cluster_info_is_equal(&first, &second), c->is_equal);
        assert_int_equal(nb_cluster_info_is_equal(&second, &first), c->is_equal);
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

#define CLUSTER(members) \
        "apiVersion: v1\nkind: Config\nclusters:\n- name: \"\"\n  cluster: {" members "}\n"

struct cluster_case {
        const char *name, *kubeconfig;
        bool is_accepted;
};

static struct cluster_case clusters[] = {
        { "server and CA",
          CLUSTER("server: 'https://10.0.0.1:6443', certificate-authority-data: YQ=="), true },
        { "no CA", CLUSTER("server: 'https://10.0.0.1:6443'"), false },
        { "a CA in a file, which may be any",
          CLUSTER("server: 'https://10.0.0.1:6443', certificate-authority: /etc/shadow"), false },
        { "no server", CLUSTER("certificate-authority-data: YQ=="), false },
        { "http", CLUSTER("server: 'http://10.0.0.1:6443', certificate-authority-data: YQ=="),
          false },
        { "nothing", "", false },
};

static void parses_the_cluster(void **state) {
        const struct cluster_case *c = *state;
        _cleanup_(nb_cluster_done) struct nb_cluster cluster = { 0 };
        struct nb_failure f = { 0 };
        int r = nb_cluster_info_parse_cluster(c->kubeconfig, &cluster, &f);

        assert_int_equal(f.code, c->is_accepted ? NB_NONE : NB_CLUSTER_INFO_UNACCEPTABLE);
        assert_int_equal(r >= 0, c->is_accepted);
        assert_string_equal(cluster.ca ? cluster.ca : "", c->is_accepted ? "a" : "");
}

int main(void) {
        CASES(clusters, parses_the_cluster);
        CASES(cases, parses);
        CASES(copies, compares_what_is_signed);
        CASE(size_has_a_limit);
        CASE(memory_runs_out);
        return case_run("cluster_info");
}
