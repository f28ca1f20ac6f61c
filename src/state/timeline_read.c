/* SPDX-License-Identifier: Apache-2.0 */
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
        struct nb_timeline_row row; /* of the current stage; `code` is its last failure */
        uint64_t last_usec;         /* of the last entry */
        uint64_t connected_usec;    /* of the last connection of this stage; 0: none */
        bool is_over;
};

static bool has_id(const struct nb_unit_entry *entry, enum nb_code code) {
        return strcmp(entry->message_id, nb_failure_info(code)->message_id) == 0;
}

#define COPY(target, text) nb_text_copy_line((text), strlen(text), (target), sizeof(target))

/* The next row begins where this one ends. */
static void end_row(struct reading *reading, uint64_t end_usec) {
        struct nb_timeline_row *row = &reading->row;

        row->end_usec = end_usec;
        nb_timeline_add(reading->timeline, row);
        row->begin_usec = end_usec;
        row->n_connections = 0;
        row->code[0] = '\0';
        reading->connected_usec = 0;
}

/* Adds the last row, and the result of the join. */
static void end_join(struct reading *reading, uint64_t end_usec, enum nb_timeline_outcome outcome,
                     const char *code, const char *message) {
        struct nb_timeline *timeline = reading->timeline;

        COPY(timeline->code, code);
        COPY(timeline->message, message);
        timeline->outcome = reading->row.outcome = outcome;
        reading->is_over = true;
        if (code[0])
                COPY(reading->row.code, code);
        end_row(reading, end_usec);
}

static uint64_t read_usec(const struct nb_unit_entry *entry, enum nb_field field) {
        return strtoull(entry->fields[field], NULL, 10);
}

static uint64_t subtract_usec(const struct nb_unit_entry *entry, enum nb_field field) {
        uint64_t usec = read_usec(entry, field);

        return usec < entry->when_usec ? entry->when_usec - usec : 0;
}

/* Keeps the connections in the order in which they began. */
static void take_connection(struct reading *reading, const struct nb_unit_entry *entry) {
        struct nb_timeline_connection new = {
                .begin_usec = subtract_usec(entry, NB_FIELD_AGE_USEC),
        };
        struct nb_timeline_row *row = &reading->row;
        size_t at = row->n_connections;

        reading->connected_usec = entry->when_usec;
        if (at == NB_TIMELINE_CONNECTIONS_MAX)
                return;
        COPY(new.endpoint, entry->fields[NB_FIELD_ENDPOINT]);
        for (size_t i = 0; i < NB_TIMELINE_STEPS; i++)
                new.step_usec[i] = read_usec(entry, nb_timeline_steps[i].field);
        for (; at > 0 && row->connections[at - 1].begin_usec > new.begin_usec; at--)
                row->connections[at] = row->connections[at - 1];
        row->connections[at] = new;
        row->n_connections++;
        if (reading->timeline->n_rows == 0 && new.begin_usec < row->begin_usec)
                row->begin_usec = new.begin_usec;
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
                COPY(row->stage, stage);
        }
        if (has_id(entry, NB_CONNECTED)) {
                take_connection(reading, entry);
        } else if (has_id(entry, NB_STAGE_DONE)) {
                row->begin_usec = subtract_usec(entry, NB_FIELD_DURATION_USEC);
                end_row(reading, entry->when_usec);
        } else if (has_id(entry, NB_JOINED)) {
                COPY(row->stage, INSTALL);
                row->begin_usec = entry->when_usec;
        } else if (has_id(entry, NB_INSTALLED)) {
                COPY(row->stage, INSTALL);
                end_join(reading, entry->when_usec, NB_TIMELINE_DONE, "", "");
        } else if (has_id(entry, NB_STOPPED)) {
                end_join(reading, entry->when_usec, NB_TIMELINE_FAILED, "stopped", entry->message);
        } else if (entry->error[0] && entry->priority > LOG_ERR) {
                COPY(row->code, entry->error);
        } else if (entry->error[0]) {
                end_join(reading, entry->when_usec, NB_TIMELINE_FAILED, entry->error,
                         entry->message);
        }
}

/* No entry reports how the run ended. On this machine, systemd knows the state of the unit; a
 * journal from elsewhere ends with its last entry. */
static void end_unfinished(struct reading *reading, const struct nb_unit_entry *last,
                           bool is_here) {
        struct nb_unit_state state = { .active = "" };
        struct nb_failure ignored = { .code = NB_NONE };
        char waited[sizeof(reading->row.code)];

        COPY(waited, reading->row.code);
        if (!is_here || nb_unit_show(UNIT, &state, &ignored) < 0 ||
            strcmp(state.active, "activating") == 0)
                end_join(reading, is_here ? (uint64_t)time(NULL) * 1000000 : reading->last_usec,
                         NB_TIMELINE_UNDER_WAY, waited, waited[0] ? last->message : "");
        else if (strcmp(state.active, "active") == 0)
                end_join(reading, reading->last_usec, NB_TIMELINE_DONE, "",
                         "the journal does not say when it ended");
        else
                end_join(reading, reading->last_usec, NB_TIMELINE_FAILED, "",
                         "it was killed, or the machine went down: the journal does not say why");
}

int nb_timeline_read(const char *directory, struct nb_timeline *ret_timeline,
                     struct nb_unit_entry *ret_last) {
        _cleanup_(nb_unit_journal_freep) struct sd_journal *journal = NULL;
        struct reading reading = { .timeline = ret_timeline, .row.stage = BEFORE_STAGES };
        struct nb_unit_entry entry;
        int r;

        *ret_timeline = (struct nb_timeline){ .n_rows = 0 };
        ret_last->error[0] = '\0';
        r = nb_unit_journal_open_run(directory, UNIT,
                                     nb_failure_info(NB_ALREADY_JOINED)->message_id, &journal);
        if (r <= 0)
                return r;
        while ((r = nb_unit_journal_next(journal, &entry)) > 0) {
                take_entry(&reading, &entry);
                if (entry.error[0])
                        *ret_last = entry;
        }
        if (r >= 0 && !reading.is_over)
                end_unfinished(&reading, ret_last, !directory);
        return r < 0 ? r : 1;
}
