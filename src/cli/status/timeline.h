/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How long the stages of the last join took, according to the record; printed as text or JSON. */

#include <stdio.h>

#include "codec/json.h"
#include "state_files/last.h"
#include "state_files/record.h"

/* 0 if the record has no durations. */
uint64_t nb_timeline_usec(const struct nb_record *record);

/* Prints a line with a bar for each stage. */
void nb_timeline_print_text(const struct nb_record *record, FILE *stream);

/* Writes the value of `lastJoin` in node-bootstrap(8): of the join of `last` if that is under way
 * or has failed, otherwise of that of the record (NULL: none). */
void nb_timeline_put_json(const struct nb_last *last, const struct nb_record *record,
                          struct nb_json_writer *writer);
