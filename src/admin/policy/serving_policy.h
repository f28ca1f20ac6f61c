/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether a node gets the serving certificate that it requests. A certificate for a name of another
 * machine would let the node impersonate that one, and a Node's addresses come from the node, so
 * every alternative name must meet all of these conditions:
 *
 *  - it belongs to nobody else (hosts.h), and is not a name of the cluster or the local host,
 *  - it is allowed to this node. An address: enrolled for it, or, if no address is, within the
 *    prefixes of the policy. A DNS name: the node's name, one that is enrolled for it, or, if it is
 *    enrolled, its name with a suffix of the policy. Nothing in the cluster proves later that a
 *    token was bound to a node, so a node that is not enrolled may have chosen its name itself.
 *  - it is an address in the Node's status.
 *
 * The decision is a pure function, for the controller and `approve`.
 */

#include <stdbool.h>
#include <time.h>

#include "admin/policy/cluster_policy.h"
#include "admin/policy/hosts.h"
#include "admin/policy/node_record.h"
#include "admin/policy/node_request.h"
#include "codec/json.h"

#define NB_SERVING_REASON_SIZE 640

struct nb_node_facts {
        bool is_ready, is_being_deleted;
        time_t created;
        /* Of all types, each followed by a comma. An address with a comma counts as two, which the
         * node might also have set. */
        char addresses[NB_LIST_SIZE];
};

/* Reads a Node. Addresses that do not fit are left out, so that no name matches them. */
void nb_node_facts_read(struct nb_json *json, struct nb_node_facts *ret_node);

struct nb_serving_case {
        const struct nb_node_request *request;
        const struct nb_hosts *hosts;
        const struct nb_policy *policy;      /* NULL: there is none */
        const char *policy_flaw;             /* why the policy cannot be used; NULL if it can */
        const struct nb_node_record *record; /* NULL: the node is not enrolled */
        const char *record_flaw;             /* the same for the record */
        bool is_removed;                     /* the enrolled node, since the request was made */
        const struct nb_node_facts *node;    /* NULL: there is no such Node */
};

/* In the order in which they are checked. */
enum nb_serving_verdict {
        NB_SERVING_APPROVED,
        NB_SERVING_MALFORMED,        /* final: the request itself is wrong */
        NB_SERVING_NOT_ITS_OWN,      /* a name of somebody else */
        NB_SERVING_NETWORKS_UNKNOWN, /* the networks of Services */
        NB_SERVING_NO_POLICY,        /* no policy, or one that cannot be used */
        NB_SERVING_RECORD_UNUSABLE,
        NB_SERVING_NODE_REMOVED, /* since the request was made */
        NB_SERVING_NOT_ALLOWED,
        NB_SERVING_NO_NODE,
        NB_SERVING_NOT_IN_STATUS,
        _NB_SERVING_VERDICT_N,
};

/* If the request is not approved, `ret_reason` is the end of a sentence; it is printable. Each
 * verdict but APPROVED and MALFORMED may change with the cluster. */
enum nb_serving_verdict nb_serving_decide(const struct nb_serving_case *c,
                                          enum nb_serving_verdict first,
                                          enum nb_serving_verdict last,
                                          char ret_reason[static NB_SERVING_REASON_SIZE]);

/* Whether an administrator may approve the request nevertheless: the reason is about this node
 * alone. */
bool nb_serving_is_forcible(enum nb_serving_verdict verdict);

/* The reason in the Event and the condition of the CSR, such as "ServingNotAllowed". */
const char *nb_serving_verdict_name(enum nb_serving_verdict verdict);
