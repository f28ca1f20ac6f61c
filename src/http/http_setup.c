/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/macro.h"
#include "http/http_internal.h"
#include "os/clock.h"

#define KEEPALIVE_IDLE_SEC 20L
#define KEEPALIVE_INTERVAL_SEC 10L
#define HTTPS_PROXY_PORT 443L /* libcurl's default; that of other proxies is 1080 */

/* Longer than connecting may take. Not -1 (for ever), since libcurl 8.14 then forgets a name at
 * once. */
#define DNS_CACHE_SEC 3600L

/* An address that nobody has: TEST-NET-1 (RFC 5737). */
#define NO_ADDRESS "192.0.2.1"

/* Overhead in addition to the largest body: chunk sizes and extensions, small TLS records, the
 * handshake. */
#define RAW_FACTOR 4
#define RAW_EXTRA ((uint64_t)256 * 1024)

/* --- The connection --- */

/* Searches the variables that libcurl uses for https, in its order. */
const char *nb_http_find_proxy(const struct nb_http_config *config, const char **ret_origin) {
        static const char *const names[] = { "https_proxy", "HTTPS_PROXY", "all_proxy",
                                             "ALL_PROXY" };
        const char *url = config->proxy_url, *origin = "proxy-url in the kubeconfig";

        for (size_t i = 0; i < N_ELEMENTS(names) && (!url || !url[0]); i++) {
                url = getenv(names[i]);
                origin = names[i];
        }
        if (ret_origin)
                *ret_origin = origin;
        return url ? url : "";
}

bool nb_http_has_proxy(const struct nb_http_exchange *exchange) {
        return !exchange->config->is_metadata && !exchange->is_direct &&
               nb_http_find_proxy(exchange->config, NULL)[0];
}

void nb_http_describe_route(const struct nb_http_exchange *exchange,
                            char ret[static NB_HTTP_ROUTE_SIZE]) {
        const char *origin;

        ret[0] = '\0';
        if (exchange->config->is_metadata || !nb_http_find_proxy(exchange->config, &origin)[0])
                return;
        if (exchange->is_direct)
                snprintf(ret, NB_HTTP_ROUTE_SIZE, "directly, since NO_PROXY lists it (%s is set)",
                         origin);
        else
                snprintf(ret, NB_HTTP_ROUTE_SIZE, "through the proxy at %s (%s)", exchange->peer,
                         origin);
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

bool nb_http_needs_resolver(const struct nb_http_config *config, const char *url) {
        char host[NB_HTTP_HOST_SIZE];

        read_host(url, host);
        return !nb_http_is_address(host) || nb_http_find_proxy(config, NULL)[0];
}

/* Whether a name was resolved: libcurl reports a time also for an address. Through an HTTP proxy,
 * the name is the proxy's. */
static bool has_resolved(const struct nb_http_exchange *exchange) {
        char proxy_host[NB_HTTP_HOST_SIZE];
        long connect_status = 0;

        read_host(nb_http_find_proxy(exchange->config, NULL), proxy_host);
        (void)curl_easy_getinfo(exchange->easy, CURLINFO_HTTP_CONNECTCODE, &connect_status);
        return !nb_http_is_address(connect_status > 0 ? proxy_host : exchange->host);
}

/* Stores the times of the connection if this exchange opened it. */
static void note_connection(struct nb_http_exchange *exchange) {
        curl_off_t secured_us = 0;

        (void)curl_easy_getinfo(exchange->easy, CURLINFO_APPCONNECT_TIME_T, &secured_us);
        if (!exchange->is_socket_wanted || secured_us <= 0)
                return;
        exchange->reply.connection = (struct nb_http_connection){
                /* As if an early connection had been made just before this request. */
                .begin_usec = exchange->begin_usec -
                              (exchange->is_early
                                       ? (uint64_t)(exchange->resolve_us + exchange->tcp_us)
                                       : 0),
                .resolve_usec = has_resolved(exchange) ? (uint64_t)exchange->resolve_us : 0,
                .tcp_usec = (uint64_t)exchange->tcp_us,
                .tls_usec = (uint64_t)secured_us,
        };
        nb_http_describe_route(exchange, exchange->reply.connection.route);
}

/* --- Callbacks --- */

static size_t body_ceiling(const struct nb_http_exchange *exchange) {
        long status = exchange->reply.status;

        /* It is not known before the first piece of the body. */
        if (status == 0 && exchange->call.max_body > NB_HTTP_ERROR_BODY_MAX)
                return exchange->call.max_body;
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

void nb_http_reply_send(struct nb_http_exchange *exchange, enum nb_http_reply_kind kind,
                        const void *data, size_t len) {
        struct nb_http_reply *reply = &exchange->reply;
        struct iovec parts[] = {
                { .iov_base = reply, .iov_len = sizeof(*reply) },
                { .iov_base = (void *)(uintptr_t)data, .iov_len = len },
        };

        reply->kind = kind;
        reply->len = len;
        /* The sandbox refuses sendmsg(2), which can pass descriptors. SIGPIPE is ignored. */
        while (writev(NB_HTTP_CALLS_FD, parts, N_ELEMENTS(parts)) < 0)
                if (errno != EINTR)
                        _exit(EXIT_FAILURE);
        /* Report a connection only once. */
        reply->connection = (struct nb_http_connection){ 0 };
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
        if (len > 0)
                nb_http_reply_send(exchange, NB_HTTP_BODY, data, len);
        return len;
}

uint64_t nb_http_raw_received(const struct nb_http_exchange *exchange) {
        struct tcp_info info = { 0 };
        socklen_t len = sizeof(info);

        (void)getsockopt(exchange->socket_fd, IPPROTO_TCP, TCP_INFO, &info, &len);
        return info.tcpi_bytes_received;
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
        ssize_t n = recv(NB_HTTP_CALLS_FD, secrets->data, secrets->size, 0);

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
        _cleanup_(nb_buffer_done) struct nb_buffer chain = NB_BUFFER_INIT(NB_HTTP_CHAIN_MAX);
        struct nb_http_exchange *exchange = userdata;

        exchange->is_secured = true;
        note_connection(exchange);
        /* A worker makes only one connection. */
        if (exchange->config->is_verified && !exchange->has_connected) {
                nb_http_read_chain(exchange->easy, &chain);
                if (nb_http_server_verify(exchange, &chain, &exchange->reply.failure) < 0)
                        return CURL_PREREQFUNC_ABORT;
        }
        if (exchange->config->is_verified)
                (void)setitimer(ITIMER_PROF, &none, NULL);
        exchange->is_connected = exchange->has_connected = true;
        nb_http_reply_send(exchange, NB_HTTP_CONNECTED, NULL, 0);
        if (exchange->call.has_secrets && ask_for_secrets(exchange) < 0)
                return CURL_PREREQFUNC_ABORT;
        return CURL_PREREQFUNC_OK;
}

static bool is_no_address(const struct sockaddr *address) {
        struct in_addr none;

        return address->sa_family == AF_INET && inet_pton(AF_INET, NO_ADDRESS, &none) == 1 &&
               !memcmp(&((const struct sockaddr_in *)(const void *)address)->sin_addr, &none,
                       sizeof(none));
}

/* Notes the address of the connection. If it is the one in the URL, there is no proxy in between.
 */
static void note_peer(struct nb_http_exchange *exchange, const struct sockaddr *address) {
        const char *url = strstr(exchange->call.url, "//") + 2,
                   *port = memrchr(url, ':', strcspn(url, "/"));
        const bool is_ipv6 = address->sa_family == AF_INET6;
        const struct sockaddr_in *in = (const void *)address;
        const struct sockaddr_in6 *in6 = (const void *)address;
        const void *from = is_ipv6 ? (const void *)&in6->sin6_addr : &in->sin_addr;
        unsigned number = ntohs(is_ipv6 ? in6->sin6_port : in->sin_port);
        char text[INET6_ADDRSTRLEN] = "";
        struct in6_addr own;

        (void)inet_ntop(address->sa_family, from, text, sizeof(text));
        snprintf(exchange->peer, sizeof(exchange->peer), is_ipv6 ? "[%s]:%u" : "%s:%u", text,
                 number);
        if (port && strtoul(port + 1, NULL, 10) == number &&
            inet_pton(address->sa_family, exchange->host, &own) == 1)
                exchange->is_direct |= !memcmp(&own, from,
                                               is_ipv6 ? sizeof(own) : sizeof(in->sin_addr));
}

/* In the first step, creates a socket. After it, returns the connected socket, but only once: a
 * worker that may have secrets must not contact another server. */
static curl_socket_t on_socket(void *userdata, _unused_ curlsocktype purpose,
                               struct curl_sockaddr *address) {
        struct nb_http_exchange *exchange = userdata;

        exchange->is_socket_wanted = true;
        if (exchange->is_marked && is_no_address(&address->addr)) {
                exchange->is_direct = true;
                return CURL_SOCKET_BAD;
        }
        if (!exchange->is_confined) {
                note_peer(exchange, &address->addr);
                return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
        }
        if (exchange->is_socket_used) {
                exchange->is_stale = true;
                return CURL_SOCKET_BAD;
        }
        exchange->is_socket_used = true;
        return exchange->socket_fd;
}

#define SET(option, value) \
        do { \
                if (curl_easy_setopt(exchange->easy, option, value) != CURLE_OK) \
                        return -EIO; \
        } while (0)

/*
 * libcurl sends the host in the URL to the server as its name, so the URL has the tls-server-name,
 * and CONNECT_TO the address. With both CONNECT_TO and a proxy, libcurl would talk to the proxy
 * while connecting. In that case the name resolves to NO_ADDRESS instead: if on_socket() sees this
 * address, NO_PROXY lists the name. The name of a server without tls-server-name is marked, too, so
 * that a failure is not taken for one of the proxy, or of the server.
 */
static int set_server(struct nb_http_exchange *exchange, const char *name, const char *host,
                      bool is_connecting) {
        char text[NB_HTTP_URL_MAX + 2];
        size_t len = strcspn(host, "/");
        const char *port = memrchr(host, ':', len);
        bool is_for_proxy = is_connecting && nb_http_has_proxy(exchange);

        exchange->is_marked = is_for_proxy;
        assert(port);
        if (is_for_proxy)
                snprintf(text, sizeof(text), "%s%.*s:" NO_ADDRESS, name,
                         (int)(len - (size_t)(port - host)), port);
        else
                snprintf(text, sizeof(text), "::%.*s", (int)len, host);
        curl_slist_free_all(exchange->connect_to);
        exchange->connect_to = curl_slist_append(NULL, text);
        if (!exchange->connect_to)
                return -ENOMEM;
        SET(is_for_proxy ? CURLOPT_RESOLVE : CURLOPT_CONNECT_TO, exchange->connect_to);
        return 0;
}

/* While connecting, the scheme is http, since with https libcurl would also begin TLS. All URLs
 * have a port. */
static int set_url(struct nb_http_exchange *exchange, bool is_connecting) {
        const char *name = exchange->config->tls_server_name, *host, *rest;
        bool is_plain = exchange->config->is_metadata;
        const char *scheme = is_plain || is_connecting ? "http" : "https";
        char url[NB_HTTP_URL_MAX + 256];

        assert(!strncmp(exchange->call.url, is_plain ? "http://" : "https://",
                        is_plain ? strlen("http://") : strlen("https://")));
        read_host(exchange->call.url, exchange->host);
        assert(!is_plain || nb_http_is_address(exchange->host));
        host = strstr(exchange->call.url, "//") + 2;
        rest = name[0] ? memrchr(host, ':', strcspn(host, "/")) : host;
        assert(rest);
        snprintf(url, sizeof(url), "%s://%s%s", scheme, name, rest);
        SET(CURLOPT_PROTOCOLS_STR, scheme);
        SET(CURLOPT_URL, url);
        if (name[0])
                return set_server(exchange, name, host, is_connecting);
        return is_connecting && nb_http_has_proxy(exchange) && !nb_http_is_address(exchange->host)
                       ? set_server(exchange, exchange->host, host, true)
                       : 0;
}

/*
 * The proxies to which libcurl talks before the request, and their schemes in the second step.
 * While connecting, the scheme is http, so that libcurl only connects. A SOCKS proxy resolves the
 * name, as for client-go, since a worker in the second step cannot.
 */
static const char *const proxy_schemes[][2] = {
        { "https://", "https://" },    { "socks://", "socks4a://" },
        { "socks4://", "socks4a://" }, { "socks4a://", "socks4a://" },
        { "socks5://", "socks5h://" }, { "socks5h://", "socks5h://" },
};

static int set_proxy(struct nb_http_exchange *exchange, bool is_connecting) {
        const struct nb_http_config *config = exchange->config;
        const char *url = nb_http_find_proxy(config, NULL), *scheme = "";
        char text[NB_HTTP_URL_MAX];

        if (config->is_metadata || exchange->is_direct) {
                SET(CURLOPT_PROXY, "");
                SET(CURLOPT_NOPROXY, "*");
                return 0;
        }
        for (size_t i = 0; i < N_ELEMENTS(proxy_schemes) && !scheme[0]; i++) {
                size_t len = strlen(proxy_schemes[i][0]);

                if (strncasecmp(url, proxy_schemes[i][0], len) != 0)
                        continue;
                url += len;
                scheme = is_connecting ? "http://" : proxy_schemes[i][1];
                if (i == 0)
                        SET(CURLOPT_PROXYPORT, HTTPS_PROXY_PORT);
        }
        snprintf(text, sizeof(text), "%s%s", scheme, url);
        SET(CURLOPT_PROXY, text);
        /* As in client-go: NO_PROXY applies only to HTTPS_PROXY, not to the proxy-url of a
         * kubeconfig. */
        if (config->proxy_url[0])
                SET(CURLOPT_NOPROXY, "");
        return 0;
}

static int set_tls(struct nb_http_exchange *exchange) {
        const struct nb_http_config *config = exchange->config;
        const bool has_gnutls = nb_http_has_gnutls(exchange->easy);

        SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
        /* before_request() verifies the server: GnuTLS and OpenSSL accept different chains, and
         * libcurl with OpenSSL does not return the certificates of a chain that it rejects. */
        SET(CURLOPT_SSL_VERIFYPEER, 0L);
        /* If a server behind an https proxy has no certificate, those of the proxy remain in
         * CURLINFO_CERTINFO. With this option, libcurl refuses such a server. */
        SET(CURLOPT_SSL_VERIFYHOST,
            config->is_verified && config->has_proxy_ca && !has_gnutls ? 2L : 0L);
        SET(CURLOPT_CAINFO, NULL);
        SET(CURLOPT_CAPATH, NULL);
        SET(CURLOPT_PROXY_CAINFO, config->has_proxy_ca ? NB_HTTP_PROXY_CA_PATH : NULL);
        SET(CURLOPT_PROXY_CAPATH, NULL);
        if (config->has_certificate) {
                SET(CURLOPT_SSLCERT, NB_HTTP_CERTIFICATE_PATH);
                SET(CURLOPT_SSLKEY, NB_HTTP_CERTIFICATE_PATH);
        }
        if (config->is_verified && !has_gnutls &&
            curl_easy_setopt(exchange->easy, CURLOPT_CERTINFO, 1L) != CURLE_OK)
                return nb_failure_set(&exchange->reply.failure, NB_INTERNAL, EIO,
                                      "libcurl with %s does not return the server's certificates; "
                                      "expected a libcurl with GnuTLS or OpenSSL",
                                      curl_version_info(CURLVERSION_NOW)->ssl_version);
        return 0;
}

/* The rest of a time limit, at least 1 ms; 0 if there is no limit. */
static long time_left(const struct nb_http_exchange *exchange, uint32_t limit_ms) {
        uint64_t elapsed_ms = (nb_now_usec() - exchange->begin_usec) / 1000;

        return elapsed_ms < limit_ms ? (long)(limit_ms - elapsed_ms) : limit_ms > 0;
}

static int set_limits(struct nb_http_exchange *exchange) {
        SET(CURLOPT_CONNECTTIMEOUT_MS, time_left(exchange, exchange->config->connect_timeout_ms));
        SET(CURLOPT_TIMEOUT_MS, time_left(exchange, exchange->call.timeout_ms));
        if (exchange->call.silence_sec > 0) {
                SET(CURLOPT_LOW_SPEED_LIMIT, 1L);
                SET(CURLOPT_LOW_SPEED_TIME, (long)exchange->call.silence_sec);
        }
        SET(CURLOPT_TCP_KEEPALIVE, 1L);
        SET(CURLOPT_TCP_KEEPIDLE, KEEPALIVE_IDLE_SEC);
        SET(CURLOPT_TCP_KEEPINTVL, KEEPALIVE_INTERVAL_SEC);
        return 0;
}

/* For both steps. The second one does not resolve the name again. */
static int set_connection(struct nb_http_exchange *exchange, bool is_connecting) {
        SET(CURLOPT_NOSIGNAL, 1L);
        /* On exit, do not wait for a resolver thread whose name servers do not answer. */
        SET(CURLOPT_QUICK_EXIT, 1L);
        SET(CURLOPT_DNS_CACHE_TIMEOUT, DNS_CACHE_SEC);
        SET(CURLOPT_ERRORBUFFER, exchange->error);
        SET(CURLOPT_OPENSOCKETFUNCTION, on_socket);
        SET(CURLOPT_OPENSOCKETDATA, exchange);
        return set_url(exchange, is_connecting) < 0 || set_proxy(exchange, is_connecting) < 0 ||
                               set_limits(exchange) < 0
                       ? -EIO
                       : 0;
}

int nb_http_exchange_connect(struct nb_http_exchange *exchange) {
        curl_socket_t fd = -1;
        bool was_direct;

        do {
                was_direct = exchange->is_direct;
                /* The second attempt needs a new handle: this one keeps NO_ADDRESS for the name. */
                if (was_direct) {
                        curl_easy_cleanup(exchange->easy);
                        exchange->easy = curl_easy_init();
                        if (!exchange->easy)
                                return -EIO;
                }
                curl_easy_reset(exchange->easy);
                if (set_connection(exchange, true) < 0)
                        return -EIO;
                SET(CURLOPT_CONNECT_ONLY, 1L);
                exchange->result = curl_easy_perform(exchange->easy);
        } while (exchange->is_marked && exchange->is_direct > was_direct);
        (void)curl_easy_getinfo(exchange->easy, CURLINFO_NAMELOOKUP_TIME_T, &exchange->resolve_us);
        (void)curl_easy_getinfo(exchange->easy, CURLINFO_CONNECT_TIME_T, &exchange->tcp_us);
        exchange->tcp_us -= exchange->resolve_us;
        if (exchange->result != CURLE_OK)
                return 0;
        (void)curl_easy_getinfo(exchange->easy, CURLINFO_ACTIVESOCKET, &fd);
        /* libcurl may close its own descriptor at any time. */
        exchange->socket_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        return exchange->socket_fd < 0 ? -EIO : 0;
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
        /* Ignore Date and Retry-After of a proxy. */
        SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
        SET(CURLOPT_FOLLOWLOCATION, 0L);
        SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
        SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
        SET(CURLOPT_USERAGENT, "node-bootstrap/" NB_VERSION);
        SET(CURLOPT_WRITEFUNCTION, on_body);
        SET(CURLOPT_WRITEDATA, exchange);
        SET(CURLOPT_HEADERFUNCTION, on_header);
        SET(CURLOPT_HEADERDATA, exchange);
        SET(CURLOPT_PREREQFUNCTION, before_request);
        SET(CURLOPT_PREREQDATA, exchange);
        SET(CURLOPT_XFERINFOFUNCTION, on_progress);
        SET(CURLOPT_XFERINFODATA, exchange);
        SET(CURLOPT_NOPROGRESS, 0L);
        return 0;
}

int nb_http_exchange_setup(struct nb_http_exchange *exchange) {
        curl_easy_reset(exchange->easy);
        if (set_connection(exchange, false) < 0 || set_tls(exchange) < 0 ||
            set_content(exchange) < 0)
                return -EIO;
        return set_behaviour(exchange);
}
