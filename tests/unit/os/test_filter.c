/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "case.h"
#include "os/filter.h"

/* What a child needs to report its result. */
static const struct nb_filter_rule basis[] = { { "exit_group exit write" } };

struct filter_case {
        const char *name;
        struct nb_filter_rule rules[2];
        bool is_open;
        long call, arguments[3];
        int error; /* of the call; 0: it succeeds */
};

static struct filter_case cases[] = {
        { "permitted by name", { { "getpid" } }, false, SYS_getpid, { 0 }, 0 },
        { "not listed", { { "getpid" } }, false, SYS_getppid, { 0 }, EPERM },
        { "the last of several names",
          { { "getpid getuid getppid" } },
          false,
          SYS_getppid,
          { 0 },
          0 },
        { "a name that the processor does not have",
          { { "getpid no_such_call" } },
          false,
          SYS_getpid,
          { 0 },
          0 },
        { "an argument that matches",
          { { "kill", { { 1, UINT64_MAX, 0 } } } },
          false,
          SYS_kill,
          { 0, 0 },
          0 },
        { "another argument",
          { { "kill", { { 1, UINT64_MAX, 0 } } } },
          false,
          SYS_kill,
          { 0, SIGTERM },
          EPERM },
        { "bits that match",
          { { "fcntl", { { 1, 1, 1 } } } },
          false,
          SYS_fcntl,
          { 0, F_GETFD },
          0 },
        { "bits that do not match",
          { { "fcntl", { { 1, 2, 2 } } } },
          false,
          SYS_fcntl,
          { 0, F_GETFD },
          EPERM },
        { "one of two tests",
          { { "fcntl", { { 0, UINT64_MAX, 0 }, { 1, UINT64_MAX, F_GETFL } } } },
          false,
          SYS_fcntl,
          { 0, F_GETFD },
          EPERM },
        { "both tests",
          { { "fcntl", { { 0, UINT64_MAX, 0 }, { 1, UINT64_MAX, F_GETFD } } } },
          false,
          SYS_fcntl,
          { 0, F_GETFD },
          0 },
        { "any other argument",
          { { "fcntl", { { 1, UINT64_MAX, F_GETFL, true } } } },
          false,
          SYS_fcntl,
          { 0, F_GETFD },
          0 },
        { "the argument that is excepted",
          { { "fcntl", { { 1, UINT64_MAX, F_GETFD, true } } } },
          false,
          SYS_fcntl,
          { 0, F_GETFD },
          EPERM },
        { "open: refused with its error",
          { { "getppid", .error = EAGAIN } },
          true,
          SYS_getppid,
          { 0 },
          EAGAIN },
        { "open: not listed", { { "getppid", .error = EAGAIN } }, true, SYS_getpid, { 0 }, 0 },
};

/* In a child, since a filter cannot be removed. */
static int call_filtered(const struct filter_case *c, const struct nb_filter *filter) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || nb_filter_load(filter) < 0)
                return 255;
        return syscall(c->call, c->arguments[0], c->arguments[1], c->arguments[2]) < 0 ? errno : 0;
}

static void filters(void **state) {
        const struct filter_case *c = *state;
        struct nb_filter filter;
        int status = 0;
        pid_t pid;

        assert_int_equal(nb_filter_compile(c->is_open, c->rules, 1, basis,
                                           c->is_open ? 0 : N_ELEMENTS(basis), &filter),
                         0);
        assert_in_range(filter.len, 1, NB_FILTER_MAX);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
                /* _exit(3) of the address sanitizer needs more. */
                (void)syscall(SYS_exit_group, call_filtered(c, &filter));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), c->error);
}

int main(void) {
        CASES(cases, filters);
        return case_run("system filter");
}
