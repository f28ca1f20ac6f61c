/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/macro.h"
#include "http/http_internal.h"
#include "os/clock.h"
#include "os/stop.h"

#define WORKERS_BUSY_MAX 64

/* Report new data of a stream before the end of any transfer, so that the last line is not lost.
 * `only` not NULL: news of other transfers wait for the next call. */
static bool find_news(struct nb_http *const *https, size_t n, struct nb_http_transfer *only,
                      struct nb_http_transfer **ret_done) {
        struct nb_http_transfer *done = NULL;

        if (only) {
                *ret_done = only;
                return only->is_done;
        }
        for (size_t i = 0; i < n; i++)
                for (struct nb_http_transfer *t = https[i]->first; t; t = t->next) {
                        if (t->has_news) {
                                t->has_news = false;
                                *ret_done = NULL;
                                return true;
                        }
                        if (t->is_done && !done)
                                done = t;
                }
        if (done)
                *ret_done = done;
        return done;
}

struct wait {
        struct pollfd polls[1 + WORKERS_BUSY_MAX]; /* polls[0] is for the stop request */
        struct nb_http_transfer *transfers[1 + WORKERS_BUSY_MAX];
        nfds_t n;
        uint64_t until_ms; /* the earliest of all time limits */
};

/* Whether the reader of a stream is so far behind that the server has to wait: the worker then
 * blocks, and TCP delays the server. Without a whole line the reader cannot continue. */
static bool is_paused(const struct nb_http_transfer *transfer) {
        const struct nb_buffer *body = &transfer->answer.body;

        return transfer->call.is_stream && body->len >= NB_HTTP_STREAM_AHEAD_MAX &&
               memchr(body->data, '\n', body->len);
}

static int collect_polls(struct nb_http *const *https, size_t n, uint64_t until_ms,
                         struct wait *ret) {
        ret->n = 1;
        ret->until_ms = until_ms;
        for (size_t i = 0; i < n; i++)
                for (struct nb_http_transfer *t = https[i]->first; t; t = t->next) {
                        if (!t->worker || is_paused(t))
                                continue;
                        if (ret->n == N_ELEMENTS(ret->polls))
                                return -EMFILE;
                        ret->polls[ret->n] = (struct pollfd){ .fd = t->worker->fd,
                                                              .events = POLLIN };
                        ret->transfers[ret->n++] = t;
                        if (t->limit_ms < ret->until_ms)
                                ret->until_ms = t->limit_ms;
                }
        return 0;
}

static int run_transfers(struct nb_http *const *https, size_t n, uint64_t until_ms,
                         struct nb_http_transfer *only, struct nb_http_transfer **ret_done,
                         struct nb_failure *f) {
        for (bool is_late = false;; is_late = nb_now_ms() >= until_ms) {
                uint64_t now = nb_now_ms();
                struct wait wait;
                int r;

                nb_http_workers_reap();
                if (find_news(https, n, only, ret_done))
                        return 1;
                if (is_late)
                        return 0;
                if (collect_polls(https, n, until_ms, &wait) < 0)
                        return nb_failure_set(f, NB_INTERNAL, EMFILE,
                                              "more than %d requests at once", WORKERS_BUSY_MAX);
                r = nb_stop_poll(wait.polls, wait.n, now < wait.until_ms ? wait.until_ms - now : 0);
                if (r == -ECANCELED)
                        return r;
                if (r < 0)
                        return nb_failure_set(f, NB_INTERNAL, r, "cannot wait for answers: %m");
                now = nb_now_ms();
                for (nfds_t i = 1; i < wait.n; i++) {
                        struct nb_http_transfer *t = wait.transfers[i];

                        if (wait.polls[i].revents)
                                nb_http_transfer_take_reply(t);
                        /* Checked after each message, since a compromised worker may never stop
                         * sending. */
                        if (!t->is_done && now >= t->limit_ms)
                                nb_http_transfer_fail_late(t);
                }
        }
}

int nb_http_wait(struct nb_http *const *https, size_t n, uint64_t until_ms,
                 struct nb_http_transfer **ret_done, struct nb_failure *f) {
        return run_transfers(https, n, until_ms, NULL, ret_done, f);
}

int nb_http_perform(struct nb_http *http, const struct nb_http_request *request, uint64_t until_ms,
                    struct nb_http_answer *ret_answer, struct nb_failure *f) {
        struct nb_http_transfer *transfer = NULL, *done = NULL;
        int r;

        r = nb_http_start(http, request, &transfer, f);
        if (r < 0)
                return r;
        if (request->meanwhile)
                request->meanwhile(request->userdata);
        r = run_transfers(&http, 1, until_ms, transfer, &done, f);
        if (r > 0)
                return nb_http_finish(transfer, ret_answer, f);
        nb_http_cancel(transfer);
        if (r < 0)
                return r;
        f->is_cut_short = true;
        return nb_failure_set(f, NB_ENDPOINT_UNREACHABLE, ETIMEDOUT,
                              "%s: no answer before the deadline", request->what);
}
