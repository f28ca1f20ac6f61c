/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How a command that root runs drops root's privileges before it uses the network. The command
 * continues in a child process:
 *
 *      nb_privilege_split()    forks; the parent only waits. The child is still root. It has its
 *                              own session, so that it cannot inject input into root's
 *                              terminal, and only descriptors 0 to 2.
 *      nb_privilege_reduce()   changes to an unused UID, without groups, with no_new_privs. The
 *                              child keeps CAP_DAC_READ_SEARCH: it can read root's files and
 *                              write none.
 *      nb_privilege_drop()     drops that capability. From here on the child may use the network
 *                              and parse untrusted data.
 *
 * In a user namespace that maps a single user, the child keeps its UID and drops its capabilities.
 */

#include <stdint.h>

#include "base/failure.h"

/*
 * 0: this process continues, as the child, or since it is not run by root. 1: the child has exited,
 * and *ret_status is the exit status for this process, or 128 + the signal that killed the child.
 * SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on to the child, which is killed if the parent
 * dies. NB_INTERNAL.
 */
int nb_privilege_split(int *ret_status, struct nb_failure *f);

/* NB_INTERNAL: then the process must end. For a user other than root there is nothing to change. */
int nb_privilege_reduce(struct nb_failure *f);

/* NB_INTERNAL: then the process must end. */
int nb_privilege_drop(struct nb_failure *f);

/* Keeps only these capabilities (bits), of those that are permitted. None is inheritable, and
 * no_new_privs prevents gaining any by executing a program. 0, -errno. */
int nb_privilege_keep(uint32_t capabilities);
