/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Whether kubelet's certificate should have been renewed by now. */

#include <time.h>

#include "cli/machine_state.h"

#define NB_RENEWAL_REASON_SIZE 160

struct nb_overdue {
        time_t since;      /* when the renewal began to be due; 0: it is not overdue */
        enum nb_code code; /* why the last renewal by the supervisor failed; NB_NONE: unknown */
        char reason[NB_RENEWAL_REASON_SIZE];
};

/* Not for a certificate that has expired, or that is not valid yet. */
struct nb_overdue nb_renewal_judge(const struct nb_machine_state *state);
