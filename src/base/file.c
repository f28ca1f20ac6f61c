/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"

#define READ_SIZE 4096
#define TRIES_MAX 100

int nb_folder_open(const char *path, int *ret_fd) {
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0)
                return -errno;
        *ret_fd = fd;
        return 0;
}

int nb_folder_open_below(const char *root, const char *path, int *ret_fd) {
        struct open_how how = { .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT };
        _cleanup_(nb_closep) int root_fd = -1;
        long fd = -1;
        int r;

        if (!root)
                return nb_folder_open(path, ret_fd);
        r = nb_folder_open(root, &root_fd);
        if (r < 0)
                return r;
        /* EAGAIN: something was renamed on this machine while ".." was looked up. */
        for (unsigned i = 0; i < TRIES_MAX && fd < 0; i++) {
                fd = syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
                if (fd < 0 && errno != EAGAIN)
                        break;
        }
        if (fd < 0)
                return -errno;
        *ret_fd = (int)fd;
        return 0;
}

static int make_component(int parent_fd, const char *name, mode_t mode, int flags, int *ret_fd) {
        _cleanup_(nb_closep) int fd = -1;

        flags |= O_RDONLY | O_DIRECTORY | O_CLOEXEC;
        fd = openat(parent_fd, name, flags);
        if (fd < 0 && errno == ENOENT) {
                if (mkdirat(parent_fd, name, mode) < 0)
                        return -errno;
                fd = openat(parent_fd, name, flags | O_NOFOLLOW);
                if (fd >= 0 && (fchmod(fd, mode) < 0 || fsync(parent_fd) < 0))
                        return -errno;
        }
        if (fd < 0)
                return -errno;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

int nb_folder_make(const char *root, const char *path, mode_t mode, int *ret_fd) {
        _cleanup_(nb_closep) int fd = -1;
        char name[NAME_MAX + 1];
        int r;

        r = nb_folder_open(root ? root : "/", &fd);
        for (size_t len; r >= 0 && *(path += strspn(path, "/")); path += len) {
                int parent_fd = fd, child_fd = -1;

                len = strcspn(path, "/");
                if (len > NAME_MAX)
                        return -ENAMETOOLONG;
                memcpy(name, path, len);
                name[len] = '\0';
                r = make_component(parent_fd, name, path[len + strspn(path + len, "/")] ? 0755 : mode, root ? O_NOFOLLOW : 0, &child_fd);
                if (r < 0)
                        return r;
                (void)close(parent_fd);
                fd = child_fd;
        }
        if (r < 0)
                return r;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

/* O_NONBLOCK: opening a FIFO that somebody put there must not wait for a writer. */
static int open_regular(int folder_fd, const char *name, int *ret_fd, struct stat *ret_stat) {
        _cleanup_(nb_closep) int fd = -1;
        struct stat st;

        assert(!strchr(name, '/'));
        fd = openat(folder_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
        if (fd < 0)
                return -errno;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return -EBADF;
        *ret_fd = TAKE_FD(fd);
        *ret_stat = st;
        return 0;
}

static int read_some(int fd, void *data, size_t size, size_t *ret_len) {
        ssize_t n;

        do
                n = read(fd, data, size);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        *ret_len = (size_t)n;
        return 0;
}

int nb_file_read(int folder_fd, const char *name, struct nb_buffer *ret, struct stat *ret_stat) {
        _cleanup_(nb_closep) int fd = -1;
        struct stat st;
        char chunk[READ_SIZE];
        size_t n = 0;
        int r;

        r = open_regular(folder_fd, name, &fd, &st);
        if (r < 0)
                return r;
        nb_buffer_clear(ret);
        do {
                r = read_some(fd, chunk, sizeof(chunk), &n);
                if (r >= 0)
                        r = nb_buffer_append(ret, chunk, n);
                if (r < 0) {
                        nb_buffer_clear(ret);
                        return r == -E2BIG ? -EFBIG : r;
                }
        } while (n > 0);
        if (ret_stat)
                *ret_stat = st;
        return 0;
}

int nb_file_read_secret(int folder_fd, const char *name, size_t max, struct nb_secret *ret, struct stat *ret_stat) {
        _cleanup_(nb_closep) int fd = -1;
        _cleanup_(nb_secret_done) struct nb_secret secret = NB_SECRET_INIT;
        struct stat st;
        size_t n = 0;
        int r;

        r = open_regular(folder_fd, name, &fd, &st);
        if (r < 0)
                return r;
        /* One byte more than is allowed tells a file at the ceiling from one above it. */
        r = nb_secret_init(&secret, max + 1);
        if (r < 0)
                return r;
        do {
                if (secret.len > max)
                        return -EFBIG;
                r = read_some(fd, secret.data + secret.len, max + 1 - secret.len, &n);
                if (r < 0)
                        return r;
                secret.len += n;
        } while (n > 0);
        *ret = secret;
        secret = (struct nb_secret)NB_SECRET_INIT;
        if (ret_stat)
                *ret_stat = st;
        return 0;
}

static int temporary_name(const char *name, char ret[static NAME_MAX + 1]) {
        int n = snprintf(ret, NAME_MAX + 1, ".%s.tmp", name);

        return n > NAME_MAX ? -ENAMETOOLONG : 0;
}

static int write_all(int fd, const void *data, size_t len) {
        const char *p = data;

        while (len > 0) {
                ssize_t n = write(fd, p, len);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                p += n;
                len -= (size_t)n;
        }
        return 0;
}

/* The umask can only take away what fchmod() gives back, so the file is never wider than `mode`. */
static int write_temporary(int folder_fd, const char *temporary, mode_t mode, const void *data, size_t len) {
        _cleanup_(nb_closep) int fd = -1;
        int r;

        if (unlinkat(folder_fd, temporary, 0) < 0 && errno != ENOENT)
                return -errno;
        fd = openat(folder_fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        if (fd < 0)
                return -errno;
        r = write_all(fd, data, len);
        if (r >= 0 && (fchmod(fd, mode) < 0 || fsync(fd) < 0))
                r = -errno;
        if (r < 0)
                (void)unlinkat(folder_fd, temporary, 0);
        return r;
}

int nb_file_stage(int folder_fd, const char *name, mode_t mode, const void *data, size_t len,
                  char ret_temporary[static NAME_MAX + 1]) {
        int r;

        assert(!strchr(name, '/'));
        r = temporary_name(name, ret_temporary);
        return r < 0 ? r : write_temporary(folder_fd, ret_temporary, mode, data, len);
}

static int publish_replace(int folder_fd, const char *temporary, const char *name) {
        return renameat(folder_fd, temporary, folder_fd, name) < 0 ? -errno : 0;
}

static int publish_new(int folder_fd, const char *temporary, const char *name) {
        return renameat2(folder_fd, temporary, folder_fd, name, RENAME_NOREPLACE) < 0 ? -errno : 0;
}

/* `publish` puts the finished temporary file in place; what is left of it on failure is removed. */
static int write_and_publish(int folder_fd, const char *name, mode_t mode, const void *data, size_t len,
                             int (*publish)(int folder_fd, const char *temporary, const char *name)) {
        char temporary[NAME_MAX + 1];
        int r;

        r = nb_file_stage(folder_fd, name, mode, data, len, temporary);
        if (r < 0)
                return r;
        r = publish(folder_fd, temporary, name);
        if (r < 0) {
                (void)unlinkat(folder_fd, temporary, 0);
                return r;
        }
        if (fsync(folder_fd) < 0) {
                r = -errno;
                if (publish == publish_new)
                        (void)unlinkat(folder_fd, name, 0);
        }
        return r;
}

int nb_file_write(int folder_fd, const char *name, mode_t mode, const void *data, size_t len) {
        return write_and_publish(folder_fd, name, mode, data, len, publish_replace);
}

int nb_file_create(int folder_fd, const char *name, mode_t mode, const void *data, size_t len) {
        return write_and_publish(folder_fd, name, mode, data, len, publish_new);
}

int nb_file_remove(int folder_fd, const char *name) {
        if (unlinkat(folder_fd, name, 0) < 0)
                return errno == ENOENT ? 0 : -errno;
        return fsync(folder_fd) < 0 ? -errno : 0;
}

int nb_path_split(const char *path, char *ret_folder, size_t size, const char **ret_name) {
        const char *slash = strrchr(path, '/');
        size_t len;

        if (path[0] != '/' || slash[1] == '\0')
                return -EINVAL;
        len = slash == path ? 1 : (size_t)(slash - path);
        if (len >= size)
                return -ENAMETOOLONG;
        memcpy(ret_folder, path, len);
        ret_folder[len] = '\0';
        *ret_name = slash + 1;
        return 0;
}
