/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "net/http_internal.h"

/* The one that libcurl takes for https. */
const char *nb_http_find_proxy(const struct nb_http *http) {
        static const char *const names[] = { "https_proxy", "HTTPS_PROXY", "all_proxy",
                                             "ALL_PROXY" };
        const char *url = http->proxy_url;

        for (size_t i = 0; i < N_ELEMENTS(names) && (!url || !url[0]); i++)
                url = getenv(names[i]);
        return url ? url : "";
}

/* "http://user:password@10.0.0.1:3128/" */
static bool is_proxy_address(const char *url) {
        const char *scheme = strstr(url, "://"), *host = scheme ? scheme + 3 : url, *user;
        size_t len = strcspn(host, "/");

        user = memrchr(host, '@', len);
        if (user) {
                len -= (size_t)(user + 1 - host);
                host = user + 1;
        }
        return nb_http_is_address(host, len);
}

/* libcurl takes note of when the name was resolved also where there was no name. Through an HTTP
 * proxy, it is the proxy's. */
static bool has_resolved(const struct nb_http_exchange *exchange) {
        long connect_status = 0;

        (void)curl_easy_getinfo(exchange->easy, CURLINFO_HTTP_CONNECTCODE, &connect_status);
        return !(connect_status > 0 ? is_proxy_address(nb_http_find_proxy(exchange->http))
                                    : exchange->is_address);
}

static uint64_t since(curl_off_t earlier_us, curl_off_t us) {
        return us > earlier_us ? (uint64_t)(us - earlier_us) : 0;
}

void nb_http_note_connection(struct nb_http_exchange *exchange) {
        curl_off_t resolved_us = 0, connected_us = 0, secured_us = 0;
        long n_connects = 0;

        (void)curl_easy_getinfo(exchange->easy, CURLINFO_NUM_CONNECTS, &n_connects);
        (void)curl_easy_getinfo(exchange->easy, CURLINFO_NAMELOOKUP_TIME_T, &resolved_us);
        (void)curl_easy_getinfo(exchange->easy, CURLINFO_CONNECT_TIME_T, &connected_us);
        (void)curl_easy_getinfo(exchange->easy, CURLINFO_APPCONNECT_TIME_T, &secured_us);
        if (n_connects == 0 || secured_us <= 0)
                return;
        exchange->reply.has_connection = true;
        exchange->reply.connection = (struct nb_http_connection){
                .begin_usec = exchange->begin_usec,
                .resolve_usec = has_resolved(exchange) ? since(0, resolved_us) : 0,
                .tcp_usec = since(resolved_us, connected_us),
                .tls_usec = since(connected_us, secured_us),
        };
}
