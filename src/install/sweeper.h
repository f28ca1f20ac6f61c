/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Once the child of install has ended or has to end, kills every process of the service except
 * install, and then empties the state directory (nb_state_empty()). A process that is left could
 * change files between check and use, and would keep running in an active service.
 *
 * This is a process of its own, because install has neither CAP_KILL nor CAP_FOWNER. It is forked
 * before install confines itself, and has no capability either, but its effective user is that of
 * the service. Its real and its saved user remain root's, so that no process of the service can
 * signal it.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "install/state_directory.h"

struct nb_sweeper {
        pid_t pid;
        int fd; /* it begins when this is closed */
};

/* `child` must not be reaped before nb_sweeper_run() returns. Without `is_service`, only `child` is
 * killed. 0, -errno. */
int nb_sweeper_start(const struct nb_state *state, pid_t child, bool is_service,
                     struct nb_sweeper *ret_sweeper);

/* Returns after at most NB_SWEEPER_MAX_S: 1 if processes besides `child` were found; 0; -ETIME if
 * the work is unfinished; another -errno. */
#define NB_SWEEPER_MAX_S 30
int nb_sweeper_run(struct nb_sweeper *sweeper);
