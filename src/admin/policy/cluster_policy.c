/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "admin/policy/address.h"
#include "admin/policy/cluster_policy.h"
#include "base/macro.h"

static bool is_boolean(const char *text) {
        return !strcmp(text, "true") || !strcmp(text, "false");
}

static bool is_user(const char *text) {
        return text[0];
}

static bool is_suffix(const char *text) {
        return text[0] == '.' && nb_host_is_name(text + 1);
}

static bool is_network(const char *text) {
        return !strcmp(text, NB_POLICY_NONE) || nb_prefix_is_exact(text);
}

static bool is_refusable(const char *text) {
        struct nb_prefix address;

        return nb_prefix_is_exact(text) || nb_address_parse(text, &address) >= 0 ||
               nb_host_is_name(text);
}

#define NETWORKS \
        "prefixes such as 10.96.0.0/12, without bits behind the length, or '" NB_POLICY_NONE "'"

static const struct nb_data_field fields[] = {
        { "requireProof", "\"true\" or \"false\"", is_boolean, false,
          NB_DATA_FIELD(struct nb_policy, require_proof) },
        { "requestors", "names of users, separated by commas", is_user, true,
          NB_DATA_FIELD(struct nb_policy, requestors) },
        { "servingPrefixes", "prefixes such as 10.0.0.0/8,fd00::/8, without bits behind the length",
          nb_prefix_is_exact, true, NB_DATA_FIELD(struct nb_policy, serving_prefixes) },
        { "servingNames", "suffixes such as .nodes.example.org, in lower case", is_suffix, true,
          NB_DATA_FIELD(struct nb_policy, serving_names) },
        { "servingRefused", "addresses, prefixes and DNS names in lower case", is_refusable, true,
          NB_DATA_FIELD(struct nb_policy, serving_refused) },
        { "serviceNetworks", NETWORKS, is_network, true,
          NB_DATA_FIELD(struct nb_policy, service_networks) },
        { "podNetworks", NETWORKS, is_network, true,
          NB_DATA_FIELD(struct nb_policy, pod_networks) },
};

void nb_policy_read(struct nb_json *json, struct nb_policy *ret_policy) {
        struct nb_policy policy = { 0 };
        const char *binary = nb_json_next_key(json, "binaryData", NULL);

        if (binary)
                nb_json_refuse(json, "binaryData", "no keys", binary);
        nb_data_read(json, fields, N_ELEMENTS(fields), false, &policy);
        if (policy.serving_prefixes[0] &&
            (!policy.serving_refused[0] || !policy.service_networks[0] || !policy.pod_networks[0]))
                nb_json_refuse(json, "data",
                               "servingRefused, serviceNetworks and podNetworks beside "
                               "servingPrefixes, each with a value or '" NB_POLICY_NONE "'",
                               NULL);
        policy.is_proof_required = !strcmp(policy.require_proof, "true");
        if (json->r >= 0)
                *ret_policy = policy;
}
