/* SPDX-License-Identifier: Apache-2.0 */
#include "case.h"
#include "install/runtime.h"
#include "lookup.h"

#define DEFAULT "unix:///run/containerd/containerd.sock"
#define HELP \
        "\x7f" \
        "ELF The container runtime to use. Possible value"

struct runtime_case {
        const char *name;
        const char *command, *environment; /* ExecStart=; Environment=: words */
        const char *binary, *config;       /* /bin/kubelet, /config; NULL: none */
        const char *file;                  /* named by EnvironmentFile= */
        const char *cri_socket, *expected;
        bool is_remote_needed;
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
        { "the setting", .cri_socket = "unix:///s",
          .command = "/bin/kubelet --container-runtime-endpoint=unix:///a",
          .expected = "unix:///s" },
        { "the setting and a kubelet of 1.23", .cri_socket = "unix:///s",
          .binary = HELP "s: 'docker', 'remote'.", .command = "/bin/kubelet --v=2",
          .expected = "unix:///s", .is_remote_needed = true },
        { "the setting and a kubelet of 1.24", .cri_socket = "unix:///s",
          .binary = HELP ": 'remote'.", .command = "/bin/kubelet --v=2", .expected = "unix:///s" },
        { "the setting and an empty kubelet", .cri_socket = "unix:///s", .binary = "",
          .command = "/bin/kubelet --v=2", .expected = "unix:///s" },
        { "the setting and a folder as kubelet", .cri_socket = "unix:///s", .binary = "x",
          .command = "/bin --v=2", .expected = "unix:///s" },
        { "a kubelet of 1.23 and no setting", .binary = HELP "s: 'docker', 'remote'.",
          .command = "/bin/kubelet --v=2", .expected = DEFAULT },
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
        struct nb_runtime runtime = { 0 };
        struct folder folder;
        struct nb_unit unit = { 0 };
        char path[sizeof(folder.path) + sizeof("/file")];

        folder_skip_without_lookup();
        folder_make(&folder);
        context.root_fd = folder.fd;
        nb_settings_init(&context.settings);
        if (c->cri_socket)
                strcpy(context.settings.cri_socket, c->cri_socket);
        if (c->binary)
                folder_put(&folder, "/bin/kubelet", c->binary);
        if (c->config)
                folder_put(&folder, "/config", c->config);
        if (c->file)
                folder_put(&folder, "/file", c->file);
        (void)snprintf(path, sizeof(path), "%s/file", folder.path);
        add_words(&unit, NB_UNIT_COMMAND, c->command);
        add_words(&unit, NB_UNIT_ENVIRONMENT, c->environment);
        add_words(&unit, NB_UNIT_ENVIRONMENT_FILES, path);
        assert_int_equal(nb_runtime_find_by_unit(&context, &unit, &runtime), 0);
        nb_unit_done(&unit);
        assert_string_equal(runtime.endpoint, c->expected);
        assert_int_equal(runtime.is_remote_needed, c->is_remote_needed);
        folder_remove(&folder);
}

static bool is_truncated;

/* Whoever replaces kubelet truncates its file. */
int fstat(int fd, struct stat *st) {
        char path[64];
        int r = fstatat(fd, "", st, AT_EMPTY_PATH);

        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        if (is_truncated && S_ISREG(st->st_mode))
                assert_int_equal(truncate(path, 0), 0);
        return r;
}

static bool is_remote_needed(const struct folder *folder) {
        struct nb_context context = { .root_fd = folder->fd };
        struct nb_unit unit = { 0 };
        struct nb_runtime runtime = { 0 };

        add_words(&unit, NB_UNIT_COMMAND, "/bin/kubelet --v=2");
        nb_settings_init(&context.settings);
        (void)snprintf(context.settings.cri_socket, sizeof(context.settings.cri_socket),
                       "unix:///s");
        assert_int_equal(nb_runtime_find_by_unit(&context, &unit, &runtime), 0);
        nb_unit_done(&unit);
        return runtime.is_remote_needed;
}

static void reads_kubelet_in_pieces(void **state) {
        static const char help[] = HELP "s: 'docker', 'remote'.";
        static char binary[200000];
        struct folder folder;

        folder_skip_without_lookup();
        folder_make(&folder);
        for (size_t at = 65536 - sizeof(help); at <= 65536 + 1; at++) {
                memset(binary, 'x', sizeof(binary) - 1);
                memcpy(binary + at, help, sizeof(help) - 1);
                folder_put(&folder, "/bin/kubelet", binary);
                assert_true(is_remote_needed(&folder));
        }
        is_truncated = true;
        assert_false(is_remote_needed(&folder));
        is_truncated = false;
        folder_remove(&folder);
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
        struct nb_runtime runtime = { 0 };
        struct folder folder;
        char path[PATH_MAX];

        folder_skip_without_lookup();
        folder_make(&folder);
        context.root_fd = folder.fd;
        nb_settings_init(&context.settings);
        for (size_t i = 0; i < N_ELEMENTS(paths); i++) {
                folder_locate(&folder, paths[i], path);
                if (c->is_there[i])
                        assert_int_equal(mknod(path, S_IFSOCK | 0600, 0), 0);
        }
        assert_int_equal(nb_runtime_find(&context, &runtime), 0);
        assert_string_equal(runtime.endpoint, c->expected);
        assert_false(runtime.is_remote_needed);
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
        CASE(reads_kubelet_in_pieces);
        CASE(formats_the_file);
        return case_run("install runtime");
}
