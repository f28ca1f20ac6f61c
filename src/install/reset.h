/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Takes back what a join wrote, by its record, and names what is left to others. In this order, each step durable before the
 * next, so that kubelet never starts with half of it, and a reset that was cut short can be done again:
 *
 *      kubeconfig, if it names kubelet-client-current.pem
 *      kubelet-client-current.pem, and the dated file that the record names
 *      CA file, if it still holds the certificates that the join put there
 *      node-bootstrap.env; of kubeadm-flags.env the arguments of the join
 *      node-bootstrap.discard, where it was not dealt with
 *      state directory, where $STATE_DIRECTORY names one
 *      node-bootstrap.json
 *
 * Without a record nothing is known to be ours, and nothing is removed.
 */

#include "base/failure.h"
#include "install/context.h"

/* Prints a line for each file. NB_RESET_UNFINISHED, NB_INSTALLED_MALFORMED. */
int nb_reset(const struct nb_context *context, struct nb_failure *f);
