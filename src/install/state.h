/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * $STATE_DIRECTORY, which belongs to the network side and is taken for hostile: what is in it is
 * opened once, without following links, and has to be a regular file of the folder's own owner with
 * no other name, since a capability makes the installer able to read any file that a link could
 * name.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "base/failure.h"
#include "base/secret.h"

struct nb_state {
        int fd;
        uid_t owner;
        gid_t group;
};

/* NB_USAGE when systemd did not set it. */
int nb_state_open(struct nb_state *ret_state, struct nb_failure *f);

/* 0; -ENOENT, and nothing set; NB_HANDOFF_MALFORMED. */
int nb_state_read(const struct nb_state *state, const char *name, size_t max, struct nb_secret *ret,
                  struct nb_failure *f);

/* Whether there is anything of that name. */
bool nb_state_has(const struct nb_state *state, const char *name);

/* Removes key, note, kubelet's configuration, what came from metadata, and their temporary names,
 * and nothing else. 0, -errno of what could not be removed. */
int nb_state_clear(const struct nb_state *state);

/* Removes anything with one of these names that join cannot have written, such as a folder: it
 * would block every join. */
void nb_state_sweep(const struct nb_state *state);

void nb_state_done(struct nb_state *state);
