/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* IP addresses and prefixes. IPv4 is kept as IPv4-mapped IPv6 (RFC 4291, section 2.5.5.2), so
 * 10.0.0.1 and ::ffff:10.0.0.1 are the same address. */

#include <stdbool.h>
#include <stdint.h>

#define NB_PREFIXES_MAX 32

struct nb_address {
        uint8_t bytes[16];
};

/* A list such as "10.0.0.0/8,fd00::/8". */
struct nb_prefixes {
        unsigned n;
        struct nb_prefix {
                struct nb_address base;
                unsigned len; /* in bits, of 128 */
        } items[NB_PREFIXES_MAX];
};

/* 0 or -EINVAL. */
int nb_address_parse(const char *text, struct nb_address *ret_address);

bool nb_address_is_equal(const struct nb_address *a, const struct nb_address *b);

/* Unspecified, loopback, link-local, multicast or broadcast: not an address at which
 * others can reach one machine. */
bool nb_address_is_special(const struct nb_address *address);

/* Parses a list separated by commas. Each prefix has a length, and no bit is set beyond it. 0;
 * -EINVAL; -E2BIG for more than NB_PREFIXES_MAX. */
int nb_prefixes_parse(const char *text, struct nb_prefixes *ret_prefixes);

/* A network as in an object of Kubernetes, which ignores bits beyond the length. 0 or -EINVAL. */
int nb_network_parse(const char *text, struct nb_prefix *ret_prefix);

/* Whether the prefix contains the address. An IPv6 prefix such as ::/0 contains no IPv4 address. */
bool nb_prefix_contains(const struct nb_prefix *prefix, const struct nb_address *address);

bool nb_prefixes_contain(const struct nb_prefixes *prefixes, const struct nb_address *address);
