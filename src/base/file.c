/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U /* linux/memfd.h, 6.3 */
#endif

#define READ_SIZE 4096
#define TRIES_MAX 100
#define FOLDER_SIZE 1024

int nb_folder_open(const char *path, int *ret_fd) {
        return nb_folder_open_below(NULL, path, ret_fd);
}

/* `root_fd` -1: the root directory of this machine; `resolve` is then ignored. */
static int open_path(int root_fd, const char *path, int flags, uint64_t resolve) {
        struct open_how how = { .flags = (unsigned)flags | O_CLOEXEC, .resolve = resolve };
        long fd;

        if (root_fd < 0) {
                fd = open(path, flags | O_CLOEXEC);
                return fd < 0 ? -errno : (int)fd;
        }
        /* EAGAIN: a rename on this machine happened while the kernel resolved "..". */
        for (unsigned i = 0; i < TRIES_MAX; i++) {
                fd = syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
                if (fd >= 0)
                        return (int)fd;
                if (errno != EAGAIN)
                        break;
        }
        return -errno;
}

/* Gives the folder its mode at once, whatever the umask is: nothing corrects the mode of a folder
 * that exists, so a crash before fchmod(2) would leave one that others cannot read. */
static int make_folder_with_mode(int parent_fd, const char *name, mode_t mode) {
        mode_t before = umask(0);
        int r = mkdirat(parent_fd, name, mode) < 0 ? -errno : 0;

        (void)umask(before);
        return r;
}

static int make_folder(int root_fd, const char *path, mode_t mode, uint64_t resolve, int *ret_fd) {
        _cleanup_(nb_closep) int fd = open_path(root_fd, path, O_RDONLY | O_DIRECTORY, resolve),
                                 parent_fd = -1;
        char parent[FOLDER_SIZE];
        const char *name;
        int r;

        if (fd == -ENOENT && mode != 0) {
                r = nb_path_split(path, parent, sizeof(parent), &name);
                if (r < 0)
                        return r;
                r = make_folder(root_fd, parent, 0755, resolve, &parent_fd);
                if (r < 0)
                        return r;
                r = make_folder_with_mode(parent_fd, name, mode);
                if (r < 0 && r != -EEXIST)
                        return r;
                fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                /* Another process has just made it, or it is a dangling link. */
                if (r == -EEXIST && fd < 0)
                        return r;
                /* It may have inherited the set-group-ID bit or an ACL. */
                if (fd < 0 || (r == 0 && fchmod(fd, mode) < 0) || fsync(parent_fd) < 0)
                        return -errno;
        }
        if (fd < 0)
                return fd;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

int nb_path_open(int root_fd, const char *path, int flags) {
        return open_path(root_fd, path, flags, RESOLVE_IN_ROOT);
}

int nb_path_make_folder(int root_fd, const char *path, mode_t mode, int *ret_fd) {
        return make_folder(root_fd, path, mode, RESOLVE_IN_ROOT, ret_fd);
}

int nb_folder_open_below(const char *root, const char *path, int *ret_fd) {
        _cleanup_(nb_closep) int root_fd = -1;
        int r = root ? nb_folder_open(root, &root_fd) : 0;

        if (r < 0)
                return r;
        r = nb_path_open(root_fd, path, O_RDONLY | O_DIRECTORY);
        if (r < 0)
                return r;
        *ret_fd = r;
        return 0;
}

int nb_folder_make(const char *root, const char *path, mode_t mode, int *ret_fd) {
        _cleanup_(nb_closep) int root_fd = -1;
        int r = root ? nb_folder_open(root, &root_fd) : 0;

        if (r < 0)
                return r;
        return make_folder(root_fd, path, mode, RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS, ret_fd);
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

/* O_NONBLOCK, since opening a FIFO would otherwise wait for a writer. */
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

int nb_file_read(int folder_fd, const char *name, struct nb_buffer *ret, struct stat *ret_stat) {
        _cleanup_(nb_closep) int fd = -1;
        char chunk[READ_SIZE];
        struct stat st;
        ssize_t n = 0;
        int r;

        r = open_regular(folder_fd, name, &fd, &st);
        if (r < 0)
                return r;
        nb_buffer_clear(ret);
        while (ret->error >= 0 && (n = TEMP_FAILURE_RETRY(read(fd, chunk, sizeof(chunk)))) > 0)
                nb_buffer_append(ret, chunk, (size_t)n);
        r = n < 0 ? -errno : ret->error;
        if (r < 0) {
                nb_buffer_clear(ret);
                return r == -E2BIG ? -EFBIG : r;
        }
        if (ret_stat)
                *ret_stat = st;
        return 0;
}

int nb_file_read_open(int fd, size_t max, struct nb_secret *ret, struct stat *ret_stat) {
        _cleanup_(nb_secret_done) struct nb_secret secret = NB_SECRET_INIT;
        struct stat st;
        ssize_t n;
        int r;

        if (fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return -EBADF;
        if ((uint64_t)st.st_size > max)
                return -EFBIG;
        /* One byte more, to notice a file that grows. */
        r = nb_secret_init(&secret, (size_t)st.st_size + 1);
        if (r < 0)
                return r;
        while ((n = TEMP_FAILURE_RETRY(
                        read(fd, secret.data + secret.len, secret.size - secret.len))) > 0)
                secret.len += (size_t)n;
        if (n < 0)
                return -errno;
        if (secret.len == secret.size)
                return -EAGAIN;
        secret.data[secret.len] = '\0';
        *ret = TAKE(secret);
        if (ret_stat)
                *ret_stat = st;
        return 0;
}

int nb_file_read_secret(int folder_fd, const char *name, size_t max, struct nb_secret *ret,
                        struct stat *ret_stat) {
        _cleanup_(nb_closep) int fd = -1;
        struct stat st;
        int r = open_regular(folder_fd, name, &fd, &st);

        return r < 0 ? r : nb_file_read_open(fd, max, ret, ret_stat);
}

bool nb_file_is_exposed(int fd, const struct stat *st) {
        char link[32], path[PATH_MAX];
        struct stat folder;
        ssize_t len;

        if (!S_ISREG(st->st_mode) || !(st->st_mode & 0007))
                return false;
        (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        len = readlink(link, path, sizeof(path) - 1);
        for (path[len > 0 ? len : 0] = '\0'; strrchr(path, '/') > path;) {
                *strrchr(path, '/') = '\0';
                if (stat(path, &folder) == 0 && !(folder.st_mode & 0011) &&
                    (folder.st_uid == 0 || folder.st_uid == st->st_uid))
                        return false;
        }
        return true;
}

int nb_memory_file_open(const char *name) {
        int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

        /* Linux before 6.3 does not know the last flag. */
        if (fd < 0 && errno == EINVAL)
                fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
        return fd < 0 ? -errno : fd;
}

int nb_path_read(int root_fd, const char *path, size_t max, struct nb_secret *ret) {
        /* O_NONBLOCK, since opening a FIFO would otherwise wait for a writer. */
        _cleanup_(nb_closep) int fd = nb_path_open(root_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);

        return fd < 0 ? fd : nb_file_read_open(fd, max, ret, NULL);
}

int nb_fd_write(int fd, const void *data, size_t len) {
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

int nb_stream_flush(FILE *stream) {
        return fflush(stream) != 0 ? -errno : ferror(stream) ? -EIO : 0;
}

int nb_file_stage(int folder_fd, const char *name, mode_t mode, const void *data, size_t len,
                  char ret_temporary[static NAME_MAX + 1], int *ret_fd) {
        _cleanup_(nb_closep) int fd = -1;
        int r;

        assert(!strchr(name, '/'));
        if (snprintf(ret_temporary, NAME_MAX + 1, ".%s.tmp", name) > NAME_MAX)
                return -ENAMETOOLONG;
        if (unlinkat(folder_fd, ret_temporary, 0) < 0 && errno != ENOENT)
                return -errno;
        fd = openat(folder_fd, ret_temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                    mode);
        if (fd < 0)
                return -errno;
        r = nb_fd_write(fd, data, len);
        /* The umask can only remove permissions from `mode`, and fchmod() restores them, so the
         * file never has more permissions than `mode`. */
        if (r >= 0 && fchmod(fd, mode) < 0)
                r = -errno;
        if (r < 0) {
                (void)unlinkat(folder_fd, ret_temporary, 0);
                return r;
        }
        *ret_fd = TAKE_FD(fd);
        return 0;
}

int nb_file_rename_new(int folder_fd, const char *from, const char *to) {
        if (renameat2(folder_fd, from, folder_fd, to, RENAME_NOREPLACE) == 0)
                return 0;
        if (errno != EINVAL)
                return -errno;
        if (linkat(folder_fd, from, folder_fd, to, 0) < 0)
                return -errno;
        return unlinkat(folder_fd, from, 0) < 0 ? -errno : 0;
}

static int write_file(int folder_fd, const char *name, mode_t mode, const void *data, size_t len,
                      bool is_new) {
        _cleanup_(nb_closep) int fd = -1;
        char temporary[NAME_MAX + 1];
        int r;

        r = nb_file_stage(folder_fd, name, mode, data, len, temporary, &fd);
        if (r < 0)
                return r;
        if (fsync(fd) < 0 || (!is_new && renameat(folder_fd, temporary, folder_fd, name) < 0))
                r = -errno;
        else if (is_new)
                r = nb_file_rename_new(folder_fd, temporary, name);
        if (r < 0)
                (void)unlinkat(folder_fd, temporary, 0);
        else if (fsync(folder_fd) < 0) {
                r = -errno;
                if (is_new)
                        (void)unlinkat(folder_fd, name, 0);
        }
        return r;
}

int nb_file_write(int folder_fd, const char *name, mode_t mode, const void *data, size_t len) {
        return write_file(folder_fd, name, mode, data, len, false);
}

int nb_file_create(int folder_fd, const char *name, mode_t mode, const void *data, size_t len) {
        return write_file(folder_fd, name, mode, data, len, true);
}

int nb_file_remove(int folder_fd, const char *name) {
        if (unlinkat(folder_fd, name, 0) < 0)
                return errno == ENOENT ? 0 : -errno;
        return fsync(folder_fd) < 0 ? -errno : 0;
}

/* The new name is random, so that no other party can create a file with this name first. */
static int move_away(int folder_fd, const char *name) {
        char away[NAME_MAX + 1];
        uint64_t number;

        if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number))
                return -EAGAIN;
        if (snprintf(away, sizeof(away), "%s.%016" PRIx64, name, number) > NAME_MAX)
                return -ENAMETOOLONG;
        return renameat(folder_fd, name, folder_fd, away) < 0 ? -errno : 0;
}

int nb_file_clear(int folder_fd, const char *name) {
        int r = 0;

        if (unlinkat(folder_fd, name, 0) < 0) {
                if (errno == ENOENT)
                        return 0;
                r = move_away(folder_fd, name);
        }
        if (r < 0)
                return r;
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
