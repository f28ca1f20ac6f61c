/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/client/exchange_internal.h"
#include "base/macro.h"

/* --- For calls.c --- */

struct nb_exchange_call *nb_exchange_find(struct nb_exchange *exchange, const char *method,
                                          const char *path, struct nb_failure *f) {
        struct nb_exchange_call *call = NULL;

        while (exchange->at < exchange->n) {
                call = exchange->calls[exchange->at++];
                if (strcmp(call->method, method) == 0 && strcmp(call->path, path) == 0)
                        return call;
        }
        errno = E2BIG;
        call = exchange->n < NB_EXCHANGE_CALLS_MAX ? calloc(1, sizeof(*call)) : NULL;
        if (!call) {
                (void)nb_failure_set(f, NB_INTERNAL, errno,
                                     "cannot keep the answer of another call: %m");
                return NULL;
        }
        call->method = method;
        snprintf(call->path, sizeof(call->path), "%s", path);
        exchange->calls[exchange->n++] = call;
        exchange->at = exchange->n;
        return call;
}

/* --- For the loop --- */

void nb_exchange_rewind(struct nb_exchange *exchange) {
        exchange->at = 0;
}

bool nb_exchange_has_calls(const struct nb_exchange *exchange) {
        return exchange->n > 0;
}

bool nb_exchange_is_waiting(const struct nb_exchange *exchange) {
        return exchange->begun && exchange->begun->transfer;
}

bool nb_exchange_take_done(struct nb_exchange *exchange, const struct nb_http_transfer *done) {
        struct nb_exchange_call *call = exchange->begun;

        if (!nb_exchange_is_waiting(exchange) || call->transfer != done)
                return false;
        call->r = nb_http_finish(TAKE(call->transfer), &call->answer, &call->failure);
        call->is_answered = call->is_new = true;
        return true;
}

void nb_exchange_interrupt(struct nb_exchange *exchange) {
        if (exchange->begun)
                nb_http_cancel(TAKE(exchange->begun->transfer));
}

void nb_exchange_done(struct nb_exchange *exchange) {
        nb_exchange_interrupt(exchange);
        for (unsigned i = 0; i < exchange->n; i++) {
                nb_buffer_wipe(&exchange->calls[i]->body);
                nb_http_answer_done(&exchange->calls[i]->answer);
                free(exchange->calls[i]);
        }
        *exchange = (struct nb_exchange){ 0 };
}
