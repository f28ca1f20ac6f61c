/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "case.h"
#include "cli/setup/setup_internal.h"

#define FLAGS(text) "KUBELET_KUBEADM_ARGS=\"" text "\"\n"
#define NAME "--hostname-override=a"
#define WRITTEN \
        "node-bootstrap.service writes '/var/lib/kubelet/kubeadm-flags.env' again; a running " \
        "kubelet uses it after `systemctl restart kubelet.service`\n"
#define LEFT(edit) \
        "'/var/lib/kubelet/kubeadm-flags.env' has been changed since the join, so it stays as it " \
        "is: " edit " in KUBELET_KUBEADM_ARGS, and run `systemctl restart kubelet.service`\n"
#define NODE \
        "taints, labels and provider ID count only when kubelet creates the Node; change those " \
        "of an existing Node with `kubectl taint` and `kubectl label`; its provider ID cannot be " \
        "changed\n"

struct effect_case {
        const char *name;
        const char *arguments; /* of the join */
        const char *file;      /* NULL: as the join wrote it */
        const char *settings;  /* now */
        bool is_written;
        const char *expected;
};

static struct effect_case cases[] = {
        { "nothing", NAME, NULL, "", false, "" },
        { "other settings", NAME, NULL, "timeout: 5m", false, "" },
        { "an argument", NAME, NULL, "kubelet: {extraArgs: [v=2]}", true, WRITTEN },
        { "an argument, after kubeadm has written the file", NAME " --b=1 --v=4",
          "KUBELET_KUBEADM_ARGS=--v=4 --b=1 " NAME "\n", "kubelet: {extraArgs: [v=2]}", true,
          WRITTEN },
        { "an argument, after kubeadm has removed the endpoint",
          "--container-runtime-endpoint=unix:///s " NAME, FLAGS(NAME),
          "kubelet: {criSocket: 'unix:///s', extraArgs: [v=2]}", true, WRITTEN },
        { "an argument, without a file", NAME, "", "kubelet: {extraArgs: [v=2]}", true, WRITTEN },
        { "a kubelet with Docker",
          "--container-runtime=remote "
          "--container-runtime-endpoint=unix:///s " NAME,
          NULL, "kubelet: {criSocket: 'unix:///s'}", false, "" },
        { "an argument, after somebody has changed the file", NAME, FLAGS(NAME " --c"),
          "kubelet: {extraArgs: [v=2, b=]}", false, LEFT("add --v=2 --b=") },
        { "an argument less, after somebody has changed the file", NAME " --b=1",
          FLAGS("--c --b=1"), "", false, LEFT("remove --b=1") },
        { "another value, after somebody has changed the file", NAME " --b=1",
          FLAGS("--c --b=1 " NAME), "kubelet: {extraArgs: [b=2]}", false,
          LEFT("add --b=2, and remove --b=1") },
        { "an older text of the join, put back by somebody", NAME " --b=1", FLAGS(NAME),
          "kubelet: {extraArgs: [v=2]}", false, LEFT("add --v=2") },
        { "an argument, after an upgrade without Docker and a change by somebody",
          "--container-runtime=remote --container-runtime-endpoint=unix:///s " NAME,
          FLAGS("--container-runtime-endpoint=unix:///s " NAME " --c"),
          "kubelet: {criSocket: 'unix:///s', extraArgs: [v=2]}", false, LEFT("add --v=2") },
        { "what somebody has written into the file", NAME, FLAGS(NAME " --v=2"),
          "kubelet: {extraArgs: [v=2]}", false, "" },
        { "a taint", NAME, NULL, "node: {taints: ['a=b:NoSchedule']}", true, WRITTEN NODE },
        { "a taint, after somebody has changed the file", NAME, FLAGS(NAME " --c"),
          "node: {taints: ['a:NoSchedule']}", false,
          LEFT("add --register-with-taints=a:NoSchedule") NODE },
        { "no taint", NAME " --register-with-taints=a=b:NoSchedule", NULL, "", true, WRITTEN NODE },
        { "the same taint, and another argument", NAME " --register-with-taints=a=b:NoSchedule",
          NULL, "node: {taints: ['a=b:NoSchedule']}\nkubelet: {extraArgs: [v=2]}", true, WRITTEN },
        { "labels", NAME " --node-labels=a=b,c=", NULL, "kubelet: {extraArgs: ['node-labels=a=d']}",
          true, WRITTEN NODE },
        { "a provider ID", NAME, NULL, "kubelet: {providerID: 'aws:///a'}", true, WRITTEN NODE },
};

static void merge(struct nb_settings *settings, const char *text) {
        const struct nb_settings_source source = { .origin = "a test" };
        struct nb_failure f = { 0 };
        char document[1024];
        int len = snprintf(document, sizeof(document),
                           "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n"
                           "discovery: {endpoints: [a]}\n%s\n",
                           text);

        nb_settings_init(settings);
        assert_int_equal(nb_settings_merge(settings, &source, document, (size_t)len, &f), 0);
}

static void explains(void **state) {
        const struct effect_case *c = *state;
        struct nb_record record = { .node = "a" };
        struct nb_settings settings;
        struct nb_buffer text = NB_BUFFER_INIT(NB_SETUP_EFFECTS_MAX);
        char file[512];

        (void)strcpy(record.arguments, c->arguments);
        (void)snprintf(file, sizeof(file), FLAGS("%s"), c->arguments);
        merge(&settings, c->settings);
        assert_int_equal(nb_setup_explain(&record, c->file ? c->file : file, &settings, &text),
                         c->is_written);
        assert_string_equal(text.data ? text.data : "", c->expected);
        nb_buffer_done(&text);
}

int main(void) {
        CASES(cases, explains);
        return case_run("setup effects");
}
