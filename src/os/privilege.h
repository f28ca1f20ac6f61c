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
#include <sys/types.h>

#include "base/failure.h"

/*
 * Returns 0 in the process that continues: the child, or a process that is not run by root. Returns
 * 1 in the parent after the child has exited; *ret_status is then the exit status of the child, or
 * 128 + the signal that killed it. The parent forwards SIGINT, SIGTERM, SIGHUP and SIGQUIT. The
 * child is killed if the parent dies. NB_INTERNAL.
 */
int nb_privilege_split(int *ret_status, struct nb_failure *f);

/* Does nothing unless run by root. NB_INTERNAL: the process must exit. */
int nb_privilege_reduce(struct nb_failure *f);

/* NB_INTERNAL: the process must exit. */
int nb_privilege_drop(struct nb_failure *f);

/* In a unit whose user namespace has only root and the user of the unit: continues as this user,
 * with these capabilities (bits). Can return to root with CAP_SETUID and CAP_SETGID. NB_INTERNAL:
 * the process must exit. */
int nb_privilege_switch(uid_t user, gid_t group, uint32_t capabilities, struct nb_failure *f);

/* No file or directory can be created, renamed or removed by this process and those that it starts,
 * and none written except in /dev, where a unit finds nothing but devices (Landlock). Needs
 * no_new_privs. 1; 0 on a kernel without Landlock; -errno. */
int nb_privilege_forbid_writing(void);

/* Keeps only these capabilities (bits), of those that are permitted. None is inheritable, and
 * no_new_privs prevents gaining any by executing a program. 0, -errno. */
int nb_privilege_keep(uint32_t capabilities);
