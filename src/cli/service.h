/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Why systemd cannot start node-bootstrap.service, or could not start it last time: the program did
 * not run, so there is no journal entry and no STATUS= of it. Also whether the gate is there:
 * without it, kubelet does not start, or (systemd 252, if it is masked) starts before this machine
 * has joined. Asks systemd, and quotes its log.
 */

#include <stdbool.h>

#include "base/failure.h"
#include "systemd/unit.h"

/* Finds such a reason: NB_UNIT_MASKED, NB_UNIT_MISSING, NB_SERVICE_CREDENTIAL, NB_SERVICE_SETUP, or
 * NB_START_LIMIT. NB_NONE while a start is queued or under way, except for an automatic restart by
 * systemd. `name` is another one if the unit is a rehearsal of the service. */
void nb_service_find_obstacle(const char *name, const struct nb_unit_state *unit,
                              const struct nb_unit_state *gate, struct nb_failure *ret_why);

/* Adds to a failure of systemd the drop-ins, one of which is usually the cause. */
void nb_service_add_drop_ins(const struct nb_unit *service, struct nb_failure *f);

/* There is a unit file that systemd can use, or systemd was not asked. */
bool nb_service_is_loaded(const struct nb_unit_state *unit);

/* Whether starting such a unit meets the obstacle, if it is still there. It has no directories of
 * its own (238/STATE_DIRECTORY), and no start limit. */
bool nb_service_is_rehearsable(const struct nb_unit_state *service,
                               const struct nb_failure *obstacle);
