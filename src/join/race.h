/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Asks all endpoints concurrently, unverified, each with its own retries, until one is verified. A
 * slow one delays no other. */

#include "join/join.h"
#include "net/http.h"

#define NB_RACE_AGAIN 1

struct nb_race {
        const struct nb_call *call;
        /*
         * Verifies an endpoint's answer, and sets *ret_cluster, whose CAs nb_join_trust() chooses
         * from. On the first call `second` is NULL; if it then returns NB_RACE_AGAIN, it is called
         * again with a second copy of the answer, received over TLS verified by ret_cluster->ca.
         * May take the body of the second copy.
         */
        int (*verify)(const struct nb_join *join, const struct nb_api *api,
                      const struct nb_unverified *first, struct nb_http_answer *second,
                      struct nb_cluster *ret_cluster, struct nb_failure *f);
        enum nb_code malformed; /* the failure of its CAs */
        bool is_unproven; /* the CAs are unverified, so a copy that they verify proves nothing */
};

int nb_join_race(struct nb_join *join, const struct nb_race *kind, struct nb_failure *f);
