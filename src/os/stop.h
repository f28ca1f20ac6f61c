/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Stop requests: SIGTERM and SIGINT arrive on a descriptor that every wait also polls, so that
 * `systemctl stop` ends a wait at once and the program can clean up.
 */

#include <poll.h>
#include <stdint.h>

#define NB_EXIT_STOPPED 143 /* 128 + SIGTERM; SuccessExitStatus= in the unit */

/* Blocks the signals and creates the descriptor; nb_stop_end() undoes both. 0, -errno. */
int nb_stop_init(void);
void nb_stop_end(void);

/* poll(2) for up to `ms`. Fills in polls[0], which is reserved for the stop request. 0; -ECANCELED
 * if a stop was requested; -errno. */
int nb_stop_poll(struct pollfd *polls, nfds_t n, uint64_t ms);

/* Waits. 0 after `ms`; -ECANCELED if a stop was requested. */
int nb_stop_wait(uint64_t ms);

/* Forgets the request, so that the last thing to do can wait for an answer. */
void nb_stop_forget(void);
