/* SPDX-License-Identifier: Apache-2.0 */
#include "case.h"
#include "install/runtime.h"
#include "lookup.h"

#define DEFAULT "unix:///run/containerd/containerd.sock"
struct runtime_case {
        const char *name;
        const char *command, *environment; /* ExecStart=; Environment=: words */
        const char *config;                /* /config; NULL: none */
        const char *file;                  /* named by EnvironmentFile= */
        const char *expected;
};

static struct runtime_case cases[] = {
        { "no unit", .expected = DEFAULT },
        { "no argument", .command = "/bin/kubelet --v=2", .expected = DEFAULT },
        { "an argument", .command = "/bin/kubelet --container-runtime-endpoint=unix:///a --v=2",
          .expected = "unix:///a" },
        { "a path as an argument", .command = "/bin/kubelet --container-runtime-endpoint /a",
          .expected = "unix:///a" },
        { "the last argument", .environment = "A=--container-runtime-endpoint=unix:///b",
          .command = "/bin/kubelet --container-runtime-endpoint=unix:///a $A",
          .expected = "unix:///b" },
        { "an environment file", .command = "/bin/kubelet $A",
          .file = "A=\"--container-runtime-endpoint=unix:///c\"\n", .expected = "unix:///c" },
        { "a variable as an argument", .config = "containerRuntimeEndpoint: unix:///d\n",
          .command = "/bin/kubelet --container-runtime-endpoint=${A} --config=/config",
          .expected = "unix:///d" },
        { "an argument after a variable", .environment = "A=--container-runtime-endpoint=unix:///b",
          .command = "/bin/kubelet $A --container-runtime-endpoint=unix:///a",
          .expected = "unix:///a" },
        { "a variable within a word", .environment = "A=unix:///b",
          .command = "/bin/kubelet --container-runtime-endpoint=${A}", .expected = "unix:///b" },
        { "a variable in a file, and in the unit",
          .environment = "A=--container-runtime-endpoint=unix:///b",
          .file = "#A=x\n  A='--v=2 --container-runtime-endpoint=unix:///c'\n",
          .command = "/bin/kubelet $A", .expected = "unix:///c" },
        { "a value on two lines",
          .file = "A=--v=2 \\\n--container-runtime-endpoint=unix:///c\nB=b\n",
          .command = "/bin/kubelet $B $A", .expected = "unix:///c" },
        { "a variable that is not used", .environment = "A=--container-runtime-endpoint=unix:///b",
          .command = "/bin/kubelet $AB", .expected = DEFAULT },
        { "a script", .environment = "A=--container-runtime-endpoint=unix:///b",
          .command = "/bin/start", .expected = "unix:///b" },
        { "another protocol",
          .command = "/bin/kubelet --container-runtime-endpoint=tcp://10.0.0.1:1",
          .expected = DEFAULT },
        { "the configuration file that an argument names", .config = "containerRuntimeEndpoint: /d",
          .command = "/bin/kubelet --config=/config", .expected = "unix:///d" },
};

static void add_words(struct nb_unit *unit, enum nb_unit_list list, const char *words) {
        char text[256];

        unit->lists[list].max = sizeof(text);
        if (!words)
                return;
        (void)snprintf(text, sizeof(text), "%s", words);
        for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
                nb_buffer_append(&unit->lists[list], word, strlen(word) + 1);
}

static void finds_the_socket(void **state) {
        const struct runtime_case *c = *state;
        struct nb_context context = { 0 };
        char endpoint[NB_SETTINGS_PATH_MAX] = "";
        struct folder folder;
        struct nb_unit unit = { 0 };
        char path[sizeof(folder.path) + sizeof("/file")];

        folder_skip_without_lookup();
        folder_make(&folder);
        context.root_fd = folder.fd;
        nb_settings_init(&context.settings);
        if (c->config)
                folder_put(&folder, "/config", c->config);
        if (c->file)
                folder_put(&folder, "/file", c->file);
        (void)snprintf(path, sizeof(path), "%s/file", folder.path);
        add_words(&unit, NB_UNIT_COMMAND, c->command);
        add_words(&unit, NB_UNIT_ENVIRONMENT, c->environment);
        add_words(&unit, NB_UNIT_ENVIRONMENT_FILES, path);
        assert_int_equal(nb_runtime_find_by_unit(&context, &unit, endpoint), 0);
        nb_unit_done(&unit);
        assert_string_equal(endpoint, c->expected);
        folder_remove(&folder);
}

static void the_setting_wins(void **state) {
        struct nb_context context = { .root_fd = -1 };
        char endpoint[NB_SETTINGS_PATH_MAX];

        (void)state;
        strcpy(context.settings.cri_socket, "unix:///s");
        assert_int_equal(nb_runtime_find(&context, endpoint), 0);
        assert_string_equal(endpoint, "unix:///s");
}

struct socket_case {
        const char *name;
        bool is_there[3]; /* containerd, CRI-O, cri-dockerd */
        const char *expected;
};

static struct socket_case sockets[] = {
        { "no socket", { false, false, false }, DEFAULT },
        { "one socket", { false, true, false }, "unix:///run/crio/crio.sock" },
        { "several sockets", { false, true, true }, "unix:///run/crio/crio.sock" },
        { "all sockets", { true, true, true }, DEFAULT },
};

/* Below another root, no systemd is asked. */
static void finds_a_socket_that_is_there(void **state) {
        static const char *const paths[] = { "/run/containerd/containerd.sock",
                                             "/run/crio/crio.sock", "/run/cri-dockerd.sock" };
        const struct socket_case *c = *state;
        struct nb_context context = { 0 };
        struct folder folder;
        char path[PATH_MAX], endpoint[NB_SETTINGS_PATH_MAX];

        folder_skip_without_lookup();
        folder_make(&folder);
        context.root_fd = folder.fd;
        nb_settings_init(&context.settings);
        for (size_t i = 0; i < N_ELEMENTS(paths); i++) {
                folder_locate(&folder, paths[i], path);
                if (c->is_there[i])
                        assert_int_equal(mknod(path, S_IFSOCK | 0600, 0), 0);
        }
        assert_int_equal(nb_runtime_find(&context, endpoint), 0);
        assert_string_equal(endpoint, c->expected);
        folder_remove(&folder);
}

static void formats_the_file(void **state) {
        struct nb_buffer text = NB_BUFFER_INIT(4096);

        nb_instance_format("unix:///a", &text);
        assert_string_equal(text.data, "containerRuntimeEndpoint: \"unix:///a\"\n");
        nb_buffer_done(&text);
}

int main(void) {
        CASES(cases, finds_the_socket);
        CASES(sockets, finds_a_socket_that_is_there);
        CASE(the_setting_wins);
        CASE(formats_the_file);
        return case_run("install runtime");
}
