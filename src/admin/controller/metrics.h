/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the controller tells about itself: STATUS= of its unit, and a file for the textfile
 * collector of node_exporter (--metrics). */

#include "admin/controller/controller.h"

#define NB_REPORT_INTERVAL_MS 5000 /* at most one report in this time */

/* Reports if something has changed and a report is due. A file that cannot be written is logged
 * once. */
void nb_metrics_report(struct nb_controller *controller, uint64_t now_ms);
