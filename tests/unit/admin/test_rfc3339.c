/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "admin/policy/rfc3339.h"
#include "base/macro.h"

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
        const struct CMUnitTest tests[] = { cmocka_unit_test(times_are_those_of_rfc_3339) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
