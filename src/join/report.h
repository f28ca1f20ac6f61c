/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a join reports while it runs: to STATUS= always, and to the journal when it is new. */

#include "join/join.h"

/* *waiting_since is 0 at first. */
void nb_report_wait(time_t *waiting_since, const struct nb_failure *f, bool is_new);

/* The wait for join->csr. */
void nb_report_approval(struct nb_join *join, const struct nb_failure *f, bool is_new);

/* How long the newest connection since the last call took, if there is one. For one that served its
 * purpose, or that the join ends with. */
void nb_report_new_connection(const struct nb_api *api);
