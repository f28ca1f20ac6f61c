/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads and replaces files. After a crash, a file has either its old or its new contents. It never
 * has more permissions than intended, and is synced before a function returns.
 *
 * Names are single path components below a directory descriptor; a symbolic link in the last
 * component is never followed. Reading opens the file once, checks what was opened (a regular file
 * within the size limit), and reads that.
 */

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "base/secret.h"

/* Opens a directory by an absolute path and follows symbolic links; only for paths from root or
 * systemd. 0, -errno. */
int nb_folder_open(const char *path, int *ret_fd);

/* Opens a path as if `root_fd` were the root directory, also for symbolic links; -1: the root
 * directory of this machine. Returns a descriptor with O_CLOEXEC, or -errno. */
int nb_path_open(int root_fd, const char *path, int flags);

/* Whether the mode lets others use the open file, and each folder above it lets them through. A
 * folder keeps others away if it belongs to root or the file's owner, and only they can search it.
 */
bool nb_file_is_exposed(int fd, const struct stat *st);

/* Creates a memory file that can be sealed but not executed, as vm.memfd_noexec may require.
 * Returns a descriptor with O_CLOEXEC, or -errno. */
int nb_memory_file_open(const char *name);

/* Reads the file that the path leads to, following symbolic links. 0; -EBADF if it is not a regular
 * file; -EFBIG if it is larger than `max`; -errno. */
int nb_path_read(int root_fd, const char *path, size_t max, struct nb_secret *ret);

/* Opens a directory. If it is missing, creates it with exactly `mode`, and missing parents with
 * 0755, and syncs the parents. 0, -errno. */
int nb_path_make_folder(int root_fd, const char *path, mode_t mode, int *ret_fd);

/* nb_path_open() for a directory below `root` (NULL: the root directory of this machine). 0,
 * -errno. */
int nb_folder_open_below(const char *root, const char *path, int *ret_fd);

/* nb_path_make_folder() below `root` (NULL: the root directory of this machine). Follows no
 * symbolic link below `root`, since somebody else may have created the image. -ELOOP for a link.
 * `mode` 0: creates nothing; -ENOENT if it is missing. */
int nb_folder_make(const char *root, const char *path, mode_t mode, int *ret_fd);

/* Opens a stream of the entries of an open directory, with its own descriptor. NULL and errno on
 * failure. */
DIR *nb_folder_list(int folder_fd);
void nb_folder_closep(DIR **folder);

/* Reads a whole file. 0; -ENOENT; -ELOOP for a symbolic link; -EBADF if it is not a regular file;
 * -EFBIG if it is larger than `ret->max`; another -errno. ret_stat may be NULL. */
int nb_file_read(int folder_fd, const char *name, struct nb_buffer *ret, struct stat *ret_stat);

/* Like nb_file_read(), into a secret that has the size of the file. -EFBIG above `max`; -EAGAIN if
 * the file grows while it is read. nb_file_read_open() reads an open file. */
int nb_file_read_secret(int folder_fd, const char *name, size_t max, struct nb_secret *ret,
                        struct stat *ret_stat);
int nb_file_read_open(int fd, size_t max, struct nb_secret *ret, struct stat *ret_stat);

/* Writes all data, even if signals interrupt it. 0, -errno. */
int nb_fd_write(int fd, const void *data, size_t len);

/* Replaces or creates `name` with exactly `mode`: writes `.<name>.tmp` (O_EXCL|O_NOFOLLOW), fsync,
 * rename, fsync of the directory. 0, -errno. On failure, the old file is unchanged and no temporary
 * file is left. */
int nb_file_write(int folder_fd, const char *name, mode_t mode, const void *data, size_t len);

/* Creates `name` in the same way, but fails with -EEXIST if it exists. On failure, no file is left.
 */
int nb_file_create(int folder_fd, const char *name, mode_t mode, const void *data, size_t len);

/* The first part of nb_file_write(): writes the temporary file, which the caller must sync by the
 * returned descriptor. 0, -errno. On failure, no file is left. */
int nb_file_stage(int folder_fd, const char *name, mode_t mode, const void *data, size_t len,
                  char ret_temporary[static NAME_MAX + 1], int *ret_fd);

/* Writes what is buffered. 0; -errno; -EIO if an earlier write failed, so output is missing. */
int nb_stream_flush(FILE *stream);

/* Removes a file or symbolic link and syncs the directory. 0 if it does not exist. -EISDIR for a
 * directory. */
int nb_file_remove(int folder_fd, const char *name);

/* Removes a file of any type, and syncs the parent directory, to which other parties may write. A
 * directory is renamed instead, so that the name is always free afterwards. */
int nb_file_clear(int folder_fd, const char *name);

/* Renames a file, unless the new name exists (-EEXIST). On file systems without RENAME_NOREPLACE,
 * such as NFS, the file has both names for a moment, and keeps both if the machine crashes at that
 * moment. */
int nb_file_rename_new(int folder_fd, const char *from, const char *to);

/* Splits an absolute path into its directory, which is copied to `ret_folder` (`size` bytes), and a
 * pointer to its last component. */
int nb_path_split(const char *path, char *ret_folder, size_t size, const char **ret_name);
