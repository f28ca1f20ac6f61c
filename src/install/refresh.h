/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The root side of node-bootstrap-refresh.service. Only what a join of this program wrote is
 * refreshed: a kubeconfig that is to the byte what nb_kubeconfig_format() makes, and the CA file
 * that it names. References to certificate and key stay.
 *
 * What `refresh` leaves is taken for hostile. Checked here: the form; that the bundle is of CAs
 * alone, of which one has a public key that the node trusts now. Trusted from `refresh`, since
 * nothing here can tell: that the cluster itself has said so.
 *
 * Written in this order, each step durable before the next, all undone when one fails:
 *
 *      node-bootstrap.restart     where kubelet is to be told: the mark that
 * node-bootstrap-restart-kubelet.service goes by, in kubelet's folder, which the network side
 * cannot write node-bootstrap.json server, caFileHashes, refreshedAt CA file kubeconfig
 *
 * Where power goes in between, the next refresh finds the difference again, and does the rest.
 */

#include "base/failure.h"
#include "install/context.h"
#include "state/handoff.h"

#define NB_REFRESH_RESTART_FILE "node-bootstrap.restart"

/* Keeps what `refresh` needs in the memory of the sources. NB_REFRESH_INAPPLICABLE when there is
 * nothing to refresh. */
int nb_refresh_begin(const struct nb_context *context, struct nb_failure *f);

/* Takes over what `refresh` left, if anything. NB_REFRESH_INAPPLICABLE, NB_HANDOFF_MALFORMED,
 * NB_HANDOFF_UNTRUSTED, NB_TARGET_UNWRITABLE. */
int nb_refresh_install(const struct nb_context *context, struct nb_failure *f);
