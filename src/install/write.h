/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Puts what was accepted where kubelet expects it. In this order, each step durable before the next:
 *
 *      everything is looked at and made ready in memory      nothing has changed
 *      kubelet-client-<time>.pem; all else under a           nothing refers to it
 *      temporary name
 *      kubeconfig -> kubeconfig.old (see aside.h); and       from here on kubelet has no kubeconfig
 *      a CA file that is another, and a file where
 *      kubelet wants its link
 *      CA file, kubelet-client-current.pem,                  each exchanged with what is there
 *      node-bootstrap.env, kubeadm-flags.env,
 *      config.yaml where there is none,
 *      node-bootstrap.discard where it is asked for,
 *      node-bootstrap.json
 *      what was there is removed
 *      kubeconfig                                            joined
 *
 * So whenever power goes, there is the old kubeconfig with all that it refers to, or none, or the new one. In the first
 * two cases the state directory still has everything, and the next start does this again.
 *
 * When a step fails, the ones before it are undone, and the old kubeconfig comes back last: a node that was up stays up.
 * Only when the last rename fails, or a file system cannot exchange, there is none.
 */

#include "base/failure.h"
#include "install/accept.h"
#include "install/context.h"

/* NB_TARGET_UNWRITABLE with the path. That nothing but a kubeconfig is replaced is for nb_present_read(). */
int nb_write(const struct nb_context *context, const struct nb_accepted *accepted, struct nb_failure *f);
