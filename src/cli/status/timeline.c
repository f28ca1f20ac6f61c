/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/status/timeline.h"
#include "os/clock.h"

#define NAME_COLUMNS 10
#define SPAN_COLUMNS 11
#define BAR "################################"
#define BAR_COLUMNS ((unsigned)(sizeof(BAR) - 1))

uint64_t nb_timeline_usec(const struct nb_record *record) {
        uint64_t usec = 0;

        for (unsigned i = 0; i < _NB_STAGE_N; i++)
                usec += record->provenance.usec[i];
        return usec;
}

/* "3.2 ms", "1.250 s", "2 min 5 s". */
static void format_span(uint64_t usec, char ret[static NB_DURATION_SIZE]) {
        if (usec < 1000000)
                snprintf(ret, NB_DURATION_SIZE, "%.1f ms", (double)usec / 1000);
        else if (usec < 60000000)
                snprintf(ret, NB_DURATION_SIZE, "%.3f s", (double)usec / 1000000);
        else
                nb_duration_format(usec / 1000, ret);
}

/* The bar has at least one column, even for a very short time. */
void nb_timeline_print_text(const struct nb_record *record, FILE *stream) {
        double whole = (double)nb_timeline_usec(record), end = 0;
        char span[NB_DURATION_SIZE];

        format_span(nb_timeline_usec(record), span);
        fprintf(stream, "The last join, %s: %s\n", record->joined_at, span);
        for (unsigned i = 0; i < _NB_STAGE_N; i++) {
                uint64_t usec = record->provenance.usec[i];
                unsigned from = (unsigned)(end / whole * (BAR_COLUMNS - 1)), until;

                if (usec == 0)
                        continue;
                end += (double)usec;
                until = (unsigned)(end / whole * BAR_COLUMNS);
                format_span(usec, span);
                fprintf(stream, "  %-*s %*s  %*s%.*s\n", NAME_COLUMNS, nb_stage_names[i],
                        SPAN_COLUMNS, span, (int)from, "", until > from ? (int)(until - from) : 1,
                        BAR);
        }
}

static void put_durations(const struct nb_record *record, struct nb_json_writer *writer) {
        nb_json_put_integer(writer, "durationUsec", (int64_t)nb_timeline_usec(record));
        nb_json_open(writer, "stages", '[');
        for (unsigned i = 0; i < _NB_STAGE_N; i++) {
                if (record->provenance.usec[i] == 0)
                        continue;
                nb_json_open(writer, NULL, '{');
                nb_json_put_string(writer, "stage", nb_stage_names[i]);
                nb_json_put_integer(writer, "durationUsec", (int64_t)record->provenance.usec[i]);
                nb_json_close(writer);
        }
        nb_json_close(writer);
}

void nb_timeline_put_json(const struct nb_last *last, const struct nb_record *record,
                          struct nb_json_writer *writer) {
        bool is_joining = nb_last_is(last, NB_LAST_JOINING),
             is_told = is_joining || nb_last_is(last, NB_LAST_FAILED);
        bool is_waiting = is_joining && last->code[0];

        if (!is_told && (!record || nb_timeline_usec(record) == 0)) {
                nb_json_put_string(writer, "lastJoin", NULL);
                return;
        }
        nb_json_open(writer, "lastJoin", '{');
        nb_json_put_string(writer, "outcome",
                           is_joining ? "under-way"
                           : is_told  ? "failed"
                                      : "done");
        nb_json_put_string(writer, "code", is_told && last->code[0] ? last->code : NULL);
        nb_json_put_string(writer, "message", is_told && last->detail[0] ? last->detail : NULL);
        nb_json_put_string(writer, "waitingSince", is_waiting ? last->since : NULL);
        if (!is_told)
                put_durations(record, writer);
        nb_json_close(writer);
}
