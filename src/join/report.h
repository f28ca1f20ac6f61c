/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a join reports while it runs: to STATUS= always, and to the journal when it is new. */

#include "join/join.h"

/* Reports the failure that a retry waits for; logs it only if `is_new`. *waiting_since must be 0
 * before the first call, which sets it. */
void nb_report_wait(time_t *waiting_since, const struct nb_failure *f, bool is_new);

/* Logs how long the newest connection since the last call took, if there is one. Call this after a
 * successful request, and for the connection whose failure ends the join. */
void nb_report_new_connection(const struct nb_api *api);
