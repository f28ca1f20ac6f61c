/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The last join as the journal tells it. */

#include "base/failure.h"
#include "format/timeline.h"

/*
 * Of the newest run of node-bootstrap.service that did more than to find the machine joined. `directory` as for
 * nb_unit_journal_open_run(). 1; 0 when the journal knows of none; -errno when it cannot be read.
 */
int nb_timeline_read(const char *directory, struct nb_timeline *ret_timeline);
