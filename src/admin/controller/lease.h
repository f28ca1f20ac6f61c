/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Leader election with the Lease node-bootstrap-controller in kube-system, as client-go does it: a
 * Lease that its holder has not renewed for its duration, by the observer's own clock, may be
 * taken. Correctness does not depend on the Lease: two leaders do the same as one. */

#include "admin/client/automatic_approval.h"
#include "admin/controller/controller.h"

#define NB_LEASE_RENEW_MS 5000
#define NB_LEASE_STANDBY_MS 1000
/* A leader stops when a renewal has failed and the last one that succeeded is older than this. A
 * renewal without an answer, which a webhook may delay, does not stop it. */
#define NB_LEASE_HELD_MS 10000

/* Takes, renews or observes the Lease, if that is due. Sets lease->is_held. 1; 0 if it was not due,
 * or waits for an answer.
 * Failures are returned, and tried again. */
int nb_lease_run(struct nb_controller *controller, uint64_t now_ms, struct nb_failure *f);

/* When nb_lease_run() has something to do. */
uint64_t nb_lease_due(const struct nb_controller *controller);

/* Lets another controller take the Lease at once, if this call succeeds. */
void nb_lease_release(struct nb_controller *controller);
