/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "settings/kubelet_env.h"

#include "case.h"

static void formats_the_name(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(64);
        struct nb_kubelet_paths paths;

        nb_kubelet_env_find_paths("", 0, &paths);
        nb_kubelet_env_format("worker-1", &paths, &text);
        assert_string_equal(text.data, "KUBELET_NODE_NAME=worker-1\n");
}

static void finds_paths_that_are_not_the_default(void **state) {
        static const char yaml[] = "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\nkubelet:\n"
                                   "  kubeconfig: /srv/a b\n  certificateDirectory: /srv/pki\n"
                                   "  caFile: /srv/ca.crt\n";
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(4096);
        const struct nb_settings_source source = { .origin = "x" };
        struct nb_kubelet_paths paths, found;
        struct nb_settings settings;
        struct nb_failure f = { 0 };

        nb_settings_init(&settings);
        assert_int_equal(nb_settings_merge(&settings, &source, yaml, strlen(yaml), &f), 0);
        nb_kubelet_paths_get(&settings, &paths);
        nb_kubelet_env_format("worker-1", &paths, &text);
        assert_true(nb_kubelet_env_find_paths(text.data, text.len, &found));
        assert_string_equal(found.kubeconfig, "/srv/a b");
        assert_string_equal(found.certificate_directory, "/srv/pki");
        assert_string_equal(found.ca_file, "/srv/ca.crt");
        assert_true(nb_kubelet_paths_are_equal(&paths, &found));
        nb_settings_init(&settings);
        nb_kubelet_paths_set(&found, &settings);
        assert_string_equal(settings.certificate_directory, "/srv/pki");
}

static void finds_no_path(void **state) {
        static const char *const texts[] = {
                "",
                "\n",
                "KUBELET_NODE_NAME=n",
                "KUBELET_NODE_NAME=\n",
                "KUBELET_NODE_NAME=n\nNODE_BOOTSTRAP_CA_FILE=/x",
                "NODE_BOOTSTRAP_KUBECONFIG=",
                "NODE_BOOTSTRAP_KUBECONFIG=relative\n",
                "XNODE_BOOTSTRAP_KUBECONFIG=/x\n",
                "NODE_BOOTSTRAP_KUBECONFIG=\n/x\n",
        };

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                struct nb_kubelet_paths paths;

                assert_false(nb_kubelet_env_find_paths(texts[i], strlen(texts[i]), &paths));
                assert_string_equal(paths.kubeconfig, "/etc/kubernetes/kubelet.conf");
        }
}

struct argument_case {
        const char *name;
        const char *argument; /* "name=value" */
        bool is_valid;
};

static struct argument_case arguments[] = {
        { "argument: a name and a value", "node-ip=10.0.0.5", true },
        { "argument: an empty value", "cloud-provider=", true },
        { "argument: '=' and ',' in the value", "node-labels=a=b,c=d", true },
        { "argument: no name", "=a", false },
        { "argument: dashes before the name", "--v=1", false },
        { "argument: an underscore in the name", "hostname_override=a", false },
        { "argument: a blank in the value", "a=b c", false },
        { "argument: a quote in the value", "a=b\"c", false },
        { "argument: a backslash in the value", "a=b\\c", false },
        { "argument: a variable in the value", "a=$X", false },
        { "argument: a line end in the value", "a=b\nc", false },
};

static void checks_argument(void **state) {
        const struct argument_case *c = *state;
        size_t name_len = strcspn(c->argument, "=");

        assert_int_equal(
                nb_kubelet_argument_is_valid(c->argument, name_len, c->argument + name_len + 1),
                c->is_valid);
}

int main(void) {
        CASE(formats_the_name);
        CASE(finds_paths_that_are_not_the_default);
        CASE(finds_no_path);
        CASES(arguments, checks_argument);
        return case_run("kubelet_env");
}
