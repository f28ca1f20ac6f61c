/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "admin/policy/serving_policy.h"
#include "base/macro.h"
#include "base/text.h"
#include "system/clock.h"

static int parse_list(const char *option, const char *text, struct nb_prefixes *ret_prefixes,
                      struct nb_failure *f) {
        char quoted[NB_TEXT_QUOTED_SIZE];
        int r;

        if (!text)
                return 0;
        r = nb_prefixes_parse(text, ret_prefixes);
        if (r == -E2BIG)
                return nb_failure_set(f, NB_USAGE, 0, "--%s: more than %d prefixes", option,
                                      NB_PREFIXES_MAX);
        if (r < 0)
                return nb_failure_set(f, NB_USAGE, 0,
                                      "--%s: expected prefixes such as 10.0.0.0/8,fd00::/8, "
                                      "without bits behind the length; found %s",
                                      option, nb_text_quote(text, strlen(text), quoted));
        return 0;
}

static int parse_suffixes(const char *text, struct nb_serving_policy *policy,
                          struct nb_failure *f) {
        char quoted[NB_TEXT_QUOTED_SIZE];
        size_t len;

        for (;; text += len + 1) {
                len = strcspn(text, ",");
                if (len == 0 || text[0] != '.' ||
                    !nb_dns_name_is_valid(text + 1, len - 1, NB_DNS_LABEL_MAX))
                        return nb_failure_set(f, NB_USAGE, 0,
                                              "--serving-names: expected suffixes such as "
                                              ".nodes.example.org, in lower case; found %s",
                                              nb_text_quote(text, len, quoted));
                if (policy->n_suffixes == NB_SERVING_SUFFIXES_MAX)
                        return nb_failure_set(f, NB_USAGE, 0,
                                              "--serving-names: more than %d suffixes",
                                              NB_SERVING_SUFFIXES_MAX);
                snprintf(policy->suffixes[policy->n_suffixes++], sizeof(policy->suffixes[0]),
                         "%.*s", (int)len, text);
                if (!text[len])
                        return 0;
        }
}

int nb_serving_policy_init(const struct nb_serving_options *options,
                           struct nb_serving_policy *ret_policy, struct nb_failure *f) {
        const char *domain = options->cluster_domain ? options->cluster_domain : "cluster.local";
        struct nb_serving_policy policy = { 0 };
        char quoted[NB_TEXT_QUOTED_SIZE];
        int r;

        r = parse_list("serving-prefixes", options->prefixes, &policy.addresses, f);
        if (r < 0)
                return r;
        r = parse_list("service-cidrs", options->service_cidrs, &policy.services, f);
        if (r < 0)
                return r;
        if (options->names) {
                r = parse_suffixes(options->names, &policy, f);
                if (r < 0)
                        return r;
        }
        if (!nb_dns_name_is_valid(domain, strlen(domain), NB_DNS_LABEL_MAX))
                return nb_failure_set(f, NB_USAGE, 0,
                                      "--cluster-domain: expected a DNS name such as "
                                      "cluster.local, in lower case; found %s",
                                      nb_text_quote(domain, strlen(domain), quoted));
        snprintf(policy.cluster_domain, sizeof(policy.cluster_domain), "%s", domain);
        *ret_policy = policy;
        return 0;
}

/* In lower case and without a trailing dot: resolvers and verifiers ignore both. -EINVAL if it is
 * not a DNS name, for example with a wildcard. */
static int fold_name(const char *text, char ret_name[static NB_DNS_NAME_MAX + 1]) {
        size_t len = strlen(text);

        if (len > 0 && text[len - 1] == '.')
                len--;
        if (len > NB_DNS_NAME_MAX)
                return -EINVAL;
        for (size_t i = 0; i < len; i++)
                ret_name[i] = (char)tolower((unsigned char)text[i]);
        ret_name[len] = '\0';
        return nb_dns_name_is_valid(ret_name, len, NB_DNS_LABEL_MAX) ? 0 : -EINVAL;
}

/* Whether both are the same address, or the same DNS name. */
static bool is_same_host(const char *a, const char *b) {
        char name_a[NB_DNS_NAME_MAX + 1], name_b[NB_DNS_NAME_MAX + 1];
        struct nb_address address_a, address_b;

        if (nb_address_parse(a, &address_a) == 0)
                return nb_address_parse(b, &address_b) == 0 &&
                       nb_address_is_equal(&address_a, &address_b);
        return fold_name(a, name_a) == 0 && fold_name(b, name_b) == 0 && !strcmp(name_a, name_b);
}

int nb_serving_endpoints_add(struct nb_serving_endpoints *endpoints, const char *host) {
        if (endpoints->n == NB_SERVING_ENDPOINTS_MAX || strlen(host) >= sizeof(endpoints->hosts[0]))
                return -E2BIG;
        snprintf(endpoints->hosts[endpoints->n++], sizeof(endpoints->hosts[0]), "%s", host);
        return 0;
}

void nb_node_facts_read(struct nb_json *json, struct nb_node_facts *ret_node) {
        const char *ready = nb_json_string(json, "status.conditions[type=Ready].status");
        const char *created = nb_json_string(json, "metadata.creationTimestamp");
        struct nb_node_facts node = { .is_ready = ready && !strcmp(ready, "True") };
        ssize_t n = nb_json_array(json, "status.addresses");

        if (created && nb_rfc3339_parse(created, &node.created) < 0)
                nb_json_refuse(json, "metadata.creationTimestamp", "a time", created);
        node.is_being_deleted = nb_json_string(json, "metadata.deletionTimestamp") != NULL;
        for (ssize_t i = 0; i < n && node.n_addresses < NB_SERVING_ADDRESSES_MAX; i++) {
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

static bool has_suffix(const char *name, const char *suffix) {
        size_t len = strlen(name), suffix_len = strlen(suffix);

        return len > suffix_len && !strcmp(name + len - suffix_len, suffix);
}

static bool is_endpoint(const struct nb_serving_case *c, const char *host) {
        for (unsigned i = 0; i < c->endpoints->n; i++)
                if (is_same_host(host, c->endpoints->hosts[i]))
                        return true;
        return false;
}

static bool is_node_address(const struct nb_serving_case *c, const char *host) {
        for (unsigned i = 0; i < c->node->n_addresses; i++)
                if (is_same_host(host, c->node->addresses[i]))
                        return true;
        return false;
}

static bool is_limited_by_record(const struct nb_serving_case *c) {
        return c->record && c->record->n_names > 0;
}

static bool is_listed(const struct nb_serving_case *c, const char *host) {
        for (unsigned i = 0; i < c->record->n_names; i++)
                if (is_same_host(host, c->record->names[i].text))
                        return true;
        return false;
}

/* A Service is found as NAME.NAMESPACE.svc.DOMAIN. The domain may differ from the configured one,
 * so any name with the label "svc" is refused, unless it is the first one. */
static bool is_cluster_name(const struct nb_serving_policy *policy, const char *name) {
        static const char *const names[] = { "kubernetes", "kubernetes.default", "localhost",
                                             "localhost.localdomain" };
        char suffix[NB_DNS_NAME_MAX + 2];

        for (size_t i = 0; i < N_ELEMENTS(names); i++)
                if (!strcmp(name, names[i]))
                        return true;
        snprintf(suffix, sizeof(suffix), ".%s", policy->cluster_domain);
        return !strcmp(name, policy->cluster_domain) || has_suffix(name, suffix) ||
               has_suffix(name, ".cluster.local") || has_suffix(name, ".svc") ||
               strstr(name, ".svc.") || has_suffix(name, ".localhost");
}

/* Whether the administrator's configuration allows this DNS name to this node. */
static bool is_configured_name(const struct nb_serving_case *c, const char *name) {
        const char *node = c->request->node;
        size_t label_len = strcspn(node, ".");

        if (!strcmp(name, node))
                return true;
        for (unsigned i = 0; i < c->policy->n_suffixes; i++) {
                const char *suffix = c->policy->suffixes[i];

                if (!has_suffix(name, suffix))
                        continue;
                if (is_limited_by_record(c) ||
                    (strncmp(name, node, label_len) == 0 && !strcmp(name + label_len, suffix)))
                        return true;
        }
        return false;
}

/* Returns why an alternative name is refused, or NULL. */
static const char *find_address_flaw(const struct nb_serving_case *c, const char *text) {
        struct nb_address address;

        if (nb_address_parse(text, &address) < 0)
                return "is not an address";
        if (nb_address_is_special(&address))
                return "is not an address of one machine";
        if (nb_prefixes_contain(&c->policy->services, &address))
                return "is within --service-cidrs";
        if (is_endpoint(c, text))
                return "is an address of the API server";
        if (!nb_prefixes_contain(&c->policy->addresses, &address))
                return "is not within --serving-prefixes";
        return NULL;
}

static const char *find_name_flaw(const struct nb_serving_case *c, const char *text) {
        char name[NB_DNS_NAME_MAX + 1];
        struct in_addr ipv4;

        if (fold_name(text, name) < 0)
                return "is not a DNS name";
        /* Also "10.1" and "0x0a000001", which a resolver may use as an address. */
        if (inet_aton(name, &ipv4))
                return "is an address in the form of a DNS name";
        if (is_cluster_name(c->policy, name))
                return "is a name of the cluster or of the local host";
        if (is_endpoint(c, name))
                return "is a name of the API server";
        if (!is_configured_name(c, name))
                return "is neither the node's name nor allowed by --serving-names";
        return NULL;
}

/* Returns why an alternative name is refused regardless of Node and inventory, or NULL. */
static const char *find_flaw(const struct nb_serving_case *c,
                             const struct nb_pkcs10_csr_name *name) {
        if (name->type == NB_REQUEST_NAME_ADDRESS)
                return find_address_flaw(c, name->text);
        if (name->type == NB_REQUEST_NAME_DNS)
                return find_name_flaw(c, name->text);
        return "is neither a DNS name nor an address";
}

/* Returns why the request as a whole is refused, or NULL. */
static const char *find_request_flaw(const struct nb_serving_case *c) {
        const struct nb_node_request *request = c->request;

        if (request->kind != NB_NODE_REQUEST_SERVING)
                return "it is not for a serving certificate";
        if (request->flaw[0])
                return request->flaw;
        if (!request->is_group_exact)
                return "the requestor is not in the group system:nodes";
        /* Otherwise the loop over the names would find nothing against the request. */
        if (request->facts.n_names == 0)
                return "it has no alternative names";
        if (c->policy->addresses.n == 0 && c->policy->n_suffixes == 0)
                return "neither --serving-prefixes nor --serving-names is configured";
        return NULL;
}

static enum nb_serving_verdict explain_verdict(enum nb_serving_verdict verdict, const char *name,
                                               const char *reason, char *ret_reason) {
        char quoted[NB_TEXT_QUOTED_SIZE];

        if (name)
                snprintf(ret_reason, NB_SERVING_REASON_SIZE, "the alternative name %s %s",
                         nb_text_quote(name, strlen(name), quoted), reason);
        else
                snprintf(ret_reason, NB_SERVING_REASON_SIZE, "%s", reason);
        return verdict;
}

enum nb_serving_verdict nb_serving_decide(const struct nb_serving_case *c,
                                          char ret_reason[static NB_SERVING_REASON_SIZE]) {
        const struct nb_pkcs10_facts *facts = &c->request->facts;
        const char *reason = find_request_flaw(c);

        if (reason)
                return explain_verdict(NB_SERVING_REFUSED, NULL, reason, ret_reason);
        for (unsigned i = 0; i < facts->n_names; i++) {
                reason = find_flaw(c, &facts->names[i]);
                if (reason)
                        return explain_verdict(NB_SERVING_REFUSED, facts->names[i].text, reason,
                                               ret_reason);
        }
        if (!c->node || c->node->is_being_deleted)
                return explain_verdict(NB_SERVING_NO_NODE, NULL, "there is no Node of this name",
                                       ret_reason);
        for (unsigned i = 0; i < facts->n_names; i++) {
                const char *name = facts->names[i].text;

                if (is_limited_by_record(c) && !is_listed(c, name))
                        return explain_verdict(NB_SERVING_NOT_LISTED, name,
                                               "is not enrolled for this node", ret_reason);
                if (!is_node_address(c, name))
                        return explain_verdict(NB_SERVING_NOT_IN_STATUS, name,
                                               "is not among the addresses in the status of the "
                                               "Node",
                                               ret_reason);
        }
        return NB_SERVING_APPROVED;
}
