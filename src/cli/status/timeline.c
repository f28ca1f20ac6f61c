/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/macro.h"
#include "base/text.h"
#include "cli/status/timeline.h"
#include "system/clock.h"

#define UNIT "node-bootstrap.service"
#define BEFORE_STAGES "prepare" /* reading settings and credentials */
#define INSTALL "install"

#define NAME_COLUMNS 10
#define SPAN_COLUMNS 11
#define BAR "################################"
#define BAR_COLUMNS ((unsigned)(sizeof(BAR) - 1))

static const struct {
        const char *name; /* in JSON */
        const char *text;
        const char *note; /* before the code of a failure */
} outcomes[] = {
        [NB_TIMELINE_DONE] = { "done", "done", "waited: " },
        [NB_TIMELINE_UNDER_WAY] = { "under-way", "under way", "waits: " },
        [NB_TIMELINE_FAILED] = { "failed", "failed", "failed: " },
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
}

/* --- Journal --- */

struct reading {
        struct nb_timeline *timeline;
        struct nb_timeline_row row; /* of the current stage; `code` is its last failure */
        uint64_t last_usec;         /* of the last entry */
        uint64_t connected_usec;    /* of the last connection of this stage; 0: none */
        uint64_t waiting_usec;      /* of the first failure of this stage; 0: none */
        bool is_over;
};

/* The next row begins where this one ends. */
static void end_row(struct reading *reading, uint64_t end_usec) {
        struct nb_timeline_row *row = &reading->row;

        row->end_usec = end_usec;
        nb_timeline_add(reading->timeline, row);
        row->begin_usec = end_usec;
        row->code[0] = '\0';
        reading->connected_usec = reading->waiting_usec = 0;
}

/* Adds the last row, and the result of the join. */
static void end_join(struct reading *reading, uint64_t end_usec, enum nb_timeline_outcome outcome,
                     const char *code, const char *message) {
        struct nb_timeline *timeline = reading->timeline;

        NB_TEXT_COPY_LINE(timeline->code, code);
        NB_TEXT_COPY_LINE(timeline->message, message);
        timeline->outcome = reading->row.outcome = outcome;
        reading->is_over = true;
        if (code[0])
                NB_TEXT_COPY_LINE(reading->row.code, code);
        end_row(reading, end_usec);
}

/* Returns when the stage or connection that ends with this entry began: `field` is its duration. */
static uint64_t find_begin(const struct nb_unit_entry *entry, enum nb_field field) {
        uint64_t usec = strtoull(entry->fields[field], NULL, 10);

        return usec < entry->when_usec ? entry->when_usec - usec : 0;
}

static void take_entry(struct reading *reading, const struct nb_unit_entry *entry) {
        const char *stage = entry->fields[NB_FIELD_STAGE];
        struct nb_timeline_row *row = &reading->row;

        if (row->begin_usec == 0)
                row->begin_usec = entry->when_usec;
        reading->last_usec = entry->when_usec;
        /* The stage "inspect" takes too little time to show. */
        if (stage[0] && strcmp(stage, "inspect") != 0 && strcmp(stage, row->stage) != 0) {
                /* A stage that logs no entry at its end ended with its last connection. */
                if (reading->connected_usec > 0)
                        end_row(reading, reading->connected_usec);
                NB_TEXT_COPY_LINE(row->stage, stage);
        }
        if (nb_unit_entry_is(entry, NB_CONNECTED)) {
                uint64_t begin_usec = find_begin(entry, NB_FIELD_AGE_USEC);

                reading->connected_usec = entry->when_usec;
                /* The first entry of a join may be the one at the end of its first connection. */
                if (reading->timeline->n_rows == 0 && begin_usec < row->begin_usec)
                        row->begin_usec = begin_usec;
        } else if (nb_unit_entry_is(entry, NB_STAGE_DONE)) {
                row->begin_usec = find_begin(entry, NB_FIELD_DURATION_USEC);
                end_row(reading, entry->when_usec);
        } else if (nb_unit_entry_is(entry, NB_JOINED)) {
                NB_TEXT_COPY_LINE(row->stage, INSTALL);
                row->begin_usec = entry->when_usec;
        } else if (nb_unit_entry_is(entry, NB_INSTALLED)) {
                NB_TEXT_COPY_LINE(row->stage, INSTALL);
                end_join(reading, entry->when_usec, NB_TIMELINE_DONE, "", "");
        } else if (nb_unit_entry_is(entry, NB_STOPPED)) {
                end_join(reading, entry->when_usec, NB_TIMELINE_FAILED, "stopped", entry->message);
        } else if (entry->error[0] && entry->priority > LOG_ERR) {
                NB_TEXT_COPY_LINE(row->code, entry->error);
                if (reading->waiting_usec == 0)
                        reading->waiting_usec = entry->when_usec;
        } else if (entry->error[0]) {
                end_join(reading, entry->when_usec, NB_TIMELINE_FAILED, entry->error,
                         entry->message);
        }
}

/* No entry reports how the run ended: systemd knows the state of the unit. */
static void end_unfinished(struct reading *reading, const struct nb_unit_entry *last) {
        struct nb_unit_state state = { .active = "" };
        struct nb_failure ignored = { .code = NB_NONE };
        char waited[sizeof(reading->row.code)];

        NB_TEXT_COPY_LINE(waited, reading->row.code);
        reading->timeline->waiting_since_usec = reading->waiting_usec;
        if (nb_unit_show(UNIT, &state, &ignored) < 0 || strcmp(state.active, "activating") == 0)
                end_join(reading, (uint64_t)time(NULL) * 1000000, NB_TIMELINE_UNDER_WAY, waited,
                         waited[0] ? last->message : "");
        else if (strcmp(state.active, "active") == 0)
                end_join(reading, reading->last_usec, NB_TIMELINE_DONE, "",
                         "the journal does not say when it ended");
        else
                end_join(reading, reading->last_usec, NB_TIMELINE_FAILED, "",
                         "it was killed, or the machine went down: the journal does not say why");
}

/* The installer found credentials that kubelet can use, and ran no join. */
static bool is_without_join(const struct nb_unit_entry *entry) {
        static const enum nb_code codes[] = { NB_ALREADY_JOINED, NB_JOINED_ANYWAY, NB_PREVIOUS_KEPT,
                                              NB_NOT_YET_VALID };

        if (strcmp(entry->fields[NB_FIELD_STAGE], "inspect") != 0)
                return false;
        for (size_t i = 0; i < N_ELEMENTS(codes); i++)
                if (nb_unit_entry_is(entry, codes[i]))
                        return true;
        return false;
}

/* A failure that this machine has recovered from is not the outcome of its last join. */
static int find_join(const struct nb_unit_entry *entry, void *userdata) {
        bool *is_joined_later = userdata;

        if (nb_unit_entry_is(entry, NB_INSTALLED))
                return -1;
        if (is_without_join(entry))
                *is_joined_later = true;
        return is_without_join(entry) ||
               (*is_joined_later && (nb_unit_entry_is(entry, NB_STOPPED) ||
                                     (entry->error[0] && entry->priority <= LOG_ERR)));
}

int nb_timeline_read(struct nb_timeline *ret_timeline, struct nb_unit_entry *ret_last) {
        _cleanup_(nb_unit_journal_freep) struct sd_journal *journal = NULL;
        struct reading reading = { .timeline = ret_timeline, .row.stage = BEFORE_STAGES };
        struct nb_unit_entry entry;
        bool is_joined_later = false;
        int r;

        *ret_timeline = (struct nb_timeline){ .n_rows = 0 };
        ret_last->error[0] = '\0';
        r = nb_unit_journal_open_run(UNIT, find_join, &is_joined_later, &journal);
        if (r <= 0)
                return r;
        while ((r = nb_unit_journal_next(journal, &entry)) > 0) {
                take_entry(&reading, &entry);
                if (entry.error[0])
                        *ret_last = entry;
        }
        if (r >= 0 && !reading.is_over)
                end_unfinished(&reading, ret_last);
        return r < 0 ? r : 1;
}

/* --- Text --- */

/* "3.2 ms", "1.250 s", "2 min 5 s". */
static void format_span(uint64_t usec, char ret[static NB_DURATION_SIZE]) {
        if (usec < 1000000)
                snprintf(ret, NB_DURATION_SIZE, "%.1f ms", (double)usec / 1000);
        else if (usec < 60000000)
                snprintf(ret, NB_DURATION_SIZE, "%.3f s", (double)usec / 1000000);
        else
                nb_duration_format(usec / 1000, ret);
}

/* Prints a bar of at least one column, even for a very short time. */
static void print_row(const struct nb_timeline *timeline, const struct nb_timeline_row *row,
                      FILE *stream) {
        uint64_t usec = timeline->end_usec - timeline->begin_usec;
        double whole = (double)(usec > 0 ? usec : 1),
               begin = (double)(row->begin_usec - timeline->begin_usec) / whole,
               end = (double)(row->end_usec - timeline->begin_usec) / whole;
        unsigned from = (unsigned)(begin * (BAR_COLUMNS - 1)),
                 until = (unsigned)(end * BAR_COLUMNS);
        char span[NB_DURATION_SIZE];

        if (until <= from)
                until = from + 1;
        format_span(row->end_usec - row->begin_usec, span);
        fprintf(stream, "  %-*s %*s  %*s%.*s", NAME_COLUMNS, row->stage, SPAN_COLUMNS, span,
                (int)from, "", (int)(until - from), BAR);
        if (row->code[0] || row->outcome != NB_TIMELINE_DONE)
                fprintf(stream, "%*s  %s%s", (int)(BAR_COLUMNS - until), "",
                        row->code[0] ? outcomes[row->outcome].note : outcomes[row->outcome].text,
                        row->code);
        fputc('\n', stream);
}

void nb_timeline_print_text(const struct nb_timeline *timeline, FILE *stream) {
        char begin[NB_RFC3339_SIZE], span[NB_DURATION_SIZE];

        nb_time_format((time_t)(timeline->begin_usec / 1000000), begin);
        format_span(timeline->end_usec - timeline->begin_usec, span);
        fprintf(stream, "The last join, %s: %s, %s\n", begin, span,
                outcomes[timeline->outcome].text);
        for (size_t i = 0; i < timeline->n_rows; i++)
                print_row(timeline, &timeline->rows[i], stream);
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
        nb_time_format((time_t)(timeline->waiting_since_usec / 1000000), seconds);
        put_text(writer, "waitingSince", timeline->waiting_since_usec > 0 ? seconds : "");
        nb_json_open(writer, "stages", '[');
        for (size_t i = 0; i < timeline->n_rows; i++)
                put_row(timeline, &timeline->rows[i], writer);
        nb_json_close(writer);
        nb_json_close(writer);
}
