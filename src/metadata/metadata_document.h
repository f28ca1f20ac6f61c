/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads values from documents of clouds that are not JSON. No I/O. */

#include <stddef.h>

#include "base/failure.h"
#include "base/secret.h"

/* Reads the host name from NoCloud's meta-data, which is YAML: local-hostname or hostname. `what`
 * names the document in messages. 1; 0 if there is none; NB_METADATA_MALFORMED. */
int nb_metadata_seed_name(const char *yaml, size_t len, const char *what, struct nb_secret *ret,
                          struct nb_failure *f);

/*
 * Reads the IPv4 address of the DHCP server from a lease of systemd-networkd (SERVER_ADDRESS=) or
 * dhclient (the last dhcp-server-identifier). 0; -ENOENT if there is none, or it is not a unicast
 * address of another machine.
 */
#define NB_LEASE_ADDRESS_SIZE 16
int nb_metadata_lease_server(const char *lease, size_t len,
                             char ret_address[static NB_LEASE_ADDRESS_SIZE]);
