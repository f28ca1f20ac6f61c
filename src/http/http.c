/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "http/http_internal.h"
#include "os/clock.h"

/* Wait before retrying a server that made a worker exceed its CPU time limit. */
#define COSTLY_RETRY_MS 10000

void nb_http_answer_done(struct nb_http_answer *answer) {
        nb_buffer_done(&answer->body);
        *answer = (struct nb_http_answer){ 0 };
}

void nb_unverified_done(struct nb_unverified *unverified) {
        nb_http_answer_done(&unverified->answer);
}

/* The file is sealed, so that CAs and the client certificate cannot change between two connections.
 * `more` is appended; NULL for none. */
static int fill_file(int fd, const char *data, size_t len, const struct nb_secret *more) {
        int r = nb_fd_write(fd, data, len);

        if (r >= 0 && more)
                r = nb_fd_write(fd, more->data, more->len);
        if (r < 0)
                return r;
        return fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0
                       ? -errno
                       : 0;
}

static int make_file(const char *name, const char *data, size_t len, const struct nb_secret *more,
                     int *ret_fd) {
        *ret_fd = nb_memory_file_open(name);
        return *ret_fd < 0 ? *ret_fd : fill_file(*ret_fd, data, len, more);
}

/* The workers get the file only to read, so that none of them can write CAs for another one. */
static int make_file_for_later(struct nb_http *http) {
        char path[32];

        http->ca_later_fd = nb_memory_file_open("ca");
        if (http->ca_later_fd < 0)
                return http->ca_later_fd;
        snprintf(path, sizeof(path), "/proc/self/fd/%d", http->ca_later_fd);
        http->ca_fd = open(path, O_RDONLY | O_CLOEXEC);
        return http->ca_fd < 0 ? -errno : 0;
}

static int fail_file(int r, struct nb_failure *f) {
        return nb_failure_set(f, NB_WORKER_UNSTARTABLE, r,
                              "cannot create a memory file for CA certificates or a client "
                              "certificate: %m");
}

/* Reads the CAs of the system here, since a worker cannot open their file. */
static int make_system_ca_file(int *ret_fd, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret ca = NB_SECRET_INIT;
        int r = nb_path_read(-1, NB_SYSTEM_CA_FILE, NB_HTTP_CA_MAX, &ca);

        if (r < 0)
                return nb_failure_set(f, r == -ENOENT ? NB_TLS_UNTRUSTED : NB_WORKER_UNSTARTABLE, r,
                                      "cannot read the CAs of the system, '" NB_SYSTEM_CA_FILE
                                      "': %m");
        r = make_file("ca", ca.data, ca.len, NULL, ret_fd);
        return r < 0 ? fail_file(r, f) : 0;
}

static int set_trust(struct nb_http *http, const struct nb_http_trust *trust,
                     struct nb_failure *f) {
        struct nb_http_config *config = &http->config;
        int r = 0;

        assert(trust->verify && (!trust->ca || trust->ca_len > 0));
        assert(!trust->ca || !trust->is_ca_later);
        config->is_verified = true;
        config->verify = trust->verify;
        snprintf(config->tls_server_name, sizeof(config->tls_server_name), "%s",
                 trust->tls_server_name);
        snprintf(config->proxy_url, sizeof(config->proxy_url), "%s", trust->proxy_url);
        config->has_certificate = trust->client_certificate;
        if (trust->is_ca_later)
                r = make_file_for_later(http);
        else if (trust->ca)
                r = make_file("ca", trust->ca, trust->ca_len, NULL, &http->ca_fd);
        if (r >= 0 && config->has_certificate)
                r = make_file("certificate", trust->client_certificate,
                              trust->client_certificate_len, trust->client_key,
                              &http->certificate_fd);
        if (r < 0)
                return fail_file(r, f);
        return trust->ca || trust->is_ca_later ? 0 : make_system_ca_file(&http->ca_fd, f);
}

int nb_http_set_ca(struct nb_http *http, const char *ca, size_t len, struct nb_failure *f) {
        int r = fill_file(http->ca_later_fd, ca, len, NULL);

        (void)close(TAKE_FD(http->ca_later_fd));
        return r < 0 ? fail_file(r, f) : 0;
}

static int http_new(uint32_t connect_timeout_ms, struct nb_http **ret_http, struct nb_failure *f) {
        struct nb_http *http;
        int r = nb_http_await_launcher(f);

        if (r < 0)
                return r;
        http = calloc(1, sizeof(*http));
        if (!http)
                return nb_failure_set_memory(f);
        http->ca_fd = http->ca_later_fd = http->certificate_fd = http->proxy_ca_fd = -1;
        http->config.connect_timeout_ms = connect_timeout_ms;
        *ret_http = http;
        return 0;
}

int nb_http_new(const struct nb_http_trust *trust, struct nb_http **ret_http,
                struct nb_failure *f) {
        _cleanup_(nb_http_freep) struct nb_http *http = NULL;
        int r;

        r = http_new(NB_HTTP_CONNECT_TIMEOUT_MS, &http, f);
        if (r < 0)
                return r;
        assert(http);
        if (trust)
                r = set_trust(http, trust, f);
        if (r >= 0 &&
            !strncasecmp(nb_http_find_proxy(&http->config, NULL), "https://", strlen("https://"))) {
                http->config.has_proxy_ca = true;
                r = make_system_ca_file(&http->proxy_ca_fd, f);
        }
        if (r < 0)
                return r;
        *ret_http = TAKE(http);
        return 0;
}

int nb_http_new_metadata(uint32_t connect_timeout_ms, struct nb_http **ret_http,
                         struct nb_failure *f) {
        int r = http_new(connect_timeout_ms, ret_http, f);

        if (r >= 0)
                (*ret_http)->config.is_metadata = true;
        return r;
}

/* --- Workers and their replies --- */

static void free_worker(struct nb_http *http, struct nb_http_worker *worker) {
        struct nb_http_worker **p = &http->workers;

        nb_closep(&worker->fd);
        while (*p != worker)
                p = &(*p)->next;
        *p = worker->next;
        free(worker);
}

static void end_worker(struct nb_http *http, struct nb_http_worker *worker) {
        nb_http_worker_kill(worker->pid);
        free_worker(http, worker);
}

static int worker_new(struct nb_http *http, const char *url, struct nb_http_worker **ret_worker) {
        struct nb_http_worker *worker = calloc(1, sizeof(*worker));
        int r = worker ? nb_http_worker_start(http, url, &worker->pid, &worker->fd) : -ENOMEM;

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

/* Sends the call to an idle worker, whose connection may still be open, or to a new one. 0, -errno.
 */
static int assign_worker(struct nb_http_transfer *transfer, bool wants_new) {
        struct nb_http *http = transfer->http;
        uint64_t connect_ms = http->config.connect_timeout_ms;

        if (transfer->call.timeout_ms > 0 && transfer->call.timeout_ms < connect_ms)
                connect_ms = transfer->call.timeout_ms;
        transfer->begin_ms = nb_now_ms();
        transfer->limit_ms = transfer->begin_ms + connect_ms + NB_HTTP_GRACE_MS;
        /* If the transfer moves to another worker, the server of the new connection is not verified
         * yet. */
        http->has_connected |= transfer->is_connected;
        transfer->is_connected = false;
        for (;;) {
                struct nb_http_worker *worker = wants_new ? NULL : http->workers;
                bool is_new;
                int r;

                while (worker && worker->transfer)
                        worker = worker->next;
                is_new = !worker;
                r = is_new ? worker_new(http, transfer->call.url, &worker) : 0;
                if (r < 0)
                        return r;
                r = send_call(transfer, worker->fd);
                if (r >= 0) {
                        worker->transfer = transfer;
                        transfer->worker = worker;
                        return 0;
                }
                end_worker(http, worker);
                if (is_new)
                        return r;
        }
}

/* Lets a new worker connect by TCP, while another connection waits for its answer. The first
 * request finds the worker idle. If this fails, the first request starts another worker. */
static void connect_early(struct nb_http *http, const struct nb_http_call *like) {
        struct nb_http_transfer transfer = { .call = { .is_early = true } };
        struct nb_http_worker *worker = NULL;

        memcpy(transfer.call.url, like->url, sizeof(like->url));
        if (worker_new(http, like->url, &worker) >= 0 && send_call(&transfer, worker->fd) < 0)
                end_worker(http, worker);
}

/* Ends a transfer whose failure is set. */
static void end_transfer(struct nb_http_transfer *transfer) {
        transfer->is_done = true;
        if (transfer->worker)
                end_worker(transfer->http, TAKE(transfer->worker));
}

/* The worker has exited. SIGPROF is from its CPU time limit. */
static void fail_dead(struct nb_http_transfer *transfer) {
        struct nb_failure *f = &transfer->failure;
        /* A compromised worker may have closed its socket only. */
        int status = nb_http_worker_end(transfer->worker->pid);

        free_worker(transfer->http, TAKE(transfer->worker));
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
        (void)nb_http_outcome_timeout(&transfer->http->config, &transfer->call,
                                      transfer->is_connected, &transfer->failure);
        end_transfer(transfer);
}

/* The worker reports that it has connected and, if required, has verified the server. Only now may
 * it have the secret header lines. */
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
        /* Only once: a compromised worker may repeat its message. */
        if (transfer->early)
                connect_early(TAKE(transfer->early), &transfer->call);
}

static bool is_success(long status) {
        return status >= 200 && status < 300;
}

static void take_body(struct nb_http_transfer *transfer, const struct nb_http_reply *reply,
                      char *data) {
        struct nb_buffer *body = &transfer->answer.body;

        transfer->answer.status = reply->status;
        body->max = is_success(reply->status) ? transfer->call.max_body : NB_HTTP_ERROR_BODY_MAX;
        /* A worker that the server controls can change the status between two pieces, and thus the
         * limit. */
        if (body->len > body->max)
                body->error = -E2BIG;
        else if (transfer->secret && is_success(reply->status))
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

static void take_done(struct nb_http_transfer *transfer, const struct nb_http_reply *reply) {
        struct nb_http_answer *answer = &transfer->answer;

        transfer->failure = reply->failure;
        answer->status = reply->status;
        answer->date = reply->date;
        answer->retry_after_ms = reply->retry_after_ms;
        memcpy(answer->location, reply->location, sizeof(answer->location));
        transfer->worker->transfer = NULL;
        transfer->worker = NULL;
        transfer->is_done = true;
}

/* The worker's connection was closed before the request was sent, and a worker opens only one
 * connection, so use a new worker. */
static void move_to_new_worker(struct nb_http_transfer *transfer) {
        bool was_moved = transfer->is_moved;
        int r;

        end_worker(transfer->http, TAKE(transfer->worker));
        transfer->is_moved = true;
        r = was_moved ? -ECONNRESET : assign_worker(transfer, true);
        if (r < 0) {
                (void)nb_failure_set(&transfer->failure,
                                     was_moved ? NB_ENDPOINT_RESET : NB_WORKER_UNSTARTABLE, r,
                                     "%m");
                end_transfer(transfer);
        }
}

static void take_reply(struct nb_http_transfer *transfer, const struct nb_http_reply *reply,
                       char *data) {
        if (reply->connection.begin_usec > 0)
                transfer->http->connection = reply->connection;
        switch ((enum nb_http_reply_kind)reply->kind) {
        case NB_HTTP_OPENED: /* of an earlier call */
                break;
        case NB_HTTP_CONNECTED:
                take_connected(transfer);
                break;
        case NB_HTTP_BODY:
                take_body(transfer, reply, data);
                break;
        case NB_HTTP_DONE:
                take_done(transfer, reply);
                break;
        case NB_HTTP_STALE:
        case _NB_HTTP_REPLY_N:
                move_to_new_worker(transfer);
                break;
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
        } else
                take_reply(transfer, &reply, data);
        if (transfer->secret)
                explicit_bzero(data, sizeof(data));
}

/* --- Transfers --- */

void nb_http_cancel(struct nb_http_transfer *transfer) {
        struct nb_http_transfer **p;

        if (!transfer)
                return;
        transfer->http->has_connected |= transfer->is_connected;
        for (p = &transfer->http->first; *p != transfer;)
                p = &(*p)->next;
        *p = transfer->next;
        if (transfer->worker)
                end_worker(transfer->http, transfer->worker);
        nb_http_answer_done(&transfer->answer);
        free(transfer);
}

bool nb_http_has_connected(const struct nb_http *http) {
        return http->has_connected;
}

bool nb_http_take_connection(struct nb_http *http, struct nb_http_connection *ret_connection) {
        *ret_connection = TAKE(http->connection);
        return ret_connection->begin_usec > 0;
}

void nb_http_free(struct nb_http *http) {
        if (!http)
                return;
        while (http->first)
                nb_http_cancel(http->first);
        while (http->workers)
                end_worker(http, http->workers);
        nb_closep(&http->ca_fd);
        nb_closep(&http->ca_later_fd);
        nb_closep(&http->certificate_fd);
        nb_closep(&http->proxy_ca_fd);
        free(http);
}

void nb_http_freep(struct nb_http **http) {
        nb_http_free(*http);
}

/* 0, -E2BIG. */
static int fill_call(struct nb_http_call *call, const struct nb_http_request *request) {
        const char *type = request->body_type ? request->body_type : "application/json";

        if (strlen(request->url) >= sizeof(call->url) ||
            request->body_len > NB_HTTP_REQUEST_BODY_MAX)
                return -E2BIG;
        snprintf(call->url, sizeof(call->url), "%s", request->url);
        snprintf(call->lines[0], sizeof(call->lines[0]), "Accept: %s",
                 request->accept ? request->accept : "application/json");
        /* Without a body, a header without a value makes libcurl omit its own Content-Type. */
        if (request->body || request->method)
                snprintf(call->lines[1], sizeof(call->lines[1]), "Content-Type:%s%s",
                         request->body ? " " : "", request->body ? type : "");
        for (size_t i = 0; i < N_ELEMENTS(request->lines) && request->lines[i]; i++) {
                NB_TEXT_COPY(call->lines[2 + i], request->lines[i]);
        }
        call->body_len = request->body_len;
        call->max_body = request->secret ? request->secret->size : request->max_body;
        call->timeout_ms = request->timeout_ms;
        call->silence_sec = request->silence_sec;
        call->has_body = request->body;
        snprintf(call->method, sizeof(call->method), "%s", request->method ? request->method : "");
        call->is_stream = request->is_stream;
        return 0;
}

/* 0, -E2BIG. */
static int take_secret_lines(struct nb_http_transfer *transfer,
                             const struct nb_http_request *request) {
        size_t n = 0, len = 0;

        if (request->authorization && request->authorization->data)
                transfer->secret_lines[n++] = request->authorization;
        for (size_t i = 0; i < N_ELEMENTS(request->headers) && request->headers[i]; i++)
                transfer->secret_lines[n++] = request->headers[i];
        for (size_t i = 0; i < n; i++)
                len += transfer->secret_lines[i]->len + 1;
        transfer->call.has_secrets = n > 0;
        return len > NB_HTTP_SECRETS_MAX ? -E2BIG : 0;
}

int nb_http_start(struct nb_http *http, const struct nb_http_request *request,
                  struct nb_http_transfer **ret_transfer, struct nb_failure *f) {
        struct nb_http_transfer *transfer;
        int r;

        /* Never send a credential to an unverified server. A metadata service receives only the
         * session token that it issued. */
        assert(!request->authorization || http->config.is_verified);
        assert(http->ca_later_fd < 0);
        assert(!request->headers[0] || http->config.is_verified || http->config.is_metadata);
        transfer = calloc(1, sizeof(*transfer));
        if (!transfer)
                return nb_failure_set_memory(f);
        transfer->http = http;
        snprintf(transfer->what, sizeof(transfer->what), "%s", request->what);
        transfer->secret = request->secret;
        transfer->early = request->next;
        transfer->body = request->body;
        transfer->answer.body = (struct nb_buffer)NB_BUFFER_INIT(NB_HTTP_ERROR_BODY_MAX);
        r = fill_call(&transfer->call, request);
        if (r >= 0)
                r = take_secret_lines(transfer, request);
        if (r >= 0)
                r = assign_worker(transfer, false);
        if (r < 0) {
                free(transfer);
                return nb_failure_set(f, r == -E2BIG ? NB_INTERNAL : NB_WORKER_UNSTARTABLE, r,
                                      "%s: cannot start the request: %m", request->what);
        }
        transfer->next = http->first;
        http->first = transfer;
        *ret_transfer = transfer;
        return 0;
}

struct nb_buffer *nb_http_received(struct nb_http_transfer *transfer, long *ret_status) {
        *ret_status = transfer->answer.status;
        return &transfer->answer.body;
}

static int finish_transfer(struct nb_http_transfer *transfer, struct nb_http_answer *ret_answer,
                           struct nb_failure *f) {
        const struct nb_failure *failure = &transfer->failure;
        int r = 0;

        assert(transfer->is_done);
        if (failure->code != NB_NONE) {
                r = nb_failure_set(f, failure->code, failure->errnum, "%s: %s", transfer->what,
                                   failure->detail);
                f->retry_after_ms = failure->retry_after_ms;
                f->is_unverified = !transfer->http->config.is_verified || !transfer->is_connected;
        } else
                *ret_answer = TAKE(transfer->answer);
        nb_http_cancel(transfer);
        return r;
}

int nb_http_finish(struct nb_http_transfer *transfer, struct nb_http_answer *ret_answer,
                   struct nb_failure *f) {
        assert(transfer->http->config.is_verified || transfer->http->config.is_metadata);
        return finish_transfer(transfer, ret_answer, f);
}

int nb_http_finish_unverified(struct nb_http_transfer *transfer,
                              struct nb_unverified *ret_unverified, struct nb_failure *f) {
        return finish_transfer(transfer, &ret_unverified->answer, f);
}
