/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "format/settings.h"
#include "install/target.h"

#define TRIES_MAX 100

int nb_target_open(int root_fd, const char *path, int flags) {
        struct open_how how = { .flags = (unsigned)flags | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT };
        long fd;

        if (root_fd < 0) {
                fd = open(path, flags | O_CLOEXEC);
                return fd < 0 ? -errno : (int)fd;
        }
        /* EAGAIN: something was renamed on this machine while ".." was looked up. */
        for (unsigned i = 0; i < TRIES_MAX; i++) {
                fd = syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
                if (fd >= 0)
                        return (int)fd;
                if (errno != EAGAIN)
                        break;
        }
        return -errno;
}

static int read_all(int fd, struct nb_secret *secret) {
        while (secret->len < secret->size) {
                ssize_t n = read(fd, secret->data + secret->len, secret->size - secret->len);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                secret->len += (size_t)n;
        }
        return 0;
}

int nb_target_read(int root_fd, const char *path, size_t max, struct nb_secret *ret) {
        _cleanup_(nb_secret_done) struct nb_secret secret = NB_SECRET_INIT;
        _cleanup_(nb_closep) int fd = -1;
        struct stat st;
        int r;

        /* O_NONBLOCK: a FIFO must not wait for a writer. */
        fd = nb_target_open(root_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
        if (fd < 0)
                return fd;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return -EBADF;
        if (st.st_size > (off_t)max)
                return -EFBIG;
        r = nb_secret_init(&secret, (size_t)st.st_size);
        if (r >= 0)
                r = read_all(fd, &secret);
        if (r < 0)
                return r;
        *ret = secret;
        secret = (struct nb_secret)NB_SECRET_INIT;
        return 0;
}

static int open_folder(int root_fd, const char *path, int *ret_fd) {
        int fd = nb_target_open(root_fd, path, O_RDONLY | O_DIRECTORY);

        if (fd < 0)
                return fd;
        *ret_fd = fd;
        return 0;
}

static int make_folder(int parent_fd, const char *name, mode_t mode, int *ret_fd) {
        _cleanup_(nb_closep) int fd = -1;

        if (mkdirat(parent_fd, name, mode) < 0)
                return -errno;
        fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fchmod(fd, mode) < 0 || fsync(parent_fd) < 0)
                return -errno;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

int nb_target_folder(int root_fd, const char *path, mode_t mode, int *ret_fd) {
        _cleanup_(nb_closep) int parent_fd = -1;
        char parent[NB_SETTINGS_PATH_MAX];
        const char *name;
        int r;

        r = open_folder(root_fd, path, ret_fd);
        if (r != -ENOENT)
                return r;
        r = nb_path_split(path, parent, sizeof(parent), &name);
        if (r >= 0)
                r = nb_target_folder(root_fd, parent, 0755, &parent_fd);
        if (r < 0)
                return r;
        return make_folder(parent_fd, name, mode, ret_fd);
}

DIR *nb_folder_list(int folder_fd) {
        _cleanup_(nb_closep) int fd = openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *folder = fd < 0 ? NULL : fdopendir(fd);

        if (folder)
                (void)TAKE_FD(fd);
        return folder;
}

void nb_folder_closep(DIR **folder) {
        if (*folder)
                (void)closedir(*folder);
}
