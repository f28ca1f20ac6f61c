/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/macro.h"
#include "net/http_internal.h"

#define KEEPALIVE_IDLE_SEC 20L
#define KEEPALIVE_INTERVAL_SEC 10L

/* Source ports below 1024 that hardly anything listens on, as bindresvport(3) takes them. */
#define LOW_PORT_FIRST 600L
#define LOW_PORTS 424L

static bool is_success(long status) {
        return status >= 200 && status < 300;
}

static size_t body_ceiling(const struct nb_http_transfer *transfer, long status) {
        return is_success(status) ? transfer->max_body : NB_HTTP_ERROR_BODY_MAX;
}

static int take(struct nb_http_transfer *transfer, const char *data, size_t len) {
        if (transfer->secret && is_success(transfer->answer.status))
                return nb_secret_append(transfer->secret, data, len);
        return nb_buffer_append(&transfer->answer.body, data, len);
}

static size_t on_body(char *data, size_t size, size_t count, void *userdata) {
        struct nb_http_transfer *transfer = userdata;
        struct nb_http_answer *answer = &transfer->answer;
        size_t len = size * count;

        if (answer->status == 0) {
                (void)curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &answer->status);
                answer->body.max = body_ceiling(transfer, answer->status);
        }
        if (take(transfer, data, len) < 0) {
                transfer->is_too_large = true;
                return 0;
        }
        transfer->has_news = transfer->is_stream;
        return len;
}

/* The value of a header line when it is the one called `name`, without the white space around it. */
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
        struct nb_http_transfer *transfer = userdata;
        size_t len = size * count;
        char value[128];

        transfer->headers_len += len;
        if (transfer->headers_len > NB_HTTP_HEADERS_MAX) {
                transfer->is_too_large = true;
                return 0;
        }
        if (header_value(line, len, "Date", value, sizeof(value))) {
                time_t date = curl_getdate(value, NULL);

                transfer->answer.date = date > 0 ? date : 0;
        } else if (header_value(line, len, "Retry-After", value, sizeof(value)))
                transfer->answer.retry_after_ms = retry_after(value);
        else if (header_value(line, len, "Location", value, sizeof(value)))
                memcpy(transfer->answer.location, value, sizeof(value));
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

static int set_url_metadata(struct nb_http_transfer *transfer, const char *url) {
        const char *slashes = strstr(url, "//");

        assert(slashes);
        if (transfer->http->is_verified)
                assert(!strncmp(url, "https://", strlen("https://")));
        else
                assert(!strncmp(url, "http://", strlen("http://")) && nb_http_is_address(slashes + 2, strcspn(slashes + 2, "/")));
        return curl_easy_setopt(transfer->easy, CURLOPT_URL, url) == CURLE_OK ? 0 : -EIO;
}

/* Name and certificate are checked against the URL's host, so a tls-server-name goes there, and the address goes into CONNECT_TO. */
static int set_url(struct nb_http_transfer *transfer, const char *url) {
        const char *name = transfer->http->tls_server_name;
        _cleanup_(nb_freep) char *renamed = NULL, *connect_to = NULL;
        const char *host = url + strlen("https://"), *path = strchr(host, '/');
        const char *port;

        if (transfer->http->is_metadata)
                return set_url_metadata(transfer, url);
        assert(!strncmp(url, "https://", strlen("https://")) && path);
        transfer->is_address = nb_http_is_address(host, (size_t)(path - host));
        if (!name[0])
                return curl_easy_setopt(transfer->easy, CURLOPT_URL, url) == CURLE_OK ? 0 : -EIO;
        port = memrchr(host, ':', (size_t)(path - host));
        assert(port);
        if (asprintf(&renamed, "https://%s%s", name, port) < 0)
                return -ENOMEM;
        if (asprintf(&connect_to, "::%.*s", (int)(path - host), host) < 0)
                return -ENOMEM;
        transfer->connect_to = curl_slist_append(NULL, connect_to);
        if (!transfer->connect_to)
                return -ENOMEM;
        if (curl_easy_setopt(transfer->easy, CURLOPT_CONNECT_TO, transfer->connect_to) != CURLE_OK)
                return -EIO;
        return curl_easy_setopt(transfer->easy, CURLOPT_URL, renamed) == CURLE_OK ? 0 : -EIO;
}

/* Among what CURLOPT_CERTINFO collects, also of a chain that then does not verify. */
const char *nb_http_leaf(CURL *easy) {
        static const char name[] = "Cert:";
        const struct curl_certinfo *chain = NULL;

        if (curl_easy_getinfo(easy, CURLINFO_CERTINFO, &chain) != CURLE_OK || !chain || chain->num_of_certs < 1)
                return NULL;
        for (const struct curl_slist *line = chain->certinfo[0]; line; line = line->next)
                if (!strncmp(line->data, name, strlen(name)))
                        return line->data + strlen(name);
        return NULL;
}

/*
 * Any client certificate of the cluster that carries the right name or address would do otherwise. A connection that is used again was
 * looked at when it was made.
 */
static int before_request(void *userdata, _unused_ char *ip, _unused_ char *local_ip, _unused_ int port, _unused_ int local_port) {
        struct nb_http_transfer *transfer = userdata;
        const char *leaf;
        long n_connects = 1;

        (void)curl_easy_getinfo(transfer->easy, CURLINFO_NUM_CONNECTS, &n_connects);
        if (n_connects == 0)
                return CURL_PREREQFUNC_OK;
        leaf = nb_http_leaf(transfer->easy);
        transfer->is_no_server = !leaf || !transfer->http->is_server(leaf, strlen(leaf));
        return transfer->is_no_server ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

#define SET(option, value) \
        do { \
                if (curl_easy_setopt(transfer->easy, option, value) != CURLE_OK) \
                        return nb_failure_set(f, NB_INTERNAL, EIO, "libcurl refuses " #option); \
        } while (0)

static int set_tls(struct nb_http_transfer *transfer, struct nb_failure *f) {
        const struct nb_http *http = transfer->http;

        SET(CURLOPT_PROTOCOLS_STR, http->is_metadata && !http->is_verified ? "http" : "https");
        SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
        SET(CURLOPT_SSL_VERIFYPEER, http->is_verified ? 1L : 0L);
        SET(CURLOPT_SSL_VERIFYHOST, http->is_verified ? 2L : 0L);
        /* Unset, libcurl's GnuTLS build parses the system's whole bundle on every connection: 25 ms and 11 MiB. */
        if (!http->is_verified || http->ca_fd >= 0) {
                SET(CURLOPT_CAINFO, http->is_verified ? http->ca_path : NULL);
                SET(CURLOPT_CAPATH, NULL);
        }
        if (http->certificate_fd >= 0) {
                SET(CURLOPT_SSLCERT, http->certificate_path);
                SET(CURLOPT_SSLKEY, http->key_path);
        }
        if (http->is_server || transfer->is_certificate_kept)
                SET(CURLOPT_CERTINFO, 1L);
        if (http->is_server) {
                SET(CURLOPT_PREREQFUNCTION, before_request);
                SET(CURLOPT_PREREQDATA, transfer);
        }
        return 0;
}

static int set_limits(struct nb_http_transfer *transfer, const struct nb_http_request *request, struct nb_failure *f) {
        SET(CURLOPT_CONNECTTIMEOUT_MS, (long)transfer->http->connect_timeout_ms);
        SET(CURLOPT_TIMEOUT_MS, (long)request->timeout_ms);
        if (request->silence_sec > 0) {
                SET(CURLOPT_LOW_SPEED_LIMIT, 1L);
                SET(CURLOPT_LOW_SPEED_TIME, (long)request->silence_sec);
        }
        SET(CURLOPT_TCP_KEEPALIVE, 1L);
        SET(CURLOPT_TCP_KEEPIDLE, KEEPALIVE_IDLE_SEC);
        SET(CURLOPT_TCP_KEEPINTVL, KEEPALIVE_INTERVAL_SEC);
        return 0;
}

static void add_line(struct nb_http_transfer *transfer, struct curl_slist *node, char *line) {
        *node = (struct curl_slist){ .data = line, .next = transfer->accept.next };
        transfer->accept.next = node;
}

static int set_method(struct nb_http_transfer *transfer, const struct nb_http_request *request, struct nb_failure *f) {
        const char *type = request->body_type ? request->body_type : "application/json";

        if (request->body) {
                SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_len);
                SET(CURLOPT_POSTFIELDS, request->body);
                (void)snprintf(transfer->type_line, sizeof(transfer->type_line), "Content-Type: %s", type);
                add_line(transfer, &transfer->content_type, transfer->type_line);
        } else if (request->is_put) {
                SET(CURLOPT_POSTFIELDSIZE, 0L);
                SET(CURLOPT_POSTFIELDS, "");
                SET(CURLOPT_CUSTOMREQUEST, "PUT");
                /* Without a value: libcurl leaves its own out. */
                (void)snprintf(transfer->type_line, sizeof(transfer->type_line), "Content-Type:");
                add_line(transfer, &transfer->content_type, transfer->type_line);
        }
        return 0;
}

static int set_content(struct nb_http_transfer *transfer, const struct nb_http_request *request, struct nb_failure *f) {
        int r;

        (void)snprintf(transfer->accept_line, sizeof(transfer->accept_line), "Accept: %s",
                       request->accept ? request->accept : "application/json");
        transfer->accept = (struct curl_slist){ .data = transfer->accept_line };
        r = set_method(transfer, request, f);
        if (r < 0)
                return r;
        if (request->authorization && request->authorization->data)
                add_line(transfer, &transfer->authorization, request->authorization->data);
        for (size_t i = 0; i < N_ELEMENTS(transfer->extra) && request->headers[i]; i++)
                add_line(transfer, &transfer->extra[i], request->headers[i]->data);
        for (size_t i = 0; i < N_ELEMENTS(transfer->lines) && request->lines[i]; i++) {
                assert(strlen(request->lines[i]) <= NB_HTTP_LINE_MAX);
                (void)snprintf(transfer->line[i], sizeof(transfer->line[i]), "%s", request->lines[i]);
                add_line(transfer, &transfer->lines[i], transfer->line[i]);
        }
        SET(CURLOPT_HTTPHEADER, &transfer->accept);
        return 0;
}

static int set_behaviour(struct nb_http_transfer *transfer, struct nb_failure *f) {
        SET(CURLOPT_NOSIGNAL, 1L);
        /* A resolver that hears nothing from its name servers is left behind, not waited for: it would hold up every endpoint and the
         * wish to stop. */
        SET(CURLOPT_QUICK_EXIT, 1L);
        /* What a proxy says of itself is not the server's Date or Retry-After. */
        SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
        SET(CURLOPT_FOLLOWLOCATION, 0L);
        SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
        SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
        SET(CURLOPT_USERAGENT, "node-bootstrap/" NB_VERSION);
        SET(CURLOPT_ERRORBUFFER, transfer->error);
        SET(CURLOPT_PRIVATE, transfer);
        SET(CURLOPT_WRITEFUNCTION, on_body);
        SET(CURLOPT_WRITEDATA, transfer);
        SET(CURLOPT_HEADERFUNCTION, on_header);
        SET(CURLOPT_HEADERDATA, transfer);
        if (transfer->http->is_metadata) {
                SET(CURLOPT_PROXY, "");
                SET(CURLOPT_NOPROXY, "*");
        }
        if (transfer->http->is_low_port) {
                SET(CURLOPT_LOCALPORT, LOW_PORT_FIRST);
                SET(CURLOPT_LOCALPORTRANGE, LOW_PORTS);
        }
        if (transfer->http->proxy_url[0]) {
                SET(CURLOPT_PROXY, transfer->http->proxy_url);
                /* As in client-go: NO_PROXY makes exceptions of HTTPS_PROXY alone, not of what a kubeconfig says. */
                SET(CURLOPT_NOPROXY, "");
        }
        return 0;
}

int nb_http_transfer_setup(struct nb_http_transfer *transfer, const struct nb_http_request *request, struct nb_failure *f) {
        int r;

        /* The one rule that must hold whatever else goes wrong: who has proven nothing gets no credential. Of a metadata service
         * only what it gave out itself, a session's token, goes back to it. */
        assert(!request->authorization || (transfer->http->is_verified && !transfer->http->is_metadata));
        assert(!request->headers[0] || transfer->http->is_verified || transfer->http->is_metadata);
        r = set_url(transfer, request->url);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, -r, "libcurl does not take the URL of %s", request->what);
        r = set_tls(transfer, f);
        if (r >= 0)
                r = set_limits(transfer, request, f);
        if (r >= 0)
                r = set_content(transfer, request, f);
        return r < 0 ? r : set_behaviour(transfer, f);
}
