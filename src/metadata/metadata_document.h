/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Documents in which clouds keep values, other than JSON. No I/O. */

#include <stddef.h>

#include "base/failure.h"
#include "base/secret.h"

/* The host name in NoCloud's meta-data, which is YAML: local-hostname or hostname. 1, 0 for none,
 * NB_METADATA_MALFORMED; `what` names the document in messages. */
int nb_metadata_seed_name(const char *yaml, size_t len, const char *what, struct nb_secret *ret,
                          struct nb_failure *f);

/*
 * The IPv4 address of the DHCP server in a lease of systemd-networkd (SERVER_ADDRESS=) or dhclient
 * (the last dhcp-server-identifier). 0, or -ENOENT for none, or for an address that no other
 * machine can have.
 */
#define NB_LEASE_ADDRESS_SIZE 16
int nb_metadata_lease_server(const char *lease, size_t len,
                             char ret_address[static NB_LEASE_ADDRESS_SIZE]);
