/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "install/alone.h"
#include "os/clock.h"
#include "os/privilege.h"
#include "os/process.h"
#include "systemd/log.h"

#define CGROUP_TEXT_MAX (64 * 1024)
#define PROCESSES_MAX 128 /* at a time: each has a descriptor */
#define GROUP_SIZE (PATH_MAX + 32)
#define NAME_SIZE 32 /* of a command */
#define LOOKS_MAX 10 /* a process may end while it is looked at */

static const struct timespec pause_time = { .tv_nsec = 1000000 };

/* Processes of root that nb_alone_verify() has killed. One that waits for a file system, such as
 * FUSE, ends only when that answers, but executes nothing more. A descriptor still refers to the
 * same process when another one has its number. The runner inherits them; once it is there, install
 * starts no other process (install/confine.h). */
static struct {
        pid_t pid; /* 0: the place is free */
        int fd;
} killed[PROCESSES_MAX];

static bool has_ended(int fd) {
        return poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 0) != 0;
}

static bool is_left(pid_t pid) {
        for (size_t i = 0; i < PROCESSES_MAX; i++)
                if (pid > 0 && killed[i].pid == pid && !has_ended(killed[i].fd))
                        return true;
        return false;
}

static unsigned count_left(void) {
        unsigned n = 0;

        for (size_t i = 0; i < PROCESSES_MAX; i++)
                n += killed[i].pid > 0 && !has_ended(killed[i].fd);
        return n;
}

/* Takes the descriptor. */
static void remember_killed(pid_t pid, int fd) {
        for (size_t i = 0; i < PROCESSES_MAX; i++) {
                if (killed[i].pid > 0 && !has_ended(killed[i].fd))
                        continue;
                if (killed[i].pid > 0)
                        (void)close(killed[i].fd);
                killed[i].pid = pid;
                killed[i].fd = fd;
                return;
        }
        (void)close(fd);
}

static bool is_plain_path(const char *path) {
        /* A path outside our cgroup namespace cannot be opened. With Delegate=, systemd runs the
         * service's other commands in a separate group ".control". */
        static const char *const refused[] = { "[!/]*", "", "*/../*", "*/..", "*/.control" };

        for (size_t i = 0; i < N_ELEMENTS(refused); i++)
                if (fnmatch(refused[i], path, 0) == 0)
                        return false;
        return true;
}

int nb_cgroup_path_parse(const char *text, bool is_unified, char *ret_path, size_t size) {
        const char *controllers = is_unified ? "::" : ":name=systemd:";

        for (const char *line = text; *line; line += line[0] == '\n') {
                const char *path = line + strspn(line, "0123456789");
                size_t len;

                line += strcspn(line, "\n");
                if (strncmp(path, controllers, strlen(controllers)) != 0)
                        continue;
                path += strlen(controllers);
                len = (size_t)(line - path);
                if (len >= size)
                        return -ENAMETOOLONG;
                memcpy(ret_path, path, len);
                ret_path[len] = '\0';
                return is_plain_path(ret_path) ? 0 : -EINVAL;
        }
        return -EINVAL;
}

static bool skip_line(const char **text, pid_t pid) {
        char line[16];
        size_t len = (size_t)snprintf(line, sizeof(line), "%d\n", (int)pid);

        if (pid == 0 || strncmp(*text, line, len) != 0)
                return false;
        *text += len;
        return true;
}

static bool skip_left(const char **text) {
        pid_t pid = (pid_t)strtol(*text, NULL, 10);

        return is_left(pid) && skip_line(text, pid);
}

int nb_cgroup_procs_verify(const char *text, pid_t self, pid_t runner, pid_t *ret_other) {
        if (!*text)
                return -EINVAL;
        while (skip_line(&text, self) || skip_line(&text, runner) || skip_left(&text))
                ;
        if (!*text)
                return 0;
        *ret_other = (pid_t)strtol(text, NULL, 10);
        return -EEXIST;
}

/* Where systemd's hierarchy is mounted: unified; version 1 or hybrid; hybrid with a unified tree.
 */
static int find_hierarchy(const char **ret_mount, bool *ret_is_unified) {
        static const char *const mounts[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/systemd" };
        struct statfs st;

        for (size_t i = 0; i < N_ELEMENTS(mounts); i++) {
                if (statfs(mounts[i], &st) < 0 || (st.f_type != (long)CGROUP2_SUPER_MAGIC &&
                                                   st.f_type != (long)CGROUP_SUPER_MAGIC))
                        continue;
                *ret_mount = mounts[i];
                *ret_is_unified = st.f_type == (long)CGROUP2_SUPER_MAGIC;
                return 0;
        }
        return -ENOENT;
}

static int read_text(int folder_fd, const char *name, struct nb_buffer *ret) {
        int r = nb_file_read(folder_fd, name, ret, NULL);

        if (r < 0)
                return r;
        return ret->len == 0 || memchr(ret->data, '\0', ret->len) ? -EINVAL : 0;
}

static int find_group(struct nb_buffer *text, char ret_folder[static GROUP_SIZE]) {
        _cleanup_(nb_closep) int self_fd = -1;
        char path[PATH_MAX];
        const char *mount;
        bool is_unified;
        int r;

        r = find_hierarchy(&mount, &is_unified);
        if (r < 0)
                return r;
        r = nb_folder_open("/proc/self", &self_fd);
        if (r < 0)
                return r;
        r = read_text(self_fd, "cgroup", text);
        if (r < 0)
                return r;
        r = nb_cgroup_path_parse(text->data, is_unified, path, sizeof(path));
        if (r < 0)
                return r;
        snprintf(ret_folder, GROUP_SIZE, "%s%s", mount, path);
        return 0;
}

static int read_processes(struct nb_buffer *text) {
        _cleanup_(nb_closep) int group_fd = -1;
        char folder[GROUP_SIZE];
        struct stat st;
        int r;

        r = find_group(text, folder);
        if (r >= 0)
                r = nb_folder_open(folder, &group_fd);
        if (r < 0)
                return r;
        /* cgroup.procs omits the processes of child groups; the link count reveals such groups. */
        if (fstat(group_fd, &st) < 0)
                return -errno;
        if (st.st_nlink != 2)
                return -ENOTEMPTY;
        return read_text(group_fd, "cgroup.procs", text);
}

static bool is_listed(const char *text, pid_t pid) {
        char *next;
        pid_t other;

        while ((other = (pid_t)strtol(text, &next, 10)) > 0 && other != pid)
                text = next;
        return other == pid;
}

/* "?" if the process has ended. */
static void read_name(pid_t pid, char ret[static NAME_SIZE]) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(64);
        _cleanup_(nb_closep) int fd = -1;
        char path[32];

        snprintf(path, sizeof(path), "/proc/%d", (int)pid);
        if (nb_folder_open(path, &fd) >= 0 && read_text(fd, "comm", &text) >= 0)
                nb_text_copy_line(text.data, strcspn(text.data, "\n"), ret, NAME_SIZE);
        else
                snprintf(ret, NAME_SIZE, "?");
}

/* Kills the processes that `text` lists. The caller may send signals to processes of root, and one
 * of them may have a number in the list by now. A descriptor always refers to the same process; a
 * second list shows that it is in the control group. Returns the number of killed processes. */
static unsigned kill_listed(struct nb_buffer *text, pid_t relative, pid_t child, bool *is_any) {
        pid_t pids[PROCESSES_MAX];
        int fds[PROCESSES_MAX], r;
        unsigned n = 0, n_killed = 0;
        char *next = text->data;

        while (n < PROCESSES_MAX && (pids[n] = (pid_t)strtol(next, &next, 10)) > 0) {
                if (pids[n] == getpid() || pids[n] == relative || is_left(pids[n]))
                        continue;
                fds[n] = (int)syscall(SYS_pidfd_open, pids[n], 0);
                n += fds[n] >= 0;
        }
        r = read_processes(text);
        for (unsigned i = 0; i < n; i++) {
                char name[NAME_SIZE];
                bool is_killed;

                read_name(pids[i], name);
                is_killed = r >= 0 && is_listed(text->data, pids[i]) &&
                            syscall(SYS_pidfd_send_signal, fds[i], SIGKILL, NULL, 0) == 0;
                if (is_killed && !is_any)
                        nb_log(LOG_NOTICE, NB_NONE,
                               "killed process %d ('%s') of root in the control group of the "
                               "service",
                               (int)pids[i], name);
                if (is_killed && is_any)
                        *is_any |= pids[i] != child;
                if (is_killed && !is_any)
                        remember_killed(pids[i], fds[i]);
                else
                        (void)close(fds[i]);
                n_killed += is_killed;
        }
        return n_killed;
}

bool nb_alone_kill(pid_t parent, pid_t child, uint64_t deadline_ms) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(CGROUP_TEXT_MAX);
        bool is_any = false;

        while (nb_now_ms() < deadline_ms && read_processes(&text) >= 0 &&
               kill_listed(&text, parent, child, &is_any) > 0)
                (void)nanosleep(&pause_time, NULL);
        return is_any;
}

/* Whoever starts the installer in a shell has the processes of a session in the same control group.
 * A wrapper in ExecStart= is the parent. */
static bool is_group_own(const char *list) {
        static const char *const units[] = { "*/node-bootstrap.service",
                                             "*/node-bootstrap-refresh.service" };
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(CGROUP_TEXT_MAX);
        char folder[GROUP_SIZE];
        bool is_own = false;

        if (find_group(&text, folder) < 0)
                return false;
        for (size_t i = 0; i < N_ELEMENTS(units); i++)
                is_own |= fnmatch(units[i], folder, 0) == 0;
        return is_own && !is_listed(list, getppid());
}

/* Without CAP_KILL, a signal reaches only processes with root as their real or saved user. No
 * process of `join` can ever be one of them: only root can have put them there. */
static void kill_own(struct nb_buffer *text, pid_t runner) {
        if (is_group_own(text->data) && nb_privilege_keep(~(UINT32_C(1) << CAP_KILL)) >= 0)
                (void)kill_listed(text, runner, 0, NULL);
}

int nb_alone_verify(pid_t runner, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(CGROUP_TEXT_MAX);
        pid_t other = 0;
        int r;

        for (unsigned i = 0;; i++) {
                r = read_processes(&text);
                if (r >= 0)
                        r = nb_cgroup_procs_verify(text.data, getpid(), runner, &other);
                if (r != -EEXIST || i == LOOKS_MAX)
                        break;
                if (i > 0)
                        (void)nanosleep(&pause_time, NULL);
                kill_own(&text, runner);
        }
        nb_process_note_left(count_left());
        if (r == -EEXIST)
                return nb_failure_set(f, NB_NOT_ALONE, r,
                                      "process %d is still in the control group of the service",
                                      (int)other);
        if (r == -ENOTEMPTY)
                return nb_failure_set(f, NB_NOT_ALONE, r,
                                      "the control group of the service has subgroups");
        if (r < 0)
                return nb_failure_set(f, NB_NOT_ALONE, r,
                                      "cannot list the processes in the control group of the "
                                      "service: %m");
        return 0;
}
