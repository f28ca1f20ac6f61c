/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/macro.h"
#include "base/text.h"
#include "state/timeline.h"

#define NAME_COLUMNS 10
#define SPAN_COLUMNS 11
#define STEP_COLUMNS 2 /* by which a step of a connection is set in */
#define BAR_COLUMNS_MIN 10
#define BAR_COLUMNS_MAX 60
#define EIGHTHS 8

/* Pixels. */
#define SVG_LEFT 130
#define SVG_BARS 600
#define SVG_RIGHT 330
#define SVG_TOP 60
#define SVG_ROW 24

static const char *const outcome_names[] = {
        [NB_TIMELINE_DONE] = "done",
        [NB_TIMELINE_UNDER_WAY] = "under-way",
        [NB_TIMELINE_FAILED] = "failed",
};

/* Moves the connections of the new row into it. */
static void move_connections(struct nb_timeline *timeline, const struct nb_timeline_row *row) {
        for (size_t i = timeline->n_connections;
             i > 0 && timeline->connections[i - 1].row == timeline->n_rows - 1; i--) {
                struct nb_timeline_connection *c = &timeline->connections[i - 1];
                uint64_t took_usec = c->resolve_usec + c->tcp_usec + c->tls_usec,
                         room_usec = row->end_usec - row->begin_usec;
                uint64_t last_usec = took_usec < room_usec ? row->end_usec - took_usec
                                                           : row->begin_usec;

                if (c->begin_usec > last_usec)
                        c->begin_usec = last_usec;
                if (c->begin_usec < row->begin_usec)
                        c->begin_usec = row->begin_usec;
        }
}

struct nb_timeline_row *nb_timeline_add(struct nb_timeline *timeline, const char *stage,
                                        uint64_t begin_usec, uint64_t end_usec) {
        struct nb_timeline_row *row;

        if (timeline->n_rows == NB_TIMELINE_ROWS_MAX &&
            timeline->rows[timeline->n_rows - 1].begin_usec < begin_usec)
                begin_usec = timeline->rows[timeline->n_rows - 1].begin_usec;
        if (timeline->n_rows < NB_TIMELINE_ROWS_MAX)
                timeline->n_rows++;
        row = &timeline->rows[timeline->n_rows - 1];
        *row = (struct nb_timeline_row){ .begin_usec = begin_usec,
                                         .end_usec = end_usec < begin_usec ? begin_usec
                                                                           : end_usec };
        nb_text_copy_line(stage, strlen(stage), row->stage, sizeof(row->stage));
        if (timeline->n_rows == 1 || row->begin_usec < timeline->begin_usec)
                timeline->begin_usec = row->begin_usec;
        if (row->end_usec > timeline->end_usec)
                timeline->end_usec = row->end_usec;
        move_connections(timeline, row);
        return row;
}

void nb_timeline_add_connection(struct nb_timeline *timeline,
                                const struct nb_timeline_connection *connection) {
        struct nb_timeline_connection *at = timeline->connections + timeline->n_connections;

        if (timeline->n_connections == NB_TIMELINE_CONNECTIONS_MAX)
                return;
        timeline->n_connections++;
        for (; at > timeline->connections && at[-1].row == timeline->n_rows &&
               at[-1].begin_usec > connection->begin_usec;
             at--)
                *at = at[-1];
        *at = *connection;
        at->row = timeline->n_rows;
}

void nb_span_format(uint64_t usec, char ret[static NB_SPAN_SIZE]) {
        if (usec < 1000000)
                snprintf(ret, NB_SPAN_SIZE, "%" PRIu64 ".%" PRIu64 " ms", usec / 1000,
                         usec % 1000 / 100);
        else if (usec < 60000000)
                snprintf(ret, NB_SPAN_SIZE, "%" PRIu64 ".%03" PRIu64 " s", usec / 1000000,
                         usec % 1000000 / 1000);
        else
                nb_duration_format(usec / 1000, ret);
}

static uint64_t span(const struct nb_timeline *timeline) {
        return timeline->end_usec > timeline->begin_usec ? timeline->end_usec - timeline->begin_usec
                                                         : 1;
}

/* Scales an instant to 0..size. */
static unsigned place(const struct nb_timeline *timeline, uint64_t when_usec, unsigned size) {
        uint64_t offset = when_usec > timeline->begin_usec ? when_usec - timeline->begin_usec : 0;

        return offset < span(timeline) ? (unsigned)((double)offset / (double)span(timeline) * size)
                                       : size;
}

/* A bar: a row, or a step of a connection. */
struct line {
        const char *name;
        uint64_t begin_usec, end_usec;
        const struct nb_timeline_row *row; /* NULL for a step of a connection */
};

#define LINES_MAX (NB_TIMELINE_ROWS_MAX + 3 * NB_TIMELINE_CONNECTIONS_MAX)

static size_t lay_out_steps(const struct nb_timeline_connection *connection, struct line *ret) {
        const struct {
                const char *name;
                uint64_t usec;
        } steps[] = {
                { "resolve", connection->resolve_usec },
                { "tcp", connection->tcp_usec },
                { "tls", connection->tls_usec },
        };
        uint64_t at_usec = connection->begin_usec;
        size_t n = 0;

        for (size_t i = 0; i < N_ELEMENTS(steps); i++) {
                if (steps[i].usec > 0)
                        ret[n++] = (struct line){ .name = steps[i].name,
                                                  .begin_usec = at_usec,
                                                  .end_usec = at_usec + steps[i].usec };
                at_usec += steps[i].usec;
        }
        return n;
}

static size_t lay_out(const struct nb_timeline *timeline, struct line ret[static LINES_MAX]) {
        size_t n = 0;

        for (size_t i = 0; i < timeline->n_rows; i++) {
                const struct nb_timeline_row *row = &timeline->rows[i];

                ret[n++] = (struct line){ .name = row->stage,
                                          .begin_usec = row->begin_usec,
                                          .end_usec = row->end_usec,
                                          .row = row };
                for (size_t j = 0; j < timeline->n_connections; j++)
                        if (timeline->connections[j].row == i)
                                n += lay_out_steps(&timeline->connections[j], ret + n);
        }
        return n;
}

/* --- Text --- */

static void print_times(const char *text, unsigned n, FILE *stream) {
        while (n-- > 0)
                fputs(text, stream);
}

/* At least one eighth wide, however short the time. Returns the columns that are left. */
static unsigned print_bar(const struct nb_timeline *timeline, const struct line *line,
                          unsigned columns, bool is_utf8, FILE *stream) {
        static const char *const blocks[EIGHTHS] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
        unsigned begin = place(timeline, line->begin_usec, columns * EIGHTHS) / EIGHTHS;
        unsigned end = place(timeline, line->end_usec, columns * EIGHTHS), full, rest;

        if (begin >= columns)
                begin = columns - 1;
        if (end <= begin * EIGHTHS)
                end = begin * EIGHTHS + 1;
        full = (end - begin * EIGHTHS) / EIGHTHS;
        rest = end % EIGHTHS;
        if (!is_utf8 && rest > 0) {
                full++;
                rest = 0;
        }
        print_times(" ", begin, stream);
        print_times(is_utf8 ? "█" : "#", full, stream);
        fputs(blocks[rest], stream);
        return columns - begin - full - (rest > 0);
}

static void print_line(const struct nb_timeline *timeline, const struct line *line,
                       unsigned columns, bool is_utf8, FILE *stream) {
        static const char *const words[] = {
                [NB_TIMELINE_DONE] = "waited: ",
                [NB_TIMELINE_UNDER_WAY] = "waits: ",
                [NB_TIMELINE_FAILED] = "failed: ",
        };
        const struct nb_timeline_row *row = line->row;
        int indent = row ? 0 : STEP_COLUMNS;
        char text[NB_SPAN_SIZE];
        unsigned left;

        nb_span_format(line->end_usec - line->begin_usec, text);
        fprintf(stream, "  %*s%-*s %*s  ", indent, "", NAME_COLUMNS - indent, line->name,
                SPAN_COLUMNS, text);
        left = print_bar(timeline, line, columns, is_utf8, stream);
        if (row && (row->code[0] || row->outcome != NB_TIMELINE_DONE)) {
                print_times(" ", left + 2, stream);
                if (row->code[0])
                        fprintf(stream, "%s%s", words[row->outcome], row->code);
                else
                        fputs(row->outcome == NB_TIMELINE_FAILED ? "failed" : "under way", stream);
        }
        fputc('\n', stream);
}

void nb_timeline_print_text(const struct nb_timeline *timeline, unsigned width, bool is_utf8,
                            FILE *stream) {
        unsigned words = NAME_COLUMNS + SPAN_COLUMNS + 6,
                 columns = width > words ? (width - words) * 2 / 3 : 0; /* a third is for notes */
        struct line lines[LINES_MAX];
        size_t n = lay_out(timeline, lines);

        if (columns < BAR_COLUMNS_MIN)
                columns = BAR_COLUMNS_MIN;
        if (columns > BAR_COLUMNS_MAX)
                columns = BAR_COLUMNS_MAX;
        for (size_t i = 0; i < n; i++)
                print_line(timeline, &lines[i], columns, is_utf8, stream);
}

/* --- JSON --- */

static void put_text(struct nb_json_writer *writer, const char *key, const char *text) {
        nb_json_put_string(writer, key, text[0] ? text : NULL);
}

static void put_usec(struct nb_json_writer *writer, const char *key, uint64_t usec) {
        if (usec > 0)
                nb_json_put_integer(writer, key, (int64_t)usec);
        else
                nb_json_put_string(writer, key, NULL);
}

static void put_row(const struct nb_timeline *timeline, size_t row, struct nb_json_writer *writer) {
        const struct nb_timeline_row *at = &timeline->rows[row];

        nb_json_open(writer, NULL, '{');
        nb_json_put_string(writer, "stage", at->stage);
        nb_json_put_integer(writer, "offsetUsec", (int64_t)(at->begin_usec - timeline->begin_usec));
        nb_json_put_integer(writer, "durationUsec", (int64_t)(at->end_usec - at->begin_usec));
        nb_json_put_string(writer, "outcome", outcome_names[at->outcome]);
        put_text(writer, "error", at->code);
        nb_json_open(writer, "connections", '[');
        for (size_t i = 0; i < timeline->n_connections; i++) {
                const struct nb_timeline_connection *c = &timeline->connections[i];

                if (c->row != row)
                        continue;
                nb_json_open(writer, NULL, '{');
                put_text(writer, "endpoint", c->endpoint);
                nb_json_put_integer(writer, "offsetUsec",
                                    (int64_t)(c->begin_usec - timeline->begin_usec));
                put_usec(writer, "resolveUsec", c->resolve_usec);
                put_usec(writer, "tcpUsec", c->tcp_usec);
                put_usec(writer, "tlsUsec", c->tls_usec);
                nb_json_close(writer);
        }
        nb_json_close(writer);
        nb_json_close(writer);
}

void nb_timeline_put_json(const struct nb_timeline *timeline, const char *key,
                          struct nb_json_writer *writer) {
        time_t when = (time_t)(timeline->begin_usec / 1000000);
        char text[32] = "", begin[64];
        struct tm utc;

        if (gmtime_r(&when, &utc))
                (void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
        snprintf(begin, sizeof(begin), "%s.%06" PRIu64 "Z", text, timeline->begin_usec % 1000000);
        nb_json_open(writer, key, '{');
        nb_json_put_string(writer, "begin", begin);
        nb_json_put_integer(writer, "durationUsec",
                            (int64_t)(timeline->end_usec - timeline->begin_usec));
        nb_json_put_string(writer, "outcome", outcome_names[timeline->outcome]);
        put_text(writer, "error", timeline->code);
        put_text(writer, "message", timeline->message);
        nb_json_open(writer, "stages", '[');
        for (size_t i = 0; i < timeline->n_rows; i++)
                put_row(timeline, i, writer);
        nb_json_close(writer);
        nb_json_close(writer);
}

/* --- SVG --- */

static void print_words(unsigned x, unsigned y, const char *class, const char *text, FILE *stream) {
        fprintf(stream, "<text x=\"%u\" y=\"%u\" class=\"%s\">", x, y, class);
        for (; *text; text++)
                if (strchr("<>&\"", *text))
                        fprintf(stream, "&#%d;", *text);
                else
                        fputc(*text, stream);
        fputs("</text>\n", stream);
}

static void print_svg_line(const struct nb_timeline *timeline, const struct line *line, unsigned y,
                           FILE *stream) {
        unsigned begin = place(timeline, line->begin_usec, SVG_BARS),
                 end = place(timeline, line->end_usec, SVG_BARS);
        const char *code = line->row ? line->row->code : "";
        char text[NB_SPAN_SIZE], words[NB_SPAN_SIZE + sizeof(line->row->code) + 16];

        nb_span_format(line->end_usec - line->begin_usec, text);
        snprintf(words, sizeof(words), "%s%s%s", text, code[0] ? "  " : "", code);
        print_words(SVG_LEFT - 10, y + 15, line->row ? "stage" : "stage note", line->name, stream);
        fprintf(stream, "<rect x=\"%u\" y=\"%u\" width=\"%u\" height=\"%d\" class=\"%s\"/>\n",
                SVG_LEFT + begin, y, end > begin ? end - begin : 1, SVG_ROW - 4,
                line->row ? outcome_names[line->row->outcome] : "step");
        print_words(SVG_LEFT + end + 6, y + 15, "note", words, stream);
}

void nb_timeline_print_svg(const struct nb_timeline *timeline, const char *title, FILE *stream) {
        struct line lines[LINES_MAX];
        size_t n = lay_out(timeline, lines);
        unsigned height = SVG_TOP + (unsigned)n * SVG_ROW + 20;

        fprintf(stream,
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%u\">\n"
                "<style>text { font: 13px sans-serif; } .title { font-size: 16px; } .stage { "
                "text-anchor: end; } .note { fill: #555; }\n"
                ".done { fill: #4a7db5; } .under-way { fill: #c8a23c; } .failed { fill: #b5413c; } "
                ".step { fill: #a9c4e0; } .line { stroke: #ddd; }</style>\n"
                "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
                SVG_LEFT + SVG_BARS + SVG_RIGHT, height);
        print_words(20, 28, "title", title, stream);
        for (unsigned i = 0; i <= 4; i++) {
                unsigned x = SVG_LEFT + SVG_BARS * i / 4;
                char text[NB_SPAN_SIZE];

                nb_span_format(span(timeline) * i / 4, text);
                fprintf(stream, "<line x1=\"%u\" y1=\"%d\" x2=\"%u\" y2=\"%u\" class=\"line\"/>\n",
                        x, SVG_TOP - 4, x, height - 20);
                print_words(x, SVG_TOP - 8, "note", text, stream);
        }
        for (size_t i = 0; i < n; i++)
                print_svg_line(timeline, &lines[i], SVG_TOP + (unsigned)i * SVG_ROW, stream);
        fputs("</svg>\n", stream);
}
