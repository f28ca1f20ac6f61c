/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "folder.h"
#include "lookup.h"
#include "settings/kubelet_env.h"
#include "settings/kubelet_unit.h"

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

static void reads_paths(void **state) {
        static char large[64 * 1024 + 2];
        static const struct {
                const char *text; /* NULL: no file */
                int expected;
                const char *kubeconfig;
        } rows[] = {
                { NULL, 0, "/etc/kubernetes/kubelet.conf" },
                { "", 0, "/etc/kubernetes/kubelet.conf" },
                { "NODE_BOOTSTRAP_KUBECONFIG=/srv/k\nKUBELET_NODE_NAME=a\n", 1, "/srv/k" },
                { "NODE_BOOTSTRAP_KUBECONFIG=/srv/k\nKUBELET_NODE", 0, "/srv/k" },
                { large, 0, "/etc/kubernetes/kubelet.conf" },
        };
        struct nb_kubelet_paths paths;
        struct folder folder;

        folder_skip_without_lookup();
        memset(large, '\n', sizeof(large) - 1);
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                folder_make(&folder);
                if (rows[i].text)
                        folder_put(&folder, NB_KUBELET_ENV_PATH, rows[i].text);
                assert_int_equal(nb_kubelet_env_read_paths(folder.fd, &paths), rows[i].expected);
                assert_string_equal(paths.kubeconfig, rows[i].kubeconfig);
                folder_remove(&folder);
        }
}

/* --- The arguments of kubelet's unit --- */

struct find_case {
        const char *name;
        const char *arguments;
        const char *value; /* of --config; NULL: there is none */
};

static struct find_case finds[] = {
        { "find: after '='", "kubelet --config=/a --v=2", "/a" },
        { "find: after a blank", "kubelet --config /a --v=2", "/a" },
        { "find: after two blanks", "kubelet --config  /a", "/a" },
        { "find: an empty value", "kubelet --config= --v=2", "" },
        { "find: the last one", "kubelet --config=/a\nX=--config=/b --config=/c\n", "/c" },
        { "find: the last one, which is empty", "--config=/a --config=\n", "" },
        { "find: in quotes", "KUBELET_EXTRA_ARGS=\"--config=/a\"\n", "/a" },
        { "find: a value in quotes", "X='--config=\"/a\" --v=2'\n", "/a" },
        { "find: no value", "kubelet --config", NULL },
        { "find: a longer name", "kubelet --config-dir=/a --configs=/b", NULL },
        { "find: the end of another name", "kubelet x--config=/a", NULL },
        { "find: nothing", "", NULL },
        { "find: no arguments are known", NULL, NULL },
        { "find: a long value is cut", "--config=/23456789012345678", "/234567" },
};

static void finds_argument(void **state) {
        const struct find_case *c = *state;
        char value[8] = "before";

        assert_int_equal(nb_kubelet_find_argument(c->arguments, "--config", value, sizeof(value)),
                         c->value != NULL);
        assert_string_equal(value, c->value ? c->value : "before");
}

static void put_list(struct nb_unit *unit, enum nb_unit_list list, const char *text, size_t size) {
        unit->lists[list] = (struct nb_buffer)NB_BUFFER_INIT(1024);
        nb_buffer_append(&unit->lists[list], text, size);
}
#define PUT_LIST(list, text) put_list(&unit, list, text, sizeof(text))

/* A file that is not there is skipped, and an argument in a comment is not in force. */
static void reads_arguments(void **state) {
        static const char file[] = "A=--config=/file\n# A=--config=/comment\n \t;x\n\n"
                                   "B=1 # --v=1";
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(1024),
                                                   small = NB_BUFFER_INIT(24);
        struct nb_secret content = { .data = (char *)(uintptr_t)file, .len = strlen(file) };
        struct nb_sources sources = { 0 };
        struct nb_unit unit = { 0 };
        char value[16];

        PUT_LIST(NB_UNIT_COMMAND,
                 "/bin/kubelet\0kubelet\0--config=/unit\0$X\0$A\0-${B}-${B}\0-$B\0$NO");
        PUT_LIST(NB_UNIT_ENVIRONMENT, "X=--config=/environment");
        PUT_LIST(NB_UNIT_ENVIRONMENT_FILES, "/no/such/file\0/a b");
        assert_int_equal(nb_sources_put(&sources, NB_SOURCE_FILE, "/a b", 0600, &content), 0);
        nb_kubelet_read_arguments(&sources, &unit, &text);
        assert_string_equal(text.data, "/bin/kubelet kubelet --config=/unit --config=/environment "
                                       "--config=/file -1 # --v=1-1 # --v=1 -$B $NO \n");
        assert_true(nb_kubelet_find_argument(text.data, "--config", value, sizeof(value)));
        assert_string_equal(value, "/file");
        nb_kubelet_read_arguments(&sources, &unit, &small);
        assert_int_equal(small.error, -E2BIG);
        nb_unit_done(&unit);
        nb_sources_done(&sources);
}

/* Of a process that runs, of one that has ended, and of none. */
static void reads_the_command_line(void **state) {
        static const char *const argv[] = { "sh",  "-c", "read x",      "kubelet", "--config=/a b",
                                            "--v", "",   "--config=/c", NULL };
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(4096);
        struct nb_unit unit = { 0 };
        siginfo_t info;
        char value[16];
        int fds[2], r;
        pid_t pid;

        assert_int_equal(nb_kubelet_read_command_line(&unit, &text), -ESRCH);
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        pid = fork();
        if (pid == 0) {
                char *words[N_ELEMENTS(argv)];

                memcpy(words, argv, sizeof(words));
                (void)dup2(fds[0], STDIN_FILENO);
                (void)execv("/bin/sh", words);
                _exit(1);
        }
        unit.state.main_pid = (uint32_t)pid;
        /* While a process executes another program, it has no command line for a moment. */
        do {
                nb_buffer_clear(&text);
                r = nb_kubelet_read_command_line(&unit, &text);
                assert_true(r == 0 || r == -ESRCH);
        } while (r < 0 || strncmp(text.data, "sh ", 3) != 0);
        assert_string_equal(text.data, "sh -c read x kubelet --config=/a b --v  --config=/c ");
        assert_true(nb_kubelet_find_argument(text.data, "--config", value, sizeof(value)));
        assert_string_equal(value, "/c");
        (void)close(fds[0]);
        (void)close(fds[1]);
        assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
        nb_buffer_clear(&text);
        assert_int_equal(nb_kubelet_read_command_line(&unit, &text), -ESRCH);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        assert_true(nb_kubelet_read_command_line(&unit, &text) < 0);
}

int main(void) {
        CASE(formats_the_name);
        CASE(finds_paths_that_are_not_the_default);
        CASE(finds_no_path);
        CASE(reads_paths);
        CASES(arguments, checks_argument);
        CASES(finds, finds_argument);
        CASE(reads_arguments);
        CASE(reads_the_command_line);
        return case_run("kubelet_env");
}
