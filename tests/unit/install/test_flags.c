/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "case.h"
#include "install/flags.h"

struct flags_case {
        const char *name;
        const char *taints[3], *extra[3];
        const char *cri_socket, *provider_id;
        bool is_override_needed;
        const char *old;
        const char *expected; /* NULL: nothing is to be written */
};

static struct flags_case cases[] = {
        { "nothing that kubelet does not know by itself" },
        { "the node name", .is_override_needed = true, .expected = "KUBELET_KUBEADM_ARGS=\"--hostname-override=a\"\n" },
        { "taints, as kubeadm joins them", .taints = { "a=b:NoSchedule", "c:NoExecute" },
          .expected = "KUBELET_KUBEADM_ARGS=\"--register-with-taints=a=b:NoSchedule,c:NoExecute\"\n" },
        { "a path of a socket, as kubeadm writes it", .cri_socket = "/run/containerd/containerd.sock",
          .expected = "KUBELET_KUBEADM_ARGS=\"--container-runtime-endpoint=unix:///run/containerd/containerd.sock\"\n" },
        { "a socket with a scheme", .cri_socket = "unix:///run/crio/crio.sock",
          .expected = "KUBELET_KUBEADM_ARGS=\"--container-runtime-endpoint=unix:///run/crio/crio.sock\"\n" },
        { "all of them, sorted", .taints = { "a:NoSchedule" }, .extra = { "v=4", "cgroup-driver=systemd" }, .cri_socket = "/run/x.sock",
          .is_override_needed = true,
          .expected = "KUBELET_KUBEADM_ARGS=\"--cgroup-driver=systemd --container-runtime-endpoint=unix:///run/x.sock "
                      "--hostname-override=a --register-with-taints=a:NoSchedule --v=4\"\n" },
        { "extra arguments win over taints and socket", .taints = { "a:NoSchedule" }, .cri_socket = "/run/x.sock",
          .extra = { "register-with-taints=b:NoExecute", "container-runtime-endpoint=unix:///y" },
          .expected = "KUBELET_KUBEADM_ARGS=\"--container-runtime-endpoint=unix:///y --register-with-taints=b:NoExecute\"\n" },
        { "but not over the name in the certificate", .extra = { "hostname-override=b" }, .is_override_needed = true,
          .expected = "KUBELET_KUBEADM_ARGS=\"--hostname-override=a\"\n" },
        { "an empty value", .extra = { "node-ip=" }, .expected = "KUBELET_KUBEADM_ARGS=\"--node-ip=\"\n" },
        { "the provider ID", .provider_id = "aws:///eu-west-1a/i-0123", .expected = "KUBELET_KUBEADM_ARGS=\"--provider-id=aws:///eu-west-1a/i-0123\"\n" },
        { "beside what is there", .taints = { "a:NoSchedule" }, .old = "KUBELET_KUBEADM_ARGS=\"--v=2 --register-with-taints=x:NoExecute\"\n",
          .expected = "KUBELET_KUBEADM_ARGS=\"--v=2 --register-with-taints=a:NoSchedule\"\n" },
        { "there already", .taints = { "a:NoSchedule" }, .old = "KUBELET_KUBEADM_ARGS=\"--register-with-taints=a:NoSchedule\"\n" },
        { "another name there, where none is needed", .old = "KUBELET_KUBEADM_ARGS=\"--hostname-override=b\"\n",
          .expected = "KUBELET_KUBEADM_ARGS=\"--hostname-override=a\"\n" },
};

static void make(const struct flags_case *c, struct nb_context *context) {
        struct nb_settings *settings = &context->settings;

        nb_settings_init(settings);
        for (; settings->n_taints < N_ELEMENTS(c->taints) && c->taints[settings->n_taints]; settings->n_taints++)
                strcpy(settings->taints[settings->n_taints], c->taints[settings->n_taints]);
        for (; settings->n_extra_args < N_ELEMENTS(c->extra) && c->extra[settings->n_extra_args]; settings->n_extra_args++)
                strcpy(settings->extra_args[settings->n_extra_args], c->extra[settings->n_extra_args]);
        if (c->cri_socket)
                strcpy(settings->cri_socket, c->cri_socket);
        if (c->provider_id)
                strcpy(settings->provider_id, c->provider_id);
        context->is_override_needed = c->is_override_needed;
}

static void written(void **state) {
        const struct flags_case *c = *state;
        struct nb_context context = { .root_fd = -1, .node_name = "a" };
        struct nb_buffer text = NB_BUFFER_INIT(NB_FLAGS_MAX);

        make(c, &context);
        assert_int_equal(nb_flags_make(&context, c->old, c->old ? strlen(c->old) : 0, &text), c->expected ? 1 : 0);
        if (c->expected)
                assert_string_equal(text.data, c->expected);
        nb_buffer_done(&text);
}

/* As many and as long as the settings take them. */
static void all_that_settings_hold(void **state) {
        struct nb_context context = { .root_fd = -1, .node_name = "a" };
        struct nb_buffer text = NB_BUFFER_INIT(NB_FLAGS_MAX);
        struct nb_settings *settings = &context.settings;

        nb_settings_init(settings);
        for (unsigned i = 0; i < NB_SETTINGS_TAINTS_MAX; i++)
                memset(settings->taints[i], 'a', NB_SETTINGS_TAINT_SIZE - 1);
        for (unsigned i = 0; i < NB_SETTINGS_EXTRA_ARGS_MAX; i++) {
                memset(settings->extra_args[i], 'b', NB_SETTINGS_EXTRA_ARG_SIZE - 1);
                settings->extra_args[i][i + 1] = '=';
        }
        memset(settings->cri_socket, '/', NB_SETTINGS_PATH_MAX - 1);
        memset(settings->provider_id, '/', NB_SETTINGS_PROVIDER_ID_SIZE - 1);
        settings->n_taints = NB_SETTINGS_TAINTS_MAX;
        settings->n_extra_args = NB_SETTINGS_EXTRA_ARGS_MAX;
        context.is_override_needed = true;
        assert_int_equal(nb_flags_make(&context, NULL, 0, &text), 1);
        assert_true(text.len > NB_SETTINGS_TAINTS_MAX * (NB_SETTINGS_TAINT_SIZE - 1) + NB_SETTINGS_EXTRA_ARGS_MAX * (NB_SETTINGS_EXTRA_ARG_SIZE - 1));
        nb_buffer_done(&text);
}

int main(void) {
        CASES(cases, written);
        CASE(all_that_settings_hold);
        return case_run("install flags");
}
