/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What install gives up as soon as its child exists. Both are for good: no_new_privs is set.
 *
 *      CAP_SETUID, CAP_SETGID  were needed to start the child as the user of the service
 *      a seccomp filter        no socket but AF_UNIX (journal and systemd), no other user or
 *                              group, no new process, no other program
 *
 * The filter narrows SystemCallFilter= of the unit, which child and parent share.
 */

#include "base/failure.h"

/* NB_INTERNAL: then the process must end. */
int nb_confine(struct nb_failure *f);
