/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The addresses of this machine, from /proc/self/net: the services may not use netlink, nor may the
 * root side open a socket of the Internet. Without loopback and link-local addresses.
 */

#include <stdbool.h>

#include "base/buffer.h"

/* More than this: not read, and the addresses are unknown. A route has about 100 bytes. */
#define NB_ADDRESSES_TABLE_MAX (8 * 1024 * 1024)
#define NB_ADDRESSES_MAX (64 * 1024)

/* Appends the addresses as inet_ntop() writes them, a line each. -errno. */
int nb_addresses_read(struct nb_buffer *ret);

/* Whether the lines contain this address, as inet_ntop() writes it. */
bool nb_addresses_contain(const struct nb_buffer *lines, const char *address);

/* The contents of fib_trie and of if_inet6. Lines of another form are ignored. */
void nb_addresses_parse_v4(const char *fib_trie, struct nb_buffer *ret);
void nb_addresses_parse_v6(const char *if_inet6, struct nb_buffer *ret);
