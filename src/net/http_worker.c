/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/text.h"
#include "net/http_internal.h"
#include "system/clock.h"

void nb_http_reply_send(struct nb_http_exchange *exchange, enum nb_http_reply_kind kind,
                        const void *data, size_t len) {
        struct nb_http_reply *reply = &exchange->reply;
        struct iovec parts[] = {
                { .iov_base = reply, .iov_len = sizeof(*reply) },
                { .iov_base = (void *)(uintptr_t)data, .iov_len = len },
        };
        struct msghdr message = { .msg_iov = parts, .msg_iovlen = N_ELEMENTS(parts) };

        reply->kind = kind;
        reply->len = len;
        while (sendmsg(exchange->fd, &message, MSG_NOSIGNAL) < 0)
                if (errno != EINTR)
                        _exit(EXIT_FAILURE);
        /* Report a connection only once. */
        reply->connection = (struct nb_http_connection){ 0 };
}

static const char *header_value(CURL *easy, const char *name) {
        struct curl_header *header;

        return curl_easy_header(easy, name, 0, CURLH_HEADER, -1, &header) == CURLHE_OK
                       ? header->value
                       : "";
}

static void read_head(struct nb_http_exchange *exchange) {
        struct nb_http_reply *reply = &exchange->reply;
        curl_off_t retry_after_sec = 0;
        const char *location;
        time_t date = curl_getdate(header_value(exchange->easy, "Date"), NULL);

        (void)curl_easy_getinfo(exchange->easy, CURLINFO_RESPONSE_CODE, &reply->status);
        (void)curl_easy_getinfo(exchange->easy, CURLINFO_RETRY_AFTER, &retry_after_sec);
        reply->date = date > 0 && date <= NB_HTTP_DATE_MAX ? date : 0;
        if (retry_after_sec > NB_HTTP_RETRY_AFTER_MAX_MS / 1000)
                reply->retry_after_ms = NB_HTTP_RETRY_AFTER_MAX_MS;
        else if (retry_after_sec > 0)
                reply->retry_after_ms = (uint32_t)retry_after_sec * 1000;
        location = header_value(exchange->easy, "Location");
        NB_TEXT_COPY_LINE(reply->location, location);
}

static void report_outcome(struct nb_http_exchange *exchange) {
        if (exchange->is_stale) {
                nb_http_reply_send(exchange, NB_HTTP_STALE, NULL, 0);
                return;
        }
        if (exchange->result != CURLE_OK)
                (void)nb_http_outcome(exchange, &exchange->reply.failure);
        else
                read_head(exchange);
        nb_http_reply_send(exchange, NB_HTTP_DONE, NULL, 0);
}

static void serve_call(struct nb_http_exchange *exchange) {
        /* SIGPROF kills this process after this CPU time. RLIMIT_CPU would count all calls that
         * this process serves, not each of them. */
        const struct itimerval cpu_limit = { .it_value = { .tv_sec = NB_HTTP_CPU_MAX_SEC } };
        const size_t kept = offsetof(struct nb_http_exchange, reply);

        if (setitimer(ITIMER_PROF, &cpu_limit, NULL) < 0)
                _exit(EXIT_FAILURE);
        memset((char *)exchange + kept, 0, sizeof(*exchange) - kept);
        exchange->begin_usec = nb_now_usec();
        exchange->raw_begin = nb_http_raw_received(exchange);
        curl_easy_reset(exchange->easy);
        if (nb_http_exchange_setup(exchange) < 0) {
                (void)nb_failure_set(&exchange->reply.failure, NB_INTERNAL, EIO,
                                     "libcurl refuses the request");
                nb_http_reply_send(exchange, NB_HTTP_DONE, NULL, 0);
                return;
        }
        exchange->result = curl_easy_perform(exchange->easy);
        report_outcome(exchange);
        curl_slist_free_all(exchange->connect_to);
}

static void serve_calls(const struct nb_http *http, int fd) {
        struct nb_http_exchange *exchange = calloc(1, sizeof(*exchange));
        struct iovec parts[2];
        struct msghdr message = { .msg_iov = parts, .msg_iovlen = N_ELEMENTS(parts) };

        if (!exchange)
                return;
        exchange->http = http;
        exchange->fd = fd;
        exchange->easy = curl_easy_init();
        if (!exchange->easy || nb_secret_init(&exchange->secrets, NB_HTTP_SECRETS_MAX) < 0)
                return;
        for (;;) {
                parts[0] = (struct iovec){ &exchange->call, sizeof(exchange->call) };
                parts[1] = (struct iovec){ exchange->body, sizeof(exchange->body) };
                if (recvmsg(fd, &message, 0) < (ssize_t)sizeof(exchange->call))
                        return;
                serve_call(exchange);
        }
}

/* Closes all descriptors except the standard streams and those in `kept`, in ranges between
 * them. */
static void close_others(const struct nb_http *http, int fd) {
        const int kept[] = { fd, http->ca_fd, http->certificate_fd };
        unsigned first = STDERR_FILENO + 1, next;

        do {
                next = UINT_MAX;
                for (size_t i = 0; i < N_ELEMENTS(kept); i++)
                        if (kept[i] >= (int)first && (unsigned)kept[i] < next)
                                next = (unsigned)kept[i];
                if (next > first)
                        (void)close_range(first, next - 1, 0);
                first = next + 1;
        } while (next < UINT_MAX);
}

/*
 * Runs in the worker, which has a copy of the parent's memory without its secrets
 * (MADV_WIPEONFORK). The worker also receives the signals that stop the service, and blocks them:
 * the parent handles them and kills the worker.
 */
static void begin_worker(const struct nb_http *http, int fd, pid_t parent) {
        sigset_t blocked;

        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0 ||
            getppid() != parent)
                _exit(EXIT_FAILURE);
        close_others(http, fd);
        for (int i = 1; i < NSIG; i++)
                (void)signal(i, i == SIGPIPE ? SIG_IGN : SIG_DFL);
        sigemptyset(&blocked);
        sigaddset(&blocked, SIGTERM);
        sigaddset(&blocked, SIGINT);
        (void)sigprocmask(SIG_SETMASK, &blocked, NULL);
}

int nb_http_worker_start(const struct nb_http *http, pid_t *ret_pid, int *ret_fd) {
        _cleanup_(nb_closep) int ours = -1, theirs = -1;
        pid_t self = getpid(), pid;
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return errno == ENOMEM ? -EAGAIN : -errno;
        ours = pair[0];
        theirs = pair[1];
        pid = fork();
        if (pid < 0)
                return errno == ENOMEM ? -EAGAIN : -errno;
        if (pid == 0) {
                begin_worker(http, theirs, self);
                serve_calls(http, theirs);
                _exit(EXIT_SUCCESS);
        }
        *ret_pid = pid;
        *ret_fd = TAKE_FD(ours);
        return 0;
}
