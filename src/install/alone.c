/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <linux/magic.h>
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
#include "install/alone.h"
#include "os/clock.h"
#include "os/process.h"

#define CGROUP_TEXT_MAX (64 * 1024)
#define PROCESSES_MAX 128 /* at a time: each has a descriptor */

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

/* One that was killed, but still waits for a file system. */
static bool skip_left(const char **text) {
        pid_t pid = (pid_t)strtol(*text, NULL, 10);

        return nb_process_is_left(pid) && skip_line(text, pid);
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

static int find_group(struct nb_buffer *text, int *ret_fd) {
        _cleanup_(nb_closep) int self_fd = -1;
        char path[PATH_MAX], folder[PATH_MAX + 32];
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
        snprintf(folder, sizeof(folder), "%s%s", mount, path);
        return nb_folder_open(folder, ret_fd);
}

static int read_processes(struct nb_buffer *text) {
        _cleanup_(nb_closep) int group_fd = -1;
        struct stat st;
        int r;

        r = find_group(text, &group_fd);
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

/* Kills the processes that `text` lists. The caller may send signals to processes of root, and one
 * of them may have a number in the list by now. A descriptor always refers to the same process; a
 * second list shows that it is in the control group. Returns the number of killed processes. */
static unsigned kill_listed(struct nb_buffer *text, pid_t parent, pid_t child, bool *is_any) {
        pid_t pids[PROCESSES_MAX];
        int fds[PROCESSES_MAX], r;
        unsigned n = 0, n_killed = 0;
        char *next = text->data;

        while (n < PROCESSES_MAX && (pids[n] = (pid_t)strtol(next, &next, 10)) > 0) {
                if (pids[n] == getpid() || pids[n] == parent || nb_process_is_left(pids[n]))
                        continue;
                fds[n] = (int)syscall(SYS_pidfd_open, pids[n], 0);
                n += fds[n] >= 0;
        }
        r = read_processes(text);
        for (unsigned i = 0; i < n; i++) {
                if (r >= 0 && is_listed(text->data, pids[i]) &&
                    syscall(SYS_pidfd_send_signal, fds[i], SIGKILL, NULL, 0) == 0) {
                        *is_any |= pids[i] != child;
                        n_killed++;
                }
                (void)close(fds[i]);
        }
        return n_killed;
}

bool nb_alone_kill(pid_t parent, pid_t child, uint64_t deadline_ms) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(CGROUP_TEXT_MAX);
        const struct timespec pause = { .tv_nsec = 1000000 };
        bool is_any = false;

        while (nb_now_ms() < deadline_ms && read_processes(&text) >= 0 &&
               kill_listed(&text, parent, child, &is_any) > 0)
                (void)nanosleep(&pause, NULL);
        return is_any;
}

int nb_alone_verify(pid_t runner, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(CGROUP_TEXT_MAX);
        pid_t other = 0;
        int r = read_processes(&text);

        if (r >= 0)
                r = nb_cgroup_procs_verify(text.data, getpid(), runner, &other);
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
