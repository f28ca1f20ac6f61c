/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Adds to a machine that has joined what its join did not write, so that `kubeadm upgrade node`
 * works on it as after `kubeadm join`: kubeadm-flags.env with at least one argument, and
 * instance-config.yaml. Only joins by node-bootstrap, which have a record; a file of another
 * program is left as it is. A later change of kubelet.criSocket changes instance-config.yaml.
 *
 * Adds facts about this machine to the record that were unknown at the join (node/machine_facts.h).
 *
 * If nothing is to be done, nothing is written and nothing is logged. If it fails, the machine has
 * joined all the same: a warning. After a crash, the next call continues.
 */

#include "node/context.h"
#include "node/present.h"

void nb_mend(const struct nb_context *context, const struct nb_node *node);

/*
 * For a certificate that is kept, no matter which program joined this machine: writes
 * node-bootstrap.env unless it is as it would be written now. From then on, the certificate is
 * found without the settings. If that fails, NB_TARGET_UNWRITABLE if the gate would not find the
 * certificate; otherwise a warning.
 */
int nb_mend_env(const struct nb_node *node, struct nb_failure *f);
