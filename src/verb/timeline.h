/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The last join as the journal tells it. */

#include "base/failure.h"
#include "base/unit.h"
#include "format/timeline.h"

/*
 * Of the newest run of node-bootstrap.service that did more than to find the machine joined. `directory` as for
 * nb_unit_journal_open_run(). `ret_last` is the entry of its last failure, also of one that it waits for; its .error is "" when there was
 * none. 1; 0 when the journal knows of none; -errno when it cannot be read.
 */
int nb_timeline_read(const char *directory, struct nb_timeline *ret_timeline, struct nb_unit_entry *ret_last);
