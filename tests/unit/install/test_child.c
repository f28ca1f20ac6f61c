/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "case.h"
#include "folder.h"
#include "install/child.h"
#include "lookup.h"
#include "os/clock.h"

#define LANDLOCK_VERSION 1

static struct folder folder;

static void no_name(void *userdata) {
}

/* The end of a child whose program is a script. */
static struct nb_child_end run(const struct nb_runner *runner, enum nb_child_kind kind) {
        struct nb_child child = { .kind = kind,
                                  .timeout_ms = NB_TIME_INFINITE,
                                  .sources_fd = open("/dev/null", O_RDONLY | O_CLOEXEC),
                                  .on_status = no_name };
        struct nb_child_end end = { .status = -1 };
        struct nb_failure f = { 0 };

        if (nb_child_run(runner, &child, &end, &f) < 0)
                end.status = -1;
        return end;
}

static struct child_case {
        const char *name;
        enum nb_child_kind kind;
        const char *script;
        int status, signal;
        bool is_written; /* pending.key */
} cases[] = {
        { "join: it can write", NB_CHILD_JOIN, "echo x >pending.key; exit 3", 3, 0, true },
        { "metadata: it cannot write", NB_CHILD_METADATA,
          "echo x >pending.key; ln -s x joined.json; mkdir x; exit 3", 3, 0, false },
        { "its words: join", NB_CHILD_JOIN, "[ \"$*\" = join ]", 0, 0, false },
        { "its words: metadata", NB_CHILD_METADATA, "[ \"$*\" = 'join --metadata' ]", 0, 0, false },
        { "its words: refresh", NB_CHILD_REFRESH, "[ \"$*\" = refresh ]", 0, 0, false },
        { "its words: kubelet's configuration", NB_CHILD_CONFIG,
          "[ \"$*\" = 'refresh --kubelet-config' ]", 0, 0, false },
        { "a signal ends it", NB_CHILD_JOIN, "kill -9 $$", 137, 9, false },
        { "only known files are left", NB_CHILD_JOIN,
          "echo x >pending.key; mkdir -p a/b joined.json; ln -s / link", 0, 0, true },
};

/* Twice, since what the first child does must not prevent the second one. Returns the number of the
 * line that is wrong. */
static int try_case(const struct child_case *c) {
        struct nb_state state = { .fd = -1 };
        struct nb_runner runner = { .fd = -1 };
        struct nb_failure f = { 0 };
        char program[PATH_MAX + 16];

        (void)snprintf(program, sizeof(program), "%s/program", folder.path);
        if (nb_state_open(&state, &f) < 0 ||
            nb_runner_begin(&state, program, false, &runner, &f) < 0)
                return __LINE__;
        for (int i = 0; i < 2; i++) {
                struct nb_child_end end = run(&runner, c->kind);

                if (end.status != c->status || end.signal != c->signal || end.is_stopped)
                        return __LINE__;
                if (nb_state_has(&state, "pending.key") != c->is_written)
                        return __LINE__;
                if (nb_state_has(&state, "joined.json") || nb_state_has(&state, "a") ||
                    nb_state_has(&state, "link"))
                        return __LINE__;
        }
        nb_runner_done(&runner);
        nb_state_done(&state);
        return runner.pid == 0 ? 0 : __LINE__;
}

/* In a process of its own, which confines itself. */
static void ends_as_expected(void **state) {
        const struct child_case *c = *state;
        char path[PATH_MAX], script[512];
        int status;
        pid_t pid;

        if (c->kind == NB_CHILD_METADATA &&
            syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_VERSION) < 0)
                skip();
        folder_skip_without_lookup();
        folder_make(&folder);
        (void)snprintf(script, sizeof(script), "#!/bin/sh\ncd \"$STATE_DIRECTORY\"\n%s\n",
                       c->script);
        folder_put(&folder, "/program", script);
        folder_put(&folder, "/state/other", "");
        assert_int_equal(fchmodat(folder.fd, "program", 0755, 0), 0);
        (void)snprintf(path, sizeof(path), "%s/state", folder.path);
        assert_int_equal(setenv("STATE_DIRECTORY", path, 1), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
                _exit(try_case(c));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
        folder_remove(&folder);
}

int main(void) {
        CASES(cases, ends_as_expected);
        return case_run("install child");
}
