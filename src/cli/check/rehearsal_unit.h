/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The text of the unit in which `check` rehearses the start of node-bootstrap.service
 * (check_rehearsal.c). Pure.
 *
 * It begins with the [Service] sections of the service's unit file and drop-ins, so that systemd
 * prepares the same credentials, environment, user and sandbox, followed by what differs. Of
 * [Unit], it has only the conditions: Wants= would start the join, and OnFailure= what an
 * administrator has chosen. Of what the service wants, it needs the socket of the prover, which
 * systemd stops again.
 */

#include <stddef.h>

#include "base/buffer.h"

/* Without a dash: drop-ins of node-.service.d in /etc would come before what masks them in /run. */
#define NB_REHEARSAL_NAME "node_bootstrap_check"
#define NB_REHEARSAL_UNIT NB_REHEARSAL_NAME ".service"
#define NB_REHEARSAL_TEXT_MAX ((size_t)4 * 1024 * 1024)

/* Appends what the rehearsal takes from a unit file or drop-in. Specifiers that depend on the name
 * of the unit get the values of node-bootstrap.service. */
void nb_rehearsal_copy(const char *text, size_t len, struct nb_buffer *ret_text);

/* Appends what differs, at last in [Service]: standard output is the file `output`, and `command`
 * that of ExecStart=. */
void nb_rehearsal_override(const char *output, const char *command, struct nb_buffer *ret_text);
