/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* For calls.c. */

#include "admin/client/exchange.h"

/* How far a list is, over all runs of the work. */
struct nb_exchange_list {
        char path[NB_ADMIN_PATH_MAX];
        char next[512]; /* the continue token; "" for the first page */
        char version[NB_RESOURCE_VERSION_SIZE];
        int limit;        /* items of a page; 0: not begun */
        size_t size;      /* of the last page */
        bool is_ignoring; /* an object was passed over */
};

/* 1: the answer of an earlier run, or the one that has arrived, which the caller frees; 0: this
 * call was not made yet; -EINPROGRESS without a failure: it is under way; other failures of
 * nb_http_finish(). A page of a list is returned once. */
int nb_exchange_find(struct nb_exchange *exchange, const char *method, const char *path,
                     bool is_page, struct nb_http_answer *ret_answer, struct nb_failure *f);

/* Begins a call, and replaces *body by a copy that stays as long as the call. 0, -ENOMEM. */
int nb_exchange_begin(struct nb_exchange *exchange, const char *method, const char *path,
                      const char **body, size_t len);

/* Whether an earlier run has read this list to its end; then its version. */
bool nb_exchange_find_list(struct nb_exchange *exchange, const char *path, char *ret_version);

/* The list of this path that is under way, or a new one. NULL without memory. */
struct nb_exchange_list *nb_exchange_begin_list(struct nb_exchange *exchange, const char *path);
int nb_exchange_end_list(struct nb_exchange *exchange, bool is_complete, struct nb_failure *f);
