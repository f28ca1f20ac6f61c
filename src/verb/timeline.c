/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/macro.h"
#include "base/text.h"
#include "base/unit.h"
#include "verb/timeline.h"

#define UNIT "node-bootstrap.service"
#define BEFORE_STAGES "prepare" /* settings and credentials are read */
#define INSTALL "install"

struct reading {
        struct nb_timeline *timeline;
        char stage[32];     /* that the last entry belongs to */
        uint64_t mark_usec; /* until when everything is told */
        uint64_t last_usec;
        uint64_t connected_usec; /* when this stage said that it had connected; 0 when it did not */
        char waited[64];         /* what this stage has waited for */
        bool is_over;
};

static bool is(const struct nb_unit_entry *entry, enum nb_code code) {
        return strcmp(entry->message_id, nb_failure_info(code)->message_id) == 0;
}

static void add(struct reading *reading, const char *stage, uint64_t begin_usec, uint64_t end_usec, enum nb_timeline_outcome outcome, const char *code) {
        struct nb_timeline_row *row = nb_timeline_add(reading->timeline, stage, begin_usec, end_usec);

        row->outcome = outcome;
        nb_text_copy_line(code, strlen(code), row->code, sizeof(row->code));
        reading->mark_usec = end_usec;
        reading->connected_usec = 0;
        reading->waited[0] = '\0';
}

static void end(struct reading *reading, enum nb_timeline_outcome outcome, const char *code, const char *message) {
        reading->is_over = true;
        reading->timeline->outcome = outcome;
        nb_text_copy_line(code, strlen(code), reading->timeline->code, sizeof(reading->timeline->code));
        nb_text_copy_line(message, strlen(message), reading->timeline->message, sizeof(reading->timeline->message));
}

static uint64_t read_usec(const struct nb_unit_entry *entry, enum nb_field field) {
        return strtoull(entry->fields[field], NULL, 10);
}

static uint64_t before(const struct nb_unit_entry *entry, uint64_t usec) {
        return usec < entry->when_usec ? entry->when_usec - usec : 0;
}

static void take_connection(struct reading *reading, const struct nb_unit_entry *entry) {
        struct nb_timeline_connection connection = {
                .begin_usec = before(entry, read_usec(entry, NB_FIELD_AGE_USEC)),
                .resolve_usec = read_usec(entry, NB_FIELD_RESOLVE_USEC),
                .tcp_usec = read_usec(entry, NB_FIELD_TCP_USEC),
                .tls_usec = read_usec(entry, NB_FIELD_TLS_USEC),
        };

        (void)snprintf(connection.endpoint, sizeof(connection.endpoint), "%s", entry->fields[NB_FIELD_ENDPOINT]);
        nb_timeline_add_connection(reading->timeline, &connection);
        /* Nothing was told before. */
        if (reading->timeline->n_rows == 0 && connection.begin_usec < reading->mark_usec)
                reading->mark_usec = connection.begin_usec;
        reading->connected_usec = entry->when_usec;
}

/* One that does not say that it is done, and connected last of all, was done then. */
static void leave_stage(struct reading *reading) {
        if (reading->connected_usec > 0)
                add(reading, reading->stage, reading->mark_usec, reading->connected_usec, NB_TIMELINE_DONE, reading->waited);
}

static void take_done(struct reading *reading, const struct nb_unit_entry *entry) {
        add(reading, entry->fields[NB_FIELD_STAGE], before(entry, read_usec(entry, NB_FIELD_DURATION_USEC)), entry->when_usec, NB_TIMELINE_DONE, reading->waited);
}

static void take_failure(struct reading *reading, const struct nb_unit_entry *entry) {
        if (entry->priority > LOG_ERR) {
                nb_text_copy_line(entry->error, strlen(entry->error), reading->waited, sizeof(reading->waited));
                return;
        }
        add(reading, reading->stage, reading->mark_usec, entry->when_usec, NB_TIMELINE_FAILED, entry->error);
        end(reading, NB_TIMELINE_FAILED, entry->error, entry->message);
}

static void take(struct reading *reading, const struct nb_unit_entry *entry) {
        const char *stage = entry->fields[NB_FIELD_STAGE];

        if (reading->mark_usec == 0)
                reading->mark_usec = entry->when_usec;
        reading->last_usec = entry->when_usec;
        /* What the installer does before is of no length. */
        if (stage[0] && strcmp(stage, "inspect") != 0 && strcmp(stage, reading->stage) != 0) {
                leave_stage(reading);
                nb_text_copy_line(stage, strlen(stage), reading->stage, sizeof(reading->stage));
        }
        if (is(entry, NB_CONNECTED))
                take_connection(reading, entry);
        else if (is(entry, NB_STAGE_DONE))
                take_done(reading, entry);
        else if (is(entry, NB_JOINED)) {
                (void)snprintf(reading->stage, sizeof(reading->stage), INSTALL);
                reading->mark_usec = entry->when_usec;
        } else if (is(entry, NB_INSTALLED)) {
                add(reading, INSTALL, reading->mark_usec, entry->when_usec, NB_TIMELINE_DONE, "");
                end(reading, NB_TIMELINE_DONE, "", "");
        } else if (is(entry, NB_STOPPED)) {
                add(reading, reading->stage, reading->mark_usec, entry->when_usec, NB_TIMELINE_FAILED, "stopped");
                end(reading, NB_TIMELINE_FAILED, "stopped", entry->message);
        } else if (entry->error[0])
                take_failure(reading, entry);
}

static uint64_t now_usec(void) {
        struct timespec now;

        (void)clock_gettime(CLOCK_REALTIME, &now);
        return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* A run of which no entry tells the end. A journal from elsewhere tells nothing of what came after its last entry; here systemd knows more. */
static void end_untold(struct reading *reading, const struct nb_unit_entry *last, bool is_here) {
        struct nb_unit_state state = { .active = "" };
        struct nb_failure f = { .code = NB_NONE };
        char waited[sizeof(reading->waited)];
        bool is_known = is_here && nb_unit_show(UNIT, &state, &f) >= 0 && strcmp(state.active, "activating") != 0;

        memcpy(waited, reading->waited, sizeof(waited));
        if (is_known && strcmp(state.active, "active") == 0) {
                add(reading, reading->stage, reading->mark_usec, reading->last_usec, NB_TIMELINE_DONE, waited);
                end(reading, NB_TIMELINE_DONE, "", "the journal has no end of it");
        } else if (is_known) {
                add(reading, reading->stage, reading->mark_usec, reading->last_usec, NB_TIMELINE_FAILED, waited);
                end(reading, NB_TIMELINE_FAILED, "", "it was killed, or the machine went down: the journal has no end of it");
        } else {
                add(reading, reading->stage, reading->mark_usec, is_here ? now_usec() : reading->last_usec, NB_TIMELINE_UNDER_WAY, waited);
                end(reading, NB_TIMELINE_UNDER_WAY, waited, waited[0] ? last->message : "");
        }
}

int nb_timeline_read(const char *directory, struct nb_timeline *ret_timeline, struct nb_unit_entry *ret_last) {
        _cleanup_(nb_unit_journal_freep) struct nb_unit_journal *journal = NULL;
        struct nb_timeline timeline = { .n_rows = 0 };
        struct reading reading = { .timeline = &timeline, .stage = BEFORE_STAGES };
        struct nb_unit_entry entry, last = { 0 };
        int r;

        r = nb_unit_journal_open_run(directory, UNIT, nb_failure_info(NB_ALREADY_JOINED)->message_id, &journal);
        if (r <= 0)
                return r;
        while ((r = nb_unit_journal_next(journal, &entry)) > 0) {
                take(&reading, &entry);
                if (entry.error[0])
                        last = entry;
        }
        if (r < 0)
                return r;
        if (!reading.is_over)
                end_untold(&reading, &last, !directory);
        *ret_timeline = timeline;
        *ret_last = last;
        return 1;
}
