/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "case.h"
#include "install/confine.h"

static bool has_unix_sockets(void) {
        int pair[2], fd = socket(AF_UNIX, SOCK_DGRAM, 0);

        return fd >= 0 && socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0;
}

static bool has_no_other_sockets(void) {
        static const int families[] = { AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_VSOCK };
        int pair[2];

        for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
                if (socket(families[i], SOCK_DGRAM, 0) >= 0 || errno != EPERM)
                        return false;
        return socketpair(AF_INET, SOCK_STREAM, 0, pair) < 0 && errno == EPERM;
}

/* Also to the user and group that it has. */
static bool cannot_change_user(void) {
        uid_t user = getuid();
        gid_t group = getgid();

        return syscall(SYS_setresuid, user, user, user) < 0 && errno == EPERM &&
               syscall(SYS_setuid, user) < 0 && errno == EPERM &&
               syscall(SYS_setresgid, group, group, group) < 0 && errno == EPERM &&
               syscall(SYS_setgroups, 0, NULL) < 0 && errno == EPERM;
}

static bool has_no_capability_but_dac_override(void) {
        struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
        __u32 others = ~(UINT32_C(1) << CAP_DAC_OVERRIDE);

        return syscall(SYS_capget, &header, data) == 0 && !(data[0].permitted & others) &&
               !(data[0].effective & others) && data[1].permitted == 0 &&
               syscall(SYS_capset, &header, data) < 0 && errno == EPERM;
}

static bool cannot_execute(void) {
        (void)execl("/bin/true", "true", (char *)NULL);
        return errno == EPERM;
}

static bool has_no_new_privileges(void) {
        return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
}

static struct confine_case {
        const char *name;
        bool (*is_kept)(void);
} cases[] = {
        { "Unix sockets can be opened", has_unix_sockets },
#if !defined(__s390x__) && !defined(__i386__) /* see nb_confine() */
        { "no other sockets can be opened", has_no_other_sockets },
#endif
        { "user and group cannot be changed", cannot_change_user },
        { "no capability is left but CAP_DAC_OVERRIDE", has_no_capability_but_dac_override },
        { "no other program can be executed", cannot_execute },
        { "no_new_privs is set", has_no_new_privileges },
};

/* Runs in its own process, since none of it can be undone. */
static void is_confined(void **state) {
        const struct confine_case *c = *state;
        int status;
        pid_t pid;

        /* valgrind ends a process whose execve(2) fails. */
        if (c->is_kept == cannot_execute && getenv("LD_PRELOAD") &&
            strstr(getenv("LD_PRELOAD"), "vgpreload"))
                return;
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                struct nb_failure f = { 0 };

                _exit(nb_confine(&f) < 0 ? 2 : c->is_kept() ? 0 : 1);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
}

#ifndef __SANITIZE_ADDRESS__
/* The leak check of AddressSanitizer starts a process, which is forbidden here. */
static bool cannot_fork(void) {
        return fork() < 0 && errno == EPERM;
}

static struct confine_case no_fork[] = { { "no process can be started", cannot_fork } };
#endif

int main(void) {
        CASES(cases, is_confined);
#ifndef __SANITIZE_ADDRESS__
        CASES(no_fork, is_confined);
#endif
        return case_run("install confine");
}
