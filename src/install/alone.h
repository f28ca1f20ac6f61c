/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Checks that install and its runner are the only processes of its service that can execute
 * anything. A process that `join` left behind could exchange files between check and use. Only root
 * can leave the control group of a service, so its list of processes shows all of them. If that
 * cannot be read, the check fails.
 *
 * The others are processes of root, which only root can have put there. Mostly install itself
 * started them, maybe in an earlier run, to look at a file system that may hang (nb_process_try()).
 * Such a process may remain although it was killed, even when the service starts again.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/failure.h"

/* Kills the other processes of root in the control group, except the runner (0: there is none),
 * logs that, and does not wait for their end. Drops CAP_KILL if there are any. NB_NOT_ALONE if a
 * process of another user is there, or if the control group is not that of a service of
 * node-bootstrap, or has the parent of this process: then nothing is killed. */
int nb_alone_verify(pid_t runner, struct nb_failure *f);

/* Kills the other processes of the control group, except `parent`, until none is left but those
 * that nb_alone_verify() has killed, or until `deadline_ms` (nb_now_ms()). Returns whether there
 * was any besides `child`, which is killed, too, if it still runs. */
bool nb_alone_kill(pid_t parent, pid_t child, uint64_t deadline_ms);

/*
 * The path of systemd's own hierarchy in /proc/self/cgroup: the unified one ("0::"), or the one
 * named "systemd" with control groups version 1, even if a unified one exists too. 0, -EINVAL,
 * -ENAMETOOLONG.
 */
int nb_cgroup_path_parse(const char *text, bool is_unified, char *ret_path, size_t size);

/* Whether cgroup.procs lists `self` and at most `runner` (0: none) beside it, and what
 * nb_alone_verify() has killed: 0; -EEXIST with another process in *ret_other (0 if it has no
 * number in this PID namespace); -EINVAL if it is empty. */
int nb_cgroup_procs_verify(const char *text, pid_t self, pid_t runner, pid_t *ret_other);
