/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The calls of work that must not wait for an answer, since other work, the Lease and the watches
 * go on meanwhile: a webhook may delay each call for as long as kube-apiserver lets it.
 *
 * While an exchange is set in struct nb_admin, nb_admin_perform() and nb_admin_list() start a call
 * and return -EINPROGRESS, without a failure. The work returns this up to the loop, which runs the
 * same function again, from its beginning, when the answer is there. Calls that are already
 * answered return their answers again, in the same order. So the function reads as if it waited,
 * but holds nothing over a call: what it refers to may change or be freed between two calls.
 *
 * An answer whose call the function does not make again, since a record has changed, is passed
 * over. What the function counts or logs must come after its last call.
 */

#include <stdbool.h>

#include "net/http.h"

#define NB_EXCHANGE_CALLS_MAX 24
#define NB_ADMIN_PATH_MAX 768
#define NB_RESOURCE_VERSION_SIZE 64

struct nb_exchange_call;

/* Zero: no call was made. */
struct nb_exchange {
        struct nb_exchange_call *calls[NB_EXCHANGE_CALLS_MAX];
        unsigned n, at;                 /* calls; those that this run has made */
        struct nb_exchange_call *begun; /* the last one that was sent; NULL: none */
};

/* Before the work runs again. */
void nb_exchange_rewind(struct nb_exchange *exchange);

/* Whether an earlier run of the work waited for an answer, also if that was interrupted: earlier
 * pages of a list are not read again. */
bool nb_exchange_has_calls(const struct nb_exchange *exchange);

/* Whether the work waits for an answer. */
bool nb_exchange_is_waiting(const struct nb_exchange *exchange);

/* For a transfer that nb_http_wait() returned as done. False if it is not of this exchange. */
bool nb_exchange_take_done(struct nb_exchange *exchange, const struct nb_http_transfer *done);

/* Ends the transfer, since its connection is about to be closed. The next run starts it again. */
void nb_exchange_interrupt(struct nb_exchange *exchange);

/* Ends the call that is under way, and forgets all answers. */
void nb_exchange_done(struct nb_exchange *exchange);
