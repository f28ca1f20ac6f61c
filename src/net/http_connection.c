/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <stdio.h>
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

void nb_http_host(const char *url, char ret[static NB_HTTP_HOST_SIZE]) {
        const char *slashes = strstr(url, "//"), *host = slashes ? slashes + 2 : url;
        const char *login = memrchr(host, '@', strcspn(host, "/"));
        bool is_ipv6;

        if (login)
                host = login + 1;
        is_ipv6 = host[0] == '[';
        host += is_ipv6;
        snprintf(ret, NB_HTTP_HOST_SIZE, "%.*s", (int)strcspn(host, is_ipv6 ? "]/" : ":/"), host);
}

bool nb_http_is_address(const char *host) {
        struct in6_addr address;

        return inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1;
}

/* libcurl takes note of when the name was resolved also where there was no name. Through an HTTP
 * proxy, it is the proxy's. */
static bool has_resolved(const struct nb_http_exchange *exchange) {
        char proxy_host[NB_HTTP_HOST_SIZE];
        long connect_status = 0;

        nb_http_host(nb_http_find_proxy(exchange->http), proxy_host);
        (void)curl_easy_getinfo(exchange->easy, CURLINFO_HTTP_CONNECTCODE, &connect_status);
        return !nb_http_is_address(connect_status > 0 ? proxy_host : exchange->host);
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
        exchange->reply.connection = (struct nb_http_connection){
                .begin_usec = exchange->begin_usec,
                .resolve_usec = has_resolved(exchange) ? since(0, resolved_us) : 0,
                .tcp_usec = since(resolved_us, connected_us),
                .tls_usec = since(connected_us, secured_us),
        };
}

/* Among what CURLOPT_CERTINFO collects, also of a chain that then does not verify. */
static const char *find_pem(const struct curl_slist *line) {
        static const char name[] = "Cert:";

        for (; line; line = line->next)
                if (!strncmp(line->data, name, strlen(name)))
                        return line->data + strlen(name);
        return NULL;
}

const char *nb_http_leaf(CURL *easy) {
        const struct curl_certinfo *chain = NULL;

        if (curl_easy_getinfo(easy, CURLINFO_CERTINFO, &chain) != CURLE_OK || !chain ||
            chain->num_of_certs < 1)
                return NULL;
        return find_pem(chain->certinfo[0]);
}

int nb_http_chain(CURL *easy, struct nb_buffer *ret_pem) {
        const struct curl_certinfo *chain = NULL;

        if (curl_easy_getinfo(easy, CURLINFO_CERTINFO, &chain) != CURLE_OK || !chain ||
            chain->num_of_certs < 1)
                return -ENODATA;
        for (int i = 0; i < chain->num_of_certs; i++) {
                const char *pem = find_pem(chain->certinfo[i]);

                if (!pem)
                        return -ENODATA;
                nb_buffer_append_string(ret_pem, pem);
        }
        return ret_pem->error;
}
