/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Asks all endpoints concurrently, unverified, each with its own retries, until one is verified. A
 * slow one delays no other. */

#include "join/join.h"
#include "net/http.h"

#define NB_RACE_AGAIN 1

struct nb_race {
        const char *what; /* for messages, before the endpoint: "cluster-info from" */
        int (*start)(struct nb_http *http, const struct nb_url *endpoint,
                     struct nb_http_transfer **ret_transfer, struct nb_failure *f);
        /*
         * Verifies an endpoint's answer, and sets cluster, CA and endpoint in `join`. On the first
         * call `second` is NULL; if it then returns NB_RACE_AGAIN, it is called again with a second
         * copy of the answer, received over TLS verified by the CAs in `ret_ca`.
         */
        int (*verify)(struct nb_join *join, const struct nb_url *endpoint,
                      const struct nb_unverified *first, const struct nb_http_answer *second,
                      struct nb_buffer *ret_ca, struct nb_failure *f);
        bool is_unproven; /* the CAs are unverified, so a copy that they verify proves nothing */
};

int nb_join_race(struct nb_join *join, const struct nb_race *kind, struct nb_failure *f);
