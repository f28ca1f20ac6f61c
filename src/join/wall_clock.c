/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "join/wall_clock.h"

/* NTP keeps clocks within seconds; certificates are backdated by minutes. */
#define CLOCK_SKEW_MAX_SEC 60

bool nb_wall_clock_is_wrong(const struct nb_wall_clock *clock,
                            char ret[static NB_WALL_CLOCK_TEXT_SIZE]) {
        int64_t behind = clock->has_date ? clock->behind_sec : 0;
        char duration[NB_DURATION_SIZE], now[NB_RFC3339_SIZE], built[NB_RFC3339_SIZE];

        if (behind >= CLOCK_SKEW_MAX_SEC || behind <= -CLOCK_SKEW_MAX_SEC) {
                nb_duration_format((uint64_t)(behind < 0 ? -behind : behind) * 1000, duration);
                snprintf(ret, NB_WALL_CLOCK_TEXT_SIZE,
                         "this machine's clock is %s %s the API server's", duration,
                         behind > 0 ? "behind" : "ahead of");
                return true;
        }
        if (clock->now >= clock->built)
                return false;
        nb_time_format(clock->now, now);
        nb_time_format(clock->built, built);
        snprintf(ret, NB_WALL_CLOCK_TEXT_SIZE,
                 "this machine's clock is at %s, before this program was built (%s)", now, built);
        return true;
}
