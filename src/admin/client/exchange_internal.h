/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* For calls.c. */

#include "admin/client/exchange.h"

/* A call, or all pages of a list, over all runs of the work. */
struct nb_exchange_call {
        const char *method; /* static; "LIST" for a list */
        char path[NB_ADMIN_PATH_MAX];
        struct nb_buffer body;             /* of the request, which refers to it */
        struct nb_http_transfer *transfer; /* NULL: not begun, interrupted, or answered */
        bool is_answered, is_new;          /* new: not counted yet */
        int r;
        struct nb_failure failure; /* if r is negative */
        struct nb_http_answer answer;

        /* Of a list: how far it is. The call above is the next page. */
        char next[512]; /* the continue token; "" for the first page */
        char version[NB_RESOURCE_VERSION_SIZE];
        unsigned n_halved; /* how often the limit for a page was halved */
        bool is_ignoring;  /* an object was passed over */
        bool is_complete;
};

/* The call of an earlier run, or a new one. NULL with a failure: no memory, or too many calls. */
struct nb_exchange_call *nb_exchange_find(struct nb_exchange *exchange, const char *method,
                                          const char *path, struct nb_failure *f);
