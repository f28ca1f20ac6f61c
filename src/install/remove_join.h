/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Removes the files of a join, which its record names, and prints what stays. The order is below.
 * Each step is durable before the next, so that kubelet never starts with only some of the files
 * and an interrupted reset can be repeated:
 *
 *      kubeconfig, if it names kubelet-client-current.pem and the server of the join
 *      the dated file that the record names, and kubelet-client-current.pem
 *      CA file, if it still has exactly the certificates that the join wrote
 *      node-bootstrap.env; kubeadm-flags.env and instance-config.yaml if the join wrote them
 *      kubelet.crt, kubelet.key, kubelet-serving.pem and the client CA file, if a supervisor of k3s
 *      has issued them
 *      state directory, if $STATE_DIRECTORY names one
 *      node-bootstrap.json
 *
 * Without a record nothing is removed.
 */

#include "base/failure.h"
#include "node_state/context.h"

/* Prints a line for each file. `last`: its record, or NULL. NB_RESET_UNFINISHED. */
int nb_remove_join(const struct nb_context *context, const struct nb_record *last,
                   struct nb_failure *f);
