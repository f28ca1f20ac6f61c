/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/macro.h"
#include "http/http_internal.h"
#include "os/clock.h"

#include "connection.h"

static const struct nb_http_reply good = { .kind = NB_HTTP_DONE, .status = 200 };

struct reply_row {
        const char *name;
        struct nb_http_reply reply;
        size_t size;
        int r;
};

static void verify_replies(const struct reply_row *rows, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (nb_http_reply_verify(&rows[i].reply, rows[i].size) != rows[i].r)
                        fail_msg("%s", rows[i].name);
}

static void replies(void **state) {
        const struct reply_row rows[] = {
                { "an answer", good, sizeof(good), 0 },
                { "a piece",
                  { .kind = NB_HTTP_BODY, .status = 404, .len = 5 },
                  sizeof(good) + 5,
                  0 },
                { "a failure",
                  { .kind = NB_HTTP_DONE,
                    .failure = { .code = NB_TLS_UNTRUSTED, .errnum = EKEYREJECTED } },
                  sizeof(good),
                  0 },
                { "an empty piece",
                  { .kind = NB_HTTP_BODY, .status = 200 },
                  sizeof(good),
                  -EBADMSG },
                { "cut off", good, sizeof(good) - 1, -EBADMSG },
                { "empty", good, 0, -EBADMSG },
                { "more than it says", good, sizeof(good) + 1, -EBADMSG },
                { "less than it says",
                  { .kind = NB_HTTP_BODY, .len = 5 },
                  sizeof(good) + 4,
                  -EBADMSG },
                { "a length without an end",
                  { .kind = NB_HTTP_BODY, .len = SIZE_MAX },
                  sizeof(good) - 1,
                  -EBADMSG },
                { "too long",
                  { .kind = NB_HTTP_BODY, .len = NB_HTTP_PIECE_MAX + 1 },
                  sizeof(good) + NB_HTTP_PIECE_MAX + 1,
                  -EBADMSG },
                { "an unknown kind", { .kind = _NB_HTTP_REPLY_N }, sizeof(good), -EBADMSG },
                { "a status with four digits",
                  { .kind = NB_HTTP_DONE, .status = 1000 },
                  sizeof(good),
                  -EBADMSG },
                { "a negative status",
                  { .kind = NB_HTTP_DONE, .status = -1 },
                  sizeof(good),
                  -EBADMSG },
                { "a date before 1970",
                  { .kind = NB_HTTP_DONE, .status = 200, .date = -1 },
                  sizeof(good),
                  -EBADMSG },
                { "the last date",
                  { .kind = NB_HTTP_DONE, .status = 200, .date = NB_HTTP_DATE_MAX },
                  sizeof(good),
                  0 },
                { "a date after the year 9999",
                  { .kind = NB_HTTP_DONE, .status = 200, .date = NB_HTTP_DATE_MAX + 1 },
                  sizeof(good),
                  -EBADMSG },
                { "a date without an end",
                  { .kind = NB_HTTP_DONE, .status = 200, .date = INT64_MAX },
                  sizeof(good),
                  -EBADMSG },
                { "a long Retry-After",
                  { .kind = NB_HTTP_DONE,
                    .status = 200,
                    .retry_after_ms = NB_HTTP_RETRY_AFTER_MAX_MS + 1 },
                  sizeof(good),
                  -EBADMSG },
        };

        verify_replies(rows, N_ELEMENTS(rows));
}

static void replies_with_a_failure(void **state) {
        const struct reply_row rows[] = {
                { "a failure that no worker has",
                  { .kind = NB_HTTP_DONE,
                    .failure = { .code = NB_CA_PIN_MISMATCH, .errnum = EPERM } },
                  sizeof(good),
                  -EBADMSG },
                { "no code at all",
                  { .kind = NB_HTTP_DONE,
                    .failure = { .code = (enum nb_code) - 1, .errnum = EPERM } },
                  sizeof(good),
                  -EBADMSG },
                { "no errno",
                  { .kind = NB_HTTP_DONE, .failure = { .code = NB_TLS_UNTRUSTED } },
                  sizeof(good),
                  -EBADMSG },
                { "a negative errno",
                  { .kind = NB_HTTP_DONE, .failure = { .code = NB_TLS_UNTRUSTED, .errnum = -1 } },
                  sizeof(good),
                  -EBADMSG },
                { "a failure that looks like a request to stop",
                  { .kind = NB_HTTP_DONE,
                    .failure = { .code = NB_ENDPOINT_RESET, .errnum = ECANCELED } },
                  sizeof(good),
                  -EBADMSG },
        };

        verify_replies(rows, N_ELEMENTS(rows));
}

static void texts_without_an_end(void **state) {
        struct nb_http_reply reply = good;

        memset(reply.location, 'a', sizeof(reply.location));
        assert_int_equal(nb_http_reply_verify(&reply, sizeof(reply)), -EBADMSG);
        reply = good;
        memset(reply.failure.detail, 'a', sizeof(reply.failure.detail));
        assert_int_equal(nb_http_reply_verify(&reply, sizeof(reply)), -EBADMSG);
}

/* A message that no worker sends ends the transfer, and the worker. */
static void worker_that_was_taken_over(void **state) {
        struct nb_unverified unverified;
        struct nb_http_transfer *done;
        struct nb_failure f = { 0 };
        struct fixture fixture;
        int pair[2];

        begin(&fixture);
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        assert_int_equal(dup2(pair[0], fixture.transfer->worker->fd), fixture.transfer->worker->fd);
        assert_int_equal(send(pair[1], "hello", 5, 0), 5);
        assert_int_equal(nb_http_wait(&fixture.http, 1, NB_TIME_INFINITE, &done, &f), 1);
        assert_int_equal(nb_http_finish_unverified(done, &unverified, &f), -EBADMSG);
        assert_int_equal(f.code, NB_ANSWER_MALFORMED);
        assert_true(f.is_unverified);
        assert_null(fixture.http->workers);
        (void)close(pair[0]);
        (void)close(pair[1]);
        end(&fixture);
}

/* The socket buffer is limited. */
static void worker_that_reads_nothing(void **state) {
        static char body[NB_HTTP_REQUEST_BODY_MAX];
        struct nb_http_request request = { .what = "a test",
                                           .body = body,
                                           .body_len = sizeof(body),
                                           .max_body = 1024,
                                           .timeout_ms = 60000 };
        static const struct nb_http_reply answer = { .kind = NB_HTTP_DONE, .status = 200 };
        struct nb_failure f = { 0 };
        struct fixture fixture;
        pid_t pid;
        int pair[2];

        begin(&fixture);
        request.url = fixture.url;
        pid = fixture.transfer->worker->pid;
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        assert_int_equal(dup2(pair[0], fixture.transfer->worker->fd), fixture.transfer->worker->fd);
        /* Ends the test if the parent waits for the worker. */
        (void)alarm(60);
        for (unsigned i = 0; fixture.transfer->worker->pid == pid; i++) {
                struct nb_unverified unverified;
                struct nb_http_transfer *done;

                assert_true(i < 1000);
                assert_int_equal(send(pair[1], &answer, sizeof(answer), 0), sizeof(answer));
                assert_int_equal(nb_http_wait(&fixture.http, 1, NB_TIME_INFINITE, &done, &f), 1);
                assert_int_equal(nb_http_finish_unverified(done, &unverified, &f), 0);
                nb_unverified_done(&unverified);
                assert_int_equal(nb_http_start(fixture.http, &request, &fixture.transfer, &f), 0);
        }
        (void)alarm(0);
        (void)close(pair[0]);
        (void)close(pair[1]);
        end(&fixture);
}

/*
 * A verified connection is closed before it is used again, and an attacker answers the new one:
 * TLS has not verified that answer. The test plays both workers; the second one reports a failure
 * that would end the join if it came from a verified server.
 */
static void failure_after_a_move(void **state) {
        static const struct nb_http_reply connected = { .kind = NB_HTTP_CONNECTED },
                                          stale = { .kind = NB_HTTP_STALE },
                                          internal = { .kind = NB_HTTP_DONE,
                                                       .failure = { .code = NB_INTERNAL,
                                                                    .errnum = EIO } };
        struct nb_http_answer answer;
        struct nb_http_transfer *done;
        struct nb_failure f = { 0 };
        struct fixture fixture;
        int pair[2];

        begin(&fixture);
        fixture.http->config.is_verified = true;
        fixture.http->ca_fd = nb_memory_file_open("no CAs");
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        assert_int_equal(dup2(pair[0], fixture.transfer->worker->fd), fixture.transfer->worker->fd);
        assert_int_equal(send(pair[1], &connected, sizeof(connected), 0), sizeof(connected));
        assert_int_equal(send(pair[1], &stale, sizeof(stale), 0), sizeof(stale));
        nb_http_transfer_take_reply(fixture.transfer);
        assert_true(fixture.transfer->is_connected);
        nb_http_transfer_take_reply(fixture.transfer);
        assert_true(fixture.transfer->is_moved);
        assert_true(fixture.transfer->limit_ms < nb_now_ms() + 60000);
        assert_int_equal(dup2(pair[0], fixture.transfer->worker->fd), fixture.transfer->worker->fd);
        assert_int_equal(send(pair[1], &internal, sizeof(internal), 0), sizeof(internal));
        assert_int_equal(nb_http_wait(&fixture.http, 1, NB_TIME_INFINITE, &done, &f), 1);
        assert_int_equal(nb_http_finish(done, &answer, &f), -EIO);
        assert_true(f.is_unverified);
        assert_int_equal(nb_failure_class(&f), NB_CLASS_WAIT);
        assert_true(nb_http_has_connected(fixture.http));
        (void)close(pair[0]);
        (void)close(pair[1]);
        end(&fixture);
}

/* How long it took is logged once, not with each request on the same connection. */
static void a_connection_is_told_once(void **state) {
        static const struct nb_http_reply first = { .kind = NB_HTTP_OPENED,
                                                    .connection = { .begin_usec = 7 } },
                                          second = { .kind = NB_HTTP_OPENED };
        struct nb_http_connection found;
        struct fixture fixture;
        int fd;

        begin(&fixture);
        fd = play_worker(fixture.transfer);
        assert_false(nb_http_take_connection(fixture.http, &found));
        assert_int_equal(send(fd, &first, sizeof(first), 0), sizeof(first));
        assert_int_equal(send(fd, &second, sizeof(second), 0), sizeof(second));
        nb_http_transfer_take_reply(fixture.transfer);
        nb_http_transfer_take_reply(fixture.transfer);
        assert_true(nb_http_take_connection(fixture.http, &found));
        assert_int_equal(found.begin_usec, 7);
        assert_false(nb_http_take_connection(fixture.http, &found));
        assert_int_equal(found.begin_usec, 0);
        (void)close(fd);
        end(&fixture);
}

static void worker_that_dies(void **state) {
        static const struct {
                int signal;
                enum nb_code code;
        } rows[] = { { SIGSEGV, NB_ANSWER_MALFORMED },
                     { SIGKILL, NB_ANSWER_MALFORMED },
                     { SIGPROF, NB_ENDPOINT_COSTLY } };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct nb_unverified unverified;
                struct nb_http_transfer *done;
                struct nb_failure f = { 0 };
                struct fixture fixture;
                int fd;

                begin(&fixture);
                /* Once it has connected, the worker has started completely. */
                fd = accept(fixture.fd, NULL, NULL);
                assert_true(fd >= 0);
                assert_int_equal(kill(fixture.transfer->worker->pid, rows[i].signal), 0);
                assert_int_equal(nb_http_wait(&fixture.http, 1, NB_TIME_INFINITE, &done, &f), 1);
                assert_ptr_equal(done, fixture.transfer);
                assert_true(nb_http_finish_unverified(done, &unverified, &f) < 0);
                assert_int_equal(f.code, rows[i].code);
                assert_true(nb_failure_info(f.code)->class != NB_CLASS_FATAL);
                (void)close(fd);
                end(&fixture);
        }
}

/* The caller enforces the limits even if the worker ignores them. */
static void parent_ends_what_is_late(void **state) {
        struct nb_unverified unverified;
        struct nb_http_transfer *done;
        struct nb_failure f = { 0 };
        struct fixture fixture;

        begin(&fixture);
        assert_int_equal(kill(fixture.transfer->worker->pid, SIGSTOP), 0);
        fixture.transfer->limit_ms = nb_now_ms();
        assert_int_equal(nb_http_wait(&fixture.http, 1, NB_TIME_INFINITE, &done, &f), 1);
        assert_int_equal(nb_http_finish_unverified(done, &unverified, &f), -ETIMEDOUT);
        assert_int_equal(f.code, NB_ENDPOINT_UNREACHABLE);
        end(&fixture);
}

/* Nor does a worker get more time by sending on and on. */
static void parent_ends_a_flood(void **state) {
        static const struct {
                struct nb_http_reply head;
                char data;
        } piece = { .head = { .kind = NB_HTTP_BODY, .status = 200, .len = 1 } };
        const size_t size = sizeof(piece.head) + 1;
        struct nb_unverified unverified;
        struct nb_http_transfer *done;
        struct nb_http_reply unread;
        struct nb_failure f = { 0 };
        struct fixture fixture;
        int pair[2];

        begin(&fixture);
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        assert_int_equal(dup2(pair[0], fixture.transfer->worker->fd), fixture.transfer->worker->fd);
        for (unsigned i = 0; i < 3; i++)
                assert_int_equal(send(pair[1], &piece, size, 0), size);
        fixture.transfer->limit_ms = nb_now_ms();
        assert_int_equal(nb_http_wait(&fixture.http, 1, NB_TIME_INFINITE, &done, &f), 1);
        assert_int_equal(nb_http_finish_unverified(done, &unverified, &f), -ETIMEDOUT);
        assert_int_equal(recv(pair[0], &unread, sizeof(unread), MSG_DONTWAIT), sizeof(unread));
        (void)close(pair[0]);
        (void)close(pair[1]);
        end(&fixture);
}

/* An error has a lower limit than a success, which must hold for what came before too. */
static void status_that_changes(void **state) {
        static struct {
                struct nb_http_reply head;
                char data[NB_HTTP_PIECE_MAX];
        } piece = { .head = { .kind = NB_HTTP_BODY, .len = NB_HTTP_PIECE_MAX, .status = 200 } };
        struct nb_unverified unverified;
        struct nb_http_transfer *done;
        struct nb_failure f = { 0 };
        struct fixture fixture;
        int pair[2];

        begin(&fixture);
        fixture.transfer->call.max_body = 4 * NB_HTTP_PIECE_MAX;
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        assert_int_equal(dup2(pair[0], fixture.transfer->worker->fd), fixture.transfer->worker->fd);
        for (unsigned i = 0; i < 3; i++) {
                piece.head.status = i < 2 ? 200 : 500;
                assert_int_equal(send(pair[1], &piece, sizeof(piece), 0), sizeof(piece));
                nb_http_transfer_take_reply(fixture.transfer);
                assert_int_equal(fixture.transfer->is_done, i == 2);
        }
        assert_int_equal(nb_http_wait(&fixture.http, 1, NB_TIME_INFINITE, &done, &f), 1);
        assert_int_equal(nb_http_finish_unverified(done, &unverified, &f), -EMSGSIZE);
        assert_int_equal(f.code, NB_ANSWER_MALFORMED);
        (void)close(pair[0]);
        (void)close(pair[1]);
        end(&fixture);
}

/* Workers are forked without the C library, so GnuTLS does not notice, and the launcher must not
 * have drawn a random number before. */
static void workers_draw_different_numbers(void **state) {
        enum { HELLO_RANDOM = 11, RANDOM_SIZE = 32 };
        uint8_t hellos[2][HELLO_RANDOM + RANDOM_SIZE];
        struct nb_http_transfer *transfer;
        struct nb_failure f = { 0 };
        struct fixture fixture;
        int fds[2];

        begin(&fixture);
        assert_int_equal(nb_http_start(fixture.http,
                                       &(struct nb_http_request){ .what = "a test",
                                                                  .url = fixture.url,
                                                                  .max_body = 1024,
                                                                  .timeout_ms = 60000 },
                                       &transfer, &f),
                         0);
        (void)alarm(60);
        for (size_t i = 0; i < 2; i++) {
                fds[i] = accept(fixture.fd, NULL, NULL);
                assert_true(fds[i] >= 0);
                assert_int_equal(recv(fds[i], hellos[i], sizeof(hellos[i]), MSG_WAITALL),
                                 sizeof(hellos[i]));
        }
        (void)alarm(0);
        assert_memory_not_equal(hellos[0] + HELLO_RANDOM, hellos[1] + HELLO_RANDOM, RANDOM_SIZE);
        (void)close(fds[0]);
        (void)close(fds[1]);
        end(&fixture);
}

static void cancelled(void **state) {
        struct fixture fixture;

        begin(&fixture);
        nb_http_cancel(fixture.transfer);
        assert_null(fixture.http->workers);
        end(&fixture);
}

static bool has_open(pid_t pid, const char *wanted) {
        for (int fd = 0; fd < 64; fd++) {
                char path[64], found[64] = "";

                (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
                if (readlink(path, found, sizeof(found) - 1) > 0 && !strcmp(found, wanted))
                        return true;
        }
        return false;
}

static void worker_has_none_of_our_files(void **state) {
        int file = open("/dev/zero", O_RDONLY | O_CLOEXEC), fd;
        struct fixture fixture;

        if (geteuid() != 0)
                skip(); /* who else may look into a process that is not to be dumped */
        assert_true(file >= 0);
        begin(&fixture);
        fd = accept(fixture.fd, NULL, NULL);
        assert_true(has_open(getpid(), "/dev/zero"));
        assert_false(has_open(fixture.transfer->worker->pid, "/dev/zero"));
        (void)close(fd);
        (void)close(file);
        end(&fixture);
}

/* RLIMIT_NPROC is lowered last, before the second filter. */
static void worker_is_limited_before_its_first_byte(void **state) {
        struct fixture fixture;
        struct rlimit limit;
        char byte;
        int fd;

        begin(&fixture);
        fd = accept(fixture.fd, NULL, NULL);
        assert_int_equal(recv(fd, &byte, 1, 0), 1);
        assert_int_equal(prlimit(fixture.transfer->worker->pid, RLIMIT_NPROC, NULL, &limit), 0);
        assert_int_equal(limit.rlim_max, 0);
        (void)close(fd);
        end(&fixture);
}

/* In a process of its own, which the assertion ends. */
static int start_without_trust(bool is_authorization) {
        pid_t pid = fork();
        int status;

        if (pid == 0) {
                static const struct rlimit none = { 0 };
                struct nb_secret line = { 0 };
                struct nb_http_transfer *transfer;
                struct nb_http_request request = { .what = "a test",
                                                   .url = "https://127.0.0.1:1/",
                                                   .max_body = 1 };
                struct nb_failure f = { 0 };
                struct nb_http *http;

                (void)setrlimit(RLIMIT_CORE, &none);
                (void)close(STDERR_FILENO);
                if (nb_http_new(NULL, &http, &f) < 0 || nb_secret_init(&line, 64) < 0 ||
                    nb_secret_append(&line, "Authorization: Bearer x", 23) < 0)
                        _exit(1);
                if (is_authorization)
                        request.authorization = &line;
                else
                        request.headers[0] = &line;
                (void)nb_http_start(http, &request, &transfer, &f);
                _exit(0);
        }
        assert_true(pid > 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void no_credential_without_trust(void **state) {
        assert_int_equal(start_without_trust(true), SIGABRT);
        assert_int_equal(start_without_trust(false), SIGABRT);
}

static void too_large_a_request(void **state) {
        char url[NB_HTTP_URL_MAX + 1];
        struct nb_http_request request = { .what = "a test", .url = url, .max_body = 1 };
        struct nb_http_transfer *transfer;
        struct nb_failure f = { 0 };
        struct nb_http *http;

        memset(url, 'a', sizeof(url));
        url[sizeof(url) - 1] = '\0';
        assert_int_equal(nb_http_new(NULL, &http, &f), 0);
        assert_int_equal(nb_http_start(http, &request, &transfer, &f), -E2BIG);
        assert_int_equal(f.code, NB_INTERNAL);
        nb_http_free(http);
}

/* Sends pieces, each with one line, until the reader does not take any more. Returns their bytes.
 */
static size_t send_stream(struct fixture *fixture, int fd) {
        static char piece[16 * 1024];
        struct nb_http_reply reply = { .kind = NB_HTTP_BODY, .status = 200, .len = sizeof(piece) };
        struct iovec parts[] = { { &reply, sizeof(reply) }, { piece, sizeof(piece) } };
        struct msghdr message = { .msg_iov = parts, .msg_iovlen = N_ELEMENTS(parts) };
        struct nb_http_transfer *done;
        struct nb_failure f = { 0 };
        size_t sent = 0;
        int r;

        memset(piece, '.', sizeof(piece));
        piece[sizeof(piece) - 1] = '\n';
        do {
                while (sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
                        sent += sizeof(piece);
                r = nb_http_wait(&fixture->http, 1, nb_now_ms(), &done, &f);
                assert_true(r >= 0);
        } while (r > 0);
        return sent;
}

static void a_stream_whose_reader_is_behind_waits(void **state) {
        struct fixture fixture;
        struct nb_buffer *received;
        long status;
        size_t first, second;
        int fd;

        begin(&fixture);
        fixture.transfer->call.is_stream = true;
        fixture.transfer->call.max_body = 2 * NB_HTTP_STREAM_AHEAD_MAX;
        fd = play_worker(fixture.transfer);
        first = send_stream(&fixture, fd);
        received = nb_http_received(fixture.transfer, &status);
        assert_true(received->len >= NB_HTTP_STREAM_AHEAD_MAX);
        assert_true(received->len < NB_HTTP_STREAM_AHEAD_MAX + NB_HTTP_PIECE_MAX);
        assert_true(first > received->len);
        nb_buffer_consume(received, received->len);
        second = send_stream(&fixture, fd);
        assert_true(second > 0);
        assert_true(received->len >= NB_HTTP_STREAM_AHEAD_MAX);
        assert_false(fixture.transfer->is_done);
        (void)close(fd);
        end(&fixture);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_stream_whose_reader_is_behind_waits),
                cmocka_unit_test(replies),
                cmocka_unit_test(replies_with_a_failure),
                cmocka_unit_test(texts_without_an_end),
                cmocka_unit_test(worker_that_was_taken_over),
                cmocka_unit_test(failure_after_a_move),
                cmocka_unit_test(worker_that_reads_nothing),
                cmocka_unit_test(worker_that_dies),
                cmocka_unit_test(a_connection_is_told_once),
                cmocka_unit_test(parent_ends_what_is_late),
                cmocka_unit_test(parent_ends_a_flood),
                cmocka_unit_test(status_that_changes),
                cmocka_unit_test(workers_draw_different_numbers),
                cmocka_unit_test(cancelled),
                cmocka_unit_test(worker_has_none_of_our_files),
                cmocka_unit_test(worker_is_limited_before_its_first_byte),
                cmocka_unit_test(no_credential_without_trust),
                cmocka_unit_test(too_large_a_request),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
