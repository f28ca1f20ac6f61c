/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "admin/policy/rfc3339.h"
#include "admin/policy/serving_policy.h"
#include "base/macro.h"
#include "base/text.h"

void nb_node_facts_read(struct nb_json *json, struct nb_node_facts *ret_node) {
        const char *ready = nb_json_string(json, "status.conditions[type=Ready].status");
        const char *created = nb_json_string(json, "metadata.creationTimestamp");
        struct nb_node_facts node = { .is_ready = ready && !strcmp(ready, "True") };
        ssize_t n = nb_json_array(json, "status.addresses");
        size_t len = 0;

        if (created && nb_rfc3339_parse(created, &node.created) < 0)
                nb_json_refuse(json, "metadata.creationTimestamp", "a time", created);
        node.is_being_deleted = nb_json_string(json, "metadata.deletionTimestamp") != NULL;
        for (ssize_t i = 0; i < n; i++) {
                char path[64];
                const char *address;

                snprintf(path, sizeof(path), "status.addresses[%zd].address", i);
                address = nb_json_string(json, path);
                if (address && !strchr(address, '/') &&
                    strlen(address) + 1 < sizeof(node.addresses) - len)
                        len += (size_t)snprintf(node.addresses + len, sizeof(node.addresses) - len,
                                                "%s,", address);
        }
        if (json->r >= 0)
                *ret_node = node;
}

static bool is_enrolled(const struct nb_serving_case *c, const char *host) {
        return c->record && nb_hosts_contain(nb_host_is_address(host) ? c->record->addresses
                                                                      : c->record->dns_names,
                                             host);
}

/* --- Reasons --- */

/* An alternative name of the request. */
struct name {
        enum nb_request_name_type type;
        char host[NB_HOST_SIZE]; /* folded; "" if it is no host */
        char reason[NB_SERVING_REASON_SIZE];
};

static const char *find_form_flaw(const struct nb_serving_case *c _unused_, struct name *name) {
        const bool is_address = nb_host_is_address(name->host);
        struct in_addr ipv4;

        if (name->type == NB_REQUEST_NAME_ADDRESS)
                return is_address ? NULL : "is not an address";
        if (name->type != NB_REQUEST_NAME_DNS)
                return "is neither a DNS name nor an address";
        if (!name->host[0])
                return "is not a DNS name";
        /* Also "10.1" and "0x0a000001", which a resolver may use as an address. */
        return is_address || inet_aton(name->host, &ipv4)
                       ? "is an address in the form of a DNS name"
                       : NULL;
}

/* A Service is found as NAME.NAMESPACE.svc.DOMAIN. The domain may differ from the configured one,
 * so any name with the label "svc" is refused, unless it is the first one. */
static bool is_cluster_name(const struct nb_serving_case *c, const char *host) {
        const char *domain = c->policy ? c->policy->cluster_domain : "cluster.local";
        char below_domain[NB_DNS_NAME_MAX + 3];
        const char *const patterns[] = {
                "kubernetes",  "kubernetes.default", "localhost", "localhost.localdomain",
                "*.localhost", "*.cluster.local",    "*.svc",     "*.svc.*",
                domain,        below_domain,
        };

        snprintf(below_domain, sizeof(below_domain), "*.%s", domain);
        for (size_t i = 0; i < N_ELEMENTS(patterns); i++)
                if (fnmatch(patterns[i], host, 0) == 0)
                        return true;
        return false;
}

/* To whom the host belongs, if not to this node alone. */
static const char *find_owner(const struct nb_serving_case *c, struct name *name) {
        const char *host = name->host, *node = c->request->node;
        const struct nb_owned *owned;
        bool is_in_node;

        if (!nb_host_is_address(host) && is_cluster_name(c, host))
                return "is a name of the cluster or of the local host";
        if (nb_hosts_contain(NB_SPECIAL_PREFIXES, host))
                return "is not an address of one machine";
        if (c->policy && nb_hosts_contain(c->policy->serving_refused, host))
                return "is in servingRefused of the policy";
        if (c->policy && nb_hosts_contain(c->policy->service_networks, host))
                return "is within serviceNetworks of the policy";
        /* Claims of others do not count for what is enrolled, as the node's name is with it. */
        owned = nb_hosts_find(c->hosts, host, node,
                              is_enrolled(c, host) || (c->record && !strcmp(host, node)));
        if (!owned)
                return NULL;
        is_in_node = owned->kind > NB_OWNER_CLAIMING_SERVICE;
        if (owned->kind == NB_OWNER_CLUSTER)
                snprintf(name->reason, sizeof(name->reason), "belongs to the cluster: %s",
                         owned->owner);
        else
                snprintf(name->reason, sizeof(name->reason), "of node %s %s %s%s", node,
                         is_in_node                         ? "is also in the Node"
                         : owned->kind == NB_OWNER_ENROLLED ? "is enrolled for node"
                                                            : "belongs to the Service",
                         owned->owner,
                         is_in_node ? "; enroll it for the node that it belongs to" : "");
        return name->reason;
}

/* Why the policy and the record do not allow the name to this node. */
static const char *find_limit(const struct nb_serving_case *c, struct name *name) {
        const char *host = name->host, *node = c->request->node;
        const size_t len = strlen(node);

        if (is_enrolled(c, host))
                return NULL;
        if (!nb_host_is_address(host))
                return !strcmp(host, node) || (c->record && !strncmp(host, node, len) &&
                                               nb_list_has(c->policy->serving_suffixes, host + len))
                               ? NULL
                               : "is neither the node's name nor allowed to it by a suffix of the "
                                 "policy or by its record";
        if (c->record && c->record->addresses[0])
                return "is not enrolled for the node";
        return nb_hosts_contain(c->policy->serving_prefixes, host)
                       ? NULL
                       : "is not within servingPrefixes of the policy";
}

static const char *find_missing_address(const struct nb_serving_case *c, struct name *name) {
        return nb_hosts_contain(c->node->addresses, name->host)
                       ? NULL
                       : "is not among the addresses in the status of the Node";
}

/* --- The decision --- */

static const struct check {
        const char *name; /* of the reason */
        const char *(*find_flaw)(const struct nb_serving_case *c, struct name *name);
} checks[_NB_SERVING_VERDICT_N] = {
        [NB_SERVING_APPROVED] = { NB_APPROVED_REASON },
        [NB_SERVING_MALFORMED] = { "ServingMalformed", find_form_flaw },
        [NB_SERVING_NOT_ITS_OWN] = { "ServingNotItsOwn", find_owner },
        [NB_SERVING_NETWORKS_UNKNOWN] = { "ServiceNetworksUnknown" },
        [NB_SERVING_NO_POLICY] = { "ServingWithoutPolicy" },
        [NB_SERVING_RECORD_UNUSABLE] = { "RecordUnusable" },
        [NB_SERVING_NODE_REMOVED] = { "NodeRemoved" },
        [NB_SERVING_NOT_ALLOWED] = { "ServingNotAllowed", find_limit },
        [NB_SERVING_NO_NODE] = { "ServingWithoutNode" },
        [NB_SERVING_NOT_IN_STATUS] = { "ServingNotInNodeStatus", find_missing_address },
};

enum nb_serving_verdict nb_serving_decide(const struct nb_serving_case *c,
                                          enum nb_serving_verdict first,
                                          enum nb_serving_verdict last,
                                          char ret_reason[static NB_SERVING_REASON_SIZE]) {
        const struct nb_node_request *request = c->request;
        const struct nb_pkcs10_facts *facts = &request->facts;
        const char *no_policy = c->policy ? NULL
                                : c->policy_flaw
                                        ? c->policy_flaw
                                        : "there is no ConfigMap kube-system/" NB_POLICY_NAME;
        /* Of the request as a whole; then each name is checked. */
        const char *const flaws[_NB_SERVING_VERDICT_N] = {
                /* Without names, nothing would be found against the request below. */
                [NB_SERVING_MALFORMED] = request->kind != NB_NODE_REQUEST_SERVING
                                                 ? "it is not for a serving certificate"
                                         : request->flaw[0]    ? request->flaw
                                         : facts->n_names == 0 ? "it has no alternative names"
                                                               : NULL,
                [NB_SERVING_NETWORKS_UNKNOWN] = c->hosts->has_service_networks ||
                                                                (c->policy &&
                                                                 c->policy->service_networks[0])
                                                        ? NULL
                                                : no_policy ? no_policy
                                                            : "the networks of Services are not "
                                                              "known: serviceNetworks is missing "
                                                              "in the policy",
                [NB_SERVING_NO_POLICY] = no_policy,
                [NB_SERVING_RECORD_UNUSABLE] = c->record_flaw,
                /* When it was made, the node was limited to what was enrolled. */
                [NB_SERVING_NODE_REMOVED] = c->is_removed ? "the request was made before the "
                                                            "enrolled node was removed"
                                                          : NULL,
                [NB_SERVING_NO_NODE] = c->node && !c->node->is_being_deleted
                                               ? NULL
                                               : "there is no Node of this name",
        };

        for (enum nb_serving_verdict i = first; i <= last; i++) {
                if (flaws[i]) {
                        snprintf(ret_reason, NB_SERVING_REASON_SIZE, "%s", flaws[i]);
                        return i;
                }
                for (unsigned k = 0; checks[i].find_flaw && k < facts->n_names; k++) {
                        const char *text = facts->names[k].text, *flaw;
                        struct name name = { .type = facts->names[k].type };
                        char quoted[NB_TEXT_QUOTED_SIZE];

                        if (nb_host_fold(text, name.host) < 0)
                                name.host[0] = '\0';
                        flaw = checks[i].find_flaw(c, &name);
                        if (!flaw)
                                continue;
                        snprintf(ret_reason, NB_SERVING_REASON_SIZE, "the alternative name %s %s",
                                 nb_text_quote(text, strlen(text), quoted), flaw);
                        return i;
                }
        }
        return NB_SERVING_APPROVED;
}

bool nb_serving_is_forcible(enum nb_serving_verdict verdict) {
        return verdict > NB_SERVING_NETWORKS_UNKNOWN;
}

const char *nb_serving_verdict_name(enum nb_serving_verdict verdict) {
        return checks[verdict].name;
}
