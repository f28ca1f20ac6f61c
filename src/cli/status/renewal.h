/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* When kubelet's certificate is renewed, and whether it should have been renewed by now. */

#include <time.h>

#include "cli/machine_state.h"

#define NB_RENEWAL_REASON_SIZE 160

struct nb_renewal {
        time_t from, until;   /* when kubelet (with k3s, the refresh) renews it */
        time_t overdue_since; /* when the renewal began to be due; 0: it is not overdue */
        enum nb_code code;    /* why the last renewal by the supervisor failed; NB_NONE: unknown */
        char reason[NB_RENEWAL_REASON_SIZE];
};

/* A certificate that has expired, or that is not valid yet, is not overdue. All zero without a
 * certificate. */
struct nb_renewal nb_renewal_judge(const struct nb_machine_state *state);
