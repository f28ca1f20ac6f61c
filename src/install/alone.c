/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/macro.h"
#include "install/alone.h"

#define CGROUP_ROOT "/sys/fs/cgroup"
#define CGROUP_TEXT_MAX (64 * 1024)

static bool is_plain_path(const char *path) {
        static const char control[] = "/.control";
        size_t len = strlen(path);

        /* Outside of our namespace, so it cannot be opened. */
        if (path[0] != '/' || strstr(path, "/../") || (len >= 3 && !strcmp(path + len - 3, "/..")))
                return false;
        /* With Delegate= these commands run in another group than the main process. */
        return len < strlen(control) || strcmp(path + len - strlen(control), control) != 0;
}

int nb_cgroup_path_parse(const char *text, bool is_unified, char *ret_path, size_t size) {
        const char *controllers = is_unified ? "" : "name=systemd";

        for (const char *line = text; *line;) {
                size_t len = strcspn(line, "\n");
                const char *first = memchr(line, ':', len);
                const char *second = first ? memchr(first + 1, ':',
                                                    len - (size_t)(first + 1 - line))
                                           : NULL;

                if (second && (size_t)(second - first - 1) == strlen(controllers) &&
                    !memcmp(first + 1, controllers, strlen(controllers))) {
                        size_t path_len = len - (size_t)(second + 1 - line);

                        if (path_len >= size)
                                return -ENAMETOOLONG;
                        memcpy(ret_path, second + 1, path_len);
                        ret_path[path_len] = '\0';
                        return is_plain_path(ret_path) ? 0 : -EINVAL;
                }
                line += len + (line[len] == '\n');
        }
        return -EINVAL;
}

int nb_cgroup_procs_verify(const char *text, pid_t self, pid_t *ret_other) {
        bool is_listed = false;

        for (const char *line = text; *line;) {
                char *end;
                long pid;

                if (*line < '0' || *line > '9')
                        return -EINVAL;
                errno = 0;
                pid = strtol(line, &end, 10);
                if (errno != 0 || pid > INT_MAX || *end != '\n')
                        return -EINVAL;
                if (pid != self) {
                        *ret_other = (pid_t)pid;
                        return -EEXIST;
                }
                is_listed = true;
                line = end + 1;
        }
        return is_listed ? 0 : -EINVAL;
}

static bool is_of_type(const char *path, long type) {
        struct statfs st;

        return statfs(path, &st) == 0 && (long)st.f_type == type;
}

/* Where systemd's hierarchy is mounted: unified; version 1 or hybrid; hybrid with a unified tree.
 */
static int find_hierarchy(const char **ret_mount, bool *ret_is_unified) {
        static const struct {
                const char *path;
                long type;
        } places[] = {
                { CGROUP_ROOT, CGROUP2_SUPER_MAGIC },
                { CGROUP_ROOT "/systemd", CGROUP_SUPER_MAGIC },
                { CGROUP_ROOT "/systemd", CGROUP2_SUPER_MAGIC },
        };

        for (size_t i = 0; i < N_ELEMENTS(places); i++)
                if (is_of_type(places[i].path, places[i].type)) {
                        *ret_mount = places[i].path;
                        *ret_is_unified = places[i].type == CGROUP2_SUPER_MAGIC;
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

/* The processes of a group below are not in our list. */
static int verify_no_groups_below(int group_fd) {
        _cleanup_(nb_folder_closep) DIR *folder = nb_folder_list(group_fd);
        struct dirent *entry;

        if (!folder)
                return -errno;
        while ((errno = 0, entry = readdir(folder)))
                if (entry->d_type != DT_REG && strcmp(entry->d_name, ".") != 0 &&
                    strcmp(entry->d_name, "..") != 0)
                        return -ENOTEMPTY;
        return -errno;
}

static int find_others(pid_t *ret_other) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(CGROUP_TEXT_MAX);
        _cleanup_(nb_closep) int group_fd = -1;
        int r;

        r = find_group(&text, &group_fd);
        if (r < 0)
                return r;
        r = verify_no_groups_below(group_fd);
        if (r < 0)
                return r;
        r = read_text(group_fd, "cgroup.procs", &text);
        if (r < 0)
                return r;
        return nb_cgroup_procs_verify(text.data, getpid(), ret_other);
}

int nb_alone_verify(struct nb_failure *f) {
        pid_t other = 0;
        int r = find_others(&other);

        if (r == -EEXIST)
                return nb_failure_set(f, NB_NOT_ALONE, r,
                                      "process %d is still in the control group of the service",
                                      (int)other);
        if (r == -ENOTEMPTY)
                return nb_failure_set(f, NB_NOT_ALONE, r,
                                      "the control group of the service has groups below it");
        if (r < 0)
                return nb_failure_set(f, NB_NOT_ALONE, r,
                                      "cannot list the processes in the control group of the "
                                      "service: %m");
        return 0;
}
