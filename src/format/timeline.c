/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/macro.h"
#include "base/text.h"
#include "format/json.h"
#include "format/timeline.h"

#define NAME_COLUMNS 10
#define SPAN_COLUMNS 11
#define STEP_COLUMNS 2 /* by which a step of a connection is set in */
#define BAR_COLUMNS_MIN 10
#define BAR_COLUMNS_MAX 60
#define EIGHTHS 8

/* In the picture, in pixels. */
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

/* The connections that wait for it. */
static void take_connections(struct nb_timeline *timeline, const struct nb_timeline_row *row) {
        for (size_t i = timeline->n_connections; i > 0 && timeline->connections[i - 1].row == timeline->n_rows - 1; i--) {
                struct nb_timeline_connection *c = &timeline->connections[i - 1];
                uint64_t took_usec = c->resolve_usec + c->tcp_usec + c->tls_usec, room_usec = row->end_usec - row->begin_usec;
                uint64_t last_usec = took_usec < room_usec ? row->end_usec - took_usec : row->begin_usec;

                if (c->begin_usec > last_usec)
                        c->begin_usec = last_usec;
                if (c->begin_usec < row->begin_usec)
                        c->begin_usec = row->begin_usec;
        }
}

struct nb_timeline_row *nb_timeline_add(struct nb_timeline *timeline, const char *stage, uint64_t begin_usec, uint64_t end_usec) {
        struct nb_timeline_row *row;

        if (timeline->n_rows == NB_TIMELINE_ROWS_MAX && timeline->rows[timeline->n_rows - 1].begin_usec < begin_usec)
                begin_usec = timeline->rows[timeline->n_rows - 1].begin_usec;
        if (timeline->n_rows < NB_TIMELINE_ROWS_MAX)
                timeline->n_rows++;
        row = &timeline->rows[timeline->n_rows - 1];
        *row = (struct nb_timeline_row){ .begin_usec = begin_usec, .end_usec = end_usec < begin_usec ? begin_usec : end_usec };
        nb_text_copy_line(stage, strlen(stage), row->stage, sizeof(row->stage));
        if (timeline->n_rows == 1 || row->begin_usec < timeline->begin_usec)
                timeline->begin_usec = row->begin_usec;
        if (row->end_usec > timeline->end_usec)
                timeline->end_usec = row->end_usec;
        take_connections(timeline, row);
        return row;
}

void nb_timeline_add_connection(struct nb_timeline *timeline, const struct nb_timeline_connection *connection) {
        struct nb_timeline_connection *at = timeline->connections + timeline->n_connections;

        if (timeline->n_connections == NB_TIMELINE_CONNECTIONS_MAX)
                return;
        timeline->n_connections++;
        for (; at > timeline->connections && at[-1].row == timeline->n_rows && at[-1].begin_usec > connection->begin_usec; at--)
                *at = at[-1];
        *at = *connection;
        at->row = timeline->n_rows;
}

void nb_span_format(uint64_t usec, char ret[static NB_SPAN_SIZE]) {
        if (usec < 1000000)
                (void)snprintf(ret, NB_SPAN_SIZE, "%" PRIu64 ".%" PRIu64 " ms", usec / 1000, usec % 1000 / 100);
        else if (usec < 60000000)
                (void)snprintf(ret, NB_SPAN_SIZE, "%" PRIu64 ".%03" PRIu64 " s", usec / 1000000, usec % 1000000 / 1000);
        else
                nb_duration_format(usec / 1000, ret);
}

static uint64_t span(const struct nb_timeline *timeline) {
        return timeline->end_usec > timeline->begin_usec ? timeline->end_usec - timeline->begin_usec : 1;
}

/* Of `size` units in all, where an instant is. */
static unsigned place(const struct nb_timeline *timeline, uint64_t when_usec, unsigned size) {
        uint64_t offset = when_usec > timeline->begin_usec ? when_usec - timeline->begin_usec : 0;

        return offset < span(timeline) ? (unsigned)((double)offset / (double)span(timeline) * size) : size;
}

/* What a bar is drawn for. */
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
                        ret[n++] = (struct line){ .name = steps[i].name, .begin_usec = at_usec, .end_usec = at_usec + steps[i].usec };
                at_usec += steps[i].usec;
        }
        return n;
}

static size_t lay_out(const struct nb_timeline *timeline, struct line ret[static LINES_MAX]) {
        size_t n = 0;

        for (size_t i = 0; i < timeline->n_rows; i++) {
                const struct nb_timeline_row *row = &timeline->rows[i];

                ret[n++] = (struct line){ .name = row->stage, .begin_usec = row->begin_usec, .end_usec = row->end_usec, .row = row };
                for (size_t j = 0; j < timeline->n_connections; j++)
                        if (timeline->connections[j].row == i)
                                n += lay_out_steps(&timeline->connections[j], ret + n);
        }
        return n;
}

/* --- Text --- */

static int append_times(struct nb_buffer *ret, const char *text, unsigned n) {
        int r = 0;

        for (unsigned i = 0; i < n && r >= 0; i++)
                r = nb_buffer_append_string(ret, text);
        return r;
}

/* What lasts gets a mark, however short it is. */
static int append_bar(const struct nb_timeline *timeline, const struct line *line, unsigned columns, bool is_utf8, struct nb_buffer *ret) {
        static const char *const blocks[EIGHTHS] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
        unsigned begin = place(timeline, line->begin_usec, columns * EIGHTHS) / EIGHTHS;
        unsigned end = place(timeline, line->end_usec, columns * EIGHTHS), full, rest;
        int r;

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
        r = append_times(ret, " ", begin);
        if (r >= 0)
                r = append_times(ret, is_utf8 ? "█" : "#", full);
        if (r >= 0)
                r = nb_buffer_append_string(ret, blocks[rest]);
        return r < 0 ? r : append_times(ret, " ", columns - begin - full - (rest > 0));
}

static int append_note(const struct nb_timeline_row *row, struct nb_buffer *ret) {
        static const char *const words[] = {
                [NB_TIMELINE_DONE] = "waited: ",
                [NB_TIMELINE_UNDER_WAY] = "waits: ",
                [NB_TIMELINE_FAILED] = "failed: ",
        };

        if (row->code[0])
                return nb_buffer_printf(ret, "  %s%s", words[row->outcome], row->code);
        return row->outcome == NB_TIMELINE_DONE ? 0 : nb_buffer_printf(ret, "  %s", row->outcome == NB_TIMELINE_FAILED ? "failed" : "under way");
}

static int append_line(const struct nb_timeline *timeline, const struct line *line, unsigned columns, bool is_utf8, struct nb_buffer *ret) {
        unsigned indent = line->row ? 0 : STEP_COLUMNS;
        char text[NB_SPAN_SIZE];
        int r;

        nb_span_format(line->end_usec - line->begin_usec, text);
        r = nb_buffer_printf(ret, "  %*s%-*s %*s  ", (int)indent, "", (int)(NAME_COLUMNS - indent), line->name, SPAN_COLUMNS, text);
        if (r >= 0)
                r = append_bar(timeline, line, columns, is_utf8, ret);
        if (r >= 0 && line->row)
                r = append_note(line->row, ret);
        while (ret->len > 0 && ret->data[ret->len - 1] == ' ')
                ret->data[--ret->len] = '\0';
        return r < 0 ? r : nb_buffer_append_string(ret, "\n");
}

int nb_timeline_format_text(const struct nb_timeline *timeline, unsigned width, bool is_utf8, struct nb_buffer *ret) {
        unsigned words = NAME_COLUMNS + SPAN_COLUMNS + 6, columns = width > words + BAR_COLUMNS_MIN ? width - words : BAR_COLUMNS_MIN;
        struct line lines[LINES_MAX];
        size_t n = lay_out(timeline, lines);
        int r = 0;

        /* A third is left for what stands behind a bar. */
        columns = columns * 2 / 3 < BAR_COLUMNS_MIN ? BAR_COLUMNS_MIN : columns * 2 / 3;
        if (columns > BAR_COLUMNS_MAX)
                columns = BAR_COLUMNS_MAX;
        for (size_t i = 0; i < n && r >= 0; i++)
                r = append_line(timeline, &lines[i], columns, is_utf8, ret);
        return r;
}

/* --- JSON --- */

static int append_string(const char *key, const char *value, struct nb_buffer *ret) {
        int r = nb_buffer_printf(ret, "\"%s\": ", key);

        if (r < 0)
                return r;
        return value[0] ? nb_json_quote(value, strlen(value), ret) : nb_buffer_append_string(ret, "null");
}

static void format_time(uint64_t when_usec, char *ret, size_t size) {
        time_t when = (time_t)(when_usec / 1000000);
        char text[32];
        struct tm utc;

        if (!gmtime_r(&when, &utc) || strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc) == 0)
                text[0] = '\0';
        (void)snprintf(ret, size, "%s.%06" PRIu64 "Z", text, when_usec % 1000000);
}

static int append_usec(const char *key, uint64_t usec, struct nb_buffer *ret) {
        return usec > 0 ? nb_buffer_printf(ret, ", \"%s\": %" PRIu64, key, usec) : nb_buffer_printf(ret, ", \"%s\": null", key);
}

static int append_connection(const struct nb_timeline *timeline, const struct nb_timeline_connection *connection, struct nb_buffer *ret) {
        int r = nb_buffer_append_string(ret, "{");

        if (r >= 0)
                r = append_string("endpoint", connection->endpoint, ret);
        if (r >= 0)
                r = nb_buffer_printf(ret, ", \"offsetUsec\": %" PRIu64, connection->begin_usec - timeline->begin_usec);
        if (r >= 0)
                r = append_usec("resolveUsec", connection->resolve_usec, ret);
        if (r >= 0)
                r = append_usec("tcpUsec", connection->tcp_usec, ret);
        if (r >= 0)
                r = append_usec("tlsUsec", connection->tls_usec, ret);
        return r < 0 ? r : nb_buffer_append_string(ret, "}");
}

static int append_connections(const struct nb_timeline *timeline, size_t row, struct nb_buffer *ret) {
        int r = nb_buffer_append_string(ret, ", \"connections\": [");
        const char *comma = "";

        for (size_t i = 0; i < timeline->n_connections && r >= 0; i++) {
                if (timeline->connections[i].row != row)
                        continue;
                r = nb_buffer_append_string(ret, comma);
                if (r >= 0)
                        r = append_connection(timeline, &timeline->connections[i], ret);
                comma = ", ";
        }
        return r < 0 ? r : nb_buffer_append_string(ret, "]");
}

static int append_row(const struct nb_timeline *timeline, size_t i, struct nb_buffer *ret) {
        const struct nb_timeline_row *row = &timeline->rows[i];
        int r;

        r = nb_buffer_append_string(ret, "{");
        if (r >= 0)
                r = append_string("stage", row->stage, ret);
        if (r >= 0)
                r = nb_buffer_printf(ret, ", \"offsetUsec\": %" PRIu64 ", \"durationUsec\": %" PRIu64 ", \"outcome\": \"%s\", ",
                                     row->begin_usec - timeline->begin_usec, row->end_usec - row->begin_usec, outcome_names[row->outcome]);
        if (r >= 0)
                r = append_string("error", row->code, ret);
        if (r >= 0)
                r = append_connections(timeline, i, ret);
        return r < 0 ? r : nb_buffer_append_string(ret, "}");
}

int nb_timeline_format_json(const struct nb_timeline *timeline, struct nb_buffer *ret) {
        char text[64];
        int r;

        format_time(timeline->begin_usec, text, sizeof(text));
        r = nb_buffer_printf(ret, "{\"begin\": \"%s\", \"durationUsec\": %" PRIu64 ", \"outcome\": \"%s\", ", text,
                             timeline->end_usec - timeline->begin_usec, outcome_names[timeline->outcome]);
        if (r >= 0)
                r = append_string("error", timeline->code, ret);
        if (r >= 0)
                r = nb_buffer_append_string(ret, ", ");
        if (r >= 0)
                r = append_string("message", timeline->message, ret);
        if (r >= 0)
                r = nb_buffer_append_string(ret, ", \"stages\": [");
        for (size_t i = 0; i < timeline->n_rows && r >= 0; i++) {
                if (i > 0)
                        r = nb_buffer_append_string(ret, ", ");
                if (r >= 0)
                        r = append_row(timeline, i, ret);
        }
        return r < 0 ? r : nb_buffer_append_string(ret, "]}");
}

/* --- SVG --- */

static int append_escaped(const char *text, struct nb_buffer *ret) {
        int r = 0;

        for (; *text && r >= 0; text++) {
                const char *entity = *text == '<' ? "&lt;" : *text == '>' ? "&gt;"
                                                     : *text == '&'       ? "&amp;"
                                                     : *text == '"'       ? "&quot;"
                                                                          : NULL;

                r = entity ? nb_buffer_append_string(ret, entity) : nb_buffer_append(ret, text, 1);
        }
        return r;
}

static int append_words(unsigned x, unsigned y, const char *class, const char *text, struct nb_buffer *ret) {
        int r = nb_buffer_printf(ret, "<text x=\"%u\" y=\"%u\" class=\"%s\">", x, y, class);

        if (r >= 0)
                r = append_escaped(text, ret);
        return r < 0 ? r : nb_buffer_append_string(ret, "</text>\n");
}

static int append_svg_line(const struct nb_timeline *timeline, const struct line *line, unsigned y, struct nb_buffer *ret) {
        unsigned begin = place(timeline, line->begin_usec, SVG_BARS), end = place(timeline, line->end_usec, SVG_BARS);
        const char *code = line->row ? line->row->code : "";
        char text[NB_SPAN_SIZE], words[NB_SPAN_SIZE + sizeof(line->row->code) + 16];
        int r;

        nb_span_format(line->end_usec - line->begin_usec, text);
        (void)snprintf(words, sizeof(words), "%s%s%s", text, code[0] ? "  " : "", code);
        r = append_words(SVG_LEFT - 10, y + 15, line->row ? "stage" : "stage note", line->name, ret);
        if (r >= 0)
                r = nb_buffer_printf(ret, "<rect x=\"%u\" y=\"%u\" width=\"%u\" height=\"%d\" class=\"%s\"/>\n", SVG_LEFT + begin, y,
                                     end > begin ? end - begin : 1, SVG_ROW - 4, line->row ? outcome_names[line->row->outcome] : "step");
        return r < 0 ? r : append_words(SVG_LEFT + end + 6, y + 15, "note", words, ret);
}

int nb_timeline_format_svg(const struct nb_timeline *timeline, const char *title, struct nb_buffer *ret) {
        struct line lines[LINES_MAX];
        size_t n = lay_out(timeline, lines);
        unsigned height = SVG_TOP + (unsigned)n * SVG_ROW + 20, y = SVG_TOP;
        int r;

        r = nb_buffer_printf(ret,
                             "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%u\">\n"
                             "<style>text { font: 13px sans-serif; } .title { font-size: 16px; } .stage { text-anchor: end; } .note { fill: #555; }\n"
                             ".done { fill: #4a7db5; } .under-way { fill: #c8a23c; } .failed { fill: #b5413c; } .step { fill: #a9c4e0; } .line { stroke: #ddd; }</style>\n"
                             "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
                             SVG_LEFT + SVG_BARS + SVG_RIGHT, height);
        if (r >= 0)
                r = append_words(20, 28, "title", title, ret);
        for (unsigned i = 0; i <= 4 && r >= 0; i++) {
                char text[NB_SPAN_SIZE];

                nb_span_format(span(timeline) * i / 4, text);
                r = nb_buffer_printf(ret, "<line x1=\"%u\" y1=\"%d\" x2=\"%u\" y2=\"%u\" class=\"line\"/>\n", SVG_LEFT + SVG_BARS * i / 4, SVG_TOP - 4,
                                     SVG_LEFT + SVG_BARS * i / 4, height - 20);
                if (r >= 0)
                        r = append_words(SVG_LEFT + SVG_BARS * i / 4, SVG_TOP - 8, "note", text, ret);
        }
        for (size_t i = 0; i < n && r >= 0; i++, y += SVG_ROW)
                r = append_svg_line(timeline, &lines[i], y, ret);
        return r < 0 ? r : nb_buffer_append_string(ret, "</svg>\n");
}
