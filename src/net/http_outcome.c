/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "net/http_internal.h"

/* What libcurl says of a proxy quotes its URL, and with it the password in that: no text with a URL is passed on. */
static const char *curl_text(const struct nb_http_transfer *transfer) {
        return transfer->error[0] && !strstr(transfer->error, "://") ? transfer->error : curl_easy_strerror(transfer->result);
}

bool nb_http_is_unanswered(enum nb_code code) {
        return code == NB_ENDPOINT_UNRESOLVED || code == NB_ENDPOINT_REFUSED || code == NB_ENDPOINT_RESET || code == NB_ENDPOINT_UNREACHABLE ||
               code == NB_PROXY_REFUSED || code == NB_PROXY_UNUSABLE;
}

bool nb_http_is_untrusted(enum nb_code code) {
        return code == NB_TLS_UNTRUSTED || code == NB_TLS_NAME_MISMATCH || code == NB_TLS_EXPIRED;
}

static enum nb_code explain(const struct nb_http *http, const char *pem, const char *host, char *ret_reason, size_t size) {
        struct stat st = { 0 };
        void *ca = http->ca_fd >= 0 && fstat(http->ca_fd, &st) >= 0 ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, http->ca_fd, 0) : MAP_FAILED;
        enum nb_code code = http->explain(pem, strlen(pem), ca != MAP_FAILED ? ca : NULL, (size_t)st.st_size, host, ret_reason, size);

        if (ca != MAP_FAILED)
                (void)munmap(ca, (size_t)st.st_size);
        return code;
}

/* libcurl's GnuTLS build says of a chain that does not verify only which file it looked at, here one in memory; it looks at the name
 * after that. */
static int outcome_untrusted(const struct nb_http_transfer *transfer, struct nb_failure *f) {
        static const char chain[] = "server certificate verification failed";
        bool is_chain = !strncmp(transfer->error, chain, strlen(chain));
        const char *pem = nb_http_leaf(transfer->easy), *url = NULL, *text = curl_text(transfer);
        enum nb_code code = NB_TLS_UNTRUSTED;
        char reason[256] = "", *host = NULL;
        CURLU *parts = curl_url();

        if (is_chain)
                text = "the server's certificate was not issued by the proven CA, or is not valid now";
        if (parts && !is_chain && curl_easy_getinfo(transfer->easy, CURLINFO_EFFECTIVE_URL, &url) == CURLE_OK &&
            curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK)
                (void)curl_url_get(parts, CURLUPART_HOST, &host, 0);
        if (pem && transfer->http->explain && (host || is_chain))
                code = explain(transfer->http, pem, host, reason, sizeof(reason));
        curl_free(host);
        curl_url_cleanup(parts);
        return nb_failure_set(f, code, EKEYREJECTED, "%s: %s", transfer->what, reason[0] ? reason : text);
}

static int outcome_timeout(const struct nb_http_transfer *transfer, struct nb_failure *f) {
        if (!nb_http_is_connected(transfer))
                return nb_failure_set(f, NB_ENDPOINT_UNREACHABLE, ETIMEDOUT, "%s: no connection within %u s", transfer->what,
                                      transfer->http->connect_timeout_ms / 1000);
        if (transfer->silence_sec > 0)
                return nb_failure_set(f, NB_ENDPOINT_UNREACHABLE, ETIMEDOUT, "%s: not a byte for %u s", transfer->what,
                                      transfer->silence_sec);
        return nb_failure_set(f, NB_ENDPOINT_UNREACHABLE, ETIMEDOUT, "%s: no whole answer within %u s", transfer->what,
                              transfer->timeout_ms / 1000);
}

static int outcome_unresolved(const struct nb_http_transfer *transfer, struct nb_failure *f) {
        return nb_failure_set(f, NB_ENDPOINT_UNRESOLVED, EHOSTUNREACH, "%s: %s", transfer->what, curl_text(transfer));
}

/* It comes with several results. */
static bool is_proxy_unsupported(const struct nb_http_transfer *transfer) {
        static const char unsupported[] = "Unsupported proxy";

        return !strncmp(transfer->error, unsupported, strlen(unsupported));
}

/* Without a word of libcurl's: where a password holds a '/' or '@' as it is, part of it is what libcurl takes for the host. */
static int outcome_proxy(const struct nb_http_transfer *transfer, struct nb_failure *f) {
        const char *where = transfer->http->proxy_url[0] ? "proxy-url in the kubeconfig" : "https_proxy or all_proxy in the environment";

        if (is_proxy_unsupported(transfer))
                return nb_failure_set(f, NB_PROXY_UNUSABLE, EINVAL, "%s: %s is no proxy's URL; expected http://HOST:PORT", transfer->what, where);
        return nb_failure_set(f, NB_PROXY_UNUSABLE, EHOSTUNREACH, "%s: the name of the proxy in %s does not resolve", transfer->what, where);
}

/* Nobody listens, or there is no route. */
static enum nb_code code_of_connect(long errnum) {
        if (errnum == ECONNRESET)
                return NB_ENDPOINT_RESET;
        return errnum == ECONNREFUSED ? NB_ENDPOINT_REFUSED : NB_ENDPOINT_UNREACHABLE;
}

/* What it said to CONNECT. */
static long proxy_status(const struct nb_http_transfer *transfer) {
        long status = 0;

        (void)curl_easy_getinfo(transfer->easy, CURLINFO_HTTP_CONNECTCODE, &status);
        return status >= 300 ? status : 0;
}

static int outcome_unreachable(const struct nb_http_transfer *transfer, bool is_connecting, struct nb_failure *f) {
        enum nb_code code;
        long errnum = 0;

        (void)curl_easy_getinfo(transfer->easy, CURLINFO_OS_ERRNO, &errnum);
        code = is_connecting ? code_of_connect(errnum) : NB_ENDPOINT_RESET;
        if (errnum > 0) {
                errno = (int)errnum;
                return nb_failure_set(f, code, (int)errnum, "%s: %m", transfer->what);
        }
        return nb_failure_set(f, code, EHOSTUNREACH, "%s: %s", transfer->what, curl_text(transfer));
}

static int outcome_port(const struct nb_http_transfer *transfer, struct nb_failure *f) {
        long errnum = 0;
        bool is_refused;

        (void)curl_easy_getinfo(transfer->easy, CURLINFO_OS_ERRNO, &errnum);
        is_refused = errnum == EACCES || errnum == EPERM;
        errno = (int)errnum;
        return nb_failure_set(f, is_refused ? NB_METADATA_REFUSED : NB_ENDPOINT_UNREACHABLE, (int)errnum,
                              "%s: no source port below 1024: %m", transfer->what);
}

int nb_http_outcome(struct nb_http_transfer *transfer, struct nb_failure *f) {
        if (transfer->is_too_large)
                return nb_failure_set(f, NB_ANSWER_MALFORMED, EMSGSIZE,
                                      "%s: the answer is larger than %zu KiB, or its headers than %d KiB", transfer->what,
                                      transfer->answer.body.max / 1024, NB_HTTP_HEADERS_MAX / 1024);
        if (transfer->is_no_server)
                return nb_failure_set(f, NB_TLS_UNTRUSTED, EKEYREJECTED,
                                      "%s: the server's certificate is not for TLS servers (extended key usage)", transfer->what);
        if (transfer->result != CURLE_OK && proxy_status(transfer) > 0)
                return nb_failure_set(f, NB_PROXY_REFUSED, ECONNREFUSED, "%s: the proxy answers %ld", transfer->what, proxy_status(transfer));
        if (transfer->result == CURLE_COULDNT_RESOLVE_PROXY || is_proxy_unsupported(transfer))
                return outcome_proxy(transfer, f);
        switch ((int)transfer->result) {
        case CURLE_PEER_FAILED_VERIFICATION:
                return outcome_untrusted(transfer, f);
        case CURLE_OPERATION_TIMEDOUT:
                return outcome_timeout(transfer, f);
        case CURLE_COULDNT_RESOLVE_HOST:
                return outcome_unresolved(transfer, f);
        case CURLE_COULDNT_CONNECT:
                return outcome_unreachable(transfer, true, f);
        case CURLE_GOT_NOTHING:
        case CURLE_SEND_ERROR:
        case CURLE_RECV_ERROR:
        case CURLE_PARTIAL_FILE:
        case CURLE_SSL_CONNECT_ERROR:
        case CURLE_PROXY:
                return outcome_unreachable(transfer, false, f);
        case CURLE_INTERFACE_FAILED:
                return outcome_port(transfer, f);
        case CURLE_OUT_OF_MEMORY:
                return nb_failure_set_memory(f);
        case CURLE_SSL_CACERT_BADFILE:
        case CURLE_FAILED_INIT:
        case CURLE_BAD_FUNCTION_ARGUMENT:
                return nb_failure_set(f, NB_INTERNAL, EIO, "%s: %s", transfer->what, curl_text(transfer));
        default:
                return nb_failure_set(f, NB_ANSWER_MALFORMED, EBADMSG, "%s: %s", transfer->what, curl_text(transfer));
        }
}
