/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/macro.h"
#include "system/clock.h"

static void backoff_doubles_up_to_the_cap_within_its_spread(void **state) {
        static const struct {
                const char *name;
                unsigned attempt;
                uint32_t random;
                uint64_t expected;
        } cases[] = {
                { "first, shortest", 0, 0, 100 },
                { "first, longest", 0, 1023, 200 },
                { "second, longest", 1, 1023, 400 },
                { "fifth, longest", 4, 1023, 3200 },
                { "at the cap, longest", 5, 1023, 5000 },
                { "at the cap, shortest", 5, 1024, 2500 },
                { "an attempt that would overflow a shift", 4000000000U, 1023, 5000 },
        };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                uint64_t found = nb_backoff_ms(cases[i].attempt, 200, 5000, cases[i].random);

                if (found != cases[i].expected)
                        fail_msg("%s: %llu, expected %llu", cases[i].name,
                                 (unsigned long long)found, (unsigned long long)cases[i].expected);
        }
}

static void durations_are_for_people(void **state) {
        static const struct {
                uint64_t ms;
                const char *text;
        } cases[] = {
                { 0, "0 s" },
                { 59999, "59 s" },
                { 60000, "1 min 0 s" },
                { 200000, "3 min 20 s" },
                { 7500000, "2 h 5 min" },
                { 172800000, "2 d 0 h" },
        };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                char text[NB_DURATION_SIZE];

                nb_duration_format(cases[i].ms, text);
                assert_string_equal(text, cases[i].text);
        }
}

static void instants_are_rfc_3339_in_utc(void **state) {
        char text[NB_RFC3339_SIZE];

        nb_time_format(1136214245, text);
        assert_string_equal(text, "2006-01-02T15:04:05Z");
        nb_time_format((time_t)INT64_MAX, text);
        assert_string_equal(text, "");
        assert_int_equal(nb_time_parse("2006-01-02T15:04:05Z"), 1136214245);
        assert_int_equal(nb_time_parse("2006-01-02T15:04:05Z "), 0);
        assert_int_equal(nb_time_parse(""), 0);
}

static void the_clock_goes_on(void **state) {
        uint64_t before = nb_now_ms();

        assert_true(nb_now_ms() >= before);
}

/* The clock of a machine that runs this test cannot be correct and show an earlier year. */
static void build_time_is_known(void **state) {
        assert_true(nb_build_time() >= 1767225600);
}

static void times_are_those_of_rfc_3339(void **state) {
        static const struct {
                const char *name, *text;
                time_t expected; /* -1: refused */
        } cases[] = {
                { "UTC", "2026-01-02T15:04:05Z", 1767366245 },
                { "an offset to the east", "2026-01-02T17:04:05+02:00", 1767366245 },
                { "an offset to the west", "2026-01-02T09:34:05-05:30", 1767366245 },
                { "an offset of zero", "2026-01-02T15:04:05+00:00", 1767366245 },
                { "a fraction", "2026-01-02T15:04:05.999999999Z", 1767366245 },
                { "a fraction and an offset", "2026-01-02T16:04:05.5+01:00", 1767366245 },
                { "29 February of a leap year", "2024-02-29T00:00:00Z", 1709164800 },
                { "the epoch", "1970-01-01T00:00:00Z", 0 },
                { "nothing", "", -1 },
                { "garbage", "tomorrow", -1 },
                { "a date alone", "2026-01-02", -1 },
                { "no zone", "2026-01-02T15:04:05", -1 },
                { "a lower-case zone", "2026-01-02T15:04:05z", -1 },
                { "a space for the T", "2026-01-02 15:04:05Z", -1 },
                { "text at the end", "2026-01-02T15:04:05Z ", -1 },
                { "a fraction without digits", "2026-01-02T15:04:05.Z", -1 },
                { "an offset without colon", "2026-01-02T15:04:05+0200", -1 },
                { "an offset without minutes", "2026-01-02T15:04:05+02", -1 },
                { "an offset of 24 hours", "2026-01-02T15:04:05+24:00", -1 },
                { "an offset of 60 minutes", "2026-01-02T15:04:05+00:60", -1 },
                { "text after an offset", "2026-01-02T15:04:05+02:00Z", -1 },
                { "month 0", "2026-00-02T15:04:05Z", -1 },
                { "month 13", "2026-13-02T15:04:05Z", -1 },
                { "day 0", "2026-01-00T15:04:05Z", -1 },
                { "30 February", "2026-02-30T15:04:05Z", -1 },
                { "29 February of another year", "2026-02-29T15:04:05Z", -1 },
                { "hour 24", "2026-01-02T24:00:00Z", -1 },
                { "minute 60", "2026-01-02T15:60:05Z", -1 },
                { "a leap second", "2016-12-31T23:59:60Z", -1 },
                { "a sign in a number", "2026-01-+2T15:04:05Z", -1 },
                { "a year of five digits", "12026-01-02T15:04:05Z", -1 },
        };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                time_t when = 77, expected = cases[i].expected == -1 ? 77 : cases[i].expected;
                int r = nb_rfc3339_parse(cases[i].text, &when);

                if (r != (cases[i].expected == -1 ? -EINVAL : 0) || when != expected)
                        fail_msg("%s: %d, %lld", cases[i].name, r, (long long)when);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(build_time_is_known),
                cmocka_unit_test(backoff_doubles_up_to_the_cap_within_its_spread),
                cmocka_unit_test(durations_are_for_people),
                cmocka_unit_test(instants_are_rfc_3339_in_utc),
                cmocka_unit_test(the_clock_goes_on),
                cmocka_unit_test(times_are_those_of_rfc_3339),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
