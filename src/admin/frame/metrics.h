/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the controller reports about itself: STATUS= of its unit, and the metrics that --listen
 * serves (monitor.h), by the conventions of Prometheus. Counters begin with 0 when the program
 * starts. */

#include <stdint.h>

#include "admin/frame/controller.h"
#include "base/buffer.h"

#define NB_METRICS_MAX ((size_t)64 * 1024)

/* Counts a decision (decision.h): a request once for each reason. */
void nb_metrics_decide(struct nb_request_record *record, unsigned reason);

/* Appends the text that is served; errors as of the buffer. */
void nb_metrics_format(const struct nb_controller *controller, struct nb_buffer *text);

/* What prevents the controller from acting; NULL if nothing does. */
const struct nb_failure *nb_metrics_find_failure(const struct nb_controller *controller);

/* Sets STATUS=, and renews what --listen serves, which shows that the loop runs. */
void nb_metrics_report(const struct nb_controller *controller, uint64_t now_ms);
