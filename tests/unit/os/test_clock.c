/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/macro.h"
#include "os/clock.h"

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
        uint64_t before = nb_now_ms(), usec = nb_now_usec();

        assert_in_range(usec, before * 1000, nb_now_ms() * 1000 + 999);
        assert_true(nb_now_usec() >= usec);
}

/* The clock of a machine that runs this test cannot be correct and show an earlier year. */
static void build_time_is_known(void **state) {
        assert_true(nb_build_time() >= 1767225600);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(build_time_is_known),
                cmocka_unit_test(backoff_doubles_up_to_the_cap_within_its_spread),
                cmocka_unit_test(durations_are_for_people),
                cmocka_unit_test(instants_are_rfc_3339_in_utc),
                cmocka_unit_test(the_clock_goes_on),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
