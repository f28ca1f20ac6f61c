/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/macro.h"
#include "os/landlock.h"
#include "os/privilege.h"

#define NOBODY 65534

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

static int drop(void) {
        static const char path[] = "/tmp/node-bootstrap-test-device";
        struct nb_failure f = { 0 };

        if (nb_privilege_drop(&f) < 0)
                return -1;
        if (mknod(path, S_IFCHR | 0600, makedev(1, 3)) == 0)
                return unlink(path);
        return -errno;
}

/* Root without capabilities cannot make a device. */
static void keeps_no_capability(void **state) {
        if (geteuid() != 0)
                skip();
        assert_int_equal(in_child(drop), -EPERM);
}

static int become_another_user(void) {
        return setresuid(NOBODY, NOBODY, NOBODY) < 0 ? -errno : 0;
}

static bool has_no_new_privileges(void) {
        return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
}

static bool has_only_a_user_of_its_own(void) {
        uid_t user, effective, saved;
        gid_t group, effective_group, saved_group;

        return getresuid(&user, &effective, &saved) == 0 && user != 0 && effective == user &&
               saved == user && getresgid(&group, &effective_group, &saved_group) == 0 &&
               group == user && effective_group == user && saved_group == user &&
               getgroups(0, NULL) == 0;
}

static bool can_only_read_more_than_its_user(void) {
        struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
        const uint32_t reading = UINT32_C(1) << CAP_DAC_READ_SEARCH;

        return syscall(SYS_capget, &header, data) == 0 && !(data[0].permitted & ~reading) &&
               !(data[0].effective & ~reading) && data[0].inheritable == 0 &&
               data[1].permitted == 0 && data[1].effective == 0 && data[1].inheritable == 0;
}

static bool leaves_no_core_file(void) {
        struct rlimit limit;

        return getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_max == 0;
}

static bool (*is_reduced)(void);

static int reduce_and_look(void) {
        const gid_t group = 0;
        struct nb_failure f = { 0 };
        int status = 0, r = setgroups(1, &group) < 0 ? -1 : nb_privilege_split(&status, &f);

        if (r > 0)
                return -status;
        return r < 0 || nb_privilege_reduce(&f) < 0 ? -1 : is_reduced() ? 0 : -2;
}

static void a_command_of_root_keeps_only_what_it_needs(void **state) {
        static const struct {
                const char *name;
                bool (*is_reduced)(void);
        } cases[] = {
                { "no_new_privs is set", has_no_new_privileges },
                { "user and groups are not root's", has_only_a_user_of_its_own },
                { "no capability is left but CAP_DAC_READ_SEARCH",
                  can_only_read_more_than_its_user },
                { "no core file is written", leaves_no_core_file },
        };

        if (geteuid() != 0 || in_child(lower_limit) < 0 || in_child(become_another_user) < 0)
                skip();
        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                is_reduced = cases[i].is_reduced;
                if (in_child(reduce_and_look) != 0)
                        fail_msg("%s", cases[i].name);
        }
}

#define BACK (UINT32_C(1) << CAP_SETUID | UINT32_C(1) << CAP_SETGID)

/* To another user, back, and for good. */
static int switch_users(void) {
        struct nb_failure f = { 0 };

        if (nb_privilege_switch(NOBODY, NOBODY, BACK, &f) < 0 || getuid() != NOBODY ||
            getegid() != NOBODY)
                return -1;
        if (nb_privilege_switch(0, 0, BACK, &f) < 0 || geteuid() != 0 || getgid() != 0)
                return -2;
        if (nb_privilege_switch(NOBODY, NOBODY, 0, &f) < 0 || prctl(PR_GET_DUMPABLE) != 0)
                return -3;
        return setresuid(0, 0, 0) < 0 && errno == EPERM ? 0 : -4;
}

static void switches_users(void **state) {
        if (geteuid() != 0)
                skip();
        assert_int_equal(in_child(switch_users), 0);
}

#define SHM "/dev/shm/node-bootstrap-test-%d"

/* 0, or which of these has another result than in a confined process. */
static int try_writing(void) {
        char present[64], other[64], missing[64];
        int fd;

        (void)snprintf(present, sizeof(present), SHM, (int)getppid());
        (void)snprintf(other, sizeof(other), SHM "b", (int)getppid());
        (void)snprintf(missing, sizeof(missing), "/tmp/node-bootstrap-test-%d", (int)getppid());
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || nb_privilege_forbid_writing() < 0)
                return -1;
        fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
        if (fd < 0 || write(fd, "x", 1) != 1 || close(fd) < 0)
                return -2;
        fd = open(present, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || close(fd) < 0)
                return -3;
        if (open(missing, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) >= 0 || errno != EACCES ||
            open(other, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) >= 0 || errno != EACCES)
                return -4;
        if (mkdir(other, 0700) >= 0 || errno != EACCES || symlink("/", other) >= 0 ||
            errno != EACCES || mkfifo(other, 0600) >= 0 || errno != EACCES)
                return -5;
        if (rename(present, other) >= 0 || errno != EACCES || unlink(present) >= 0 ||
            errno != EACCES)
                return -6;
        return 0;
}

static void only_what_is_in_dev_can_be_written(void **state) {
        char present[64];
        int fd, r;

        if (nb_landlock_version() <= 0 || access("/dev/shm", W_OK) < 0)
                skip();
        (void)snprintf(present, sizeof(present), SHM, (int)getpid());
        fd = open(present, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        assert_int_equal(close(fd), 0);
        r = in_child(try_writing);
        assert_int_equal(unlink(present), 0);
        assert_int_equal(r, 0);
}

/* 0, or which of these has another result than in a restricted process. */
static int try_reading(void) {
        const struct nb_landlock forbidden = { .fs = NB_LANDLOCK_EXECUTE | NB_LANDLOCK_READ_FILE |
                                                     NB_LANDLOCK_READ_DIR };
        const struct nb_landlock_rule rules[] = { { "/dev", NB_LANDLOCK_READ_FILE },
                                                  { "/proc", NB_LANDLOCK_READ_DIR },
                                                  { "/missing", NB_LANDLOCK_READ_FILE } };
        int fd;

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            nb_landlock_restrict(&forbidden, rules, N_ELEMENTS(rules)) != 1)
                return -1;
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (fd < 0 || close(fd) < 0)
                return -2;
        fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0 || close(fd) < 0)
                return -3;
        if (open("/proc/self/status", O_RDONLY | O_CLOEXEC) >= 0 || errno != EACCES ||
            open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0 || errno != EACCES ||
            open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC) >= 0 || errno != EACCES ||
            open("/dev", O_RDONLY | O_DIRECTORY | O_CLOEXEC) >= 0 || errno != EACCES)
                return -4;
        return execl("/bin/true", "true", NULL) < 0 && errno == EACCES ? 0 : -5;
}

static void only_what_is_named_can_be_read(void **state) {
        if (nb_landlock_version() <= 0)
                skip();
        assert_int_equal(in_child(try_reading), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(needs_no_call_if_nothing_is_to_drop),
                cmocka_unit_test(reports_what_it_cannot_drop),
                cmocka_unit_test(keeps_no_capability),
                cmocka_unit_test(without_privileges_it_still_ends_with_its_parent),
                cmocka_unit_test(a_command_of_root_keeps_only_what_it_needs),
                cmocka_unit_test(switches_users),
                cmocka_unit_test(only_what_is_in_dev_can_be_written),
                cmocka_unit_test(only_what_is_named_can_be_read),
        };

        return cmocka_run_group_tests_name("privilege", tests, NULL, NULL);
}
