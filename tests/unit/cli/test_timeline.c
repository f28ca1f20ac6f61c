/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "cli/status/timeline.h"

#include "case.h"

/* A join that waited for its approval. */
static const struct nb_record joined = {
        .joined_at = "2026-01-02T03:04:05Z",
        .provenance.usec = { [NB_STAGE_DISCOVER] = 20000,
                             [NB_STAGE_REQUEST] = 10000,
                             [NB_STAGE_AWAIT] = 1960000,
                             [NB_STAGE_INSTALL] = 10000 },
};

static char *print(const struct nb_record *record) {
        char *text = NULL;
        size_t len;
        FILE *stream = open_memstream(&text, &len);

        assert_non_null(stream);
        nb_timeline_print_text(record, stream);
        assert_int_equal(fclose(stream), 0);
        return text;
}

static void draws_text(void **state) {
        _cleanup_(nb_freep) char *text = print(&joined);

        assert_string_equal(text, "The last join, 2026-01-02T03:04:05Z: 2.000 s\n"
                                  "  discover       20.0 ms  #\n"
                                  "  request        10.0 ms  #\n"
                                  "  await          1.960 s  ###############################\n"
                                  "  install        10.0 ms                                ##\n");
}

struct span_case {
        const char *name;
        uint64_t usec;
        const char *expected;
};

static struct span_case spans[] = {
        { "microseconds", 949, "    0.9 ms  #" }, { "milliseconds", 12345, "   12.3 ms  #" },
        { "seconds", 1250000, "   1.250 s  #" },  { "minutes", 125000000, " 2 min 5 s  #" },
        { "much", INT64_C(1) << 53, "  #" },
};

static void formats_span(void **state) {
        const struct span_case *c = *state;
        struct nb_record record = { .provenance.usec[NB_STAGE_AWAIT] = c->usec };
        _cleanup_(nb_freep) char *text = print(&record);

        assert_non_null(strstr(text, c->expected));
}

struct json_case {
        const char *name;
        struct nb_last last;
        const struct nb_record *record;
        const char *expected;
};

static const struct nb_record taken_over = { .joined_at = "2026-01-02T03:04:05Z" };

static struct json_case jsons[] = {
        { "no join", { .state = "" }, NULL, "{\"lastJoin\":null}" },
        { "a record without durations",
          { .state = NB_LAST_KEPT },
          &taken_over,
          "{\"lastJoin\":null}" },
        { "a join that is done",
          { .state = NB_LAST_JOINED, .since = "2026-01-02T03:04:05Z" },
          &joined,
          "{\"lastJoin\":{\"outcome\":\"done\",\"code\":null,\"message\":null,"
          "\"waitingSince\":null,\"durationUsec\":2000000,\"stages\":["
          "{\"stage\":\"discover\",\"durationUsec\":20000},"
          "{\"stage\":\"request\",\"durationUsec\":10000},"
          "{\"stage\":\"await\",\"durationUsec\":1960000},"
          "{\"stage\":\"install\",\"durationUsec\":10000}]}}" },
        { "a failure that was ignored",
          { .state = NB_LAST_KEPT, .code = "settings-invalid", .detail = "x" },
          NULL,
          "{\"lastJoin\":null}" },
        { "a join that waits, after another one",
          { .state = NB_LAST_JOINING,
            .code = "csr-pending",
            .detail = "it is \"pending\"",
            .since = "2026-01-02T03:04:05Z" },
          &joined,
          "{\"lastJoin\":{\"outcome\":\"under-way\",\"code\":\"csr-pending\","
          "\"message\":\"it is \\\"pending\\\"\",\"waitingSince\":\"2026-01-02T03:04:05Z\"}}" },
        { "a join that waits for nothing",
          { .state = NB_LAST_JOINING, .since = "2026-01-02T03:04:05Z" },
          NULL,
          "{\"lastJoin\":{\"outcome\":\"under-way\",\"code\":null,\"message\":null,"
          "\"waitingSince\":null}}" },
        { "a failure",
          { .state = NB_LAST_FAILED, .code = "csr-denied", .detail = "no" },
          NULL,
          "{\"lastJoin\":{\"outcome\":\"failed\",\"code\":\"csr-denied\",\"message\":\"no\","
          "\"waitingSince\":null}}" },
};

static void formats_json(void **state) {
        const struct json_case *c = *state;
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(4096);
        struct nb_json_writer writer = { .buffer = &text };

        nb_json_open(&writer, NULL, '{');
        nb_timeline_put_json(&c->last, c->record, &writer);
        assert_int_equal(nb_json_finish(&writer), 0);
        assert_string_equal(text.data, c->expected);
}

int main(void) {
        CASE(draws_text);
        CASES(spans, formats_span);
        CASES(jsons, formats_json);
        return case_run("timeline");
}
