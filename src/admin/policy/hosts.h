/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which addresses the Nodes report, and what is enrolled for which node: a node does not get the
 * address of another one by the prefixes of the policy alone. A snapshot of the cluster that all
 * waiting requests share, since listing all Nodes for each request would cost more than the
 * request.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "admin/policy/address.h"
#include "codec/json.h"

#define NB_HOSTS_MAX 1000000      /* names and addresses, in all */
#define NB_HOSTS_AGE_MAX_MS 10000 /* of a snapshot that a decision is made with */

struct nb_owned {
        struct nb_owned *next;
        bool is_enrolled; /* otherwise the Node reports it */
        char *owner;      /* the name of the node */
        char host[];      /* as nb_host_fold(); then the owner */
};

struct nb_hosts {
        uint64_t read_ms;   /* nb_now_ms() when all was read; 0: not yet */
        bool is_incomplete; /* an object could not be read, or there is no room */
        struct nb_owned *first;
        size_t n;
};

/* Adds an address, or a DNS name if it is enrolled. Other text is left out: no request can ask for
 * it. */
void nb_hosts_add(struct nb_hosts *hosts, const char *host, const char *owner, bool is_enrolled);

/* Adds what a Node or a record has, for each item of a list; without a root, it is an object that
 * cannot be read. `userdata` is a struct nb_hosts. 0. */
int nb_hosts_add_object(void *userdata, struct nb_json *json);

/* A node other than this one that has the folded host; NULL: none. */
const struct nb_owned *nb_hosts_find(const struct nb_hosts *hosts, const char *host,
                                     const char *node);

bool nb_hosts_is_fresh(const struct nb_hosts *hosts, uint64_t now_ms);

void nb_hosts_done(struct nb_hosts *hosts);
