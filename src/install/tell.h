/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes last.json (state_files/last.h). Failures are ignored: a full disk must not prevent a join.
 */

#include "state_files/last.h"

struct nb_teller {
        int root_fd;
        bool is_silent; /* writes nothing: only .last is wanted */
        struct nb_last last;
        char begun[32]; /* when .last.state was set */
};

/* Writes nothing yet. The functions below do nothing if `teller` is NULL. */
void nb_tell_begin(struct nb_teller *teller, int root_fd);

/* `state`: NB_LAST_*. `f` replaces the failure in last.json; NULL keeps it. */
void nb_tell(struct nb_teller *teller, const char *state, const struct nb_failure *f);

/* Replaces the failure in last.json by that in `text`, or removes it if there is none: `text` is a
 * datagram from `join` (nb_log_status_of()), which may be hostile. */
void nb_tell_heard(struct nb_teller *teller, const char *text);
