/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * token.discard: removes the token from a machine that has joined. Call it only
 * after a join was installed, or where the credentials of an earlier join are usable: otherwise the
 * next join needs the token. Each start calls it again, so a crash or a file that could not be
 * removed delays the removal until the next start.
 *
 * A file is unlinked, not overwritten. Other copies stay: credentials from drop-ins and from the
 * hypervisor or container manager (SMBIOS, fw_cfg), volumes, and user data.
 */

#include "node_state/context.h"

/* Does nothing unless the settings request it, or the metadata of the last join did. Logs what was
 * removed, and a warning for each file that could not be removed: the join itself is complete. */
void nb_discard_token(const struct nb_context *context);
