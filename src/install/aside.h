/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Renames an existing file that has to make room; nothing is deleted. The new name is NAME.old, or
 * the first free one of NAME.old.2, NAME.old.3 and so on, so that an earlier file is never
 * overwritten.
 */

#include <limits.h>

#define NB_ASIDE_SUFFIX ".old"
#define NB_ASIDE_MAX 10000

struct nb_aside {
        int folder_fd; /* borrowed */
        char name[NAME_MAX + 1];
        char old_name[NAME_MAX + 1]; /* "" if nothing was renamed */
};

/* Does not follow a link; durable on 0; nothing of that name is fine. 0; -EEXIST if all names are
 * taken; -ENAMETOOLONG; -errno. Can have to be undone even after a failure. */
int nb_aside_move(struct nb_aside *aside, int folder_fd, const char *name);

/* Renames it back, unless the name is taken. 0, -errno; nothing to undo is fine. */
int nb_aside_undo(struct nb_aside *aside);
