/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Replaces a file or link in steps: staged (complete and durable under a temporary name, nothing is
 * replaced yet), published, and then either kept, which removes the previous one, or undone, which
 * puts it back. So several files can be replaced together, and put back together if one of them
 * fails.
 *
 * Does not own the folder's descriptor. A crash leaves the temporary name, which the next staging
 * removes.
 */

#include <limits.h>
#include <stddef.h>
#include <sys/types.h>

enum nb_swap_step {
        NB_SWAP_NONE, /* not staged: the functions below do nothing */
        NB_SWAP_STAGED,
        NB_SWAP_NEW,       /* published; there was no previous file */
        NB_SWAP_EXCHANGED, /* published; the previous file has the temporary name */
        NB_SWAP_REPLACED, /* published; the file system cannot exchange, the previous one is gone */
};

struct nb_swap {
        int folder_fd;
        enum nb_swap_step step;
        char name[NAME_MAX + 1];
        char temporary[NAME_MAX + 1];
};

/* Stages a file with exactly `mode` as `.<name>.tmp`. 0; -EISDIR if `name` is a folder; -errno. */
int nb_swap_file(struct nb_swap *swap, int folder_fd, const char *name, mode_t mode,
                 const void *data, size_t len);

/* Stages a symbolic link under the given temporary name. */
int nb_swap_link(struct nb_swap *swap, int folder_fd, const char *name, const char *temporary,
                 const char *target);

/* 0, -errno; durable on 0. */
int nb_swap_publish(struct nb_swap *swap);

/* Restores the previous state. 0; -ENOTRECOVERABLE if the previous file is gone; -errno. */
int nb_swap_undo(struct nb_swap *swap);

void nb_swap_keep(struct nb_swap *swap);
