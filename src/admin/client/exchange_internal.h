/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* For calls.c. */

#include "admin/client/exchange.h"

/* How far a list is, over all runs of the work. */
struct nb_exchange_list {
        char path[NB_ADMIN_PATH_MAX];
        char next[512]; /* the continue token; "" for the first page */
        char version[NB_RESOURCE_VERSION_SIZE];
        int limit; /* items of a page; 0: not begun */
        bool is_complete;
};

/* 1: the answer of an earlier run, which the caller frees; 0: this call was not made before;
 * -ENOMEM. */
int nb_exchange_find(struct nb_exchange *exchange, const char *method, const char *path,
                     struct nb_http_answer *ret_answer);

/* Keeps a copy of the answer for the next run, with the call. 0; -ENOMEM; -E2BIG. */
int nb_exchange_keep(struct nb_exchange *exchange, const char *method, const char *path,
                     const struct nb_http_answer *answer);

/* Begins a call, and replaces *body by a copy that stays as long as the call. 0, -ENOMEM. */
int nb_exchange_begin(struct nb_exchange *exchange, const char *method, const char *path,
                      const char **body, size_t len);

/* Whether the call that is under way is this one. Any other is ended. */
bool nb_exchange_has_begun(struct nb_exchange *exchange, const char *method, const char *path);

/* The outcome of the call that is answered, as from nb_http_finish(). */
int nb_exchange_take_answer(struct nb_exchange *exchange, struct nb_http_answer *ret_answer,
                            struct nb_failure *f);

/* The list of this path that is under way, or a new one. NULL without memory. */
struct nb_exchange_list *nb_exchange_find_list(struct nb_exchange *exchange, const char *path);
void nb_exchange_end_list(struct nb_exchange *exchange);
