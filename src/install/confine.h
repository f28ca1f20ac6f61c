/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Restricts install after it has started its child. The process cannot undo this, because
 * no_new_privs is set.
 *
 *      CAP_SETUID, CAP_SETGID  dropped; needed to start the child as the user of the service
 *      a seccomp filter        no socket but AF_UNIX (journal and systemd), no other user or
 *                              group, no new process, no other program
 *
 * The filter narrows SystemCallFilter= of the unit, which child and parent share.
 */

#include "base/failure.h"

/* Fails with NB_INTERNAL; the process must then end. */
int nb_confine(struct nb_failure *f);
