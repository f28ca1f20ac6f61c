/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "case.h"
#include "node_state/flags.h"

struct flags_case {
        const char *name;
        const char *taints[3], *extra[3];
        const char *cri_socket, *provider_id;
        bool is_remote_needed;
        const char *expected;
};

static struct flags_case cases[] = {
        { "the node name", .expected = "--hostname-override=a" },
        { "taints are separated by commas, as by kubeadm",
          .taints = { "a=b:NoSchedule", "c:NoExecute" },
          .expected = "--hostname-override=a --register-with-taints=a=b:NoSchedule,c:NoExecute" },
        { "the socket of the container runtime", .cri_socket = "unix:///run/crio/crio.sock",
          .expected = "--container-runtime-endpoint=unix:///run/crio/crio.sock "
                      "--hostname-override=a" },
        { "a kubelet with Docker", .cri_socket = "unix:///run/x.sock", .is_remote_needed = true,
          .expected = "--container-runtime=remote --container-runtime-endpoint=unix:///run/x.sock "
                      "--hostname-override=a" },
        { "a kubelet with Docker that the settings configure", .cri_socket = "unix:///run/x.sock",
          .is_remote_needed = true, .extra = { "container-runtime=remote" },
          .expected = "--container-runtime-endpoint=unix:///run/x.sock --hostname-override=a "
                      "--container-runtime=remote" },
        { "Docker", .is_remote_needed = true, .expected = "--hostname-override=a" },
        { "all of them", .taints = { "a:NoSchedule" },
          .extra = { "v-x=1", "v=4", "cgroup-driver=systemd" }, .cri_socket = "unix:///run/x.sock",
          .expected = "--container-runtime-endpoint=unix:///run/x.sock --hostname-override=a "
                      "--register-with-taints=a:NoSchedule --v-x=1 --v=4 --cgroup-driver=systemd" },
        { "an empty value", .extra = { "node-ip=" },
          .expected = "--hostname-override=a --node-ip=" },
        { "the provider ID", .provider_id = "aws:///eu-west-1a/i-0123",
          .expected = "--hostname-override=a --provider-id=aws:///eu-west-1a/i-0123" },
        { "a provider ID among the extra arguments wins", .provider_id = "aws:///a",
          .extra = { "provider-id=aws:///b" },
          .expected = "--hostname-override=a --provider-id=aws:///b" },
};

static void make(const struct flags_case *c, struct nb_settings *settings) {
        nb_settings_init(settings);
        for (; settings->n_taints < N_ELEMENTS(c->taints) && c->taints[settings->n_taints];
             settings->n_taints++)
                strcpy(settings->taints[settings->n_taints], c->taints[settings->n_taints]);
        for (; settings->n_extra_args < N_ELEMENTS(c->extra) && c->extra[settings->n_extra_args];
             settings->n_extra_args++)
                strcpy(settings->extra_args[settings->n_extra_args],
                       c->extra[settings->n_extra_args]);
        if (c->cri_socket)
                strcpy(settings->cri_socket, c->cri_socket);
        if (c->provider_id)
                strcpy(settings->provider_id, c->provider_id);
}

static void formats_arguments(void **state) {
        const struct flags_case *c = *state;
        struct nb_settings settings;
        struct nb_buffer text = NB_BUFFER_INIT(NB_FLAGS_MAX), file = NB_BUFFER_INIT(NB_FLAGS_MAX);

        make(c, &settings);
        nb_flags_format(&settings, "a", c->is_remote_needed, &text);
        assert_string_equal(text.data, c->expected);
        nb_flags_file_format(c->expected, &file);
        assert_true(nb_flags_file_is(file.data, c->expected));
        assert_false(nb_flags_file_is(file.data, "--other=1"));
        nb_buffer_done(&text);
        nb_buffer_done(&file);
}

#define FILE(arguments) "KUBELET_KUBEADM_ARGS=\"" arguments "\"\n"
#define ENDPOINT "--container-runtime=remote --container-runtime-endpoint=unix:///x"

struct own_case {
        const char *name;
        const char *file, *arguments;
        bool is_own;
};

static struct own_case own[] = {
        { "own: the same", FILE("--b=1 --a=2"), "--b=1 --a=2", true },
        { "own: kubeadm has sorted it", FILE("--a=2 --b=1"), "--b=1 --a=2", true },
        { "own: kubeadm has removed the endpoint", FILE("--a=2"), ENDPOINT " --a=2", true },
        { "own: kubeadm has left nothing", FILE(""), ENDPOINT, true },
        { "own: an empty file has no argument", "", "", true },
        { "own: a blank line has none", " \n", "", true },
        { "own: no argument", FILE(""), "", true },
        { "own: no argument, without quotes", "KUBELET_KUBEADM_ARGS=\n", "", true },
        { "own: another value", FILE("--a=2"), "--a=22", false },
        { "own: the beginning of a value", FILE("--a=22"), "--a=2", false },
        { "own: one more", FILE("--a=2 --b=1"), "--a=2", false },
        { "own: one less", FILE("--a=2"), "--a=2 --b=1", false },
        { "own: no argument of some", FILE(""), "--a=2", false },
        { "own: an empty file of some", "", "--a=2", false },
        { "own: another variable", "A=\"--a=2\"\n", "--a=2", false },
        { "own: another line", FILE("--a=2") "B=1\n", "--a=2", false },
        { "own: a comment before it", "#\n" FILE("--a=2"), "--a=2", false },
};

static void recognizes_own_files(void **state) {
        const struct own_case *c = *state;

        assert_int_equal(nb_flags_file_is(c->file, c->arguments), c->is_own);
}

struct foreign_case {
        const char *name;
        const char *file, *arguments;
        const char *missing;
        bool is_override_needed;
};

static struct foreign_case foreign[] = {
        { "foreign: an empty file lacks all", "", "--a=1 --b=2", "--a=1 --b=2" },
        { "foreign: one argument is there", "KUBELET_KUBEADM_ARGS=\"--a=1 --v=2\"\n", "--a=1 --b=2",
          "--b=2" },
        { "foreign: all are there", "X=1\nKUBELET_KUBEADM_ARGS=--b=2 --a=1", "--a=1 --b=2", "" },
        { "foreign: another value is missing", "KUBELET_KUBEADM_ARGS=\"--a=12 --xx--a=1\"", "--a=1",
          "--a=1" },
        { "foreign: another node name, which is the host name",
          "KUBELET_KUBEADM_ARGS=\"--hostname-override=b\"", "--hostname-override=n",
          "--hostname-override=n" },
        { "foreign: the node name, which is the host name",
          "KUBELET_KUBEADM_ARGS=\"--v=2 --hostname-override=n\"", "--hostname-override=n", "" },
        { "foreign: no node name, which is not the host name", "KUBELET_KUBEADM_ARGS=\"--v=2\"",
          "--hostname-override=n", "--hostname-override=n", .is_override_needed = true },
        { "foreign: another node name", "KUBELET_KUBEADM_ARGS=\"--hostname-override=b\"",
          "--hostname-override=n", "--hostname-override=n" },
        { "foreign: no argument is needed", "KUBELET_KUBEADM_ARGS=\"--v=2\"",
          "--hostname-override=n", "" },
};

static void finds_missing_arguments(void **state) {
        const struct foreign_case *c = *state;
        struct nb_buffer file = NB_BUFFER_INIT(NB_FLAGS_MAX),
                         missing = NB_BUFFER_INIT(NB_FLAGS_MAX);

        nb_buffer_append_string(&file, c->file);
        assert_false(nb_flags_file_is(file.data, c->arguments));
        nb_flags_find_missing(file.data, c->arguments, c->is_override_needed, &missing);
        assert_string_equal(missing.data ? missing.data : "", c->missing);
        nb_buffer_done(&file);
        nb_buffer_done(&missing);
}

/* --- After a join --- */

#define HEAD "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n"
#define AT "discovery: {endpoints: [a]}\n"
#define NAME "--hostname-override=a"

struct renew_case {
        const char *name;
        const char *before; /* in the record */
        const char *metadata, *settings;
        const char *after; /* NULL: as before */
};

static struct renew_case renew[] = {
        { "renew: nothing", NAME, "", AT, NULL },
        { "renew: one more", NAME, "", AT "kubelet: {extraArgs: [v=2]}", NAME " --v=2" },
        { "renew: another value", NAME " --v=2", "", AT "kubelet: {extraArgs: [v=4]}",
          NAME " --v=4" },
        { "renew: one less", NAME " --v=2 --b", "", AT "kubelet: {extraArgs: [v=2]}",
          NAME " --v=2" },
        { "renew: none", NAME " --v=2 --register-with-taints=a:NoSchedule", "", AT, NAME },
        { "renew: another order", NAME " --b=1 --v=2", "", AT "kubelet: {extraArgs: [v=2, b=1]}",
          NULL },
        { "renew: taints and provider ID", NAME " --register-with-taints=a:NoSchedule", "",
          AT "node: {taints: ['b:NoExecute']}\nkubelet: {providerID: 'aws:///b'}",
          NAME " --provider-id=aws:///b --register-with-taints=b:NoExecute" },
        { "renew: a socket", NAME, "", AT "kubelet: {criSocket: 'unix:///s'}",
          "--container-runtime-endpoint=unix:///s " NAME },
        { "renew: the settings are gone", NAME " --v=2", "", "", NULL },
        { "renew: only some of the settings are left", NAME " --v=2", "",
          "node: {taints: ['a:NoSchedule']}", NAME " --register-with-taints=a:NoSchedule --v=2" },
        { "renew: a discovery file", NAME " --v=2", "", "discovery: {file: /d}", NAME },
        { "renew: metadata supplied it", NAME " --provider-id=aws:///a --v=2 --b", "aws", AT,
          NULL },
        { "renew: metadata supplied the provider ID", NAME " --provider-id=aws:///a --v=2 --b",
          "aws", AT "kubelet: {extraArgs: [v=4]}", NAME " --v=4 --provider-id=aws:///a" },
        { "renew: the provider ID of metadata is replaced", NAME " --provider-id=aws:///a", "aws",
          AT "kubelet: {extraArgs: ['provider-id=aws:///b']}", NAME " --provider-id=aws:///b" },
        { "renew: kubelet does not know Docker any more",
          "--container-runtime=remote --container-runtime-endpoint=unix:///s " NAME, "aws",
          AT "kubelet: {extraArgs: [v=4]}", NAME " --v=4 --container-runtime-endpoint=unix:///s" },
};

static void renews_arguments(void **state) {
        const struct nb_settings_source source = { .origin = "a test" };
        const struct renew_case *c = *state;
        struct nb_buffer text = NB_BUFFER_INIT(NB_FLAGS_MAX);
        struct nb_record record = { .node = "a" };
        struct nb_settings settings;
        struct nb_failure f = { 0 };
        char document[512];

        (void)snprintf(document, sizeof(document), HEAD "%s", c->settings);
        (void)strcpy(record.arguments, c->before);
        (void)strcpy(record.metadata, c->metadata);
        nb_settings_init(&settings);
        assert_int_equal(nb_settings_merge(&settings, &source, document, strlen(document), &f), 0);
        assert_int_equal(nb_flags_renew(&settings, &record, false, &text), c->after != NULL);
        if (c->after)
                assert_string_equal(text.data, c->after);
        nb_buffer_done(&text);
}

/* The largest number and length that the settings allow. */
static void all_that_settings_hold(void **state) {
        struct nb_buffer text = NB_BUFFER_INIT(NB_FLAGS_MAX);
        struct nb_settings all, *settings = &all;

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
        nb_flags_format(settings, "a", true, &text);
        assert_true(text.len >
                    NB_SETTINGS_TAINTS_MAX * (NB_SETTINGS_TAINT_SIZE - 1) +
                            NB_SETTINGS_EXTRA_ARGS_MAX * (NB_SETTINGS_EXTRA_ARG_SIZE - 1));
        nb_buffer_done(&text);
}

static void knows_arguments_for_docker(void **state) {
        static const struct {
                const char *arguments;
                bool is_remote;
        } rows[] = {
                { "", false },
                { "--container-runtime=remote", true },
                { "--hostname-override=a --container-runtime=remote --v=4", true },
                { "--container-runtime=docker", false },
                { "--container-runtime-endpoint=remote", false },
                { "container-runtime=remote", false },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                assert_int_equal(nb_flags_are_remote(rows[i].arguments), rows[i].is_remote);
}

int main(void) {
        CASES(cases, formats_arguments);
        CASES(own, recognizes_own_files);
        CASES(foreign, finds_missing_arguments);
        CASES(renew, renews_arguments);
        CASE(all_that_settings_hold);
        CASE(knows_arguments_for_docker);
        return case_run("node state flags");
}
