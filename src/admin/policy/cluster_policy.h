/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The policy of a cluster: the ConfigMap node-bootstrap-policy in kube-system, which the controller
 * and `approve` read for each decision. Its data, all optional:
 *
 *      requireProof     "true": each request to join needs a proof by an enrolled key
 *      servingPrefixes  "10.0.0.0/8,fd00::/8": the addresses that serving certificates may have
 *      servingSuffixes  ".nodes.example.org": what may follow the node's name in a DNS name
 *      servingRefused   "10.0.0.9,10.9.0.0/16,api.example.org": what no node may have
 *      serviceNetworks  "10.96.0.0/12": addresses of Services
 *      clusterDomain    "cluster.local": the domain of Services
 */

#include <stdbool.h>

#include "admin/policy/data_fields.h"
#include "codec/dns_name.h"
#include "codec/json.h"

#define NB_POLICY_NAME "node-bootstrap-policy"

struct nb_policy {
        bool is_proof_required;
        /* As in the ConfigMap; "": not set. */
        char require_proof[8];
        char serving_prefixes[NB_LIST_SIZE];
        char serving_suffixes[NB_LIST_SIZE];
        char serving_refused[NB_LIST_SIZE];
        char service_networks[NB_LIST_SIZE];
        char cluster_domain[NB_DNS_NAME_MAX + 1];
};

/* Reads the ConfigMap. json->r is set with NB_ANSWER_MALFORMED for a value that cannot be parsed
 * and for an unknown key, which may be a limit that is misspelled. */
void nb_policy_read(struct nb_json *json, struct nb_policy *ret_policy);
