/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes the verified handoff to kubelet's files in this order. Each step is durable before the
 * next:
 *
 *      everything is prepared in memory                      nothing has changed
 *      kubelet-client-<time>.pem; everything else under a    nothing refers to it
 *      temporary name
 *      kubeconfig is renamed to kubeconfig.old (swap.h);    from here on kubelet has no kubeconfig
 *      so is a CA file with other contents, and a file
 *      where kubelet needs its link
 *      node-bootstrap.json, CA file,                         each exchanged with the existing file
 *      kubelet-client-current.pem, node-bootstrap.env,
 *      kubeadm-flags.env, instance-config.yaml, config.yaml if there is none
 *      the previous files are removed
 *      kubeconfig                                            joined
 *
 * After a power cut, kubelet has the old kubeconfig with all files that it refers to, or none, or
 * the new one. In the first two cases the state directory is still complete, and the next start
 * does this again.
 *
 * If a step fails, the ones before it are undone, and the old kubeconfig comes back last: a node
 * that worked continues to work. There is no kubeconfig only if the last rename fails or a file
 * system cannot exchange files.
 */

#include <stdbool.h>

#include "base/failure.h"
#include "install/accept.h"
#include "node/context.h"

/* NB_TARGET_UNWRITABLE. nb_present_read() has already checked that the file to replace is a
 * kubeconfig. */
int nb_write(const struct nb_context *context, const struct nb_accepted *accepted,
             struct nb_failure *f);

/* Writes only kubelet's configuration. NB_TARGET_UNWRITABLE, also if it exists. */
int nb_write_config(const struct nb_context *context, const struct nb_accepted *accepted,
                    struct nb_failure *f);
