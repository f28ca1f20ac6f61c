/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/macro.h"
#include "base/text.h"
#include "http/http_internal.h"

/* Returns libcurl's text for messages; nothing may depend on it, since it differs between versions.
 * With a proxy, it may quote the proxy's URL with a password, so use a general text. */
static const char *curl_text(const struct nb_http_exchange *exchange) {
        return exchange->error[0] && !nb_http_has_proxy(exchange)
                       ? exchange->error
                       : curl_easy_strerror(exchange->result);
}

bool nb_http_is_unanswered(enum nb_code code) {
        return code == NB_ENDPOINT_UNRESOLVED || code == NB_ENDPOINT_REFUSED ||
               code == NB_ENDPOINT_RESET || code == NB_ENDPOINT_UNREACHABLE ||
               code == NB_ENDPOINT_COSTLY || code == NB_PROXY_REFUSED ||
               code == NB_PROXY_UNUSABLE || code == NB_PROXY_UNREACHABLE;
}

bool nb_http_is_untrusted(enum nb_code code) {
        return code == NB_TLS_UNTRUSTED || code == NB_TLS_NAME_MISMATCH || code == NB_TLS_EXPIRED;
}

int nb_http_reply_verify(const struct nb_http_reply *reply, size_t size) {
        const struct nb_failure *f = &reply->failure;

        if (size < sizeof(*reply) || reply->len != size - sizeof(*reply) ||
            reply->len > NB_HTTP_PIECE_MAX || reply->kind >= _NB_HTTP_REPLY_N)
                return -EBADMSG;
        /* An empty piece would not count towards any limit. */
        if (reply->kind == NB_HTTP_BODY && reply->len == 0)
                return -EBADMSG;
        if (!memchr(reply->location, '\0', sizeof(reply->location)) ||
            !memchr(reply->connection.route, '\0', sizeof(reply->connection.route)) ||
            !memchr(f->detail, '\0', sizeof(f->detail)))
                return -EBADMSG;
        if ((reply->status != 0 && (reply->status < 100 || reply->status > 999)) ||
            reply->date < 0 || reply->date > NB_HTTP_DATE_MAX ||
            reply->retry_after_ms > NB_HTTP_RETRY_AFTER_MAX_MS)
                return -EBADMSG;
        if (f->code == NB_NONE)
                return 0;
        if (!nb_http_is_unanswered(f->code) && !nb_http_is_untrusted(f->code) &&
            f->code != NB_ANSWER_MALFORMED && f->code != NB_INTERNAL &&
            f->code != NB_SANDBOX_REFUSED)
                return -EBADMSG;
        /* -ECANCELED would be read as a request to stop. */
        return f->errnum > 0 && f->errnum < 4096 && f->errnum != ECANCELED && f->http_status == 0 &&
                               f->retry_after_ms == 0
                       ? 0
                       : -EBADMSG;
}

int nb_http_outcome_timeout(const struct nb_http_config *config, const struct nb_http_call *call,
                            bool is_connected, struct nb_failure *f) {
        bool is_silent = is_connected && call->silence_sec > 0;
        unsigned seconds = !is_connected ? config->connect_timeout_ms / 1000
                           : is_silent   ? call->silence_sec
                                         : call->timeout_ms / 1000;

        return nb_failure_set(f, NB_ENDPOINT_UNREACHABLE, ETIMEDOUT, "%s %u s",
                              !is_connected ? "no connection within"
                              : is_silent   ? "no data received for"
                                            : "no complete answer within",
                              seconds);
}

/* libcurl's connect timeout includes name resolution. CURLINFO_NAMELOOKUP_TIME_T is 0 until the
 * name is resolved. */
static int outcome_timeout(const struct nb_http_exchange *exchange, struct nb_failure *f) {
        curl_off_t resolved_us = 0;

        (void)curl_easy_getinfo(exchange->easy, CURLINFO_NAMELOOKUP_TIME_T, &resolved_us);
        if (exchange->socket_fd < 0 && resolved_us == 0 && !exchange->peer[0] &&
            !nb_http_is_address(exchange->host) && !exchange->is_connected)
                return nb_failure_set(f, NB_ENDPOINT_UNRESOLVED, ETIMEDOUT,
                                      "no answer from a name server within %u s",
                                      exchange->config->connect_timeout_ms / 1000);
        if (!exchange->is_connected && exchange->is_confined) /* TCP is connected */
                return nb_failure_set(f, NB_ENDPOINT_UNREACHABLE, ETIMEDOUT,
                                      "the server accepts the connection, but does not answer the "
                                      "TLS handshake within %u s",
                                      exchange->config->connect_timeout_ms / 1000);
        return nb_http_outcome_timeout(exchange->config, &exchange->call, exchange->is_connected,
                                       f);
}

int nb_http_outcome_too_large(const struct nb_http_call *call, struct nb_failure *f) {
        return nb_failure_set(
                f, NB_ANSWER_MALFORMED, EMSGSIZE,
                "the answer is larger than %zu KiB, or its headers are larger than %d KiB",
                call->max_body / 1024, NB_HTTP_HEADERS_MAX / 1024);
}

/* libcurl has several error codes for an invalid proxy URL, but never asks for a socket then. */
static bool is_proxy_unusable(const struct nb_http_exchange *exchange) {
        if (exchange->result == CURLE_COULDNT_RESOLVE_PROXY)
                return true;
        return nb_http_has_proxy(exchange) && !exchange->is_socket_wanted &&
               exchange->result != CURLE_COULDNT_RESOLVE_HOST &&
               exchange->result != CURLE_OPERATION_TIMEDOUT &&
               exchange->result != CURLE_OUT_OF_MEMORY;
}

/* The status with which a proxy answered CONNECT; 0 if it did not. */
static long proxy_status(const struct nb_http_exchange *exchange) {
        long status = 0;

        (void)curl_easy_getinfo(exchange->easy, CURLINFO_HTTP_CONNECTCODE, &status);
        return status;
}

/* Whether nothing but the proxy can be the cause: a SOCKS proxy has no CONNECT, but libcurl has a
 * code for it. */
static bool is_of_proxy(const struct nb_http_exchange *exchange) {
        const bool is_socks = !strncasecmp(nb_http_find_proxy(exchange->config, NULL), "socks",
                                           strlen("socks"));
        const int result = exchange->result;

        if (!nb_http_has_proxy(exchange) || !exchange->peer[0] || proxy_status(exchange) != 0)
                return false;
        if (is_socks && exchange->socket_fd >= 0)
                return result == CURLE_PROXY;
        return result == CURLE_COULDNT_CONNECT || result == CURLE_OPERATION_TIMEDOUT ||
               result == CURLE_GOT_NOTHING || result == CURLE_SEND_ERROR ||
               result == CURLE_RECV_ERROR || result == CURLE_PARTIAL_FILE ||
               result == CURLE_SSL_CONNECT_ERROR || result == CURLE_PROXY;
}

static int outcome_proxy(const struct nb_http_exchange *exchange, struct nb_failure *f) {
        const bool is_timeout = exchange->result == CURLE_OPERATION_TIMEDOUT;
        const char *origin, *why = curl_text(exchange);
        char seconds[128];
        long errnum = 0;

        (void)nb_http_find_proxy(exchange->config, &origin);
        (void)curl_easy_getinfo(exchange->easy, CURLINFO_OS_ERRNO, &errnum);
        if (is_timeout) {
                snprintf(seconds, sizeof(seconds),
                         exchange->socket_fd < 0
                                 ? "no connection within %u s"
                                 : "no answer to CONNECT within %u s: the proxy, or the API server "
                                   "behind it, is silent",
                         exchange->config->connect_timeout_ms / 1000);
                why = seconds;
        } else if (exchange->socket_fd >= 0)
                why = "it closed the connection before it answered CONNECT";
        else if (errnum > 0)
                why = strerror((int)errnum);
        return nb_failure_set(f, NB_PROXY_UNREACHABLE,
                              is_timeout   ? ETIMEDOUT
                              : errnum > 0 ? (int)errnum
                                           : ECONNRESET,
                              "the proxy at %s (%s): %s", exchange->peer, origin, why);
}

/* The connection was refused, there is no route, or the connection was lost. */
static int outcome_unreachable(const struct nb_http_exchange *exchange, struct nb_failure *f) {
        enum nb_code code = NB_ENDPOINT_UNREACHABLE;
        long errnum = 0;

        (void)curl_easy_getinfo(exchange->easy, CURLINFO_OS_ERRNO, &errnum);
        if (exchange->result != CURLE_COULDNT_CONNECT || errnum == ECONNRESET)
                code = NB_ENDPOINT_RESET;
        else if (errnum == ECONNREFUSED)
                code = NB_ENDPOINT_REFUSED;
        return nb_failure_set(f, code, errnum > 0 ? (int)errnum : EHOSTUNREACH, "%s",
                              errnum > 0 ? strerror((int)errnum) : curl_text(exchange));
}

/*
 * libcurl rejects an https proxy or, if there may be one, the name in the certificate of the
 * server. Without CONNECT, it is the proxy, or a server that NO_PROXY lists. The latter is certain
 * if a CA of the server has issued the certificate.
 */
static int outcome_unverified(const struct nb_http_exchange *exchange, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer chain = NB_BUFFER_INIT(NB_HTTP_CHAIN_MAX);
        struct nb_failure server = { 0 };
        long connect_status = 0;

        nb_http_read_chain(exchange->easy, &chain);
        (void)curl_easy_getinfo(exchange->easy, CURLINFO_HTTP_CONNECTCODE, &connect_status);
        if (exchange->config->is_verified)
                (void)nb_http_server_verify(exchange, &chain, &server);
        if (connect_status == 0 && server.code != NB_TLS_NAME_MISMATCH &&
            server.code != NB_TLS_EXPIRED)
                return nb_failure_set(
                        f, NB_PROXY_UNUSABLE, EKEYREJECTED,
                        "the CAs of the system do not verify the certificate of the proxy%s%s",
                        chain.len > 0 ? "; if NO_PROXY lists the server: " : "",
                        chain.len > 0 ? server.detail : "");
        return nb_failure_set(f, server.code == NB_NONE ? NB_TLS_UNTRUSTED : server.code,
                              EKEYREJECTED, "%s",
                              server.code == NB_NONE ? "the server has no certificate for its name"
                                                     : server.detail);
}

static int set_outcome(const struct nb_http_exchange *exchange, struct nb_failure *f) {
        enum nb_code code = NB_ANSWER_MALFORMED;
        int errnum = EBADMSG;

        /* Until 8.6, libcurl returned CURLE_OUT_OF_MEMORY also for a header line above its own
         * limit of 100 KiB. */
        if (exchange->is_too_large ||
            (exchange->result == CURLE_OUT_OF_MEMORY && exchange->is_secured))
                return nb_http_outcome_too_large(&exchange->call, f);
        if (proxy_status(exchange) >= 300)
                return nb_failure_set(f, NB_PROXY_REFUSED, ECONNREFUSED,
                                      "the proxy answered with status %ld", proxy_status(exchange));
        /* Do not use libcurl's text: it quotes the host, and if a password contains an unescaped
         * '/' or '@', libcurl takes part of the password for the host. */
        if (is_proxy_unusable(exchange))
                return nb_failure_set(
                        f, NB_PROXY_UNUSABLE, EHOSTUNREACH,
                        "no proxy at %s; expected http://HOST:PORT, with a HOST that resolves",
                        exchange->config->proxy_url[0]
                                ? "proxy-url in the kubeconfig"
                                : "https_proxy or all_proxy in the environment");
        if (is_of_proxy(exchange))
                return outcome_proxy(exchange, f);
        switch ((int)exchange->result) {
        case CURLE_PEER_FAILED_VERIFICATION:
                return outcome_unverified(exchange, f);
        case CURLE_OPERATION_TIMEDOUT:
                return outcome_timeout(exchange, f);
        case CURLE_COULDNT_CONNECT:
        case CURLE_GOT_NOTHING:
        case CURLE_SEND_ERROR:
        case CURLE_RECV_ERROR:
        case CURLE_PARTIAL_FILE:
        case CURLE_SSL_CONNECT_ERROR:
        case CURLE_PROXY:
                return outcome_unreachable(exchange, f);
        case CURLE_OUT_OF_MEMORY:
                return nb_failure_set_memory(f);
        case CURLE_COULDNT_RESOLVE_HOST:
                code = NB_ENDPOINT_UNRESOLVED;
                errnum = EHOSTUNREACH;
                break;
        case CURLE_SSL_CACERT_BADFILE:
        case CURLE_FAILED_INIT:
        case CURLE_BAD_FUNCTION_ARGUMENT:
                code = NB_INTERNAL;
                errnum = EIO;
                break;
        default:
                break;
        }
        return nb_failure_set(f, code, errnum, "%s", curl_text(exchange));
}

int nb_http_outcome(const struct nb_http_exchange *exchange, struct nb_failure *f) {
        char detail[sizeof(f->detail)], route[NB_HTTP_ROUTE_SIZE];
        const long status = proxy_status(exchange);
        int r = set_outcome(exchange, f);

        nb_http_describe_route(exchange, route);
        if (!route[0] || (!exchange->is_direct && (status < 200 || status >= 300)))
                return r;
        snprintf(detail, sizeof(detail), "%s: %.*s", route,
                 (int)(sizeof(detail) - NB_HTTP_ROUTE_SIZE - 4), f->detail);
        nb_text_copy_line(detail, strlen(detail), f->detail, sizeof(f->detail));
        return r;
}
