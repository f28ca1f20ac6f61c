/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Adds to a machine that has joined what its join did not write, so that `kubeadm upgrade node`
 * works on it as after `kubeadm join`: kubeadm-flags.env with at least one argument, and
 * instance-config.yaml. Only joins by node-bootstrap, which have a record; a file of another
 * program is left as it is. A later change of kubelet.criSocket changes instance-config.yaml.
 *
 * If nothing is to be done, nothing is written and nothing is logged. If it fails, the machine has
 * joined all the same: a warning. After a crash, the next call continues.
 */

#include "node/context.h"

void nb_mend(const struct nb_context *context);
