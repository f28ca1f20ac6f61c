/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Whether this machine's clock can be right, by what else is known of the time. Pure. */

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/clock.h"

#define NB_WALL_CLOCK_TEXT_SIZE (2 * NB_RFC3339_SIZE + 80)

struct nb_wall_clock {
        time_t now;         /* what this machine takes it for */
        bool has_date;      /* a server has said what time it is */
        int64_t behind_sec; /* by how much this machine's clock is behind the server's; negative: ahead */
        time_t built;       /* when this program was built; 0: not known */
};

/* 1 when it is wrong, and half a sentence that says so: by the server, or by standing before this program was built. 0: nothing can be said. */
int nb_wall_clock_blame(const struct nb_wall_clock *clock, char ret[static NB_WALL_CLOCK_TEXT_SIZE]);
