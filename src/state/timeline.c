/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/macro.h"
#include "state/timeline.h"

#define NAME_COLUMNS 10
#define SPAN_COLUMNS 11
#define STEP_COLUMNS 2 /* indentation of the steps of a connection */
#define BAR "################################"
#define BAR_COLUMNS ((unsigned)(sizeof(BAR) - 1))

/* Pixels. */
#define SVG_LEFT 130
#define SVG_BARS 600
#define SVG_RIGHT 330
#define SVG_TOP 60
#define SVG_ROW 24

static const struct {
        const char *name; /* in JSON */
        const char *text;
        const char *note; /* before the code of a failure */
} outcomes[] = {
        [NB_TIMELINE_DONE] = { "done", "done", "waited: " },
        [NB_TIMELINE_UNDER_WAY] = { "under-way", "under way", "waits: " },
        [NB_TIMELINE_FAILED] = { "failed", "failed", "failed: " },
};

const struct nb_timeline_step nb_timeline_steps[NB_TIMELINE_STEPS] = {
        { "resolve", "resolveUsec", NB_FIELD_RESOLVE_USEC },
        { "tcp", "tcpUsec", NB_FIELD_TCP_USEC },
        { "tls", "tlsUsec", NB_FIELD_TLS_USEC },
};

void nb_timeline_add(struct nb_timeline *timeline, const struct nb_timeline_row *row) {
        struct nb_timeline_row *to;

        if (timeline->n_rows < NB_TIMELINE_ROWS_MAX)
                timeline->n_rows++;
        to = &timeline->rows[timeline->n_rows - 1];
        *to = *row;
        if (timeline->n_rows == 1)
                timeline->begin_usec = to->begin_usec;
        if (to->begin_usec < timeline->begin_usec)
                to->begin_usec = timeline->begin_usec;
        if (to->end_usec < to->begin_usec)
                to->end_usec = to->begin_usec;
        if (to->end_usec > timeline->end_usec)
                timeline->end_usec = to->end_usec;
        for (size_t i = 0; i < to->n_connections; i++) {
                struct nb_timeline_connection *c = &to->connections[i];
                uint64_t took_usec = c->step_usec[0] + c->step_usec[1] + c->step_usec[2];

                if (c->begin_usec < to->begin_usec || took_usec > to->end_usec - to->begin_usec)
                        c->begin_usec = to->begin_usec;
                else if (c->begin_usec > to->end_usec - took_usec)
                        c->begin_usec = to->end_usec - took_usec;
        }
}

void nb_span_format(uint64_t usec, char ret[static NB_SPAN_SIZE]) {
        if (usec < 1000000)
                snprintf(ret, NB_SPAN_SIZE, "%.1f ms", (double)usec / 1000);
        else if (usec < 60000000)
                snprintf(ret, NB_SPAN_SIZE, "%.3f s", (double)usec / 1000000);
        else
                nb_duration_format(usec / 1000, ret);
}

/* "2026-01-02T03:04:05Z: 2.060 s, done" */
static void format_title(const struct nb_timeline *timeline, char *ret, size_t size) {
        char begin[NB_RFC3339_SIZE], span[NB_SPAN_SIZE];

        nb_time_format((time_t)(timeline->begin_usec / 1000000), begin);
        nb_span_format(timeline->end_usec - timeline->begin_usec, span);
        snprintf(ret, size, "%s: %s, %s", begin, span, outcomes[timeline->outcome].text);
}

/* A bar: a row, or a step of a connection. */
struct line {
        const char *name;
        const struct nb_timeline_row *row; /* NULL for a step of a connection */
        char span[NB_SPAN_SIZE];
        double begin, end; /* fractions of the join: 0 to 1 */
};

static struct line make_line(const struct nb_timeline *timeline, const char *name,
                             uint64_t begin_usec, uint64_t took_usec) {
        double begin = (double)(begin_usec - timeline->begin_usec), end = begin + (double)took_usec,
               whole = (double)(timeline->end_usec - timeline->begin_usec);
        struct line line = { .name = name };

        nb_span_format(took_usec, line.span);
        if (whole > 0) {
                line.begin = begin < whole ? begin / whole : 1;
                line.end = end < whole ? end / whole : 1;
        }
        return line;
}

/* Returns the number of lines. `print` may be NULL. */
static unsigned each_line(const struct nb_timeline *timeline,
                          void (*print)(const struct line *line, unsigned n, FILE *stream),
                          FILE *stream) {
        unsigned n = 0;

        for (size_t i = 0; i < timeline->n_rows; i++) {
                const struct nb_timeline_row *row = &timeline->rows[i];
                struct line line = make_line(timeline, row->stage, row->begin_usec,
                                             row->end_usec - row->begin_usec);

                line.row = row;
                if (print)
                        print(&line, n, stream);
                n++;
                for (size_t j = 0; j < row->n_connections; j++) {
                        const struct nb_timeline_connection *c = &row->connections[j];
                        uint64_t at_usec = c->begin_usec;

                        for (size_t k = 0; k < NB_TIMELINE_STEPS; at_usec += c->step_usec[k++]) {
                                if (c->step_usec[k] == 0)
                                        continue;
                                line = make_line(timeline, nb_timeline_steps[k].name, at_usec,
                                                 c->step_usec[k]);
                                if (print)
                                        print(&line, n, stream);
                                n++;
                        }
                }
        }
        return n;
}

/* Prints a bar of at least one column, even for a very short time. */
static void print_line(const struct line *line, _unused_ unsigned n, FILE *stream) {
        unsigned begin = (unsigned)(line->begin * (BAR_COLUMNS - 1)),
                 end = (unsigned)(line->end * BAR_COLUMNS);
        const struct nb_timeline_row *row = line->row;
        int indent = row ? 0 : STEP_COLUMNS;

        if (end <= begin)
                end = begin + 1;
        fprintf(stream, "  %*s%-*s %*s  %*s%.*s", indent, "", NAME_COLUMNS - indent, line->name,
                SPAN_COLUMNS, line->span, (int)begin, "", (int)(end - begin), BAR);
        if (row && (row->code[0] || row->outcome != NB_TIMELINE_DONE))
                fprintf(stream, "%*s  %s%s", (int)(BAR_COLUMNS - end), "",
                        row->code[0] ? outcomes[row->outcome].note : outcomes[row->outcome].text,
                        row->code);
        fputc('\n', stream);
}

void nb_timeline_print_text(const struct nb_timeline *timeline, FILE *stream) {
        char title[128];

        format_title(timeline, title, sizeof(title));
        fprintf(stream, "The last join, %s\n", title);
        (void)each_line(timeline, print_line, stream);
}

/* --- JSON --- */

static void put_text(struct nb_json_writer *writer, const char *key, const char *text) {
        nb_json_put_string(writer, key, text[0] ? text : NULL);
}

static void put_span(struct nb_json_writer *writer, const char *key, uint64_t begin_usec,
                     uint64_t end_usec) {
        nb_json_put_integer(writer, key, (int64_t)(end_usec - begin_usec));
}

static void put_row(const struct nb_timeline *timeline, const struct nb_timeline_row *row,
                    struct nb_json_writer *writer) {
        nb_json_open(writer, NULL, '{');
        nb_json_put_string(writer, "stage", row->stage);
        put_span(writer, "offsetUsec", timeline->begin_usec, row->begin_usec);
        put_span(writer, "durationUsec", row->begin_usec, row->end_usec);
        nb_json_put_string(writer, "outcome", outcomes[row->outcome].name);
        put_text(writer, "error", row->code);
        nb_json_open(writer, "connections", '[');
        for (size_t i = 0; i < row->n_connections; i++) {
                const struct nb_timeline_connection *c = &row->connections[i];

                nb_json_open(writer, NULL, '{');
                put_text(writer, "endpoint", c->endpoint);
                put_span(writer, "offsetUsec", timeline->begin_usec, c->begin_usec);
                for (size_t k = 0; k < NB_TIMELINE_STEPS; k++)
                        if (c->step_usec[k] > 0)
                                put_span(writer, nb_timeline_steps[k].key, 0, c->step_usec[k]);
                        else
                                nb_json_put_string(writer, nb_timeline_steps[k].key, NULL);
                nb_json_close(writer);
        }
        nb_json_close(writer);
        nb_json_close(writer);
}

void nb_timeline_put_json(const struct nb_timeline *timeline, const char *key,
                          struct nb_json_writer *writer) {
        char seconds[NB_RFC3339_SIZE], begin[64];

        nb_time_format((time_t)(timeline->begin_usec / 1000000), seconds);
        snprintf(begin, sizeof(begin), "%.*s.%06" PRIu64 "Z", (int)strcspn(seconds, "Z"), seconds,
                 timeline->begin_usec % 1000000);
        nb_json_open(writer, key, '{');
        nb_json_put_string(writer, "begin", begin);
        put_span(writer, "durationUsec", timeline->begin_usec, timeline->end_usec);
        nb_json_put_string(writer, "outcome", outcomes[timeline->outcome].name);
        put_text(writer, "error", timeline->code);
        put_text(writer, "message", timeline->message);
        nb_json_open(writer, "stages", '[');
        for (size_t i = 0; i < timeline->n_rows; i++)
                put_row(timeline, &timeline->rows[i], writer);
        nb_json_close(writer);
        nb_json_close(writer);
}

/* --- SVG --- */

static void print_words(unsigned x, unsigned y, const char *class, const char *text, FILE *stream) {
        fprintf(stream, "<text x=\"%u\" y=\"%u\" class=\"%s\">", x, y, class);
        for (; *text; text++)
                fprintf(stream, strchr("<>&\"", *text) ? "&#%d;" : "%c", *text);
        fputs("</text>\n", stream);
}

static void print_svg_line(const struct line *line, unsigned n, FILE *stream) {
        unsigned y = SVG_TOP + n * SVG_ROW, begin = SVG_LEFT + (unsigned)(line->begin * SVG_BARS),
                 end = SVG_LEFT + (unsigned)(line->end * SVG_BARS);
        const struct nb_timeline_row *row = line->row;
        char words[128];

        print_words(SVG_LEFT - 10, y + 15, row ? "stage" : "stage note", line->name, stream);
        fprintf(stream, "<rect x=\"%u\" y=\"%u\" width=\"%u\" height=\"%d\" class=\"%s\"/>\n",
                begin, y, end > begin ? end - begin : 1, SVG_ROW - 4,
                row ? outcomes[row->outcome].name : "step");
        snprintf(words, sizeof(words), "%s  %s", line->span, row ? row->code : "");
        print_words(end + 6, y + 15, "note", words, stream);
}

void nb_timeline_print_svg(const struct nb_timeline *timeline, FILE *stream) {
        char title[128] = "node-bootstrap, ";
        size_t len = strlen(title);

        fprintf(stream,
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%u\">\n"
                "<style>text { font: 13px sans-serif; } .title { font-size: 16px; } .stage { "
                "text-anchor: end; } .note { fill: #555; }\n"
                ".done { fill: #4a7db5; } .under-way { fill: #c8a23c; } .failed { fill: #b5413c; } "
                ".step { fill: #a9c4e0; }</style>\n"
                "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
                SVG_LEFT + SVG_BARS + SVG_RIGHT,
                SVG_TOP + each_line(timeline, NULL, stream) * SVG_ROW + 20);
        format_title(timeline, title + len, sizeof(title) - len);
        print_words(20, 28, "title", title, stream);
        (void)each_line(timeline, print_svg_line, stream);
        fputs("</svg>\n", stream);
}
