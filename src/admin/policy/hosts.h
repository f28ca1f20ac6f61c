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
#include "codec/json.h"

#define NB_HOSTS_MAX 1000000      /* names, addresses and networks, in all */
#define NB_HOSTS_AGE_MAX_MS 10000 /* of a snapshot that a decision is made with */

enum nb_owner_kind {
        NB_OWNER_CLUSTER,  /* the API server, or a network of Services */
        NB_OWNER_SERVICE,  /* cluster addresses of a Service, which the API server assigns */
        NB_OWNER_ENROLLED, /* a node; what follows is only claimed */
        NB_OWNER_CLAIMING_SERVICE,
        NB_OWNER_CLAIMING_NODE,
        NB_OWNER_POD_NETWORK, /* of a Node */
};

struct nb_owned {
        struct nb_owned *next;
        enum nb_owner_kind kind;
        struct nb_prefix prefix; /* an address or network */
        char *owner; /* the name of the node, "NAMESPACE/NAME" of the Service, or a description */
        char name[]; /* as nb_host_fold(); "" for an address or network; then the owner */
};

struct nb_hosts {
        uint64_t read_ms; /* nb_now_ms() when it was complete; 0: not yet */
        bool has_service_networks;
        struct nb_owned *first; /* the one that was added last */
        size_t n;
        int error; /* as nb_hosts_add() returns it */
};

/* A text that is no host is left out: no request can ask for it. 0, -ENOMEM, -E2BIG: the error of
 * this call or an earlier one, so check it after the last call. */
int nb_hosts_add(struct nb_hosts *hosts, enum nb_owner_kind kind, const char *host,
                 const char *owner);

/* Each adds what an object owns, and is called for each item of a list; `userdata` is a
 * struct nb_hosts. Returns the error of the object; that of the snapshot is in `error`. */
int nb_hosts_add_node(void *userdata, struct nb_json *json);
int nb_hosts_add_service(void *userdata, struct nb_json *json);
int nb_hosts_add_service_network(void *userdata, struct nb_json *json); /* a ServiceCIDR */
int nb_hosts_add_endpoints(void *userdata, struct nb_json *json);       /* of the API server */
int nb_hosts_add_record(void *userdata, struct nb_json *json);

/* Finds the owner of the folded host, or of a network that contains it, other than `node`; of
 * several, one of the kind that comes first; NULL: none. Claims are ignored with `is_enrolled`: the
 * host is enrolled for `node`. */
const struct nb_owned *nb_hosts_find(const struct nb_hosts *hosts, const char *host,
                                     const char *node, bool is_enrolled);

bool nb_hosts_is_fresh(const struct nb_hosts *hosts, uint64_t now_ms);

void nb_hosts_done(struct nb_hosts *hosts);
