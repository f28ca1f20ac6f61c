/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes last.json (files/last.h). Best effort: without the folder, or without room in it, nothing
 * is told. */

#include "files/last.h"

struct nb_teller {
        int root_fd;
        struct nb_last last;
        char begun[32]; /* since when .last.state is what it is */
};

/* Nothing is written before nb_tell(). In the functions below, NULL tells nothing. */
void nb_tell_begin(struct nb_teller *teller, int root_fd);

/* `state`: NB_LAST_*. `f` (NULL: none) replaces what was told of a failure before. */
void nb_tell(struct nb_teller *teller, const char *state, const struct nb_failure *f);

/* Forgets what was told of a failure, or replaces it: `text` is a datagram from `join`
 * (nb_log_status_of()), which may be hostile. */
void nb_tell_heard(struct nb_teller *teller, const char *text);
