/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which addresses and DNS names belong to whom, for the decision on serving certificates: a
 * snapshot of the cluster that all waiting requests share, since listing all Nodes for each request
 * would cost more than the request.
 *
 * What belongs to the cluster, or is enrolled, is never allowed to another node. What a Node or a
 * Service only claims (its author may be the attacker) yields to what is enrolled for a node, so
 * that a claim cannot keep a node from its own address.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "admin/policy/address.h"
#include "admin/policy/node_record.h"
#include "codec/json.h"

#define NB_HOSTS_MAX 1000000      /* names, addresses and networks, in all */
#define NB_HOSTS_AGE_MAX_MS 10000 /* of a snapshot that a decision is made with */
#define NB_HOST_SIZE (NB_DNS_NAME_MAX + 1)

enum nb_owner_kind {
        NB_OWNER_CLUSTER,  /* the API server, or a network of Services */
        NB_OWNER_SERVICE,  /* cluster addresses of a Service, which the API server assigns */
        NB_OWNER_ENROLLED, /* a node */
        _NB_OWNER_CLAIMS,  /* what follows is only claimed */
        NB_OWNER_CLAIMING_SERVICE,
        NB_OWNER_CLAIMING_NODE,
};

struct nb_owned {
        enum nb_owner_kind kind;
        char *host; /* as nb_host_fold(); NULL for a network */
        struct nb_prefix network;
        char *owner; /* the name of the node, "NAMESPACE/NAME" of the Service, or a description */
};

struct nb_hosts {
        uint64_t read_ms; /* nb_now_ms() when it was complete; 0: not yet */
        bool has_service_networks;
        struct nb_owned *items; /* networks first, then sorted by host */
        size_t n, allocated, n_networks;
        bool is_sorted;
};

/* The form in which equal addresses and equal DNS names are equal texts: an address as IPv6; a name
 * in lower case and without a trailing dot, which resolvers and verifiers ignore. -EINVAL if it is
 * neither, for example with a wildcard. */
int nb_host_fold(const char *text, char ret_host[static NB_HOST_SIZE]);

/* A text that is no host is left out: no request can ask for it. 0, -ENOMEM, -E2BIG. */
int nb_hosts_add(struct nb_hosts *hosts, enum nb_owner_kind kind, const char *host,
                 const char *owner);

/* Each adds what an object owns, and is called for each item of a list; `userdata` is a
 * struct nb_hosts. 0, or negative with NB_INTERNAL. */
int nb_hosts_add_node(void *userdata, struct nb_json *json);
int nb_hosts_add_service(void *userdata, struct nb_json *json);
int nb_hosts_add_service_network(void *userdata, struct nb_json *json); /* a ServiceCIDR */
int nb_hosts_add_endpoints(void *userdata, struct nb_json *json);       /* of the API server */
int nb_hosts_add_record(void *userdata, struct nb_json *json);

/* Finds an owner of the host, or of a network that contains it, other than `node`; NULL: none.
 * Claims are ignored with `is_enrolled`: the host is enrolled for `node`. The first call sorts the
 * snapshot. */
const struct nb_owned *nb_hosts_find(struct nb_hosts *hosts, const char *host, const char *node,
                                     bool is_enrolled);

void nb_hosts_done(struct nb_hosts *hosts);
