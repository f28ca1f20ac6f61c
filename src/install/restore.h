/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes a lost kubeconfig, and a lost link of kubelet's certificate store, again, from the record
 * of the last join and the CA file: without token and network. */

#include "base/failure.h"
#include "node/context.h"
#include "node/present.h"

/*
 * For NB_NODE_STATE_WITHOUT_KUBECONFIG, and only if nb_present_is_mendable(). A file at that path
 * is renamed, as before a join. NB_TARGET_*, as nb_swap_stage().
 */
int nb_restore_kubeconfig(const struct nb_context *context, const struct nb_present *present,
                          struct nb_failure *f);
