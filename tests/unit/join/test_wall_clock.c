/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "join/join.h"

#include "case.h"

#define NOW 1700000000 /* 2023-11-14T22:13:20Z */
#define HOUR 3600

struct clock_case {
        const char *name;
        time_t now;
        int64_t behind_sec;
        time_t built;
        const char *expected; /* NULL: not to blame */
};

static struct clock_case clocks[] = {
        { "in step with the server", NOW, 2, NOW - HOUR, NULL },
        { "hours behind the server", NOW, 3 * HOUR + 12 * 60 + 5, NOW - HOUR,
          "this machine's clock is 3 h 12 min behind the API server's" },
        { "days ahead of the server", NOW, -49 * HOUR, NOW - HOUR,
          "this machine's clock is 2 d 1 h ahead of the API server's" },
        { "as far off as is let pass", NOW, 59, NOW - HOUR, NULL },
        { "a minute off", NOW, -60, NOW - HOUR,
          "this machine's clock is 1 min 0 s ahead of the API server's" },
        { "at the epoch, and nobody has said the time", 100, 0, NOW,
          "this machine's clock is at 1970-01-01T00:01:40Z, before this program was built "
          "(2023-11-14T22:13:20Z)" },
        { "at the epoch, as the server says it", 100, NOW - 100, NOW,
          "this machine's clock is 19675 d 22 h behind the API server's" },
        { "before the build, and a server that is so too", 100, 0, NOW,
          "this machine's clock is at 1970-01-01T00:01:40Z, before this program was built "
          "(2023-11-14T22:13:20Z)" },
        { "just built", NOW, 0, NOW, NULL },
        { "nobody knows when it was built", 100, 0, 0, NULL },
};

static void blames(void **state) {
        const struct clock_case *c = *state;
        char text[NB_CLOCK_TEXT_SIZE] = "";

        assert_int_equal(nb_clock_is_wrong(c->now, c->built, c->behind_sec, text),
                         c->expected != NULL);
        assert_string_equal(text, c->expected ? c->expected : "");
}

int main(void) {
        CASES(clocks, blames);
        return case_run("wall_clock");
}
