/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether this is the machine that joined, or a copy of it. Three facts decide:
 *
 *      host name       in lower case; unknown if nobody has set it (nb_host_name_is_set())
 *      machine ID      /etc/machine-id; unknown if it is empty, "uninitialized", or transient: on a
 *                      mount of its own (machine-id(5))
 *      hardware ID     the product UUID of DMI, otherwise the serial number in the device tree;
 *                      unknown in a container, which sees those of its host, and if the vendor has
 *                      not set it
 *
 * One fact may change on the same machine: it was renamed, got another mainboard, or was restored
 * from a backup. A machine of which two have changed is a copy.
 */

#include <stdbool.h>

#include "state_files/record.h"

/* Missing facts are "". -ENOMEM; -EIO without SHA-256 (nb_sha256()). */
int nb_facts_read(int root_fd, struct nb_facts *ret_facts);

enum nb_likeness {
        NB_LIKENESS_SAME,    /* at most one fact differs */
        NB_LIKENESS_UNKNOWN, /* a copy, if facts that are unknown now differ too */
        NB_LIKENESS_COPY,
};

/* Pure. */
enum nb_likeness nb_facts_compare(const struct nb_facts *now, const struct nb_facts *then);

/* Replaces the facts of a join with those that are known now. Returns whether any has changed. */
bool nb_facts_update(const struct nb_facts *now, struct nb_facts *then);

/* Adds to the facts of a join those that were not known yet, such as the machine ID of a first
 * boot, unless one differs. Returns whether there were any. */
bool nb_facts_complete(const struct nb_facts *now, struct nb_facts *then);

/* "host name and machine ID": those that differ. */
void nb_facts_describe(const struct nb_facts *now, const struct nb_facts *then, char *ret,
                       size_t size);
