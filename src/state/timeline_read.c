/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/macro.h"
#include "base/text.h"
#include "base/unit.h"
#include "state/timeline.h"

#define UNIT "node-bootstrap.service"
#define BEFORE_STAGES "prepare" /* reading settings and credentials */
#define INSTALL "install"

struct reading {
        struct nb_timeline *timeline;
        char stage[32];          /* of the current entry */
        uint64_t mark_usec;      /* where the next row begins */
        uint64_t last_usec;      /* of the last entry */
        uint64_t connected_usec; /* of the last connection of this stage; 0: none */
        char waited[64];         /* code that this stage has waited for */
        bool is_over;
};

static bool has_id(const struct nb_unit_entry *entry, enum nb_code code) {
        return strcmp(entry->message_id, nb_failure_info(code)->message_id) == 0;
}

#define COPY(target, text) nb_text_copy_line((text), strlen(text), (target), sizeof(target))

static void add_row(struct reading *reading, const char *stage, uint64_t begin_usec,
                    uint64_t end_usec, enum nb_timeline_outcome outcome, const char *code) {
        struct nb_timeline_row *row = nb_timeline_add(reading->timeline, stage, begin_usec,
                                                      end_usec);

        row->outcome = outcome;
        COPY(row->code, code);
        reading->mark_usec = end_usec;
        reading->connected_usec = 0;
        reading->waited[0] = '\0';
}

/* Adds the last row, and the result of the join. */
static void end_join(struct reading *reading, uint64_t end_usec, enum nb_timeline_outcome outcome,
                     const char *code, const char *message) {
        struct nb_timeline *timeline = reading->timeline;

        COPY(timeline->code, code);
        COPY(timeline->message, message);
        timeline->outcome = outcome;
        reading->is_over = true;
        add_row(reading, reading->stage, reading->mark_usec, end_usec, outcome, timeline->code);
}

static uint64_t read_usec(const struct nb_unit_entry *entry, enum nb_field field) {
        return strtoull(entry->fields[field], NULL, 10);
}

static uint64_t subtract_usec(const struct nb_unit_entry *entry, enum nb_field field) {
        uint64_t usec = read_usec(entry, field);

        return usec < entry->when_usec ? entry->when_usec - usec : 0;
}

static void take_connection(struct reading *reading, const struct nb_unit_entry *entry) {
        struct nb_timeline_connection connection = {
                .begin_usec = subtract_usec(entry, NB_FIELD_AGE_USEC),
                .resolve_usec = read_usec(entry, NB_FIELD_RESOLVE_USEC),
                .tcp_usec = read_usec(entry, NB_FIELD_TCP_USEC),
                .tls_usec = read_usec(entry, NB_FIELD_TLS_USEC),
        };

        COPY(connection.endpoint, entry->fields[NB_FIELD_ENDPOINT]);
        nb_timeline_add_connection(reading->timeline, &connection);
        if (reading->timeline->n_rows == 0 && connection.begin_usec < reading->mark_usec)
                reading->mark_usec = connection.begin_usec;
        reading->connected_usec = entry->when_usec;
}

/* A stage without an entry at its end was done when it had connected. */
static void enter_stage(struct reading *reading, const char *stage) {
        if (reading->connected_usec > 0)
                add_row(reading, reading->stage, reading->mark_usec, reading->connected_usec,
                        NB_TIMELINE_DONE, reading->waited);
        COPY(reading->stage, stage);
}

static void take_entry(struct reading *reading, const struct nb_unit_entry *entry) {
        const char *stage = entry->fields[NB_FIELD_STAGE];

        if (reading->mark_usec == 0)
                reading->mark_usec = entry->when_usec;
        reading->last_usec = entry->when_usec;
        /* The installer's first step takes no time worth showing. */
        if (stage[0] && strcmp(stage, "inspect") != 0 && strcmp(stage, reading->stage) != 0)
                enter_stage(reading, stage);
        if (has_id(entry, NB_CONNECTED)) {
                take_connection(reading, entry);
        } else if (has_id(entry, NB_STAGE_DONE)) {
                add_row(reading, stage, subtract_usec(entry, NB_FIELD_DURATION_USEC),
                        entry->when_usec, NB_TIMELINE_DONE, reading->waited);
        } else if (has_id(entry, NB_JOINED)) {
                COPY(reading->stage, INSTALL);
                reading->mark_usec = entry->when_usec;
        } else if (has_id(entry, NB_INSTALLED)) {
                COPY(reading->stage, INSTALL);
                end_join(reading, entry->when_usec, NB_TIMELINE_DONE, "", "");
        } else if (has_id(entry, NB_STOPPED)) {
                end_join(reading, entry->when_usec, NB_TIMELINE_FAILED, "stopped", entry->message);
        } else if (entry->error[0] && entry->priority > LOG_ERR) {
                COPY(reading->waited, entry->error);
        } else if (entry->error[0]) {
                end_join(reading, entry->when_usec, NB_TIMELINE_FAILED, entry->error,
                         entry->message);
        }
}

static uint64_t now_usec(void) {
        struct timespec now;

        (void)clock_gettime(CLOCK_REALTIME, &now);
        return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* No entry says how the run ended. On this machine systemd knows; a journal from elsewhere ends
 * with its last entry. */
static void end_unfinished(struct reading *reading, const struct nb_unit_entry *last,
                           bool is_here) {
        struct nb_unit_state state = { .active = "" };
        struct nb_failure ignored = { .code = NB_NONE };
        char waited[sizeof(reading->waited)];

        COPY(waited, reading->waited);
        if (!is_here || nb_unit_show(UNIT, &state, &ignored) < 0 ||
            strcmp(state.active, "activating") == 0) {
                end_join(reading, is_here ? now_usec() : reading->last_usec, NB_TIMELINE_UNDER_WAY,
                         waited, waited[0] ? last->message : "");
                return;
        }
        if (strcmp(state.active, "active") == 0)
                end_join(reading, reading->last_usec, NB_TIMELINE_DONE, "",
                         "the journal does not say when it ended");
        else
                end_join(reading, reading->last_usec, NB_TIMELINE_FAILED, "",
                         "it was killed, or the machine went down: the journal does not say why");
        COPY(reading->timeline->rows[reading->timeline->n_rows - 1].code, waited);
}

int nb_timeline_read(const char *directory, struct nb_timeline *ret_timeline,
                     struct nb_unit_entry *ret_last) {
        _cleanup_(nb_unit_journal_freep) struct sd_journal *journal = NULL;
        struct nb_timeline timeline = { .n_rows = 0 };
        struct reading reading = { .timeline = &timeline, .stage = BEFORE_STAGES };
        struct nb_unit_entry entry, last = { 0 };
        int r;

        r = nb_unit_journal_open_run(directory, UNIT,
                                     nb_failure_info(NB_ALREADY_JOINED)->message_id, &journal);
        if (r <= 0)
                return r;
        while ((r = nb_unit_journal_next(journal, &entry)) > 0) {
                take_entry(&reading, &entry);
                if (entry.error[0])
                        last = entry;
        }
        if (r < 0)
                return r;
        if (!reading.is_over)
                end_unfinished(&reading, &last, !directory);
        *ret_timeline = timeline;
        *ret_last = last;
        return 1;
}
