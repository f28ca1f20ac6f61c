/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Files that are either the old one or the new one, never wider than they should be, and durable before we say so.
 *
 * Names are single path components below a folder descriptor; nothing here follows a link in the last component.
 * Reading opens once, checks what was opened (a regular file, within the ceiling) and reads that.
 */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "base/secret.h"

/* Opens a folder by an absolute path, links followed: for folders that root or systemd names. 0, -errno. */
int nb_folder_open(const char *path, int *ret_fd);

/* The same by a path below `root` (NULL: of this machine), as if that were the root of the file system, links included. */
int nb_folder_open_below(const char *root, const char *path, int *ret_fd);

/*
 * The same, made with exactly `mode` where it is not there, and missing parents with 0755; what was made is durable. With
 * `root` the path is looked up below that folder, and no link on the way is followed: in an image one leads out of it.
 */
int nb_folder_make(const char *root, const char *path, mode_t mode, int *ret_fd);

/*
 * Reads a whole file. 0; -ENOENT; -ELOOP for a link; -EBADF for anything that is no regular file; -EFBIG above
 * `ret->max`; another -errno. ret_stat may be NULL.
 */
int nb_file_read(int folder_fd, const char *name, struct nb_buffer *ret, struct stat *ret_stat);

/* The same into a secret made here with room for `max` bytes. */
int nb_file_read_secret(int folder_fd, const char *name, size_t max, struct nb_secret *ret, struct stat *ret_stat);

/*
 * Replaces or makes `name` with exactly `mode`: temporary name `.<name>.tmp` with O_EXCL|O_NOFOLLOW, fsync, rename,
 * fsync of the folder. 0, -errno; on failure the old file is untouched and no temporary one is left.
 */
int nb_file_write(int folder_fd, const char *name, mode_t mode, const void *data, size_t len);

/* Makes `name`, which must not be there (-EEXIST), durable and whole at once (a finished temporary file, renamed without
 * replacing). On failure it is not there. */
int nb_file_create(int folder_fd, const char *name, mode_t mode, const void *data, size_t len);

/* The first half of nb_file_write(): the finished temporary file, synced. 0, -errno with none left. */
int nb_file_stage(int folder_fd, const char *name, mode_t mode, const void *data, size_t len,
                  char ret_temporary[static NAME_MAX + 1]);

/* Removes a file or link and syncs the folder; not there is fine. A folder is not removed (-EISDIR). */
int nb_file_remove(int folder_fd, const char *name);

/* Splits an absolute path into its folder (as a copy in `ret_folder`, size bytes) and a pointer to its last component. */
int nb_path_split(const char *path, char *ret_folder, size_t size, const char **ret_name);
