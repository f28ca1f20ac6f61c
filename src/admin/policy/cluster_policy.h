/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The policy of a cluster: the ConfigMap node-bootstrap-policy in kube-system, which the controller
 * and `requests` read for each decision. Its data, all optional:
 *
 *      requireProof     "true": each request to join needs a proof by an enrolled key
 *      requestors       "system:serviceaccount:kube-system:joiner": who submits requests to join,
 *                       besides bootstrap tokens; only an administrator approves these
 *      servingNames     ".nodes.example.org": suffixes of the names of nodes
 *      servingPrefixes  "10.0.0.0/8,fd00::/8": the addresses that serving certificates may have;
 *                       with it, the following are mandatory, and "none" is a value
 *      servingRefused   "10.0.0.9,10.9.0.0/16,api.example.org": API servers, their virtual
 *                       addresses, load balancers
 *      serviceNetworks  "10.96.0.0/12"
 *      podNetworks      "10.244.0.0/16"
 */

#include <stdbool.h>

#include "admin/policy/data_fields.h"
#include "codec/json.h"

#define NB_POLICY_NAME "node-bootstrap-policy"
#define NB_POLICY_NONE "none"

struct nb_policy {
        bool is_proof_required;
        /* As in the ConfigMap; "": not set. */
        char require_proof[8];
        char requestors[NB_LIST_SIZE];
        char serving_prefixes[NB_LIST_SIZE];
        char serving_names[NB_LIST_SIZE];
        char serving_refused[NB_LIST_SIZE];
        char service_networks[NB_LIST_SIZE];
        char pod_networks[NB_LIST_SIZE];
};

/* Reads the ConfigMap. json->r is set with NB_ANSWER_MALFORMED for a value that cannot be parsed
 * and for an unknown key, which may be a limit that is misspelled. */
void nb_policy_read(struct nb_json *json, struct nb_policy *ret_policy);
