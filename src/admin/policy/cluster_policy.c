/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "admin/policy/cluster_policy.h"
#include "base/macro.h"

static bool read_proof(const char *text, struct nb_policy *policy) {
        policy->is_proof_required = !strcmp(text, "true");
        return policy->is_proof_required || !strcmp(text, "false");
}

static bool read_prefixes(const char *text, struct nb_policy *policy) {
        return nb_prefixes_parse(text, &policy->serving) >= 0;
}

static bool read_services(const char *text, struct nb_policy *policy) {
        return nb_prefixes_parse(text, &policy->services) >= 0;
}

static bool read_suffixes(const char *text, struct nb_policy *policy) {
        for (;; text++) {
                size_t len = strcspn(text, ",");

                if (len == 0 || text[0] != '.' || policy->n_suffixes == NB_POLICY_SUFFIXES_MAX ||
                    !nb_dns_name_is_valid(text + 1, len - 1, NB_DNS_LABEL_MAX))
                        return false;
                snprintf(policy->suffixes[policy->n_suffixes++], sizeof(policy->suffixes[0]),
                         "%.*s", (int)len, text);
                text += len;
                if (!*text)
                        return true;
        }
}

static bool read_domain(const char *text, struct nb_policy *policy) {
        snprintf(policy->cluster_domain, sizeof(policy->cluster_domain), "%s", text);
        return nb_dns_name_is_valid(text, strlen(text), NB_DNS_LABEL_MAX);
}

static const struct key {
        const char *path;
        bool (*read)(const char *text, struct nb_policy *policy);
        const char *expected;
} keys[] = {
        { "data.requireProof", read_proof, "\"true\" or \"false\"" },
        { "data.servingPrefixes", read_prefixes,
          "prefixes such as 10.0.0.0/8,fd00::/8, without bits behind the length" },
        { "data.servingSuffixes", read_suffixes,
          "suffixes such as .nodes.example.org, in lower case" },
        { "data.serviceNetworks", read_services,
          "prefixes such as 10.96.0.0/12, without bits behind the length" },
        { "data.clusterDomain", read_domain, "a DNS name such as cluster.local, in lower case" },
};

void nb_policy_read(struct nb_json *json, struct nb_policy *ret_policy) {
        struct nb_policy policy = { .cluster_domain = "cluster.local" };
        const char *binary = nb_json_next_key(json, "binaryData", NULL);

        if (binary)
                nb_json_refuse(json, "binaryData", "no keys", binary);
        for (const char *name = NULL; (name = nb_json_next_key(json, "data", name));) {
                const char *text;
                size_t i = 0;

                while (i < N_ELEMENTS(keys) && strcmp(keys[i].path + strlen("data."), name) != 0)
                        i++;
                if (i == N_ELEMENTS(keys)) {
                        nb_json_refuse(
                                json, "data",
                                "requireProof, servingPrefixes, servingSuffixes, serviceNetworks "
                                "and clusterDomain only",
                                name);
                        continue;
                }
                text = nb_json_string(json, keys[i].path);
                if (!text || !keys[i].read(text, &policy))
                        nb_json_refuse(json, keys[i].path, keys[i].expected, text);
        }
        if (json->r >= 0)
                *ret_policy = policy;
}
