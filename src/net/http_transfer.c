/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macro.h"
#include "net/http_internal.h"

/* Wait before retrying a server that made a worker exceed its CPU time limit. */
#define COSTLY_RETRY_MS 10000

int nb_http_worker_end(struct nb_http *http, struct nb_http_worker *worker) {
        struct nb_http_worker **p = &http->workers;
        int status = 0;

        (void)kill(worker->pid, SIGKILL);
        while (waitpid(worker->pid, &status, 0) < 0 && errno == EINTR)
                ;
        nb_closep(&worker->fd);
        while (*p != worker)
                p = &(*p)->next;
        *p = worker->next;
        free(worker);
        return status;
}

static int worker_new(struct nb_http *http, struct nb_http_worker **ret_worker) {
        struct nb_http_worker *worker = calloc(1, sizeof(*worker));
        int r = worker ? nb_http_worker_start(http, &worker->pid, &worker->fd) : -ENOMEM;

        if (r < 0) {
                free(worker);
                return r;
        }
        worker->next = http->workers;
        *ret_worker = http->workers = worker;
        return 0;
}

static int send_call(const struct nb_http_transfer *transfer, int fd) {
        struct iovec parts[] = {
                { .iov_base = (void *)(uintptr_t)&transfer->call,
                  .iov_len = sizeof(transfer->call) },
                { .iov_base = (void *)(uintptr_t)transfer->body,
                  .iov_len = transfer->call.body_len },
        };
        struct msghdr message = { .msg_iov = parts, .msg_iovlen = N_ELEMENTS(parts) };

        /* A compromised worker may stop reading. */
        return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

/* Starts without a verified server, also if an earlier worker of this transfer had verified one:
 * this is a new connection. */
static void begin(struct nb_http_transfer *transfer) {
        uint64_t connect_ms = transfer->http->connect_timeout_ms;

        if (transfer->call.timeout_ms > 0 && transfer->call.timeout_ms < connect_ms)
                connect_ms = transfer->call.timeout_ms;
        transfer->begin_ms = nb_now_ms();
        transfer->limit_ms = transfer->begin_ms + connect_ms + NB_HTTP_GRACE_MS;
        transfer->http->has_connected |= transfer->is_connected;
        transfer->is_connected = false;
}

int nb_http_transfer_assign(struct nb_http_transfer *transfer, bool wants_new) {
        struct nb_http *http = transfer->http;

        begin(transfer);
        for (;;) {
                struct nb_http_worker *worker = wants_new ? NULL : http->workers;
                bool is_new;
                int r;

                while (worker && worker->transfer)
                        worker = worker->next;
                is_new = !worker;
                r = is_new ? worker_new(http, &worker) : 0;
                if (r < 0)
                        return r;
                r = send_call(transfer, worker->fd);
                if (r >= 0) {
                        worker->transfer = transfer;
                        transfer->worker = worker;
                        return 0;
                }
                (void)nb_http_worker_end(http, worker);
                if (is_new)
                        return r;
        }
}

/* Ends it with the failure that is set. */
static void end_transfer(struct nb_http_transfer *transfer) {
        transfer->is_done = true;
        if (transfer->worker)
                (void)nb_http_worker_end(transfer->http, TAKE(transfer->worker));
}

/* The worker has exited. SIGPROF is from its CPU time limit. */
static void fail_dead(struct nb_http_transfer *transfer) {
        int status = nb_http_worker_end(transfer->http, TAKE(transfer->worker));
        struct nb_failure *f = &transfer->failure;

        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF) {
                (void)nb_failure_set(f, NB_ENDPOINT_COSTLY, ETIME,
                                     "took more than %d s of CPU time; terminated",
                                     NB_HTTP_CPU_MAX_SEC);
                f->retry_after_ms = COSTLY_RETRY_MS;
        } else
                (void)nb_failure_set(
                        f, NB_ANSWER_MALFORMED, EBADMSG, "the process that reads the answer %s %d",
                        WIFSIGNALED(status) ? "was killed by signal" : "exited with status",
                        WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        end_transfer(transfer);
}

void nb_http_transfer_fail_late(struct nb_http_transfer *transfer) {
        (void)nb_http_outcome_timeout(transfer->http, &transfer->call, transfer->is_connected,
                                      &transfer->failure);
        end_transfer(transfer);
}

/* TLS is verified if required, so the worker may have the secrets for the server now, and not
 * before. */
static void take_connected(struct nb_http_transfer *transfer) {
        struct iovec lines[N_ELEMENTS(transfer->secret_lines)];
        struct msghdr message = { .msg_iov = lines };

        transfer->is_connected = true;
        transfer->limit_ms = transfer->call.timeout_ms > 0
                                     ? transfer->begin_ms + transfer->call.timeout_ms +
                                               NB_HTTP_GRACE_MS
                                     : NB_TIME_INFINITE;
        for (size_t i = 0; i < N_ELEMENTS(lines) && transfer->secret_lines[i]; i++)
                lines[message.msg_iovlen++] = (struct iovec){ transfer->secret_lines[i]->data,
                                                              transfer->secret_lines[i]->len + 1 };
        /* If the worker has exited, the next read detects that. */
        if (transfer->call.has_secrets)
                (void)sendmsg(transfer->worker->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static bool is_success(long status) {
        return status >= 200 && status < 300;
}

static void take_body(struct nb_http_transfer *transfer, const struct nb_http_reply *reply,
                      char *data) {
        struct nb_buffer *body = &transfer->answer.body;

        transfer->answer.status = reply->status;
        body->max = is_success(reply->status) ? transfer->call.max_body : NB_HTTP_ERROR_BODY_MAX;
        if (transfer->secret && is_success(reply->status))
                body->error = nb_secret_append(transfer->secret, data, reply->len);
        else
                nb_buffer_append(body, data, reply->len);
        if (body->error < 0) {
                (void)nb_http_outcome_too_large(&transfer->call, &transfer->failure);
                end_transfer(transfer);
                return;
        }
        transfer->has_news = transfer->call.is_stream;
}

static void take_done(struct nb_http_transfer *transfer, const struct nb_http_reply *reply,
                      const char *data) {
        struct nb_http_answer *answer = &transfer->answer;

        transfer->failure = reply->failure;
        answer->status = reply->status;
        answer->date = reply->date;
        answer->retry_after_ms = reply->retry_after_ms;
        memcpy(answer->location, reply->location, sizeof(answer->location));
        if (reply->len > 0)
                answer->certificate = strndup(data, reply->len);
        transfer->worker->transfer = NULL;
        transfer->worker = NULL;
        transfer->is_done = true;
        if (reply->len > 0 && !answer->certificate)
                (void)nb_failure_set_memory(&transfer->failure);
}

/* The worker's connection was closed, and it opens no second one. Nothing was sent. */
static void move(struct nb_http_transfer *transfer) {
        bool was_moved = transfer->is_moved;
        int r;

        (void)nb_http_worker_end(transfer->http, TAKE(transfer->worker));
        transfer->is_moved = true;
        r = was_moved ? -ECONNRESET : nb_http_transfer_assign(transfer, true);
        if (r < 0) {
                (void)nb_failure_set(&transfer->failure, NB_ENDPOINT_RESET, r, "%m");
                end_transfer(transfer);
        }
}

void nb_http_transfer_take_reply(struct nb_http_transfer *transfer) {
        char data[NB_HTTP_PIECE_MAX];
        struct nb_http_reply reply;
        struct iovec parts[] = { { &reply, sizeof(reply) }, { data, sizeof(data) } };
        struct msghdr message = { .msg_iov = parts, .msg_iovlen = N_ELEMENTS(parts) };
        ssize_t n;

        n = recvmsg(transfer->worker->fd, &message, MSG_DONTWAIT);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
                return;
        if (n <= 0) {
                fail_dead(transfer);
                return;
        }
        if (message.msg_flags & MSG_TRUNC || nb_http_reply_verify(&reply, (size_t)n) < 0) {
                (void)nb_failure_set(&transfer->failure, NB_ANSWER_MALFORMED, EBADMSG,
                                     "the process that reads the answer sent an invalid message");
                end_transfer(transfer);
                return;
        }
        if (reply.connection.begin_usec > 0)
                transfer->http->connection = reply.connection;
        switch ((enum nb_http_reply_kind)reply.kind) {
        case NB_HTTP_CONNECTED:
                take_connected(transfer);
                break;
        case NB_HTTP_BODY:
                take_body(transfer, &reply, data);
                break;
        case NB_HTTP_DONE:
                take_done(transfer, &reply, data);
                break;
        case NB_HTTP_STALE:
        case _NB_HTTP_REPLY_N:
                move(transfer);
                break;
        }
        if (transfer->secret)
                explicit_bzero(data, sizeof(data));
}
