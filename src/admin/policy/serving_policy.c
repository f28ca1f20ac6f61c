/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "admin/policy/serving_policy.h"
#include "base/macro.h"
#include "base/text.h"
#include "system/clock.h"

void nb_node_facts_read(struct nb_json *json, struct nb_node_facts *ret_node) {
        const char *ready = nb_json_string(json, "status.conditions[type=Ready].status");
        const char *created = nb_json_string(json, "metadata.creationTimestamp");
        struct nb_node_facts node = { .is_ready = ready && !strcmp(ready, "True") };
        ssize_t n = nb_json_array(json, "status.addresses");

        if (created && nb_rfc3339_parse(created, &node.created) < 0)
                nb_json_refuse(json, "metadata.creationTimestamp", "a time", created);
        node.is_being_deleted = nb_json_string(json, "metadata.deletionTimestamp") != NULL;
        for (ssize_t i = 0; i < n && node.n_addresses < NB_NODE_ADDRESSES_MAX; i++) {
                char path[64];
                const char *address;

                snprintf(path, sizeof(path), "status.addresses[%zd].address", i);
                address = nb_json_string(json, path);
                if (address && strlen(address) < sizeof(node.addresses[0]))
                        snprintf(node.addresses[node.n_addresses++], sizeof(node.addresses[0]),
                                 "%s", address);
        }
        if (json->r >= 0)
                *ret_node = node;
}

static bool is_same_host(const char *a, const char *b) {
        char folded_a[NB_HOST_SIZE], folded_b[NB_HOST_SIZE];

        return nb_host_fold(a, folded_a) == 0 && nb_host_fold(b, folded_b) == 0 &&
               !strcmp(folded_a, folded_b);
}

static bool has_suffix(const char *name, const char *suffix) {
        size_t len = strlen(name), suffix_len = strlen(suffix);

        return len > suffix_len && !strcmp(name + len - suffix_len, suffix);
}

static bool is_enrolled(const struct nb_serving_case *c, const char *host) {
        for (unsigned i = 0; c->record && i < c->record->n_names; i++)
                if (is_same_host(host, c->record->names[i].text))
                        return true;
        return false;
}

/* What is enrolled for the node, so that claims of others do not count. The node's name is enrolled
 * with it, unless the name is an address. */
static bool is_certain(const struct nb_serving_case *c, const char *host) {
        struct nb_address address;

        return is_enrolled(c, host) || (c->record && nb_address_parse(host, &address) < 0 &&
                                        !strcmp(host, c->request->node));
}

static bool has_enrolled_address(const struct nb_serving_case *c) {
        for (unsigned i = 0; c->record && i < c->record->n_names; i++)
                if (c->record->names[i].is_address)
                        return true;
        return false;
}

/* --- Whose it is --- */

/* Returns why the request as a whole is wrong, or NULL. */
static const char *find_request_flaw(const struct nb_node_request *request) {
        if (request->kind != NB_NODE_REQUEST_SERVING)
                return "it is not for a serving certificate";
        if (request->flaw[0])
                return request->flaw;
        if (!request->is_group_exact)
                return "the requestor is not in the group system:nodes";
        /* Otherwise the loops over the names would find nothing against the request. */
        return request->facts.n_names == 0 ? "it has no alternative names" : NULL;
}

/* Returns why a name is malformed, or NULL. */
static const char *find_form_flaw(const struct nb_pkcs10_csr_name *name) {
        struct nb_address address;
        struct in_addr ipv4;
        char host[NB_HOST_SIZE];
        bool is_address = nb_address_parse(name->text, &address) >= 0;

        if (name->type == NB_REQUEST_NAME_ADDRESS)
                return is_address ? NULL : "is not an address";
        if (name->type != NB_REQUEST_NAME_DNS)
                return "is neither a DNS name nor an address";
        if (!is_address && nb_host_fold(name->text, host) < 0)
                return "is not a DNS name";
        /* Also "10.1" and "0x0a000001", which a resolver may use as an address. */
        return is_address || inet_aton(host, &ipv4) ? "is an address in the form of a DNS name"
                                                    : NULL;
}

/* A Service is found as NAME.NAMESPACE.svc.DOMAIN. The domain may differ from the configured one,
 * so any name with the label "svc" is refused, unless it is the first one. */
static bool is_cluster_name(const struct nb_serving_case *c, const char *name) {
        static const char *const names[] = { "kubernetes", "kubernetes.default", "localhost",
                                             "localhost.localdomain" };
        const char *domain = c->policy ? c->policy->cluster_domain : "cluster.local";
        char suffix[NB_DNS_NAME_MAX + 2];

        for (size_t i = 0; i < N_ELEMENTS(names); i++)
                if (!strcmp(name, names[i]))
                        return true;
        snprintf(suffix, sizeof(suffix), ".%s", domain);
        return !strcmp(name, domain) || has_suffix(name, suffix) ||
               has_suffix(name, ".cluster.local") || has_suffix(name, ".svc") ||
               strstr(name, ".svc.") || has_suffix(name, ".localhost");
}

/* Describes to whom a host belongs; false: to nobody but this node. */
static bool describe_owner(const struct nb_serving_case *c, const char *text, char *ret,
                           size_t size) {
        const char *node = c->request->node;
        struct nb_address address;
        const struct nb_owned *owned;
        char host[NB_HOST_SIZE];

        if (nb_host_fold(text, host) < 0)
                return false;
        if (nb_address_parse(host, &address) < 0) {
                snprintf(ret, size, "is a name of the cluster or of the local host");
                if (is_cluster_name(c, host))
                        return true;
        } else if (nb_address_is_special(&address)) {
                snprintf(ret, size, "is not an address of one machine");
                return true;
        } else if (c->policy && nb_prefixes_contain(&c->policy->services, &address)) {
                snprintf(ret, size, "is within serviceNetworks of the policy");
                return true;
        }
        owned = nb_hosts_find(c->hosts, host, node, is_certain(c, host));
        if (!owned)
                return false;
        if (owned->kind == NB_OWNER_CLUSTER)
                snprintf(ret, size, "belongs to the cluster: %s", owned->owner);
        else if (owned->kind == NB_OWNER_ENROLLED)
                snprintf(ret, size, "of node %s is enrolled for node %s", node, owned->owner);
        else if (owned->kind == NB_OWNER_CLAIMING_NODE)
                snprintf(ret, size,
                         "of node %s is also in the Node %s; enroll it for the node that it "
                         "belongs to",
                         node, owned->owner);
        else
                snprintf(ret, size, "of node %s belongs to the Service %s", node, owned->owner);
        return true;
}

/* --- What is allowed --- */

static bool is_allowed_name(const struct nb_serving_case *c, const char *name) {
        size_t len = strlen(c->request->node);

        if (!strcmp(name, c->request->node) || is_enrolled(c, name))
                return true;
        for (unsigned i = 0; c->record && i < c->policy->n_suffixes; i++)
                if (!strncmp(name, c->request->node, len) &&
                    !strcmp(name + len, c->policy->suffixes[i]))
                        return true;
        return false;
}

/* Returns why the policy and the record do not allow the name to this node, or NULL. */
static const char *find_limit(const struct nb_serving_case *c, const char *text) {
        struct nb_address address;
        char host[NB_HOST_SIZE];

        if (nb_host_fold(text, host) < 0)
                return "is not a host";
        if (nb_address_parse(host, &address) < 0)
                return is_allowed_name(c, host) ? NULL
                                                : "is neither the node's name nor allowed to it by "
                                                  "a suffix of the policy or by its record";
        if (has_enrolled_address(c))
                return is_enrolled(c, host) ? NULL : "is not enrolled for the node";
        return nb_prefixes_contain(&c->policy->serving, &address)
                       ? NULL
                       : "is not within servingPrefixes of the policy";
}

static bool is_node_address(const struct nb_serving_case *c, const char *host) {
        for (unsigned i = 0; i < c->node->n_addresses; i++)
                if (is_same_host(host, c->node->addresses[i]))
                        return true;
        return false;
}

/* --- The decision --- */

static enum nb_serving_verdict explain(enum nb_serving_verdict verdict, const char *name,
                                       const char *reason, char *ret_reason) {
        char quoted[NB_TEXT_QUOTED_SIZE];

        if (name)
                snprintf(ret_reason, NB_SERVING_REASON_SIZE, "the alternative name %s %s",
                         nb_text_quote(name, strlen(name), quoted), reason);
        else
                snprintf(ret_reason, NB_SERVING_REASON_SIZE, "%s", reason);
        return verdict;
}

static const char *describe_missing_policy(const struct nb_serving_case *c) {
        return c->policy_flaw ? c->policy_flaw
                              : "there is no ConfigMap kube-system/" NB_POLICY_NAME;
}

/* What no decision of an administrator about this node can change. */
static enum nb_serving_verdict find_owner(const struct nb_serving_case *c, char *ret_reason) {
        const struct nb_pkcs10_facts *facts = &c->request->facts;
        char text[NB_SERVING_REASON_SIZE];
        const char *flaw = find_request_flaw(c->request);

        if (flaw)
                return explain(NB_SERVING_MALFORMED, NULL, flaw, ret_reason);
        for (unsigned i = 0; i < facts->n_names; i++) {
                flaw = find_form_flaw(&facts->names[i]);
                if (flaw)
                        return explain(NB_SERVING_MALFORMED, facts->names[i].text, flaw,
                                       ret_reason);
        }
        for (unsigned i = 0; i < facts->n_names; i++)
                if (describe_owner(c, facts->names[i].text, text, sizeof(text)))
                        return explain(NB_SERVING_NOT_ITS_OWN, facts->names[i].text, text,
                                       ret_reason);
        if (c->hosts->has_service_networks || (c->policy && c->policy->services.n > 0))
                return NB_SERVING_APPROVED;
        return explain(NB_SERVING_NETWORKS_UNKNOWN, NULL,
                       c->policy ? "the networks of Services are not known: serviceNetworks is "
                                   "missing in the policy"
                                 : describe_missing_policy(c),
                       ret_reason);
}

enum nb_serving_verdict nb_serving_decide(const struct nb_serving_case *c,
                                          char ret_reason[static NB_SERVING_REASON_SIZE]) {
        const struct nb_pkcs10_facts *facts = &c->request->facts;
        enum nb_serving_verdict verdict = find_owner(c, ret_reason);

        if (verdict != NB_SERVING_APPROVED)
                return verdict;
        if (!c->policy)
                return explain(NB_SERVING_NO_POLICY, NULL, describe_missing_policy(c), ret_reason);
        if (c->record_flaw)
                return explain(NB_SERVING_RECORD_UNUSABLE, NULL, c->record_flaw, ret_reason);
        for (unsigned i = 0; i < facts->n_names; i++) {
                const char *limit = find_limit(c, facts->names[i].text);

                if (limit)
                        return explain(NB_SERVING_NOT_ALLOWED, facts->names[i].text, limit,
                                       ret_reason);
        }
        if (!c->node || c->node->is_being_deleted)
                return explain(NB_SERVING_NO_NODE, NULL, "there is no Node of this name",
                               ret_reason);
        for (unsigned i = 0; i < facts->n_names; i++)
                if (!is_node_address(c, facts->names[i].text))
                        return explain(NB_SERVING_NOT_IN_STATUS, facts->names[i].text,
                                       "is not among the addresses in the status of the Node",
                                       ret_reason);
        return NB_SERVING_APPROVED;
}

bool nb_serving_is_forcible(enum nb_serving_verdict verdict) {
        return verdict > NB_SERVING_NETWORKS_UNKNOWN;
}

const char *nb_serving_verdict_name(enum nb_serving_verdict verdict) {
        static const char *const names[_NB_SERVING_VERDICT_N] = {
                [NB_SERVING_APPROVED] = NB_APPROVED_REASON,
                [NB_SERVING_MALFORMED] = "ServingMalformed",
                [NB_SERVING_NOT_ITS_OWN] = "ServingNotItsOwn",
                [NB_SERVING_NETWORKS_UNKNOWN] = "ServiceNetworksUnknown",
                [NB_SERVING_NO_POLICY] = "ServingWithoutPolicy",
                [NB_SERVING_RECORD_UNUSABLE] = "RecordUnusable",
                [NB_SERVING_NOT_ALLOWED] = "ServingNotAllowed",
                [NB_SERVING_NO_NODE] = "ServingWithoutNode",
                [NB_SERVING_NOT_IN_STATUS] = "ServingNotInNodeStatus",
        };

        return names[verdict];
}
