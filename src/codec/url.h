/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The address of an API server: an https URL with an optional path prefix, or an endpoint
 * `host:port`. Nothing else of RFC 3986 is accepted, and nothing that a shell interprets. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NB_HOST_MAX 253
#define NB_URL_PATH_MAX 255
#define NB_URL_MAX 600
#define NB_API_SERVER_PORT 6443 /* kubeadm's default; for an endpoint without a port */
#define NB_RKE2_SUPERVISOR_PORT 9345

struct nb_url {
        char host[NB_HOST_MAX + 1]; /* lower case; IPv6 without brackets, as in RFC 5952 */
        bool is_ipv6;
        uint16_t port;
        char path[NB_URL_PATH_MAX + 1]; /* "" or "/prefix", never with a trailing '/' */
};

/* `https://host[:port][/prefix]`; the default port is 443. As in Go, a host name may end with a
 * dot, which is removed. 0 or -EINVAL. */
int nb_url_parse(const char *text, size_t len, struct nb_url *ret_url);

/* `host[:port]`, `[v6]:port`, `[v6]`, a bare IPv6 address. 0 or -EINVAL. */
int nb_endpoint_parse(const char *text, size_t len, struct nb_url *ret_url);

/* Whether the last group of an IPv6 address is the usual port of an API server, and the port the
 * default one: the brackets are missing in "fd00::2:6443". `ret_likely` is what was meant, with a
 * port: "[fd00::2]:6443"; also if it returns false. */
bool nb_endpoint_lacks_brackets(const struct nb_url *url, char ret_likely[static NB_URL_MAX]);

/* "https://host:port/prefix" and "host:port", IPv6 in brackets. */
void nb_url_format(const struct nb_url *url, char ret[static NB_URL_MAX]);
void nb_endpoint_format(const struct nb_url *url, char ret[static NB_URL_MAX]);

/* The same host, port and prefix. */
bool nb_url_is_equal(const struct nb_url *a, const struct nb_url *b);

/* A host name for TLS: 0 or -EINVAL. */
int nb_tls_server_name_verify(const char *text);

/* http, https or socks5 with host and port, without a user: 0 or -EINVAL. */
#define NB_PROXY_URL_MAX 255
int nb_proxy_url_verify(const char *text);
