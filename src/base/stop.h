/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The wish to stop: SIGTERM or SIGINT, turned into a descriptor that everything that waits also
 * waits for. `systemctl stop` during a wait so ends at once and in order.
 */

#include <poll.h>
#include <stdint.h>

#define NB_EXIT_STOPPED 143 /* 128 + SIGTERM; SuccessExitStatus= in the unit */

/* Blocks the signals and makes the descriptor. 0, -errno. */
int nb_stop_init(void);

/* poll(2) for up to `ms`. polls[0] is reserved for the stop request, and is filled in. 0,
 * -ECANCELED, -errno. */
int nb_stop_poll(struct pollfd *polls, nfds_t n, uint64_t ms);

/* Waits; 0 when the time is over, -ECANCELED when stopping was asked for. */
int nb_stop_wait(uint64_t ms);
