/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "case.h"
#include "folder.h"
#include "install/alone.h"
#include "install/child.h"
#include "install/state_directory.h"
#include "os/clock.h"
#include "os/process.h"
#include "systemd/log.h"

#define UNIT "/system.slice/node-bootstrap.service"

#define UNIFIED "0::" UNIT "\n"
#define VERSION_1 "3:memory:/other\n2:name=systemd:" UNIT "\n1:cpu,cpuacct:/\n"

struct path_case {
        const char *name, *text;
        bool is_unified;
        int r;
        const char *path;
};

static struct path_case path_cases[] = {
        { "unified", UNIFIED, true, 0, UNIT },
        { "version 1", VERSION_1, false, 0, UNIT },
        { "hybrid: the one of the name systemd counts", VERSION_1 "0::/elsewhere\n", false, 0,
          UNIT },
        { "hybrid, unified in the place of version 1", "2:name=systemd:/elsewhere\n" UNIFIED, true,
          0, UNIT },
        { "root of a namespace", "0::/\n", true, 0, "/" },
        { "a colon in the path", "0::/a:b\n", true, 0, "/a:b" },
        { "no newline at the end", "0::/a", true, 0, "/a" },
        { "version 1 has no unified one", VERSION_1, true, -EINVAL, NULL },
        { "unified has none of version 1", UNIFIED, false, -EINVAL, NULL },
        { "a name that begins alike", "2:name=systemd2:/a\n", false, -EINVAL, NULL },
        { "empty", "", true, -EINVAL, NULL },
        { "no path", "0::\n", true, -EINVAL, NULL },
        { "no colons", "0\n", true, -EINVAL, NULL },
        { "above the namespace", "0::/../other\n", true, -EINVAL, NULL },
        { "ends above the namespace", "0::/..\n", true, -EINVAL, NULL },
        { "beside the main process", "0::" UNIT "/.control\n", true, -EINVAL, NULL },
        { "longer than the place for it",
          "0::/01234567890123456789012345678901234567890123456789012345678901234\n", true,
          -ENAMETOOLONG, NULL },
};

static void path_is_parsed(void **state) {
        const struct path_case *c = *state;
        char path[64] = "untouched";

        assert_int_equal(nb_cgroup_path_parse(c->text, c->is_unified, path, sizeof(path)), c->r);
        if (c->r == 0)
                assert_string_equal(path, c->path);
}

struct procs_case {
        const char *name, *text;
        int r;
        pid_t other, runner;
};

/* The process that asks is 42. */
static struct procs_case procs_cases[] = {
        { "alone", "42\n", 0, 0 },
        { "listed twice, as version 1 may", "42\n42\n", 0, 0 },
        { "with the runner", "42\n4242\n", 0, 0, 4242 },
        { "with the runner, whose number is smaller", "7\n42\n", 0, 0, 7 },
        { "another one beside the runner", "7\n42\n4242\n", -EEXIST, 4242, 7 },
        { "a number that begins like the runner's", "42\n77\n", -EEXIST, 77, 7 },
        { "another one after", "42\n4242\n", -EEXIST, 4242 },
        { "another one before", "7\n42\n", -EEXIST, 7 },
        { "one without a number here", "42\n0\n", -EEXIST, 0 },
        { "only another one", "43\n", -EEXIST, 43 },
        { "nobody", "", -EINVAL, -1 },
        { "no newline", "42", -EEXIST, 42 },
        { "no number", "x\n", -EEXIST, 0 },
        { "negative", "-42\n", -EEXIST, -42 },
        { "a blank before", " 42\n", -EEXIST, 42 },
        { "a blank after", "42 \n", -EEXIST, 42 },
        { "an empty line", "42\n\n", -EEXIST, 0 },
        { "more than a number can be", "42\n99999999999999999999\n", -EEXIST, -1 },
        { "the number once around", "4294967338\n", -EEXIST, 42 },
};

static void processes_are_counted(void **state) {
        const struct procs_case *c = *state;
        pid_t other = -1;

        assert_int_equal(nb_cgroup_procs_verify(c->text, 42, c->runner, &other), c->r);
        if (c->r == -EEXIST)
                assert_int_equal(other, c->other);
}

/* --- In a control group of this test --- */

static char above[PATH_MAX], group[PATH_MAX + 32];

static bool write_text(const char *path, const char *text) {
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        bool is_written = fd >= 0 && write(fd, text, strlen(text)) > 0;

        if (fd >= 0)
                (void)close(fd);
        return is_written;
}

/* As root in a container, there may be no control group that can be written. */
static bool enter_group(const char *name) {
        static const char *const mounts[] = { "/sys/fs/cgroup/systemd", "/sys/fs/cgroup" };
        char text[8192] = "", path[PATH_MAX / 2], procs[sizeof(group) + 32];
        int fd = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
        bool is_unified = access(mounts[0], F_OK) < 0;

        (void)!read(fd, text, sizeof(text) - 1);
        (void)close(fd);
        if (nb_cgroup_path_parse(text, is_unified, path, sizeof(path)) < 0)
                return false;
        (void)snprintf(above, sizeof(above), "%s%s/node-bootstrap-test-%d", mounts[is_unified],
                       strcmp(path, "/") == 0 ? "" : path, (int)getpid());
        (void)snprintf(group, sizeof(group), "%s/%s", above, name);
        if (mkdir(above, 0755) < 0 || mkdir(group, 0755) < 0)
                return false;
        (void)snprintf(procs, sizeof(procs), "%s/cgroup.procs", group);
        return write_text(procs, "0");
}

#define USER 65534

/* Returns once it has changed its user. */
static pid_t start_sleeper(uid_t user) {
        int fds[2], r = pipe2(fds, O_CLOEXEC);
        pid_t pid = fork();
        char byte;

        if (pid == 0) {
                if (r < 0 || setresuid(user, user, user) < 0)
                        _exit(1);
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                (void)close(fds[0]);
                (void)close(fds[1]);
                for (;;)
                        (void)pause();
        }
        (void)close(fds[1]);
        (void)!read(fds[0], &byte, 1);
        (void)close(fds[0]);
        return pid;
}

static bool is_killed(pid_t pid) {
        int status;

        return waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) &&
               WTERMSIG(status) == SIGKILL;
}

#define EXPECT(condition) \
        if (!(condition)) \
        return fprintf(stderr, "line %d: %s\n", __LINE__, #condition), false

static bool judge_group(void) {
        const uint64_t deadline_ms = nb_now_ms() + 10000;
        struct nb_failure f = { 0 };
        char below[sizeof(group) + 8];
        pid_t runner, other;

        EXPECT(nb_alone_verify(0, &f) == 0);
        EXPECT(!nb_alone_kill(0, 0, deadline_ms));
        runner = start_sleeper(0);
        EXPECT(nb_alone_verify(runner, &f) == 0);
        other = start_sleeper(USER);
        EXPECT(nb_alone_kill(runner, 0, deadline_ms));
        EXPECT(is_killed(other));
        /* The child is killed, but is none that it has left. */
        EXPECT(!nb_alone_kill(0, runner, deadline_ms));
        EXPECT(is_killed(runner));
        /* One of root is of this program, one of another user may be an attacker's. */
        runner = start_sleeper(0);
        other = start_sleeper(0);
        EXPECT(nb_alone_verify(runner, &f) == 0);
        EXPECT(is_killed(other));
        other = start_sleeper(USER);
        EXPECT(nb_alone_verify(runner, &f) == -EEXIST && f.code == NB_NOT_ALONE);
        EXPECT(waitpid(other, NULL, WNOHANG) == 0);
        EXPECT(seteuid(USER) == 0 && kill(other, SIGKILL) == 0 && seteuid(0) == 0);
        EXPECT(is_killed(other));
        EXPECT(waitpid(runner, NULL, WNOHANG) == 0);
        EXPECT(kill(runner, SIGKILL) == 0 && is_killed(runner));
        (void)snprintf(below, sizeof(below), "%s/below", group);
        EXPECT(mkdir(below, 0755) == 0);
        nb_failure_clear(&f);
        EXPECT(nb_alone_verify(0, &f) == -ENOTEMPTY && f.code == NB_NOT_ALONE);
        EXPECT(rmdir(below) == 0);
        return true;
}

/* A process that was killed stays, as in a file system that hangs: a tracer has stopped its end. A
 * second SIGKILL would let it go. */
static bool judge_hung_process(void) {
        const uint64_t deadline_ms = nb_now_ms() + 10000;
        pid_t hung = start_sleeper(0), other;
        struct nb_failure f = { 0 };
        char text[16];
        int status;

        EXPECT(ptrace(PTRACE_SEIZE, hung, NULL, PTRACE_O_TRACEEXIT) == 0);
        EXPECT(nb_alone_verify(0, &f) == 0);
        EXPECT(waitpid(hung, &status, 0) == hung &&
               status >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8));
        EXPECT(nb_alone_verify(0, &f) == 0);
        /* The runner leaves it alone, and does not report that join has left it. */
        EXPECT(!nb_alone_kill(0, 0, deadline_ms));
        other = start_sleeper(0);
        EXPECT(nb_alone_kill(0, 0, deadline_ms));
        EXPECT(is_killed(other));
        (void)snprintf(text, sizeof(text), "%d\n", (int)hung);
        EXPECT(nb_cgroup_procs_verify(text, 0, 0, &other) == 0);
        EXPECT(ptrace(PTRACE_CONT, hung, NULL, NULL) == 0);
        EXPECT(is_killed(hung));
        /* Its number may belong to another one now. */
        EXPECT(nb_cgroup_procs_verify(text, 0, 0, &other) == -EEXIST && other == hung);
        return true;
}

static void end(_unused_ void *userdata) {
}

/* So many that no other one is started; the runner, which is forked, leaves them alone as well. */
static bool judge_many_hung_processes(void) {
        const uint64_t deadline_ms = nb_now_ms() + 10000;
        pid_t hung[8], runner;
        struct nb_failure f = { 0 };
        int status;

        for (size_t i = 0; i < N_ELEMENTS(hung); i++) {
                hung[i] = start_sleeper(0);
                EXPECT(ptrace(PTRACE_SEIZE, hung[i], NULL, PTRACE_O_TRACEEXIT) == 0);
        }
        EXPECT(nb_process_try(end, NULL, 10000) == 0);
        EXPECT(nb_alone_verify(0, &f) == 0);
        EXPECT(nb_process_try(end, NULL, 10000) == -ETIMEDOUT);
        runner = fork();
        if (runner == 0)
                _exit(nb_alone_kill(getppid(), 0, deadline_ms) ? 1 : 0);
        EXPECT(waitpid(runner, &status, 0) == runner && status == 0);
        for (size_t i = 0; i < N_ELEMENTS(hung); i++) {
                EXPECT(waitpid(hung[i], &status, 0) == hung[i] && WIFSTOPPED(status));
                EXPECT(ptrace(PTRACE_CONT, hung[i], NULL, NULL) == 0);
                EXPECT(is_killed(hung[i]));
        }
        EXPECT(nb_alone_verify(0, &f) == 0);
        EXPECT(nb_process_try(end, NULL, 10000) == 0);
        return true;
}

static struct folder folder;

static void no_name(_unused_ void *userdata) {
}

/* Returns the status of a child with this script, after one of root has begun to hang. */
static int run_beside_hung_process(const char *script) {
        struct nb_child child = { .kind = NB_CHILD_JOIN,
                                  .timeout_ms = NB_TIME_INFINITE,
                                  .sources_fd = open("/dev/null", O_RDONLY | O_CLOEXEC),
                                  .on_status = no_name };
        char state_path[PATH_MAX], program[PATH_MAX];
        struct nb_state state = { .fd = -1 };
        struct nb_runner runner = { .fd = -1 };
        struct nb_child_end end = { .status = -1 };
        struct nb_failure f = { 0 };

        folder_put(&folder, "/program", script);
        folder_put(&folder, "/state/other", "");
        folder_locate(&folder, "/state", state_path);
        folder_locate(&folder, "/program", program);
        if (fchmodat(folder.fd, "program", 0755, 0) < 0 ||
            setenv("STATE_DIRECTORY", state_path, 1) < 0 || nb_state_open(&state, &f) < 0 ||
            ptrace(PTRACE_SEIZE, start_sleeper(0), NULL, PTRACE_O_TRACEEXIT) < 0 ||
            nb_runner_begin(&state, program, true, &runner, &f) < 0 ||
            nb_child_run(&runner, &child, &end, &f) < 0)
                return -1;
        nb_runner_done(&runner);
        nb_state_done(&state);
        return end.status;
}

/* What hangs before the runner begins is not what the child has left. */
static bool judge_runner(void) {
        int error_fd = nb_memory_file_open("standard error"), before = dup(STDERR_FILENO), status;
        char text[4096] = "";

        nb_log_init("test");
        folder_make(&folder);
        EXPECT(dup2(error_fd, STDERR_FILENO) == STDERR_FILENO);
        status = run_beside_hung_process("#!/bin/sh\nexit 3\n");
        EXPECT(dup2(before, STDERR_FILENO) == STDERR_FILENO);
        EXPECT(pread(error_fd, text, sizeof(text) - 1, 0) > 0);
        folder_remove(&folder);
        EXPECT(status == 3);
        EXPECT(strstr(text, "of root in the control group"));
        EXPECT(!strstr(text, "join left processes"));
        return true;
}

/* As in a shell, or in a container: a process of root is not of this program. */
static bool judge_foreign_group(void) {
        struct nb_failure f = { 0 };
        pid_t other = start_sleeper(0);

        EXPECT(nb_alone_verify(0, &f) == -EEXIST && f.code == NB_NOT_ALONE);
        EXPECT(waitpid(other, NULL, WNOHANG) == 0);
        EXPECT(nb_alone_verify(other, &f) == 0);
        EXPECT(kill(other, SIGKILL) == 0 && is_killed(other));
        return true;
}

/* A wrapper in ExecStart= waits for the installer. */
static bool judge_parent(void) {
        pid_t child = fork();
        int status;

        if (child == 0) {
                struct nb_failure f = { 0 };

                _exit(nb_alone_verify(0, &f) == -EEXIST && f.code == NB_NOT_ALONE ? 0 : 1);
        }
        EXPECT(waitpid(child, &status, 0) == child && status == 0);
        return true;
}

struct group_case {
        const char *name, *group;
        bool (*judge)(void);
};

static struct group_case group_cases[] = {
        { "others are found and killed", "node-bootstrap.service", judge_group },
        { "a hung process is not waited for", "node-bootstrap-refresh.service",
          judge_hung_process },
        { "many hung processes", "node-bootstrap.service", judge_many_hung_processes },
        { "a process hung before the runner began", "node-bootstrap.service", judge_runner },
        { "the group of another service", "ssh.service", judge_foreign_group },
        { "a group whose name ends alike", "x-node-bootstrap.service", judge_foreign_group },
        { "the parent is in the group", "node-bootstrap.service", judge_parent },
};

static void run_in_group(void **state) {
        const struct group_case *c = *state;
        int status, fds[2];
        char names[sizeof(above) + sizeof(group)] = "";
        pid_t pid;

        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        pid = fork();
        if (pid == 0) {
                bool is_there = enter_group(c->group);

                (void)!write(fds[1], group, sizeof(group));
                (void)!write(fds[1], above, sizeof(above));
                _exit(!is_there ? 255 : c->judge() ? 0 : 1);
        }
        assert_int_equal(close(fds[1]), 0);
        (void)!read(fds[0], names, sizeof(group));
        (void)!read(fds[0], names + sizeof(group), sizeof(above));
        assert_int_equal(close(fds[0]), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (names[0]) {
                (void)rmdir(names);
                (void)rmdir(names + sizeof(group));
        }
        if (WIFEXITED(status) && WEXITSTATUS(status) == 255)
                skip();
        assert_int_equal(status, 0);
}

int main(void) {
        CASES(path_cases, path_is_parsed);
        CASES(procs_cases, processes_are_counted);
        CASES(group_cases, run_in_group);
        return case_run("install alone");
}
