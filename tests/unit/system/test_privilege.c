/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/macro.h"
#include "system/privilege.h"

/* As SystemCallFilter=~capset with SystemCallErrorNumber=EPERM. */
static int refuse_capset(void) {
        struct sock_filter rules[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_capset, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        const struct sock_fprog program = { N_ELEMENTS(rules), rules };

        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
                               prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0
                       ? -errno
                       : 0;
}

static int in_child(int (*run)(void)) {
        int status;
        pid_t pid = fork();

        if (pid == 0)
                _exit(-run());
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        return -WEXITSTATUS(status);
}

static int keep_nothing_twice(void) {
        int r = nb_privilege_keep(0);

        if (r >= 0)
                r = refuse_capset();
        return r < 0 ? r : nb_privilege_keep(0);
}

/* node-bootstrap-controller.service starts without capabilities, and its filter refuses capset. */
static void needs_no_call_if_nothing_is_to_drop(void **state) {
        assert_int_equal(in_child(keep_nothing_twice), 0);
}

static int keep_nothing(void) {
        int r = refuse_capset();

        return r < 0 ? r : nb_privilege_keep(0);
}

static void reports_what_it_cannot_drop(void **state) {
        if (geteuid() != 0)
                skip();
        assert_int_equal(in_child(keep_nothing), -EPERM);
}

static int lower_limit(void) {
        static const struct rlimit limit = { 64, 64 };

        return setrlimit(RLIMIT_NOFILE, &limit) < 0 ? -errno : 0;
}

static int reduce(void) {
        struct nb_failure f = { 0 };
        int status = 0, number = 0, r = nb_privilege_split(&status, &f);

        if (r > 0)
                return -status;
        if (r < 0 || nb_privilege_reduce(&f) < 0 || prctl(PR_GET_PDEATHSIG, &number) < 0)
                return -1;
        return number == SIGKILL && prctl(PR_GET_DUMPABLE) == 0 ? 0 : -2;
}

/* A change of user resets both settings, and a child that outlives its parent goes on asking
 * servers. */
static void without_privileges_it_still_ends_with_its_parent(void **state) {
        /* valgrind lets no process lower this limit. */
        if (geteuid() != 0 || in_child(lower_limit) < 0)
                skip();
        assert_int_equal(in_child(reduce), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(needs_no_call_if_nothing_is_to_drop),
                cmocka_unit_test(reports_what_it_cannot_drop),
                cmocka_unit_test(without_privileges_it_still_ends_with_its_parent),
        };

        return cmocka_run_group_tests_name("privilege", tests, NULL, NULL);
}
