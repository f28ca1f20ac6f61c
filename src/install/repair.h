/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * On a machine that has joined, writes the lost or damaged files of the join again, without token
 * and network: node-bootstrap.env no matter which program joined the machine, so that
 * the certificate is found without the settings; all others from the record of the last join.
 * Completes the record: facts about this machine, settings for a refresh, the CA last seen.
 *
 * A file that somebody else has written stays, unless nobody can use it: the CA file without a CA,
 * and kubeconfig and link of NB_NODE_STATE_WITHOUT_KUBECONFIG.
 */

#include "base/failure.h"
#include "node_state/context.h"
#include "node_state/present.h"

/* Does nothing on a machine that must join. As nb_join_files_write(). */
int nb_repair(const struct nb_context *context, const struct nb_node *node, struct nb_failure *f);
