/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether a node gets the serving certificate that it requests. A certificate for a name of another
 * machine would let the node impersonate it, and a Node's addresses come from the node itself, so
 * every alternative name must meet all of these conditions:
 *
 *  - it is an address in the Node's status,
 *  - it is within the configured prefixes or suffixes. A DNS name is the node's name, or the
 *    first label of the node's name with a configured suffix; with an inventory that lists names
 *    for the node, any name with such a suffix,
 *  - it is listed in the inventory, if it lists names for the node,
 *  - it is not a name or address of the API server, of a Service or of the local host.
 *
 * The decision is a pure function. A request that is refused stays pending: an administrator may
 * still approve it.
 */

#include <stdbool.h>
#include <stddef.h>

#include "admin/policy/address.h"
#include "admin/policy/node_record.h"
#include "admin/policy/node_request.h"
#include "codec/dns_name.h"
#include "codec/json.h"

#define NB_SERVING_SUFFIXES_MAX 32
#define NB_SERVING_ADDRESSES_MAX 64 /* of a Node */
#define NB_SERVING_ENDPOINTS_MAX 64
#define NB_SERVING_REASON_SIZE 640

struct nb_serving_policy {
        struct nb_prefixes addresses; /* --serving-prefixes */
        struct nb_prefixes services;  /* --service-cidrs */
        unsigned n_suffixes;
        char suffixes[NB_SERVING_SUFFIXES_MAX][NB_DNS_NAME_MAX + 2]; /* ".nodes.example.org" */
        char cluster_domain[NB_DNS_NAME_MAX + 1];
};

/* Options as they are on the command line; NULL if an option is not used. */
struct nb_serving_options {
        const char *prefixes;       /* "10.0.0.0/8,fd00::/8" */
        const char *names;          /* ".nodes.example.org,.compute.internal" */
        const char *service_cidrs;  /* "10.96.0.0/12" */
        const char *cluster_domain; /* "cluster.local" */
};

/* Parses the options. 0; NB_USAGE if a value is invalid: the failure names the option. */
int nb_serving_policy_init(const struct nb_serving_options *options,
                           struct nb_serving_policy *ret_policy, struct nb_failure *f);

/* Names and addresses by which the API server is reached. */
struct nb_serving_endpoints {
        unsigned n;
        char hosts[NB_SERVING_ENDPOINTS_MAX][NB_REQUEST_TEXT_SIZE];
};

/* 0; -E2BIG if the host is too long or the list is full. */
int nb_serving_endpoints_add(struct nb_serving_endpoints *endpoints, const char *host);

/* A Node, with the addresses in its status, of all types. */
struct nb_node_facts {
        bool is_ready, is_being_deleted;
        time_t created;
        unsigned n_addresses;
        char addresses[NB_SERVING_ADDRESSES_MAX][NB_REQUEST_TEXT_SIZE];
};

/* Reads a Node. Addresses that do not fit are left out, so that no name matches them. */
void nb_node_facts_read(struct nb_json *json, struct nb_node_facts *ret_node);

struct nb_serving_case {
        const struct nb_serving_policy *policy;
        const struct nb_serving_endpoints *endpoints;
        const struct nb_node_request *request;
        const struct nb_node_facts *node;    /* NULL: there is no such Node */
        const struct nb_node_record *record; /* NULL: the node is not enrolled */
};

enum nb_serving_verdict {
        NB_SERVING_APPROVED,
        NB_SERVING_REFUSED, /* a change of the Node or inventory cannot help */
        /* Not now; a change of the Node or the inventory may help. */
        NB_SERVING_NOT_LISTED,
        NB_SERVING_NO_NODE,
        NB_SERVING_NOT_IN_STATUS,
        _NB_SERVING_VERDICT_N,
};

/* If the request is not approved, `ret_reason` is the end of a sentence; it is printable. */
enum nb_serving_verdict nb_serving_decide(const struct nb_serving_case *c,
                                          char ret_reason[static NB_SERVING_REASON_SIZE]);
