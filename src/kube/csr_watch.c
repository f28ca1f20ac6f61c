/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/macro.h"
#include "kube/csr_calls.h"
#include "kube/csr_internal.h"

#define QUERY_MAX 256

int nb_csr_watch_start(struct nb_csr_watch *ret_watch, struct nb_api *api, const char *name, const char *resource_version,
                       struct nb_failure *f) {
        char url[NB_URL_MAX + sizeof(NB_CSR_PATH) + QUERY_MAX + NB_CSR_NAME_MAX], what[NB_URL_MAX + 64];
        struct nb_http_request request = {
                .what = what,
                .url = url,
                .authorization = &api->authorization,
                .max_body = NB_WATCH_LINE_MAX,
                .silence_sec = NB_WATCH_SILENCE_SEC,
                .is_stream = true,
        };
        struct nb_http_transfer *transfer;
        int r;

        (void)snprintf(what, sizeof(what), "watching the request on %s", api->name);
        (void)snprintf(url, sizeof(url),
                       "%s" NB_CSR_PATH "?watch=true&allowWatchBookmarks=true&timeoutSeconds=%d&fieldSelector=metadata.name%%3D%s&resourceVersion=%s",
                       api->base, NB_WATCH_TIMEOUT_SEC, name, resource_version);
        r = nb_http_start(api->http, &request, &transfer, f);
        if (r < 0)
                return r;
        *ret_watch = (struct nb_csr_watch){ .api = api, .transfer = transfer };
        return 0;
}

/* 1 when a whole line was taken out of what has arrived. */
static int take_line(struct nb_buffer *received, struct nb_csr_event *ret_event, struct nb_failure *f) {
        const char *newline = received->len > 0 ? memchr(received->data, '\n', received->len) : NULL;
        size_t len;
        int r;

        if (!newline)
                return 0;
        len = (size_t)(newline - received->data);
        r = nb_csr_event_parse(received->data, len, ret_event, f);
        nb_buffer_consume(received, len + 1);
        return r < 0 ? r : 1;
}

/* The transfer is over. An answer other than 200 has no events: a refusal. */
static int ended(struct nb_csr_watch *watch, struct nb_failure *f) {
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        char what[NB_URL_MAX + 64];
        int r;

        r = nb_http_finish(TAKE(watch->transfer), &answer, f);
        if (r < 0)
                return r;
        if (answer.status == 200)
                return NB_WATCH_ENDED;
        (void)snprintf(what, sizeof(what), "watching the request on %s", watch->api->name);
        return nb_answer_failure(&answer, what, &nb_csr_answer_codes, f);
}

int nb_csr_watch_next(struct nb_csr_watch *watch, uint64_t until_ms, struct nb_csr_event *ret_event, struct nb_failure *f) {
        for (;;) {
                struct nb_http_transfer *done;
                struct nb_buffer *received;
                long status;
                int r;

                assert(watch->transfer);
                received = nb_http_received(watch->transfer, &status);
                r = status == 200 ? take_line(received, ret_event, f) : 0;
                if (r < 0) {
                        nb_csr_watch_done(watch);
                        return r;
                }
                if (r > 0)
                        return NB_WATCH_EVENT;
                r = nb_http_wait(watch->api->http, until_ms, &done, f);
                if (r < 0)
                        return r;
                if (r == 0)
                        return NB_WATCH_TIME;
                if (done == watch->transfer)
                        return ended(watch, f);
                if (done) {
                        watch->other = done;
                        return NB_WATCH_OTHER;
                }
        }
}

void nb_csr_watch_done(struct nb_csr_watch *watch) {
        nb_http_cancel(watch->transfer);
        watch->transfer = NULL;
}
