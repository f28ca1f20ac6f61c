/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The root side of node-bootstrap-refresh.service. Only what a join of this program wrote is
 * refreshed: a kubeconfig whose hash is in the record, and the CA file that it names. References to
 * certificate and key do not change. If a supervisor of k3s has issued the certificate, a refresh
 * only renews it, when a third of its life is left.
 *
 * The output of `refresh` is untrusted. Verified here: its format; that the bundle contains only
 * CAs, and that the node already trusts the public key of one of them; a renewed certificate like
 * that of a join, and that a CA of the existing one has issued it. Not verified, because only
 * `refresh` uses the network: that the data comes from the cluster.
 *
 * A refresh first does what a repair does (install/repair.h). After a power cut between two steps,
 * the next refresh finds the remaining differences and writes them.
 */

#include "base/failure.h"
#include "install/state_directory.h"
#include "node_state/context.h"
#include "node_state/present.h"
#include "state_files/handoff.h"

/* A timer starts the refresh once an hour. After a success, the next refresh that looks for a CA or
 * server is a day later: 24 h, less half of the timer's period. */
#define NB_REFRESH_PERIOD_S (24 * 3600 - 1800)

/* For a machine that has joined: creates or removes the mark on which the timer depends
 * (state_files/refresh_settings.h). */
void nb_refresh_set_automatic(const struct nb_context *context);

/* Whether a refresh that the timer has started is due. True if a supervisor has issued the
 * certificate: nb_refresh_begin() then decides. */
bool nb_refresh_is_due(const struct nb_context *context);

/* Notes in the record why the renewal of the certificate has failed, for `status` and the next
 * start of the service. The next renewal or join forgets it. Does nothing if none was due: it had
 * not begun (`is_renewal`), and its time has not come. */
void nb_refresh_note_failure(int root_fd, bool is_renewal, enum nb_code code);

/* If the refresh is automatic, remembers that it has succeeded. */
void nb_refresh_remember(const struct nb_context *context);

/* Loads what `refresh` needs into the sources, and returns 1; 0 if it is too early to renew the
 * certificate; NB_REFRESH_INAPPLICABLE if there is nothing to refresh. Sets *ret_is_renewal if it
 * is time to renew the certificate, or an address of this machine has changed. */
int nb_refresh_begin(const struct nb_context *context, struct nb_node *node, bool *ret_is_renewal,
                     struct nb_failure *f);

/* Verifies and installs the output of `refresh`, if any. NB_REFRESH_INAPPLICABLE,
 * NB_HANDOFF_MALFORMED, NB_HANDOFF_UNTRUSTED, NB_CERTIFICATE_UNUSABLE, NB_TARGET_UNWRITABLE. */
int nb_refresh_install(const struct nb_context *context, struct nb_node *node,
                       struct nb_failure *f);

/*
 * For a machine that has joined and lacks kubelet's configuration, although kubelet.configFrom is
 * `cluster`. Loads what `refresh --kubelet-config` needs into the sources, and returns 1; 0 if
 * nothing is missing.
 */
int nb_config_begin(const struct nb_context *context, uint64_t timeout_ms, struct nb_failure *f);

/* Verifies and installs what it has left, if anything. NB_HANDOFF_*, NB_TARGET_UNWRITABLE. */
int nb_config_install(const struct nb_context *context, const struct nb_state *state,
                      struct nb_failure *f);
