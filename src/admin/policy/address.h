/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Hosts: IP addresses and DNS names. IPv4 is kept as IPv4-mapped IPv6 (RFC 4291, section 2.5.5.2),
 * so 10.0.0.1 and ::ffff:10.0.0.1 are the same address. A folded host is the form in which equal
 * hosts are equal texts: an address as IPv6; a name in lower case and without a trailing dot, which
 * resolvers and verifiers ignore.
 */

#include <netinet/in.h>
#include <stdbool.h>

#include "codec/dns_name.h"

#define NB_HOST_SIZE (NB_DNS_NAME_MAX + 1)

/* Unspecified, loopback, link-local, multicast and broadcast (RFC 6890, RFC 4291): not an address
 * at which others can reach one machine. */
#define NB_SPECIAL_PREFIXES \
        "0.0.0.0/8,127.0.0.0/8,169.254.0.0/16,224.0.0.0/4,255.255.255.255/32,::/128,::1/128," \
        "fe80::/10,ff00::/8"

struct nb_prefix {
        struct in6_addr base;
        unsigned len; /* in bits; 128: one address */
};

/* Parses an address. 0 or -EINVAL. */
int nb_address_parse(const char *text, struct nb_prefix *ret_address);

/* The same, or an address and a length such as "10.0.0.0/8". Bits beyond the length are ignored, as
 * in objects of Kubernetes. */
int nb_prefix_parse(const char *text, struct nb_prefix *ret_prefix);

/* Whether the text is an address with a length, and no bit is set beyond it. */
bool nb_prefix_is_exact(const char *text);

/* Whether the prefix contains the address, or all of another prefix. An IPv6 prefix such as ::/0
 * contains no IPv4 address. */
bool nb_prefix_contains(const struct nb_prefix *prefix, const struct nb_prefix *address);

/* Folds a host. -EINVAL if it is neither an address nor a DNS name, for example with a wildcard. */
int nb_host_fold(const char *text, char ret_host[static NB_HOST_SIZE]);

/* Whether the text is a DNS name in lower case, which may have the form of an IPv4 address. */
bool nb_host_is_name(const char *text);

/* Of a folded host. */
bool nb_host_is_address(const char *host);

/* Whether a list of hosts and prefixes, such as "10.0.0.0/8,fd00::5,a.example.org", contains the
 * host, or all of a prefix. */
bool nb_hosts_contain(const char *hosts, const char *host);
