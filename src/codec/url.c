/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "codec/dns_name.h"
#include "codec/url.h"

#define HTTPS_PORT 443

static bool is_digit(char c) {
        return c >= '0' && c <= '9';
}

/* Plain decimal, 1 to 65535. */
static int parse_port(const char *text, size_t len, uint16_t *ret_port) {
        unsigned long port = 0;

        if (len == 0 || len > 5 || text[0] == '0')
                return -EINVAL;
        for (size_t i = 0; i < len; i++) {
                if (!is_digit(text[i]))
                        return -EINVAL;
                port = port * 10 + (unsigned long)(text[i] - '0');
        }
        if (port > UINT16_MAX)
                return -EINVAL;
        *ret_port = (uint16_t)port;
        return 0;
}

static int parse_ipv6(const char *text, size_t len, struct nb_url *url) {
        char address[INET6_ADDRSTRLEN];
        struct in6_addr binary;

        if (len >= sizeof(address))
                return -EINVAL;
        memcpy(address, text, len);
        address[len] = '\0';
        if (memchr(text, '\0', len) || inet_pton(AF_INET6, address, &binary) != 1)
                return -EINVAL;
        if (!inet_ntop(AF_INET6, &binary, url->host, sizeof(url->host)))
                return -EINVAL;
        url->is_ipv6 = true;
        return 0;
}

/* Resolvers fall back to inet_aton(), which also reads "1.2", "0x7f.1" and "017700000001" as
 * addresses. A host that ends in a number must be a dotted quad. */
static bool is_numeric(const char *host) {
        const char *dot = strrchr(host, '.'), *label = dot ? dot + 1 : host;

        if (label[0] == '0' && label[1] == 'x')
                return label[2 + strspn(label + 2, "0123456789abcdef")] == '\0';
        return label[strspn(label, "0123456789")] == '\0';
}

static int parse_name_or_ipv4(const char *text, size_t len, struct nb_url *url) {
        struct in_addr binary;

        if (len > NB_HOST_MAX)
                return -EINVAL;
        for (size_t i = 0; i < len; i++)
                url->host[i] = (text[i] >= 'A' && text[i] <= 'Z') ? (char)(text[i] - 'A' + 'a')
                                                                  : text[i];
        url->host[len] = '\0';
        if (!nb_dns_name_is_valid(url->host, len, NB_DNS_LABEL_MAX))
                return -EINVAL;
        if (is_numeric(url->host) && inet_pton(AF_INET, url->host, &binary) != 1)
                return -EINVAL;
        url->is_ipv6 = false;
        return 0;
}

/* `host[:port]` or `[v6][:port]`. */
static int parse_authority(const char *text, size_t len, uint16_t default_port,
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
                r = parse_name_or_ipv4(text, host_len, url);
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

/* No shell interprets these: messages suggest commands that contain the URL. */
static bool is_path_character(char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) ||
               (c != '\0' && strchr("-._~:+,=", c));
}

static bool is_dot_segment(const char *text, size_t len) {
        return (len == 1 && text[0] == '.') || (len == 2 && text[0] == '.' && text[1] == '.');
}

static int parse_path(const char *text, size_t len, struct nb_url *url) {
        size_t start = 1;

        if (len > 0 && text[len - 1] == '/')
                len--;
        if (len > NB_URL_PATH_MAX)
                return -EINVAL;
        for (size_t i = start; i <= len && len > 0; i++) {
                if (i < len && text[i] != '/') {
                        if (!is_path_character(text[i]))
                                return -EINVAL;
                        continue;
                }
                if (i == start || is_dot_segment(text + start, i - start))
                        return -EINVAL;
                start = i + 1;
        }
        memcpy(url->path, text, len);
        url->path[len] = '\0';
        return 0;
}

int nb_url_parse(const char *text, size_t len, struct nb_url *ret_url) {
        static const char scheme[] = "https://";
        const size_t scheme_len = strlen(scheme);
        struct nb_url url = {};
        const char *slash;
        size_t authority_len;
        int r;

        if (len < scheme_len || strncasecmp(text, scheme, scheme_len) != 0)
                return -EINVAL;
        text += scheme_len;
        len -= scheme_len;

        slash = memchr(text, '/', len);
        authority_len = slash ? (size_t)(slash - text) : len;
        r = parse_authority(text, authority_len, HTTPS_PORT, &url);
        if (r < 0)
                return r;
        r = parse_path(text + authority_len, len - authority_len, &url);
        if (r < 0)
                return r;
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
                r = parse_authority(text, len, NB_API_SERVER_PORT, &url);
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

/* The port must be there: without one, curl and Go use different ports. */
int nb_proxy_url_verify(const char *text) {
        static const char *const schemes[] = { "http://", "https://", "socks5://" };
        struct nb_url url;

        if (strlen(text) > NB_PROXY_URL_MAX)
                return -EINVAL;
        for (size_t i = 0; i < N_ELEMENTS(schemes); i++) {
                const char *authority = text + strlen(schemes[i]), *colon;

                if (strncmp(text, schemes[i], strlen(schemes[i])) != 0)
                        continue;
                colon = strrchr(authority, ':');
                if (!colon || !colon[1] || colon[1 + strspn(colon + 1, "0123456789")])
                        return -EINVAL;
                if (authority[0] != '[' && strchr(authority, ':') != colon)
                        return -EINVAL;
                return nb_endpoint_parse(authority, strlen(authority), &url);
        }
        return -EINVAL;
}
