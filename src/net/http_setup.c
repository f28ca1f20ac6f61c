/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/macro.h"
#include "net/http_internal.h"

#define KEEPALIVE_IDLE_SEC 20L
#define KEEPALIVE_INTERVAL_SEC 10L

/* Overhead in addition to the largest body: chunk sizes and extensions, small TLS records, the
 * handshake. */
#define RAW_FACTOR 4
#define RAW_EXTRA ((uint64_t)256 * 1024)

/* --- The connection --- */

/* Searches the variables that libcurl uses for https, in its order. */
const char *nb_http_find_proxy(const struct nb_http *http) {
        static const char *const names[] = { "https_proxy", "HTTPS_PROXY", "all_proxy",
                                             "ALL_PROXY" };
        const char *url = http->proxy_url;

        for (size_t i = 0; i < N_ELEMENTS(names) && (!url || !url[0]); i++)
                url = getenv(names[i]);
        return url ? url : "";
}

/* Copies the host of a URL without brackets, login and port. The scheme may be missing, as in the
 * URL of a proxy. */
static void read_host(const char *url, char ret[static NB_HTTP_HOST_SIZE]) {
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

/* Whether a name was resolved: libcurl reports a time also for an address. Through an HTTP proxy,
 * the name is the proxy's. */
static bool has_resolved(const struct nb_http_exchange *exchange) {
        char proxy_host[NB_HTTP_HOST_SIZE];
        long connect_status = 0;

        read_host(nb_http_find_proxy(exchange->http), proxy_host);
        (void)curl_easy_getinfo(exchange->easy, CURLINFO_HTTP_CONNECTCODE, &connect_status);
        return !nb_http_is_address(connect_status > 0 ? proxy_host : exchange->host);
}

static uint64_t subtract_time(curl_off_t earlier_us, curl_off_t us) {
        return us > earlier_us ? (uint64_t)(us - earlier_us) : 0;
}

/* Stores the times of the connection if this exchange opened it. */
static void note_connection(struct nb_http_exchange *exchange) {
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
                .resolve_usec = has_resolved(exchange) ? subtract_time(0, resolved_us) : 0,
                .tcp_usec = subtract_time(resolved_us, connected_us),
                .tls_usec = subtract_time(connected_us, secured_us),
        };
}

const char *nb_http_certificate(CURL *easy, int i) {
        const struct curl_certinfo *chain = NULL;
        static const char name[] = "Cert:";

        if (curl_easy_getinfo(easy, CURLINFO_CERTINFO, &chain) != CURLE_OK || !chain ||
            i >= chain->num_of_certs)
                return NULL;
        for (const struct curl_slist *line = chain->certinfo[i]; line; line = line->next)
                if (!strncmp(line->data, name, strlen(name)))
                        return line->data + strlen(name);
        return NULL;
}

/* --- Callbacks --- */

static size_t body_ceiling(const struct nb_http_exchange *exchange) {
        long status = exchange->reply.status;

        return status >= 200 && status < 300 ? exchange->call.max_body : NB_HTTP_ERROR_BODY_MAX;
}

/* A stream has a limit per line, since its reader consumes lines. */
static bool is_body_within(struct nb_http_exchange *exchange, const char *data, size_t len) {
        const char *newline = exchange->call.is_stream ? memrchr(data, '\n', len) : NULL;

        exchange->body_len = newline ? len - (size_t)(newline + 1 - data)
                                     : exchange->body_len + len;
        if (newline)
                exchange->raw_begin = nb_http_raw_received(exchange);
        return exchange->body_len <= body_ceiling(exchange);
}

static size_t on_body(char *data, size_t size, size_t count, void *userdata) {
        struct nb_http_exchange *exchange = userdata;
        size_t len = size * count;

        if (exchange->reply.status == 0)
                (void)curl_easy_getinfo(exchange->easy, CURLINFO_RESPONSE_CODE,
                                        &exchange->reply.status);
        if (!is_body_within(exchange, data, len)) {
                exchange->is_too_large = true;
                return 0;
        }
        nb_http_reply_send(exchange, NB_HTTP_BODY, data, len);
        return len;
}

uint64_t nb_http_raw_received(const struct nb_http_exchange *exchange) {
        uint64_t sum = 0;

        for (unsigned i = 0; i < exchange->sockets.n; i++) {
                struct tcp_info info = { 0 };
                socklen_t len = sizeof(info);

                if (getsockopt(exchange->sockets.fds[i], IPPROTO_TCP, TCP_INFO, &info, &len) >= 0)
                        sum += info.tcpi_bytes_received;
        }
        return sum;
}

/* libcurl limits the body but not the chunk framing, and a chunk extension can be endless. */
static int on_progress(void *userdata, _unused_ curl_off_t to_receive, _unused_ curl_off_t received,
                       _unused_ curl_off_t to_send, _unused_ curl_off_t sent) {
        struct nb_http_exchange *exchange = userdata;
        uint64_t raw = nb_http_raw_received(exchange);

        if (raw <= exchange->raw_begin + RAW_FACTOR * (uint64_t)body_ceiling(exchange) + RAW_EXTRA)
                return 0;
        exchange->is_too_large = true;
        return 1;
}

static size_t on_header(_unused_ char *line, size_t size, size_t count, void *userdata) {
        struct nb_http_exchange *exchange = userdata;
        size_t len = size * count;

        exchange->headers_len += len;
        if (exchange->headers_len > NB_HTTP_HEADERS_MAX) {
                exchange->is_too_large = true;
                return 0;
        }
        return len;
}

/*
 * Without this check, a server could use any client certificate of the cluster that has the right
 * name or address. A reused connection was checked when it was opened.
 */
static bool is_server(const struct nb_http_exchange *exchange) {
        const char *leaf;
        long n_connects = 1;

        (void)curl_easy_getinfo(exchange->easy, CURLINFO_NUM_CONNECTS, &n_connects);
        if (!exchange->http->is_server || n_connects == 0)
                return true;
        leaf = nb_http_certificate(exchange->easy, 0);
        return leaf && exchange->http->is_server(leaf, strlen(leaf));
}

static void add_line(struct nb_http_exchange *exchange, char *line) {
        size_t n = exchange->n_lines++;

        assert(n < N_ELEMENTS(exchange->lines));
        exchange->lines[n].data = line;
        if (n > 0)
                exchange->lines[n - 1].next = &exchange->lines[n];
}

/* Receives the secret header lines from the parent, each with its NUL. */
static int ask_for_secrets(struct nb_http_exchange *exchange) {
        struct nb_secret *secrets = &exchange->secrets;
        ssize_t n = recv(exchange->fd, secrets->data, secrets->size, 0);

        if (n <= 0 || secrets->data[n - 1])
                return -EPIPE;
        for (char *line = secrets->data; line < secrets->data + n; line += strlen(line) + 1)
                add_line(exchange, line);
        return 0;
}

/*
 * Called when name resolution, TCP and TLS are done, before libcurl composes the request. A server
 * that is verified at this point no longer has a CPU limit, and may receive the secrets.
 */
static int before_request(void *userdata, _unused_ char *ip, _unused_ char *local_ip,
                          _unused_ int port, _unused_ int local_port) {
        static const struct itimerval none = { 0 };
        struct nb_http_exchange *exchange = userdata;

        note_connection(exchange);
        if (!is_server(exchange)) {
                exchange->is_no_server = true;
                return CURL_PREREQFUNC_ABORT;
        }
        if (exchange->http->is_verified)
                (void)setitimer(ITIMER_PROF, &none, NULL);
        exchange->is_connected = exchange->has_connected = true;
        nb_http_reply_send(exchange, NB_HTTP_CONNECTED, NULL, 0);
        if (exchange->call.has_secrets && ask_for_secrets(exchange) < 0)
                return CURL_PREREQFUNC_ABORT;
        return CURL_PREREQFUNC_OK;
}

/* Opens only one connection: a worker that may have secrets must not contact another server. */
static curl_socket_t on_socket(void *userdata, _unused_ curlsocktype purpose,
                               struct curl_sockaddr *address) {
        struct nb_http_exchange *exchange = userdata;
        struct nb_http_sockets *sockets = &exchange->sockets;
        int fd;

        sockets->is_any = true;
        if (exchange->has_connected) {
                exchange->is_stale = true;
                return CURL_SOCKET_BAD;
        }
        if (sockets->n == N_ELEMENTS(sockets->fds))
                return CURL_SOCKET_BAD;
        fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
        if (fd >= 0)
                sockets->fds[sockets->n++] = fd;
        return fd;
}

static int on_close(void *userdata, curl_socket_t fd) {
        struct nb_http_sockets *sockets = userdata;

        for (unsigned i = 0; i < sockets->n; i++)
                if (sockets->fds[i] == fd)
                        sockets->fds[i] = sockets->fds[--sockets->n];
        return close(fd);
}

#define SET(option, value) \
        do { \
                if (curl_easy_setopt(exchange->easy, option, value) != CURLE_OK) \
                        return -EIO; \
        } while (0)

/* libcurl verifies the certificate for the host in the URL, so a tls-server-name is put into the
 * URL, and the address into CONNECT_TO. */
static int set_url(struct nb_http_exchange *exchange) {
        const char *name = exchange->http->tls_server_name, *url = exchange->call.url;
        char renamed[NB_HTTP_URL_MAX + 256], connect_to[NB_HTTP_URL_MAX + 2];
        const char *host = url + strlen("https://"), *port;
        bool is_plain = exchange->http->is_metadata;
        size_t len;

        read_host(url, exchange->host);
        SET(CURLOPT_PROTOCOLS_STR, is_plain ? "http" : "https");
        if (is_plain)
                assert(!strncmp(url, "http://", strlen("http://")) &&
                       nb_http_is_address(exchange->host));
        else
                assert(!strncmp(url, "https://", strlen("https://")));
        if (!name[0]) {
                SET(CURLOPT_URL, url);
                return 0;
        }
        len = strcspn(host, "/");
        port = memrchr(host, ':', len);
        assert(port);
        snprintf(renamed, sizeof(renamed), "https://%s%s", name, port);
        snprintf(connect_to, sizeof(connect_to), "::%.*s", (int)len, host);
        exchange->connect_to = curl_slist_append(NULL, connect_to);
        if (!exchange->connect_to)
                return -ENOMEM;
        SET(CURLOPT_CONNECT_TO, exchange->connect_to);
        SET(CURLOPT_URL, renamed);
        return 0;
}

static int set_tls(struct nb_http_exchange *exchange) {
        const struct nb_http *http = exchange->http;

        SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
        SET(CURLOPT_SSL_VERIFYPEER, http->is_verified ? 1L : 0L);
        SET(CURLOPT_SSL_VERIFYHOST, http->is_verified ? 2L : 0L);
        /* If these are not set, libcurl with GnuTLS parses the system's whole CA bundle for every
         * connection, which takes 25 ms and 11 MiB. */
        if (!http->is_verified || http->ca_fd >= 0) {
                SET(CURLOPT_CAINFO, http->is_verified ? http->ca_path : NULL);
                SET(CURLOPT_CAPATH, NULL);
        }
        if (http->certificate_fd >= 0) {
                SET(CURLOPT_SSLCERT, http->certificate_path);
                SET(CURLOPT_SSLKEY, http->certificate_path);
        }
        if (http->is_verified)
                SET(CURLOPT_CERTINFO, 1L);
        return 0;
}

static int set_limits(struct nb_http_exchange *exchange) {
        SET(CURLOPT_CONNECTTIMEOUT_MS, (long)exchange->http->connect_timeout_ms);
        SET(CURLOPT_TIMEOUT_MS, (long)exchange->call.timeout_ms);
        if (exchange->call.silence_sec > 0) {
                SET(CURLOPT_LOW_SPEED_LIMIT, 1L);
                SET(CURLOPT_LOW_SPEED_TIME, (long)exchange->call.silence_sec);
        }
        SET(CURLOPT_TCP_KEEPALIVE, 1L);
        SET(CURLOPT_TCP_KEEPIDLE, KEEPALIVE_IDLE_SEC);
        SET(CURLOPT_TCP_KEEPINTVL, KEEPALIVE_INTERVAL_SEC);
        return 0;
}

static int set_content(struct nb_http_exchange *exchange) {
        struct nb_http_call *call = &exchange->call;

        if (call->has_body || call->method[0]) {
                SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body_len);
                SET(CURLOPT_POSTFIELDS, exchange->body);
        }
        if (call->method[0])
                SET(CURLOPT_CUSTOMREQUEST, call->method);
        for (size_t i = 0; i < N_ELEMENTS(call->lines); i++)
                if (call->lines[i][0])
                        add_line(exchange, call->lines[i]);
        SET(CURLOPT_HTTPHEADER, exchange->lines);
        return 0;
}

static int set_behaviour(struct nb_http_exchange *exchange) {
        SET(CURLOPT_NOSIGNAL, 1L);
        /* On exit, do not wait for a resolver thread whose name servers do not answer. */
        SET(CURLOPT_QUICK_EXIT, 1L);
        /* Ignore Date and Retry-After of a proxy. */
        SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
        SET(CURLOPT_FOLLOWLOCATION, 0L);
        SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
        SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
        SET(CURLOPT_USERAGENT, "node-bootstrap/" NB_VERSION);
        SET(CURLOPT_ERRORBUFFER, exchange->error);
        SET(CURLOPT_WRITEFUNCTION, on_body);
        SET(CURLOPT_WRITEDATA, exchange);
        SET(CURLOPT_HEADERFUNCTION, on_header);
        SET(CURLOPT_HEADERDATA, exchange);
        SET(CURLOPT_PREREQFUNCTION, before_request);
        SET(CURLOPT_PREREQDATA, exchange);
        SET(CURLOPT_OPENSOCKETFUNCTION, on_socket);
        SET(CURLOPT_OPENSOCKETDATA, exchange);
        SET(CURLOPT_CLOSESOCKETFUNCTION, on_close);
        SET(CURLOPT_CLOSESOCKETDATA, &exchange->sockets);
        SET(CURLOPT_XFERINFOFUNCTION, on_progress);
        SET(CURLOPT_XFERINFODATA, exchange);
        SET(CURLOPT_NOPROGRESS, 0L);
        if (exchange->http->is_metadata) {
                SET(CURLOPT_PROXY, "");
                SET(CURLOPT_NOPROXY, "*");
        }
        if (exchange->http->proxy_url[0]) {
                SET(CURLOPT_PROXY, exchange->http->proxy_url);
                /* As in client-go: NO_PROXY applies only to HTTPS_PROXY, not to the proxy-url of a
                 * kubeconfig. */
                SET(CURLOPT_NOPROXY, "");
        }
        return 0;
}

int nb_http_exchange_setup(struct nb_http_exchange *exchange) {
        if (set_url(exchange) < 0 || set_tls(exchange) < 0 || set_limits(exchange) < 0 ||
            set_content(exchange) < 0)
                return -EIO;
        return set_behaviour(exchange);
}
