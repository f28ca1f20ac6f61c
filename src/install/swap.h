/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Replaces a file or link in steps: opened, staged (complete and durable under a temporary name,
 * nothing is replaced yet), published, and then either kept, which removes the previous one, or
 * undone, which puts it back. This way several files can be replaced together, and restored
 * together if one of them fails.
 *
 * An existing file can be set aside first: it is renamed to NAME.old, or the first free one of
 * NAME.old.2, NAME.old.3 and so on, so that an earlier file is never overwritten.
 *
 * A crash leaves the temporary name, which the next opening or staging removes.
 */

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "base/failure.h"
#include "base/secret.h"
#include "settings/settings.h"

#define NB_SWAP_PATH_SIZE (NB_SETTINGS_PATH_MAX + 64)
#define NB_ASIDE_SUFFIX ".old"

enum nb_swap_step {
        NB_SWAP_NONE, /* not staged: there is nothing to publish, undo or keep */
        NB_SWAP_STAGED,
        NB_SWAP_NEW,       /* published; there was no previous file */
        NB_SWAP_EXCHANGED, /* published; the previous file has the temporary name */
        NB_SWAP_REPLACED, /* published; the file system cannot exchange, the previous one is gone */
};

struct nb_swap {
        char path[NB_SWAP_PATH_SIZE];
        mode_t mode;    /* S_IFLNK: a symbolic link to `text` */
        bool is_wanted; /* nb_swap_stage() writes `text` */
        struct nb_buffer text;
        const struct nb_secret *secret; /* replaces `text`; borrowed; NULL: none */

        /* Set by nb_swap_open(). */
        int folder_fd;
        const char *name; /* the last component of `path` */

        enum nb_swap_step step;
        int fd; /* of the temporary file until it is synced */
        char temporary[NAME_MAX + 1];
        char old_name[NAME_MAX + 1]; /* of the file that was set aside; "" for none */
};

/* The path is `folder` followed by `name`. */
void nb_swap_init(struct nb_swap *swap, const char *folder, const char *name, mode_t mode);

/* Fails with NB_TARGET_UNWRITABLE, as all functions below that take `f`. */
int nb_swap_fail(const char *path, int r, struct nb_failure *f);

/* The same if a folder of `path` cannot be created; NB_DIRECTORY_MISSING if that is because the
 * unit cannot make it writable. */
int nb_swap_fail_folder(int root_fd, const char *path, int r, struct nb_failure *f);

/* Opens the folder, and removes what a crash left under the temporary name. If the file is wanted,
 * creates a missing folder; otherwise ignores errors. */
int nb_swap_open(struct nb_swap *swap, int root_fd, struct nb_failure *f);

/* Whether the target exists and has this type: S_IFDIR, S_IFLNK. */
bool nb_swap_is_at(const struct nb_swap *swap, mode_t type);

/* Stages each of `n` files that is wanted, with exactly the mode as `.<name>.tmp`. Fails if a
 * folder has this name: an exchange would move the folder away. */
int nb_swap_stage(struct nb_swap *swaps, unsigned n, struct nb_failure *f);

/* If it returns 0, the change is durable. Does nothing if nothing is staged. */
int nb_swap_publish(struct nb_swap *swap, struct nb_failure *f);

/* Restores the previous file. 0; -ENOTRECOVERABLE if the previous file is gone; -errno. */
int nb_swap_undo(struct nb_swap *swap);
void nb_swap_keep(struct nb_swap *swap);

/* Renames an existing file without following a link. 0: the change is durable, or the file does not
 * exist. If all names are taken, -EEXIST. The failure may come after the rename, so call
 * nb_swap_put_back() even then. */
int nb_swap_set_aside(struct nb_swap *swap, struct nb_failure *f);

/* Renames the file that was set aside back, unless the name is taken. 0, -errno. */
int nb_swap_put_back(struct nb_swap *swap);

void nb_swap_done(struct nb_swap *swap);
