/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Open files that one process passes to another one, with a message (SCM_RIGHTS). */

#include <stddef.h>
#include <sys/types.h>

#define NB_DESCRIPTORS_MAX 4

/* Sends a message with `n` descriptors. `flags`: MSG_DONTWAIT or 0. 0, -errno. */
int nb_descriptors_send(int socket_fd, const void *data, size_t len, const int *fds, size_t n,
                        int flags);

/* Receives a message, and at most `n` descriptors, which are closed on exec; -1 takes the place of
 * those that did not come. Returns the length, 0 at the end of the channel, or -errno. */
ssize_t nb_descriptors_receive(int socket_fd, void *data, size_t size, int *ret_fds, size_t n);
