/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A file or link that takes the place of another one, in steps: staged (finished and durable under a temporary name,
 * nothing replaced), published, and then kept, which drops what was there before, or undone, which puts it back. So
 * several files can be replaced together, and be put back together when one of them cannot be.
 *
 * It does not own the folder's descriptor. A crash leaves the temporary name, which the next staging takes over.
 */

#include <limits.h>
#include <stddef.h>
#include <sys/types.h>

enum nb_swap_step {
        NB_SWAP_NONE, /* nothing is staged: every call below does nothing */
        NB_SWAP_STAGED,
        NB_SWAP_NEW,       /* published where nothing was */
        NB_SWAP_EXCHANGED, /* published; what was there before has the temporary name */
        NB_SWAP_REPLACED,  /* published where the file system cannot exchange: what was there before is gone */
};

struct nb_swap {
        int folder_fd;
        enum nb_swap_step step;
        char name[NAME_MAX + 1];
        char temporary[NAME_MAX + 1];
};

/* A file of exactly `mode`, by way of `.<name>.tmp`. 0; -EISDIR when a folder has that name; -errno. */
int nb_swap_file(struct nb_swap *swap, int folder_fd, const char *name, mode_t mode, const void *data, size_t len);

/* A symbolic link, by way of a temporary name of one's own. */
int nb_swap_link(struct nb_swap *swap, int folder_fd, const char *name, const char *temporary, const char *target);

/* 0, -errno; durable on 0. */
int nb_swap_publish(struct nb_swap *swap);

/* As it was before: 0; -ENOTRECOVERABLE when that is gone; -errno. */
int nb_swap_undo(struct nb_swap *swap);

void nb_swap_keep(struct nb_swap *swap);
