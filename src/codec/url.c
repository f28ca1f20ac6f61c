/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "codec/dns_name.h"
#include "codec/url.h"

#define HTTPS_PORT 443
/* Only characters that no shell interprets, because messages suggest commands that contain the
 * URL. */
#define PATH_CHARACTERS NB_LOWER NB_UPPER NB_DIGITS "-._~:+,=/"

/* Plain decimal, 1 to 65535. */
static int parse_port(const char *text, size_t len, uint16_t *ret_port) {
        unsigned port = 0;

        if (len == 0 || len > 5 || text[0] == '0')
                return -EINVAL;
        for (size_t i = 0; i < len; i++) {
                if (text[i] < '0' || text[i] > '9')
                        return -EINVAL;
                port = port * 10 + (unsigned)(text[i] - '0');
        }
        if (port > UINT16_MAX)
                return -EINVAL;
        *ret_port = (uint16_t)port;
        return 0;
}

static int parse_ipv6(const char *text, size_t len, struct nb_url *url) {
        char address[INET6_ADDRSTRLEN];
        struct in6_addr binary;

        if (len >= sizeof(address) || memchr(text, '\0', len))
                return -EINVAL;
        memcpy(address, text, len);
        address[len] = '\0';
        if (inet_pton(AF_INET6, address, &binary) != 1 ||
            !inet_ntop(AF_INET6, &binary, url->host, sizeof(url->host)))
                return -EINVAL;
        url->is_ipv6 = true;
        return 0;
}

/* Resolvers fall back to inet_aton(), which also reads "1.2", "0x7f.1" and "017700000001" as
 * addresses. A host that ends in a number must be a dotted quad. */
static bool is_numeric(const char *host) {
        const char *dot = strrchr(host, '.'), *label = dot ? dot + 1 : host;
        struct in_addr ignored;

        return label[strspn(label, NB_DIGITS)] == '\0' || inet_aton(host, &ignored);
}

static int parse_name_or_ipv4(const char *text, size_t len, struct nb_url *url) {
        struct in_addr binary;

        if (len > NB_HOST_MAX)
                return -EINVAL;
        for (size_t i = 0; i < len; i++)
                url->host[i] = (char)tolower((unsigned char)text[i]);
        url->host[len] = '\0';
        if (!nb_dns_name_is_valid(url->host, len, NB_DNS_LABEL_MAX) ||
            (is_numeric(url->host) && inet_pton(AF_INET, url->host, &binary) != 1))
                return -EINVAL;
        url->is_ipv6 = false;
        return 0;
}

/* `host[:port]` or `[v6][:port]`. */
static int parse_authority(const char *text, size_t len, uint16_t default_port, bool may_end_in_dot,
                           struct nb_url *url) {
        const char *colon;
        size_t host_len;
        int r;

        if (len > 0 && text[0] == '[') {
                const char *bracket = memchr(text, ']', len);
                if (!bracket)
                        return -EINVAL;
                host_len = (size_t)(bracket - text) + 1;
                r = parse_ipv6(text + 1, host_len - 2, url);
        } else {
                colon = memchr(text, ':', len);
                host_len = colon ? (size_t)(colon - text) : len;
                may_end_in_dot = may_end_in_dot && host_len > 1 && text[host_len - 1] == '.';
                r = parse_name_or_ipv4(text, host_len - may_end_in_dot, url);
                if (r >= 0 && may_end_in_dot && is_numeric(url->host))
                        return -EINVAL;
        }
        if (r < 0)
                return r;

        url->port = default_port;
        if (host_len == len)
                return 0;
        if (text[host_len] != ':')
                return -EINVAL;
        return parse_port(text + host_len + 1, len - host_len - 1, &url->port);
}

static int parse_path(const char *text, size_t len, struct nb_url *url) {
        char path[NB_URL_PATH_MAX + 2];

        if (len > 0 && text[len - 1] == '/')
                len--;
        if (len > NB_URL_PATH_MAX)
                return -EINVAL;
        snprintf(path, sizeof(path), "%.*s/", (int)len, text);
        if (strspn(path, PATH_CHARACTERS) != len + 1 || strstr(path, "//") || strstr(path, "/./") ||
            strstr(path, "/../"))
                return -EINVAL;
        memcpy(url->path, path, len);
        url->path[len] = '\0';
        return 0;
}

int nb_url_parse(const char *text, size_t len, struct nb_url *ret_url) {
        static const char scheme[] = "https://";
        const size_t scheme_len = strlen(scheme);
        const char *end = text + len, *path;
        struct nb_url url = {};

        if (len < scheme_len || strncasecmp(text, scheme, scheme_len) != 0)
                return -EINVAL;
        text += scheme_len;
        path = memchr(text, '/', (size_t)(end - text));
        path = path ? path : end;
        if (parse_authority(text, (size_t)(path - text), HTTPS_PORT, true, &url) < 0 ||
            parse_path(path, (size_t)(end - path), &url) < 0)
                return -EINVAL;
        *ret_url = url;
        return 0;
}

int nb_endpoint_parse(const char *text, size_t len, struct nb_url *ret_url) {
        struct nb_url url = { .port = NB_API_SERVER_PORT };
        const char *colon = memchr(text, ':', len);
        int r;

        if (colon && text[0] != '[' && memchr(colon + 1, ':', len - (size_t)(colon - text) - 1))
                r = parse_ipv6(text, len, &url);
        else
                r = parse_authority(text, len, NB_API_SERVER_PORT, false, &url);
        if (r < 0)
                return r;
        *ret_url = url;
        return 0;
}

void nb_url_format(const struct nb_url *url, char ret[static NB_URL_MAX]) {
        snprintf(ret, NB_URL_MAX, url->is_ipv6 ? "https://[%s]:%u%s" : "https://%s:%u%s", url->host,
                 (unsigned)url->port, url->path);
}

void nb_endpoint_format(const struct nb_url *url, char ret[static NB_URL_MAX]) {
        snprintf(ret, NB_URL_MAX, url->is_ipv6 ? "[%s]:%u" : "%s:%u", url->host,
                 (unsigned)url->port);
}

bool nb_endpoint_lacks_brackets(const struct nb_url *url, char ret_likely[static NB_URL_MAX]) {
        static const char *const ports[] = { "6443", "8443", "9345", "443" };
        const char *colon = strrchr(url->host, ':'), *port = colon ? colon + 1 : "";
        size_t len = (size_t)(port - url->host) - 1;
        struct nb_url likely = {};

        nb_endpoint_format(url, ret_likely);
        for (size_t i = 0; i < N_ELEMENTS(ports); i++) {
                if (!url->is_ipv6 || url->port != NB_API_SERVER_PORT || strcmp(port, ports[i]) != 0)
                        continue;
                if (parse_ipv6(url->host, len, &likely) >= 0 &&
                    parse_port(port, strlen(port), &likely.port) >= 0)
                        nb_endpoint_format(&likely, ret_likely);
                return true;
        }
        return false;
}

bool nb_url_is_equal(const struct nb_url *a, const struct nb_url *b) {
        return strcmp(a->host, b->host) == 0 && a->is_ipv6 == b->is_ipv6 && a->port == b->port &&
               strcmp(a->path, b->path) == 0;
}

int nb_tls_server_name_verify(const char *text) {
        struct nb_url url;

        /* An endpoint may have a port or be an IPv6 address, a name may not. */
        if (strchr(text, ':') || text[0] == '[')
                return -EINVAL;
        return nb_endpoint_parse(text, strlen(text), &url);
}

/* The port is required: without one, curl and Go use different ports. */
int nb_proxy_url_verify(const char *text) {
        static const char *const schemes[] = { "http://", "https://", "socks5://" };
        struct nb_url url = {};

        if (strlen(text) > NB_PROXY_URL_MAX)
                return -EINVAL;
        for (size_t i = 0; i < N_ELEMENTS(schemes); i++) {
                const char *authority = text + strlen(schemes[i]);

                if (strncmp(text, schemes[i], strlen(schemes[i])) == 0 &&
                    parse_authority(authority, strlen(authority), 0, false, &url) >= 0 &&
                    url.port > 0)
                        return 0;
        }
        return -EINVAL;
}
