/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * $STATE_DIRECTORY, which belongs to the network side and is untrusted. A file in it is opened
 * once, without following links, and must be a regular file of the folder's owner with a link count
 * of 1: with CAP_DAC_OVERRIDE, install could otherwise be made to read any file through a link.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "base/failure.h"
#include "base/secret.h"
#include "state_files/state_file.h"

struct nb_state {
        int fd;
        uid_t owner;
        gid_t group;
};

/* NB_USAGE if systemd did not set $STATE_DIRECTORY. */
int nb_state_open(struct nb_state *ret_state, struct nb_failure *f);

/* 0; -ENOENT without a failure if there is no such file; NB_HANDOFF_MALFORMED. */
int nb_state_read(const struct nb_state *state, const char *name, size_t max, struct nb_secret *ret,
                  struct nb_failure *f);

/* Reads and parses one of the files of state_files/handoff.h. As nb_state_read(). */
int nb_state_parse(const struct nb_state *state, const char *name,
                   const struct nb_state_file *format, void *ret, struct nb_failure *f);

/* Whether a file of any type has that name. */
bool nb_state_has(const struct nb_state *state, const char *name);

/* Removes only the files that `join` writes, and their temporary names. 0, or -errno if a file
 * could not be removed. */
int nb_state_clear(const struct nb_state *state);

/* The same on a machine that has joined, where a file that cannot be removed is only a warning. */
void nb_state_discard(const struct nb_state *state);

/* Removes everything with one of these names that is not a file of `join`, such as a folder,
 * because it would make every join fail. */
void nb_state_sweep(const struct nb_state *state);

/* For a process of the owner: removes everything except files with one of these names, until
 * `deadline_ms` (nb_now_ms()). Follows no links. */
void nb_state_empty(const struct nb_state *state, uint64_t deadline_ms);

void nb_state_done(struct nb_state *state);
