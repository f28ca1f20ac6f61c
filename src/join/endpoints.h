/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Asks the endpoints in the order of the settings, over unverified TLS and each with its own
 * retries, until one of them is verified. The next endpoint is asked when one has failed, or has
 * not been verified for 250 ms; the earlier ones continue. So a slow endpoint delays the others
 * only by that time, and most joins cost only the first API server a handshake. The order is not
 * random, so that an administrator can put the server first that cluster-info names.
 */

#include "http/http.h"
#include "join/join.h"

#define NB_RACE_AGAIN 1

struct nb_race {
        const struct nb_call *call;
        /*
         * Verifies an endpoint's answer, and sets *ret_cluster, from whose CAs nb_join_trust()
         * selects. On the first call, `second` is NULL. If the first call returns NB_RACE_AGAIN,
         * the second call has a second copy of the answer, received over TLS verified by
         * ret_cluster->ca. The function may take the body of `second`.
         */
        int (*verify)(const struct nb_join *join, const struct nb_api *api,
                      const struct nb_unverified *first, struct nb_http_answer *second,
                      struct nb_cluster *ret_cluster, struct nb_failure *f);
        enum nb_code malformed; /* the failure if the cluster's CAs are malformed */
        bool is_unproven; /* the CAs are unverified, so a copy that they verify proves nothing */
};

int nb_join_race(struct nb_join *join, const struct nb_race *kind, struct nb_failure *f);
