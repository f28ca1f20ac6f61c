/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "stage/wall_clock.h"

/* NTP keeps clocks within seconds; certificates are dated back by minutes. */
#define CLOCK_SKEW_MAX_SEC 60

int nb_wall_clock_blame(const struct nb_wall_clock *clock, char ret[static NB_WALL_CLOCK_TEXT_SIZE]) {
        int64_t behind = clock->has_date ? clock->behind_sec : 0;
        char duration[NB_DURATION_SIZE], now[NB_RFC3339_SIZE], built[NB_RFC3339_SIZE];

        if (behind >= CLOCK_SKEW_MAX_SEC || behind <= -CLOCK_SKEW_MAX_SEC) {
                nb_duration_format((uint64_t)(behind < 0 ? -behind : behind) * 1000, duration);
                (void)snprintf(ret, NB_WALL_CLOCK_TEXT_SIZE, "this machine's clock is %s %s the API server's", duration, behind > 0 ? "behind" : "ahead of");
                return 1;
        }
        if (clock->now >= clock->built)
                return 0;
        nb_time_format(clock->now, now);
        nb_time_format(clock->built, built);
        (void)snprintf(ret, NB_WALL_CLOCK_TEXT_SIZE, "this machine's clock stands at %s, before this program was built (%s)", now, built);
        return 1;
}
