/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/text.h"
#include "http/http_internal.h"
#include "os/clock.h"

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

/* Whether an early connection has ended without TLS, since servers close idle connections. Another
 * connection may succeed. */
static bool is_dropped(const struct nb_http_exchange *exchange) {
        return exchange->is_early && !exchange->is_secured && exchange->result != CURLE_OK &&
               exchange->result != CURLE_OPERATION_TIMEDOUT;
}

/* `r` < 0: the request was not sent. */
static void report_outcome(struct nb_http_exchange *exchange, int r) {
        bool is_early = exchange->call.is_early;

        if (exchange->is_stale || is_dropped(exchange)) {
                nb_http_reply_send(exchange, NB_HTTP_STALE, NULL, 0);
                return;
        }
        if (r < 0)
                (void)nb_failure_set(&exchange->reply.failure,
                                     r == -EIO ? NB_INTERNAL : NB_SANDBOX_REFUSED, r,
                                     r == -EIO ? "libcurl refuses the request"
                                               : "cannot enter the sandbox of a connection: %m");
        else if (exchange->result != CURLE_OK)
                (void)nb_http_outcome(exchange, &exchange->reply.failure);
        else if (!is_early)
                read_head(exchange);
        nb_http_reply_send(exchange, is_early ? NB_HTTP_OPENED : NB_HTTP_DONE, NULL, 0);
}

/* Connects in the first step of the sandbox, and enters the second before libcurl sends or receives
 * a byte. -ESTALE if another worker is needed, since this one has used its connection. */
static int connect_once(struct nb_http_exchange *exchange) {
        int r;

        if (exchange->sandbox_r < 0)
                return exchange->sandbox_r;
        if (exchange->is_confined)
                return exchange->has_connected || !exchange->is_socket_used ? 0 : -ESTALE;
        r = nb_http_exchange_connect(exchange);
        if (r < 0 || exchange->socket_fd < 0)
                return r;
        exchange->is_confined = true;
        /* Kept, so that the call after an early one fails as well. */
        exchange->sandbox_r = nb_http_sandbox_finish(exchange->filters);
        return exchange->sandbox_r;
}

static void serve_call(struct nb_http_exchange *exchange) {
        /* SIGPROF kills this process after this CPU time. RLIMIT_CPU would count all calls that
         * this process serves, not each of them. */
        const struct itimerval cpu_limit = { .it_value = { .tv_sec = NB_HTTP_CPU_MAX_SEC } };
        const size_t kept = offsetof(struct nb_http_exchange, reply);
        bool is_early = exchange->call.is_early;
        int r;

        if (setitimer(ITIMER_PROF, &cpu_limit, NULL) < 0)
                _exit(EXIT_FAILURE);
        memset((char *)exchange + kept, 0, sizeof(*exchange) - kept);
        exchange->begin_usec = nb_now_usec();
        exchange->raw_begin = nb_http_raw_received(exchange);
        r = connect_once(exchange);
        exchange->is_stale = r == -ESTALE;
        if (r >= 0 && exchange->result == CURLE_OK && !is_early)
                r = nb_http_exchange_setup(exchange);
        if (r >= 0 && exchange->result == CURLE_OK && !is_early)
                exchange->result = curl_easy_perform(exchange->easy);
        report_outcome(exchange, r);
        exchange->is_early = is_early && exchange->is_confined;
        curl_slist_free_all(exchange->connect_to);
}

void nb_http_worker_run(const struct nb_http_config *config,
                        const struct nb_http_filters *filters) {
        struct nb_http_exchange *exchange = calloc(1, sizeof(*exchange));
        struct iovec parts[2];
        struct msghdr message = { .msg_iov = parts, .msg_iovlen = N_ELEMENTS(parts) };

        if (!exchange)
                return;
        exchange->config = config;
        exchange->filters = filters;
        exchange->socket_fd = -1;
        exchange->easy = curl_easy_init();
        if (!exchange->easy || nb_secret_init(&exchange->secrets, NB_HTTP_SECRETS_MAX) < 0)
                return;
        exchange->sandbox_r = nb_http_sandbox_begin(filters, config->has_landlock);
        for (;;) {
                parts[0] = (struct iovec){ &exchange->call, sizeof(exchange->call) };
                parts[1] = (struct iovec){ exchange->body, sizeof(exchange->body) };
                if (recvmsg(NB_HTTP_CALLS_FD, &message, 0) < (ssize_t)sizeof(exchange->call))
                        return;
                serve_call(exchange);
        }
}
