/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a join took, stage by stage, as it stands in the journal; drawn as text, JSON or SVG. No I/O. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

#define NB_TIMELINE_ROWS_MAX 16
#define NB_TIMELINE_CONNECTIONS_MAX 16

enum nb_timeline_outcome {
        NB_TIMELINE_DONE,
        NB_TIMELINE_UNDER_WAY, /* has begun, and nothing tells its end */
        NB_TIMELINE_FAILED,
};

struct nb_timeline_row {
        char stage[32];
        uint64_t begin_usec, end_usec; /* CLOCK_REALTIME */
        enum nb_timeline_outcome outcome;
        char code[64]; /* of the last failure that it met, also of one that it waited for; "" for none */
};

/* One that a stage made. The three steps follow each other; 0 for one that there was not. */
struct nb_timeline_connection {
        char endpoint[256]; /* "host:port"; "" where the journal does not say */
        uint64_t begin_usec;
        uint64_t resolve_usec, tcp_usec, tls_usec;
        size_t row; /* of its stage */
};

struct nb_timeline {
        struct nb_timeline_row rows[NB_TIMELINE_ROWS_MAX];
        size_t n_rows;
        struct nb_timeline_connection connections[NB_TIMELINE_CONNECTIONS_MAX];
        size_t n_connections;
        uint64_t begin_usec, end_usec; /* end: of the last row */
        enum nb_timeline_outcome outcome;
        char code[64];      /* of the failure that ended it; "" for none */
        char message[1024]; /* of that failure */
};

/* Adds a row; one that does not fit any more takes the place of the last one, and begins where that did. Connections that were added since the last row are its own, and are moved into it where
 * two clocks do not agree. */
struct nb_timeline_row *nb_timeline_add(struct nb_timeline *timeline, const char *stage, uint64_t begin_usec, uint64_t end_usec);

/* Adds a connection of the stage whose row is added next, in whatever order; one that does not fit any more is dropped. */
void nb_timeline_add_connection(struct nb_timeline *timeline, const struct nb_timeline_connection *connection);

/* A line for each row, and below it one for each step of its connections, with bars that share `width` columns with the words. `is_utf8`: bars of eighths of a block instead of '#'. */
int nb_timeline_format_text(const struct nb_timeline *timeline, unsigned width, bool is_utf8, struct nb_buffer *ret);

/*
 * {"begin": RFC 3339 in UTC with microseconds, "durationUsec": 1234, "outcome": "done"|"under-way"|"failed", "error": "token-unknown"|null,
 *  "message": ""|null, "stages": [{"stage", "offsetUsec", "durationUsec", "outcome", "error",
 *  "connections": [{"endpoint", "offsetUsec", "resolveUsec": 1234|null, "tcpUsec", "tlsUsec"}]}]}
 */
int nb_timeline_format_json(const struct nb_timeline *timeline, struct nb_buffer *ret);

/* A document of its own; `title` stands above the bars. */
int nb_timeline_format_svg(const struct nb_timeline *timeline, const char *title, struct nb_buffer *ret);

/* "3.2 ms", "1.250 s", "2 min 5 s". */
#define NB_SPAN_SIZE 32
void nb_span_format(uint64_t usec, char ret[static NB_SPAN_SIZE]);
