/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How long the stages of a join took, according to the journal; printed as text or JSON. */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "codec/json.h"
#include "system/unit.h"

#define NB_TIMELINE_ROWS_MAX 16

enum nb_timeline_outcome {
        NB_TIMELINE_DONE,
        NB_TIMELINE_UNDER_WAY, /* it has begun, and no journal entry reports its end */
        NB_TIMELINE_FAILED,
};

struct nb_timeline_row {
        char stage[32];
        uint64_t begin_usec, end_usec; /* CLOCK_REALTIME */
        enum nb_timeline_outcome outcome;
        char code[64]; /* of its last failure, even if it was retried; "" if there was none */
};

struct nb_timeline {
        struct nb_timeline_row rows[NB_TIMELINE_ROWS_MAX];
        size_t n_rows;
        uint64_t begin_usec, end_usec;
        enum nb_timeline_outcome outcome;
        uint64_t waiting_since_usec; /* under way: when it began to wait for `code`; 0: it does not
                                      */
        char code[64];               /* of the failure that ended it; "" if there was none */
        char message[1024];          /* of that failure */
};

/*
 * Reads the newest run of node-bootstrap.service, except runs that ended because the machine had
 * already joined, and failures before such a run. `ret_last` is the entry of its last failure, even
 * if it was retried; its .error is "" if there was none. 1; 0 if the journal has no such run;
 * -errno if it cannot be read.
 */
int nb_timeline_read(struct nb_timeline *ret_timeline, struct nb_unit_entry *ret_last);

/* Adds a row. If the table is full, replaces the last one. A row that begins before the join is
 * moved into the join: the clock may have been set, and the times of two processes may differ. */
void nb_timeline_add(struct nb_timeline *timeline, const struct nb_timeline_row *row);

/* Prints a line with a bar for each row. */
void nb_timeline_print_text(const struct nb_timeline *timeline, FILE *stream);

/* Writes the value of `lastJoin` in node-bootstrap(8). */
void nb_timeline_put_json(const struct nb_timeline *timeline, const char *key,
                          struct nb_json_writer *writer);
