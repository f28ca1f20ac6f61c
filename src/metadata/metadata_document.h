/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The documents in which clouds keep values. No I/O. A value may be a token, and is returned as a
 * secret; the document passes through a parser whose memory is not wiped.
 */

#include <stddef.h>

#include "base/failure.h"
#include "base/secret.h"

#define NB_METADATA_TAGS_MAX 256 /* Azure allows 50 */

/*
 * The value of Azure's tag `name`, of tagsList: [{"name": ..., "value": ...}]. 1, 0 for none or an
 * empty one, NB_METADATA_MALFORMED; `what` names the document in messages.
 */
int nb_metadata_tag(const char *json, size_t len, const char *what, const char *name,
                    struct nb_secret *ret, struct nb_failure *f);

/* The host name in NoCloud's meta-data, which is YAML: local-hostname or hostname. As above. */
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
