/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is there from before and has to make room is renamed, never deleted: to NAME.old, and where that is taken to the first
 * free one of NAME.old.2, NAME.old.3 and so on. So what was set aside once stays as it is, however often it happens.
 */

#include <limits.h>

#define NB_ASIDE_SUFFIX ".old"
#define NB_ASIDE_MAX 10000

struct nb_aside {
        int folder_fd; /* borrowed */
        char name[NAME_MAX + 1];
        char old_name[NAME_MAX + 1]; /* "" while nothing is set aside */
};

/* Renames a file, or a link as such; durable on 0. Where nothing has that name, nothing is done. 0; -EEXIST when all
 * names are taken; -ENAMETOOLONG; -errno. After a failure too there may be something to undo. */
int nb_aside_move(struct nb_aside *aside, int folder_fd, const char *name);

/* Back to its name, where nothing else may be. 0, -errno; nothing to do is fine. */
int nb_aside_undo(struct nb_aside *aside);
