/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What `status --prometheus` prints: the state of this machine in the text format of Prometheus.
 * Man page and alert rules name these metrics. A value that is unknown is left out. */

#include "base/buffer.h"
#include "cli/machine_state.h"

/* Appends the text; errors as of the buffer. */
void nb_node_metrics_format(const struct nb_machine_state *state, struct nb_buffer *text);
