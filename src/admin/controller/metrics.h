/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the controller reports about itself: STATUS= of its unit, and the metrics that --listen
 * serves (monitor.h), by the conventions of Prometheus. Counters begin with 0 when the program
 * starts. */

#include <stdint.h>

#include "admin/controller/controller.h"
#include "base/buffer.h"

#define NB_REPORT_INTERVAL_MS 5000 /* at most one report in this time */
#define NB_METRICS_MAX ((size_t)64 * 1024)

/* Counts a decision (decision.h): a request once for each reason. */
void nb_metrics_decide(struct nb_request_record *record, unsigned reason);

/* Appends the text that is served; errors as of the buffer. */
void nb_metrics_format(const struct nb_controller *controller, struct nb_buffer *text);

/* Reports if something has changed and a report is due. What --listen serves is renewed even
 * without a change, which shows that the loop runs. */
void nb_metrics_report(struct nb_controller *controller, uint64_t now_ms);
