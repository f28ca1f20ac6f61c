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
        char version[NB_RESOURCE_VERSION_SIZE]; /* of a list */
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

static void drop_list(struct nb_exchange *exchange) {
        free(exchange->list);
        exchange->list = NULL;
}

/* --- For calls.c --- */

/* What the call came to: 1 with its answer, or its failure. */
static int copy_outcome(const struct nb_exchange_call *call, struct nb_http_answer *ret_answer,
                        struct nb_failure *f) {
        if (call->r < 0) {
                *f = call->failure;
                return call->r;
        }
        return copy_answer(&call->answer, ret_answer) < 0 ? nb_failure_set_memory(f) : 1;
}

static int keep_call(struct nb_exchange *exchange, struct nb_exchange_call *call,
                     struct nb_failure *f) {
        if (exchange->n == NB_EXCHANGE_CALLS_MAX) {
                free_call(call);
                return nb_failure_set(f, NB_INTERNAL, E2BIG, "more than %d calls",
                                      NB_EXCHANGE_CALLS_MAX);
        }
        exchange->calls[exchange->n++] = call;
        exchange->at = exchange->n;
        return 0;
}

int nb_exchange_find(struct nb_exchange *exchange, const char *method, const char *path,
                     bool is_page, struct nb_http_answer *ret_answer, struct nb_failure *f) {
        struct nb_exchange_call *begun = exchange->begun;
        int r;

        for (unsigned i = exchange->at; i < exchange->n; i++)
                if (is_call(exchange->calls[i], method, path)) {
                        exchange->at = i + 1;
                        return copy_outcome(exchange->calls[i], ret_answer, f);
                }
        if (!begun || !is_call(begun, method, path)) {
                end_begun(exchange);
                return 0;
        }
        if (exchange->transfer)
                return -EINPROGRESS;
        exchange->begun = NULL;
        r = copy_outcome(begun, ret_answer, f);
        if (is_page)
                free_call(begun);
        else if (keep_call(exchange, begun, f) < 0)
                return -E2BIG;
        return r;
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

bool nb_exchange_find_list(struct nb_exchange *exchange, const char *path, char *ret_version) {
        for (unsigned i = exchange->at; i < exchange->n; i++)
                if (is_call(exchange->calls[i], "LIST", path)) {
                        exchange->at = i + 1;
                        snprintf(ret_version, NB_RESOURCE_VERSION_SIZE, "%s",
                                 exchange->calls[i]->version);
                        return true;
                }
        return false;
}

struct nb_exchange_list *nb_exchange_begin_list(struct nb_exchange *exchange, const char *path) {
        if (exchange->list && strcmp(exchange->list->path, path) == 0)
                return exchange->list;
        drop_list(exchange);
        exchange->list = calloc(1, sizeof(*exchange->list));
        if (exchange->list)
                snprintf(exchange->list->path, sizeof(exchange->list->path), "%s", path);
        return exchange->list;
}

int nb_exchange_end_list(struct nb_exchange *exchange, bool is_complete, struct nb_failure *f) {
        struct nb_exchange_call *call = is_complete ? new_call("LIST", exchange->list->path) : NULL;

        if (is_complete && call)
                memcpy(call->version, exchange->list->version, sizeof(call->version));
        drop_list(exchange);
        if (!is_complete)
                return 0;
        return call ? keep_call(exchange, call, f) : nb_failure_set_memory(f);
}

/* --- For the loop --- */

void nb_exchange_rewind(struct nb_exchange *exchange) {
        exchange->at = 0;
}

bool nb_exchange_has_calls(const struct nb_exchange *exchange) {
        return exchange->n > 0 || exchange->begun || exchange->list;
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
        drop_list(exchange);
        while (exchange->n > 0)
                free_call(exchange->calls[--exchange->n]);
        exchange->at = 0;
}
