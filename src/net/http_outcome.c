/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/macro.h"
#include "net/http_internal.h"

#define CHAIN_MAX ((size_t)256 * 1024)

/* With a proxy, libcurl's text quotes the URL with its password. For people only: the text differs
 * between versions. */
static const char *curl_text(const struct nb_http_exchange *exchange) {
        return exchange->error[0] && !nb_http_find_proxy(exchange->http)[0]
                       ? exchange->error
                       : curl_easy_strerror(exchange->result);
}

bool nb_http_is_unanswered(enum nb_code code) {
        return code == NB_ENDPOINT_UNRESOLVED || code == NB_ENDPOINT_REFUSED ||
               code == NB_ENDPOINT_RESET || code == NB_ENDPOINT_UNREACHABLE ||
               code == NB_ENDPOINT_COSTLY || code == NB_PROXY_REFUSED || code == NB_PROXY_UNUSABLE;
}

bool nb_http_is_untrusted(enum nb_code code) {
        return code == NB_TLS_UNTRUSTED || code == NB_TLS_NAME_MISMATCH || code == NB_TLS_EXPIRED;
}

int nb_http_reply_verify(const struct nb_http_reply *reply, size_t size) {
        const struct nb_failure *f = &reply->failure;

        if (size < sizeof(*reply) || reply->len != size - sizeof(*reply) ||
            reply->len > NB_HTTP_PIECE_MAX || reply->kind >= _NB_HTTP_REPLY_N)
                return -EBADMSG;
        if (!memchr(reply->location, '\0', sizeof(reply->location)) ||
            !memchr(f->detail, '\0', sizeof(f->detail)))
                return -EBADMSG;
        if ((reply->status != 0 && (reply->status < 100 || reply->status > 999)) ||
            reply->date < 0 || reply->retry_after_ms > NB_HTTP_RETRY_AFTER_MAX_MS)
                return -EBADMSG;
        if (f->code == NB_NONE)
                return 0;
        if (!nb_http_is_unanswered(f->code) && !nb_http_is_untrusted(f->code) &&
            f->code != NB_ANSWER_MALFORMED && f->code != NB_INTERNAL)
                return -EBADMSG;
        return f->errnum > 0 && f->errnum < 4096 && f->http_status == 0 && f->retry_after_ms == 0
                       ? 0
                       : -EBADMSG;
}

static enum nb_code explain(const struct nb_http_exchange *exchange, const struct nb_buffer *chain,
                            const char *host, char *ret_reason, size_t size) {
        const struct nb_http *http = exchange->http;
        struct stat st = { 0 };
        void *ca = http->ca_fd >= 0 && fstat(http->ca_fd, &st) >= 0
                           ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, http->ca_fd, 0)
                           : MAP_FAILED;
        enum nb_code code = http->explain(chain->data, chain->len, ca != MAP_FAILED ? ca : NULL,
                                          (size_t)st.st_size, host, ret_reason, size);

        if (ca != MAP_FAILED)
                (void)munmap(ca, (size_t)st.st_size);
        return code;
}

/* libcurl has one error code for all causes, and its text differs between versions, so the cause is
 * read from the certificates. */
static int outcome_untrusted(const struct nb_http_exchange *exchange, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer chain = NB_BUFFER_INIT(CHAIN_MAX);
        enum nb_code code = NB_TLS_UNTRUSTED;
        char reason[256] = "", *host = NULL;
        const char *url = NULL, *name;
        CURLU *parts = curl_url();

        if (parts && curl_easy_getinfo(exchange->easy, CURLINFO_EFFECTIVE_URL, &url) == CURLE_OK &&
            curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK)
                (void)curl_url_get(parts, CURLUPART_HOST, &host, 0);
        /* "[::1]" */
        if (host && host[0] == '[') {
                host[strlen(host) - 1] = '\0';
                name = host + 1;
        } else
                name = host;
        if (exchange->http->explain && name && nb_http_chain(exchange->easy, &chain) >= 0)
                code = explain(exchange, &chain, name, reason, sizeof(reason));
        curl_free(host);
        curl_url_cleanup(parts);
        return nb_failure_set(f, code, EKEYREJECTED, "%s: %s", exchange->call->what,
                              reason[0] ? reason : "the server's certificate does not verify");
}

int nb_http_outcome_timeout(const struct nb_http *http, const struct nb_http_call *call,
                            bool is_connected, struct nb_failure *f) {
        if (!is_connected)
                return nb_failure_set(f, NB_ENDPOINT_UNREACHABLE, ETIMEDOUT,
                                      "%s: no connection within %u s", call->what,
                                      http->connect_timeout_ms / 1000);
        if (call->silence_sec > 0)
                return nb_failure_set(f, NB_ENDPOINT_UNREACHABLE, ETIMEDOUT,
                                      "%s: no data received for %u s", call->what,
                                      call->silence_sec);
        return nb_failure_set(f, NB_ENDPOINT_UNREACHABLE, ETIMEDOUT,
                              "%s: no complete answer within %u s", call->what,
                              call->timeout_ms / 1000);
}

/* libcurl's connect timeout includes name resolution, and this time is 0 until an address is known.
 */
static bool is_resolving(const struct nb_http_exchange *exchange) {
        curl_off_t resolved_us = 0;

        (void)curl_easy_getinfo(exchange->easy, CURLINFO_NAMELOOKUP_TIME_T, &resolved_us);
        return resolved_us == 0 && !exchange->is_address && !exchange->is_connected;
}

static int outcome_timeout(const struct nb_http_exchange *exchange, struct nb_failure *f) {
        if (is_resolving(exchange))
                return nb_failure_set(f, NB_ENDPOINT_UNRESOLVED, ETIMEDOUT,
                                      "%s: no answer from a name server within %u s",
                                      exchange->call->what,
                                      exchange->http->connect_timeout_ms / 1000);
        return nb_http_outcome_timeout(exchange->http, exchange->call, exchange->is_connected, f);
}

int nb_http_outcome_too_large(const struct nb_http_call *call, struct nb_failure *f) {
        return nb_failure_set(
                f, NB_ANSWER_MALFORMED, EMSGSIZE,
                "%s: the answer is larger than %zu KiB, or its headers are larger than %d KiB",
                call->what, call->max_body / 1024, NB_HTTP_HEADERS_MAX / 1024);
}

static int outcome_unresolved(const struct nb_http_exchange *exchange, struct nb_failure *f) {
        return nb_failure_set(f, NB_ENDPOINT_UNRESOLVED, EHOSTUNREACH, "%s: %s",
                              exchange->call->what, curl_text(exchange));
}

/* libcurl has several error codes for an invalid proxy URL. It opens no socket in this case. */
static bool is_proxy_unsupported(const struct nb_http_exchange *exchange) {
        static const char *const schemes[] = { "http",    "https",  "socks4",
                                               "socks4a", "socks5", "socks5h" };
        const char *proxy = nb_http_find_proxy(exchange->http);
        bool is_other = exchange->result == CURLE_COULDNT_RESOLVE_HOST ||
                        exchange->result == CURLE_OPERATION_TIMEDOUT;
        CURLU *parts = !is_other && !exchange->sockets->is_any && proxy[0] ? curl_url() : NULL;
        bool is_supported = !parts;
        char *scheme = NULL;

        if (parts &&
            curl_url_set(parts, CURLUPART_URL, proxy,
                         CURLU_NON_SUPPORT_SCHEME | CURLU_GUESS_SCHEME) == CURLUE_OK &&
            curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK)
                for (size_t i = 0; i < N_ELEMENTS(schemes); i++)
                        is_supported = is_supported || !strcasecmp(scheme, schemes[i]);
        curl_free(scheme);
        curl_url_cleanup(parts);
        return !is_supported;
}

/* Without a word of libcurl's: where a password holds a '/' or '@' as it is, part of it is what
 * libcurl takes for the host. */
static int outcome_proxy(const struct nb_http_exchange *exchange, struct nb_failure *f) {
        const char *where = exchange->http->proxy_url[0]
                                    ? "proxy-url in the kubeconfig"
                                    : "https_proxy or all_proxy in the environment";

        if (is_proxy_unsupported(exchange))
                return nb_failure_set(f, NB_PROXY_UNUSABLE, EINVAL,
                                      "%s: %s is not a proxy URL; expected http://HOST:PORT",
                                      exchange->call->what, where);
        return nb_failure_set(f, NB_PROXY_UNUSABLE, EHOSTUNREACH,
                              "%s: the name of the proxy in %s does not resolve",
                              exchange->call->what, where);
}

/* Nobody listens, or there is no route. */
static enum nb_code code_of_connect(long errnum) {
        if (errnum == ECONNRESET)
                return NB_ENDPOINT_RESET;
        return errnum == ECONNREFUSED ? NB_ENDPOINT_REFUSED : NB_ENDPOINT_UNREACHABLE;
}

/* What it said to CONNECT. */
static long proxy_status(const struct nb_http_exchange *exchange) {
        long status = 0;

        (void)curl_easy_getinfo(exchange->easy, CURLINFO_HTTP_CONNECTCODE, &status);
        return status >= 300 ? status : 0;
}

static int outcome_unreachable(const struct nb_http_exchange *exchange, bool is_connecting,
                               struct nb_failure *f) {
        enum nb_code code;
        long errnum = 0;

        (void)curl_easy_getinfo(exchange->easy, CURLINFO_OS_ERRNO, &errnum);
        code = is_connecting ? code_of_connect(errnum) : NB_ENDPOINT_RESET;
        if (errnum > 0) {
                errno = (int)errnum;
                return nb_failure_set(f, code, (int)errnum, "%s: %m", exchange->call->what);
        }
        return nb_failure_set(f, code, EHOSTUNREACH, "%s: %s", exchange->call->what,
                              curl_text(exchange));
}

int nb_http_outcome(const struct nb_http_exchange *exchange, struct nb_failure *f) {
        /* libcurl's own limit on one header line, 100 KiB, looked like a lack of memory until 8.6.
         */
        if (exchange->is_too_large ||
            (exchange->result == CURLE_OUT_OF_MEMORY && exchange->sockets->is_any))
                return nb_http_outcome_too_large(exchange->call, f);
        if (exchange->is_no_server)
                return nb_failure_set(
                        f, NB_TLS_UNTRUSTED, EKEYREJECTED,
                        "%s: the server's certificate is not for TLS servers (extended key usage)",
                        exchange->call->what);
        if (exchange->result != CURLE_OK && proxy_status(exchange) > 0)
                return nb_failure_set(f, NB_PROXY_REFUSED, ECONNREFUSED,
                                      "%s: the proxy answered with status %ld",
                                      exchange->call->what, proxy_status(exchange));
        if (exchange->result == CURLE_COULDNT_RESOLVE_PROXY || is_proxy_unsupported(exchange))
                return outcome_proxy(exchange, f);
        switch ((int)exchange->result) {
        case CURLE_PEER_FAILED_VERIFICATION:
                return outcome_untrusted(exchange, f);
        case CURLE_OPERATION_TIMEDOUT:
                return outcome_timeout(exchange, f);
        case CURLE_COULDNT_RESOLVE_HOST:
                return outcome_unresolved(exchange, f);
        case CURLE_COULDNT_CONNECT:
                return outcome_unreachable(exchange, true, f);
        case CURLE_GOT_NOTHING:
        case CURLE_SEND_ERROR:
        case CURLE_RECV_ERROR:
        case CURLE_PARTIAL_FILE:
        case CURLE_SSL_CONNECT_ERROR:
        case CURLE_PROXY:
                return outcome_unreachable(exchange, false, f);
        case CURLE_OUT_OF_MEMORY:
                return nb_failure_set_memory(f);
        case CURLE_SSL_CACERT_BADFILE:
        case CURLE_FAILED_INIT:
        case CURLE_BAD_FUNCTION_ARGUMENT:
                return nb_failure_set(f, NB_INTERNAL, EIO, "%s: %s", exchange->call->what,
                                      curl_text(exchange));
        default:
                return nb_failure_set(f, NB_ANSWER_MALFORMED, EBADMSG, "%s: %s",
                                      exchange->call->what, curl_text(exchange));
        }
}
