/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether this process is the only one of its service. One that `join` has left behind could swap files between check
 * and use; nobody but root can leave the control group of a service, so its list of processes tells. Whatever cannot be
 * found out counts as not alone.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/failure.h"

/* NB_NOT_ALONE */
int nb_alone_verify(struct nb_failure *f);

/*
 * The path of systemd's own hierarchy in /proc/self/cgroup: the unified one ("0::"), or that of the name systemd where
 * control groups are those of version 1, also beside unified ones. 0, -EINVAL, -ENAMETOOLONG.
 */
int nb_cgroup_path_parse(const char *text, bool is_unified, char *ret_path, size_t size);

/* cgroup.procs lists `self` and nothing else: 0; -EEXIST with another process in *ret_other (0: one that has no number
 * in this PID namespace); -EINVAL when `self` is missing or the text is no list of processes. */
int nb_cgroup_procs_verify(const char *text, pid_t self, pid_t *ret_other);
