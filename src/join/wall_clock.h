/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Whether this machine's clock is wrong. Pure. */

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/clock.h"

#define NB_WALL_CLOCK_TEXT_SIZE (2 * NB_RFC3339_SIZE + 80)

struct nb_wall_clock {
        time_t now;
        bool has_date;      /* a server has sent a Date */
        int64_t behind_sec; /* how far this machine is behind the server; negative: ahead */
        time_t built;       /* when this program was built; 0: unknown */
};

/* Compares with the server's clock, and with the build of this program; sets half a sentence if it
 * is wrong. */
bool nb_wall_clock_is_wrong(const struct nb_wall_clock *clock,
                            char ret[static NB_WALL_CLOCK_TEXT_SIZE]);
