/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "cli/status/timeline.h"

#include "case.h"

#define BEGIN 1767323045000000 /* 2026-01-02T03:04:05Z */
#define MS(n) (BEGIN + (n)*1000ULL)

static struct nb_timeline_row *add(struct nb_timeline *timeline, const char *stage,
                                   uint64_t begin_usec, uint64_t end_usec) {
        struct nb_timeline_row row = { .begin_usec = begin_usec, .end_usec = end_usec };

        (void)strcpy(row.stage, stage);
        nb_timeline_add(timeline, &row);
        return &timeline->rows[timeline->n_rows - 1];
}

/* A join that waited for its approval. */
static struct nb_timeline make(void) {
        struct nb_timeline timeline = { .n_rows = 0 };

        add(&timeline, "discover", MS(0), MS(20));
        add(&timeline, "request", MS(20), MS(30));
        (void)strcpy(add(&timeline, "await", MS(30), MS(1990))->code, "csr-pending");
        add(&timeline, "install", MS(1990), MS(2000));
        return timeline;
}

#define PRINT(call) \
        ({ \
                char *_text = NULL; \
                size_t _len; \
                FILE *stream = open_memstream(&_text, &_len); \
                assert_non_null(stream); \
                call; \
                assert_int_equal(fclose(stream), 0); \
                _text; \
        })

static void draws_text(void **state) {
        _cleanup_(nb_freep) char *text = NULL;
        struct nb_timeline timeline = make();

        text = PRINT(nb_timeline_print_text(&timeline, stream));
        assert_string_equal(text,
                            "The last join, 2026-01-02T03:04:05Z: 2.000 s, done\n"
                            "  discover       20.0 ms  #\n"
                            "  request        10.0 ms  #\n"
                            "  await          1.960 s  ###############################   waited: "
                            "csr-pending\n"
                            "  install        10.0 ms                                "
                            "##\n");
}

static char *format_json(const struct nb_timeline *timeline) {
        struct nb_buffer text = NB_BUFFER_INIT(4096);
        struct nb_json_writer writer = { .buffer = &text };

        nb_timeline_put_json(timeline, NULL, &writer);
        assert_int_equal(nb_json_finish(&writer), 0);
        return text.data;
}

struct note_case {
        const char *name;
        enum nb_timeline_outcome outcome;
        const char *code, *expected;
};

static struct note_case notes[] = {
        { "done at once", NB_TIMELINE_DONE, "", "#\n" },
        { "done after a wait", NB_TIMELINE_DONE, "token-unknown", "#  waited: token-unknown\n" },
        { "under way", NB_TIMELINE_UNDER_WAY, "", "#  under way\n" },
        { "waits", NB_TIMELINE_UNDER_WAY, "csr-pending", "#  waits: csr-pending\n" },
        { "failed", NB_TIMELINE_FAILED, "ca-pin-mismatch", "#  failed: ca-pin-mismatch\n" },
        { "failed without a code", NB_TIMELINE_FAILED, "", "#  failed\n" },
};

static void says_how_a_stage_ended(void **state) {
        const struct note_case *c = *state;
        _cleanup_(nb_freep) char *text = NULL;
        struct nb_timeline timeline = { .n_rows = 0 };
        struct nb_timeline_row *row = add(&timeline, "await", MS(0), MS(1));
        const char *found;

        row->outcome = c->outcome;
        (void)strcpy(row->code, c->code);
        text = PRINT(nb_timeline_print_text(&timeline, stream));
        found = strrchr(text, '#');
        assert_non_null(found);
        assert_string_equal(found, c->expected);
}

static void formats_json(void **state) {
        _cleanup_(nb_freep) char *text = NULL;
        struct nb_timeline timeline = make();

        timeline.outcome = NB_TIMELINE_FAILED;
        (void)strcpy(timeline.code, "csr-denied");
        (void)strcpy(timeline.message, "it was \"denied\"");
        timeline.n_rows = 1;
        text = format_json(&timeline);
        assert_string_equal(text, "{\"begin\":\"2026-01-02T03:04:05.000000Z\","
                                  "\"durationUsec\":2000000,\"outcome\":\"failed\","
                                  "\"error\":\"csr-denied\",\"message\":\"it was "
                                  "\\\"denied\\\"\",\"waitingSince\":null,"
                                  "\"stages\":[{\"stage\":\"discover\","
                                  "\"offsetUsec\":0,\"durationUsec\":20000,\"outcome\":"
                                  "\"done\",\"error\":null}]}");
}

static void keeps_to_its_ceiling(void **state) {
        struct nb_timeline timeline = { .n_rows = 0 };

        const struct nb_timeline_row *row;

        for (unsigned i = 0; i < NB_TIMELINE_ROWS_MAX; i++)
                add(&timeline, "await", MS(i), MS(i + 1));
        row = add(&timeline, "hand-over", MS(99), MS(100));
        assert_int_equal(timeline.n_rows, NB_TIMELINE_ROWS_MAX);
        assert_ptr_equal(row, &timeline.rows[NB_TIMELINE_ROWS_MAX - 1]);
        assert_string_equal(row->stage, "hand-over");
        assert_int_equal(timeline.end_usec, MS(100));
}

/* The clock was set back in the middle. */
static void ends_no_stage_before_it_began(void **state) {
        struct nb_timeline timeline = { .n_rows = 0 };
        const struct nb_timeline_row *row = add(&timeline, "await", MS(10), MS(5));

        assert_int_equal(row->end_usec, row->begin_usec);
}

struct span_case {
        const char *name;
        uint64_t usec;
        const char *expected;
};

static struct span_case spans[] = {
        { "nothing", 0, "    0.0 ms  #" },          { "microseconds", 949, "    0.9 ms  #" },
        { "milliseconds", 12345, "   12.3 ms  #" }, { "seconds", 1250000, "   1.250 s  #" },
        { "minutes", 125000000, " 2 min 5 s  #" },
};

static void formats_span(void **state) {
        const struct span_case *c = *state;
        _cleanup_(nb_freep) char *text = NULL;
        struct nb_timeline timeline = { .n_rows = 0 };

        add(&timeline, "await", BEGIN, BEGIN + c->usec);
        text = PRINT(nb_timeline_print_text(&timeline, stream));
        assert_non_null(strstr(text, c->expected));
}

int main(void) {
        CASE(draws_text);
        CASES(notes, says_how_a_stage_ended);
        CASE(formats_json);
        CASE(keeps_to_its_ceiling);
        CASE(ends_no_stage_before_it_began);
        CASES(spans, formats_span);
        return case_run("timeline");
}
