/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Leader election (waits.h) with the Lease node-bootstrap-controller in kube-system. Correctness
 * does not depend on it: two leaders do the same as one. */

#include "admin/frame/controller.h"

extern const struct nb_election_waits nb_lease_waits;

/* Takes, renews or observes the Lease, if that is due. 1; 0 if it was not due, or waits for an
 * answer; or a failure, after which it tries again. */
int nb_lease_run(struct nb_controller *controller, uint64_t now_ms, struct nb_failure *f);

/* When nb_lease_run() has something to do. */
uint64_t nb_lease_due(const struct nb_controller *controller);

/* Ends its calls, since their connections are about to be closed. They are begun again. */
void nb_lease_interrupt(struct nb_controller *controller);

/* Lets another controller take the Lease at once, if this call succeeds. */
void nb_lease_release(struct nb_controller *controller);
