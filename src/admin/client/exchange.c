/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/client/exchange_internal.h"
#include "base/macro.h"

struct nb_exchange_call {
        char method[8];
        char path[NB_ADMIN_PATH_MAX];
        struct nb_http_answer answer;
        struct nb_failure failure; /* if r is negative */
        int r;
        char *body; /* of the request */
        size_t body_len;
};

static void free_call(struct nb_exchange_call *call) {
        if (!call)
                return;
        if (call->body)
                explicit_bzero(call->body, call->body_len);
        free(call->body);
        nb_http_answer_done(&call->answer);
        free(call);
}

static struct nb_exchange_call *new_call(const char *method, const char *path) {
        struct nb_exchange_call *call = calloc(1, sizeof(*call));

        if (!call)
                return NULL;
        snprintf(call->method, sizeof(call->method), "%s", method);
        snprintf(call->path, sizeof(call->path), "%s", path);
        return call;
}

static bool is_call(const struct nb_exchange_call *call, const char *method, const char *path) {
        return strcmp(call->method, method) == 0 && strcmp(call->path, path) == 0;
}

static int copy_answer(const struct nb_http_answer *answer, struct nb_http_answer *ret_answer) {
        struct nb_http_answer copy = *answer;

        copy.body = (struct nb_buffer)NB_BUFFER_INIT(answer->body.max);
        if (answer->body.len > 0)
                nb_buffer_append(&copy.body, answer->body.data, answer->body.len);
        if (copy.body.error < 0) {
                nb_buffer_done(&copy.body);
                return -ENOMEM;
        }
        *ret_answer = copy;
        return 0;
}

static void end_begun(struct nb_exchange *exchange) {
        nb_http_cancel(exchange->transfer);
        free_call(exchange->begun);
        exchange->transfer = NULL;
        exchange->begun = NULL;
}

/* --- For calls.c --- */

int nb_exchange_find(struct nb_exchange *exchange, const char *method, const char *path,
                     struct nb_http_answer *ret_answer) {
        unsigned i = exchange->at;

        while (i < exchange->n && !is_call(exchange->calls[i], method, path))
                i++;
        if (i == exchange->n)
                return 0;
        exchange->at = i + 1;
        return copy_answer(&exchange->calls[i]->answer, ret_answer) < 0 ? -ENOMEM : 1;
}

int nb_exchange_keep(struct nb_exchange *exchange, const char *method, const char *path,
                     const struct nb_http_answer *answer) {
        struct nb_exchange_call *call;
        int r;

        if (exchange->n == NB_EXCHANGE_CALLS_MAX)
                return -E2BIG;
        call = new_call(method, path);
        r = call ? copy_answer(answer, &call->answer) : -ENOMEM;
        if (r < 0) {
                free_call(call);
                return r;
        }
        exchange->calls[exchange->n++] = call;
        exchange->at = exchange->n;
        return 0;
}

int nb_exchange_begin(struct nb_exchange *exchange, const char *method, const char *path,
                      const char **body, size_t len) {
        struct nb_exchange_call *begun = new_call(method, path);

        if (begun && *body)
                begun->body = malloc(len + 1);
        if (!begun || (*body && !begun->body)) {
                free_call(begun);
                return -ENOMEM;
        }
        if (*body)
                memcpy(begun->body, *body, len);
        begun->body_len = len;
        end_begun(exchange);
        exchange->begun = begun;
        *body = begun->body;
        return 0;
}

bool nb_exchange_has_begun(struct nb_exchange *exchange, const char *method, const char *path) {
        if (exchange->begun && is_call(exchange->begun, method, path))
                return true;
        end_begun(exchange);
        return false;
}

int nb_exchange_take_answer(struct nb_exchange *exchange, struct nb_http_answer *ret_answer,
                            struct nb_failure *f) {
        struct nb_exchange_call *call = exchange->begun;
        int r = call->r;

        if (r >= 0)
                *ret_answer = TAKE(call->answer);
        else if (f->code == NB_NONE)
                *f = call->failure;
        end_begun(exchange);
        return r;
}

struct nb_exchange_list *nb_exchange_find_list(struct nb_exchange *exchange, const char *path) {
        if (exchange->list && strcmp(exchange->list->path, path) == 0)
                return exchange->list;
        nb_exchange_end_list(exchange);
        exchange->list = calloc(1, sizeof(*exchange->list));
        if (exchange->list)
                snprintf(exchange->list->path, sizeof(exchange->list->path), "%s", path);
        return exchange->list;
}

void nb_exchange_end_list(struct nb_exchange *exchange) {
        free(exchange->list);
        exchange->list = NULL;
}

/* --- For the loop --- */

void nb_exchange_rewind(struct nb_exchange *exchange) {
        exchange->at = 0;
}

bool nb_exchange_has_calls(const struct nb_exchange *exchange) {
        return exchange->n > 0 || exchange->begun;
}

bool nb_exchange_is_waiting(const struct nb_exchange *exchange) {
        return exchange->transfer;
}

bool nb_exchange_take_done(struct nb_exchange *exchange, const struct nb_http_transfer *done) {
        struct nb_exchange_call *call = exchange->begun;

        if (!exchange->transfer || exchange->transfer != done)
                return false;
        call->r = nb_http_finish(TAKE(exchange->transfer), &call->answer, &call->failure);
        return true;
}

void nb_exchange_interrupt(struct nb_exchange *exchange) {
        end_begun(exchange);
}

void nb_exchange_done(struct nb_exchange *exchange) {
        end_begun(exchange);
        nb_exchange_end_list(exchange);
        while (exchange->n > 0)
                free_call(exchange->calls[--exchange->n]);
        exchange->at = 0;
}
