/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <linux/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/macro.h"
#include "net/http_internal.h"

#define KEEPALIVE_IDLE_SEC 20L
#define KEEPALIVE_INTERVAL_SEC 10L

/* Source ports below 1024 that hardly anything listens on, as bindresvport(3) takes them. */

/* Overhead in addition to the largest body: chunk sizes and extensions, small TLS records, the
 * handshake. */
#define RAW_FACTOR 4
#define RAW_EXTRA ((uint64_t)256 * 1024)

static size_t body_ceiling(const struct nb_http_exchange *exchange) {
        long status = exchange->reply.status;

        return status >= 200 && status < 300 ? exchange->call->max_body : NB_HTTP_ERROR_BODY_MAX;
}

/* A stream has its limit per line, since its reader consumes line by line. */
static bool is_body_within(struct nb_http_exchange *exchange, const char *data, size_t len) {
        const char *newline = exchange->call->is_stream ? memrchr(data, '\n', len) : NULL;

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

        for (unsigned i = 0; i < exchange->sockets->n; i++) {
                struct tcp_info info = { 0 };
                socklen_t len = sizeof(info);

                if (getsockopt(exchange->sockets->fds[i], IPPROTO_TCP, TCP_INFO, &info, &len) >= 0)
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

/* The value of a header line when it is the one called `name`, without the white space around it.
 */
static bool header_value(const char *line, size_t len, const char *name, char *ret, size_t size) {
        size_t name_len = strlen(name);

        if (len <= name_len || strncasecmp(line, name, name_len) != 0 || line[name_len] != ':')
                return false;
        line += name_len + 1;
        len -= name_len + 1;
        while (len > 0 && (line[0] == ' ' || line[0] == '\t')) {
                line++;
                len--;
        }
        while (len > 0 && (line[len - 1] == '\r' || line[len - 1] == '\n' || line[len - 1] == ' '))
                len--;
        if (len >= size)
                len = size - 1;
        memcpy(ret, line, len);
        ret[len] = '\0';
        return true;
}

static uint32_t retry_after(const char *value) {
        char *end;
        unsigned long seconds;

        errno = 0;
        seconds = strtoul(value, &end, 10);
        if (value[0] < '0' || value[0] > '9' || *end || errno)
                return 0;
        if (seconds > NB_HTTP_RETRY_AFTER_MAX_MS / 1000)
                return NB_HTTP_RETRY_AFTER_MAX_MS;
        return (uint32_t)seconds * 1000;
}

static size_t on_header(char *line, size_t size, size_t count, void *userdata) {
        struct nb_http_exchange *exchange = userdata;
        size_t len = size * count;
        char value[128];

        exchange->headers_len += len;
        if (exchange->headers_len > NB_HTTP_HEADERS_MAX) {
                exchange->is_too_large = true;
                return 0;
        }
        if (header_value(line, len, "Date", value, sizeof(value))) {
                time_t date = curl_getdate(value, NULL);

                exchange->reply.date = date > 0 ? date : 0;
        } else if (header_value(line, len, "Retry-After", value, sizeof(value)))
                exchange->reply.retry_after_ms = retry_after(value);
        else if (header_value(line, len, "Location", value, sizeof(value)))
                memcpy(exchange->reply.location, value, sizeof(value));
        return len;
}

bool nb_http_is_address(const char *host, size_t len) {
        char text[INET6_ADDRSTRLEN];
        struct in6_addr address;
        bool is_ipv6 = len > 0 && host[0] == '[';
        const char *end = memchr(host, is_ipv6 ? ']' : ':', len);

        if (end)
                len = (size_t)(end - host);
        host += is_ipv6;
        len -= is_ipv6;
        if ((is_ipv6 && !end) || len >= sizeof(text))
                return false;
        memcpy(text, host, len);
        text[len] = '\0';
        return inet_pton(is_ipv6 ? AF_INET6 : AF_INET, text, &address) == 1;
}

static int set_url_metadata(struct nb_http_exchange *exchange, const char *url) {
        const char *slashes = strstr(url, "//");

        assert(slashes);
        if (exchange->http->is_verified)
                assert(!strncmp(url, "https://", strlen("https://")));
        else
                assert(!strncmp(url, "http://", strlen("http://")) &&
                       nb_http_is_address(slashes + 2, strcspn(slashes + 2, "/")));
        return curl_easy_setopt(exchange->easy, CURLOPT_URL, url) == CURLE_OK ? 0 : -EIO;
}

/* Name and certificate are checked against the URL's host, so a tls-server-name goes there, and the
 * address goes into CONNECT_TO. */
static int set_url(struct nb_http_exchange *exchange, const char *url) {
        const char *name = exchange->http->tls_server_name;
        _cleanup_(nb_freep) char *renamed = NULL, *connect_to = NULL;
        const char *host = url + strlen("https://"), *path = strchr(host, '/');
        const char *port;

        if (exchange->http->is_metadata)
                return set_url_metadata(exchange, url);
        assert(!strncmp(url, "https://", strlen("https://")) && path);
        exchange->is_address = nb_http_is_address(host, (size_t)(path - host));
        if (!name[0])
                return curl_easy_setopt(exchange->easy, CURLOPT_URL, url) == CURLE_OK ? 0 : -EIO;
        port = memrchr(host, ':', (size_t)(path - host));
        assert(port);
        if (asprintf(&renamed, "https://%s%s", name, port) < 0)
                return -ENOMEM;
        if (asprintf(&connect_to, "::%.*s", (int)(path - host), host) < 0)
                return -ENOMEM;
        exchange->connect_to = curl_slist_append(NULL, connect_to);
        if (!exchange->connect_to)
                return -ENOMEM;
        if (curl_easy_setopt(exchange->easy, CURLOPT_CONNECT_TO, exchange->connect_to) != CURLE_OK)
                return -EIO;
        return curl_easy_setopt(exchange->easy, CURLOPT_URL, renamed) == CURLE_OK ? 0 : -EIO;
}

/* Among what CURLOPT_CERTINFO collects, also of a chain that then does not verify. */
const char *nb_http_leaf(CURL *easy) {
        static const char name[] = "Cert:";
        const struct curl_certinfo *chain = NULL;

        if (curl_easy_getinfo(easy, CURLINFO_CERTINFO, &chain) != CURLE_OK || !chain ||
            chain->num_of_certs < 1)
                return NULL;
        for (const struct curl_slist *line = chain->certinfo[0]; line; line = line->next)
                if (!strncmp(line->data, name, strlen(name)))
                        return line->data + strlen(name);
        return NULL;
}

int nb_http_chain(CURL *easy, struct nb_buffer *ret_pem) {
        static const char name[] = "Cert:";
        const struct curl_certinfo *chain = NULL;
        int r = -ENODATA;

        if (curl_easy_getinfo(easy, CURLINFO_CERTINFO, &chain) != CURLE_OK || !chain)
                return -ENODATA;
        for (int i = 0; i < chain->num_of_certs; i++)
                for (const struct curl_slist *line = chain->certinfo[i]; line; line = line->next)
                        if (!strncmp(line->data, name, strlen(name))) {
                                r = nb_buffer_append_string(ret_pem, line->data + strlen(name));
                                if (r < 0)
                                        return r;
                        }
        return r;
}

/*
 * Any client certificate of the cluster that carries the right name or address would do otherwise.
 * A connection that is used again was looked at when it was made.
 */
static bool is_server(const struct nb_http_exchange *exchange) {
        const char *leaf;
        long n_connects = 1;

        (void)curl_easy_getinfo(exchange->easy, CURLINFO_NUM_CONNECTS, &n_connects);
        if (!exchange->http->is_server || n_connects == 0)
                return true;
        leaf = nb_http_leaf(exchange->easy);
        return leaf && exchange->http->is_server(leaf, strlen(leaf));
}

static void add_line(struct nb_http_exchange *exchange, struct curl_slist *node, char *line) {
        *node = (struct curl_slist){ .data = line, .next = exchange->accept.next };
        exchange->accept.next = node;
}

/* Each with its NUL. */
static int ask_for_secrets(struct nb_http_exchange *exchange) {
        struct nb_secret *secrets = exchange->secrets;
        ssize_t n = recv(exchange->fd, secrets->data, secrets->size, 0);
        size_t at = 0;

        if (n <= 0 || secrets->data[n - 1])
                return -EPIPE;
        secrets->len = (size_t)n;
        for (size_t i = 0; i < N_ELEMENTS(exchange->secret_lines) && at < secrets->len; i++) {
                add_line(exchange, &exchange->secret_lines[i], secrets->data + at);
                at += strlen(secrets->data + at) + 1;
        }
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

        if (!is_server(exchange)) {
                exchange->is_no_server = true;
                return CURL_PREREQFUNC_ABORT;
        }
        if (exchange->http->is_verified)
                (void)setitimer(ITIMER_PROF, &none, NULL);
        exchange->is_connected = *exchange->has_connected = true;
        nb_http_note_connection(exchange);
        nb_http_reply_send(exchange, NB_HTTP_CONNECTED, NULL, 0);
        if (exchange->call->has_secrets && ask_for_secrets(exchange) < 0)
                return CURL_PREREQFUNC_ABORT;
        return CURL_PREREQFUNC_OK;
}

/* Only one connection: a process that may hold secrets must not talk to another server. */
static curl_socket_t on_socket(void *userdata, _unused_ curlsocktype purpose,
                               struct curl_sockaddr *address) {
        struct nb_http_exchange *exchange = userdata;
        struct nb_http_sockets *sockets = exchange->sockets;
        int fd;

        if (*exchange->has_connected) {
                exchange->is_stale = true;
                return CURL_SOCKET_BAD;
        }
        if (sockets->n == N_ELEMENTS(sockets->fds))
                return CURL_SOCKET_BAD;
        fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
        if (fd >= 0)
                sockets->fds[sockets->n++] = fd;
        sockets->is_any = true;
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
                        return nb_failure_set(f, NB_INTERNAL, EIO, "libcurl refuses " #option); \
        } while (0)

static int set_tls(struct nb_http_exchange *exchange, struct nb_failure *f) {
        const struct nb_http *http = exchange->http;

        SET(CURLOPT_PROTOCOLS_STR, http->is_metadata && !http->is_verified ? "http" : "https");
        SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
        SET(CURLOPT_SSL_VERIFYPEER, http->is_verified ? 1L : 0L);
        SET(CURLOPT_SSL_VERIFYHOST, http->is_verified ? 2L : 0L);
        /* Unset, libcurl's GnuTLS build parses the system's whole bundle on every connection: 25 ms
         * and 11 MiB. */
        if (!http->is_verified || http->ca_fd >= 0) {
                SET(CURLOPT_CAINFO, http->is_verified ? http->ca_path : NULL);
                SET(CURLOPT_CAPATH, NULL);
        }
        if (http->certificate_fd >= 0) {
                SET(CURLOPT_SSLCERT, http->certificate_path);
                SET(CURLOPT_SSLKEY, http->key_path);
        }
        if (http->is_verified || exchange->call->is_certificate_kept)
                SET(CURLOPT_CERTINFO, 1L);
        return 0;
}

static int set_limits(struct nb_http_exchange *exchange, struct nb_failure *f) {
        SET(CURLOPT_CONNECTTIMEOUT_MS, (long)exchange->http->connect_timeout_ms);
        SET(CURLOPT_TIMEOUT_MS, (long)exchange->call->timeout_ms);
        if (exchange->call->silence_sec > 0) {
                SET(CURLOPT_LOW_SPEED_LIMIT, 1L);
                SET(CURLOPT_LOW_SPEED_TIME, (long)exchange->call->silence_sec);
        }
        SET(CURLOPT_TCP_KEEPALIVE, 1L);
        SET(CURLOPT_TCP_KEEPIDLE, KEEPALIVE_IDLE_SEC);
        SET(CURLOPT_TCP_KEEPINTVL, KEEPALIVE_INTERVAL_SEC);
        return 0;
}

static int set_content(struct nb_http_exchange *exchange, struct nb_failure *f) {
        struct nb_http_call *call = exchange->call;

        if (call->is_post) {
                SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body_len);
                SET(CURLOPT_POSTFIELDS, exchange->body);
        } else if (call->is_put) {
                SET(CURLOPT_POSTFIELDSIZE, 0L);
                SET(CURLOPT_POSTFIELDS, "");
                SET(CURLOPT_CUSTOMREQUEST, "PUT");
        }
        exchange->accept = (struct curl_slist){ .data = call->accept_line };
        if (call->type_line[0])
                add_line(exchange, &exchange->content_type, call->type_line);
        for (size_t i = 0; i < N_ELEMENTS(exchange->lines) && call->lines[i][0]; i++)
                add_line(exchange, &exchange->lines[i], call->lines[i]);
        SET(CURLOPT_HTTPHEADER, &exchange->accept);
        return 0;
}

static int set_behaviour(struct nb_http_exchange *exchange, struct nb_failure *f) {
        SET(CURLOPT_NOSIGNAL, 1L);
        /* Do not wait for a resolver whose name servers do not answer. */
        SET(CURLOPT_QUICK_EXIT, 1L);
        /* What a proxy says of itself is not the server's Date or Retry-After. */
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
        SET(CURLOPT_CLOSESOCKETDATA, exchange->sockets); /* the connection outlives the exchange */
        SET(CURLOPT_XFERINFOFUNCTION, on_progress);
        SET(CURLOPT_XFERINFODATA, exchange);
        SET(CURLOPT_NOPROGRESS, 0L);
        if (exchange->http->is_metadata) {
                SET(CURLOPT_PROXY, "");
                SET(CURLOPT_NOPROXY, "*");
        }
        if (exchange->http->proxy_url[0]) {
                SET(CURLOPT_PROXY, exchange->http->proxy_url);
                /* As in client-go: NO_PROXY makes exceptions of HTTPS_PROXY alone, not of what a
                 * kubeconfig says. */
                SET(CURLOPT_NOPROXY, "");
        }
        return 0;
}

int nb_http_exchange_setup(struct nb_http_exchange *exchange, struct nb_failure *f) {
        int r;

        r = set_url(exchange, exchange->call->url);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, -r, "libcurl refuses the URL of %s",
                                      exchange->call->what);
        r = set_tls(exchange, f);
        if (r >= 0)
                r = set_limits(exchange, f);
        if (r >= 0)
                r = set_content(exchange, f);
        return r < 0 ? r : set_behaviour(exchange, f);
}
