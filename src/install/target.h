/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Paths that root names: in the settings, or in a kubeconfig that is there. Below the folder of --root they are looked
 * up as if that were the root of the file system, links included; `root_fd` is -1 without.
 */

#include <dirent.h>
#include <sys/types.h>

#include "base/secret.h"

/* open(2) with O_CLOEXEC; a descriptor or -errno. */
int nb_target_open(int root_fd, const char *path, int flags);

/* Reads a whole file, links followed: kubelet-client-current.pem is one. 0; -EBADF when it is no regular file; -EFBIG
 * above `max`; -errno. */
int nb_target_read(int root_fd, const char *path, size_t max, struct nb_secret *ret);

/* Opens a folder, made with exactly `mode` where it is not there, and missing parents with 0755; what was made is
 * durable. 0, -errno. */
int nb_target_folder(int root_fd, const char *path, mode_t mode, int *ret_fd);

/* A stream of its own over the entries of an open folder; NULL with errno. */
DIR *nb_folder_list(int folder_fd);
void nb_folder_closep(DIR **folder);
