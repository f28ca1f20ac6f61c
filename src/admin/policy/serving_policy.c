/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "admin/policy/serving_policy.h"
#include "base/macro.h"
#include "base/text.h"

/* Also "10.1" and "0x0a000001", which a resolver may use as an address. */
static const char *find_form_flaw(const struct nb_pkcs10_csr_name *name, const char *host) {
        const bool is_address = nb_host_is_address(host);
        struct in_addr ipv4;

        if (name->type == NB_REQUEST_NAME_ADDRESS)
                return is_address ? NULL : "is not an address";
        if (name->type != NB_REQUEST_NAME_DNS)
                return "is neither a DNS name nor an address";
        if (!host[0])
                return "is not a DNS name";
        return is_address || inet_aton(host, &ipv4) ? "is an address in the form of a DNS name"
                                                    : NULL;
}

/* --- The decision --- */

static const struct row {
        const char *name; /* of the reason */
        bool is_brief;    /* as nb_serving_is_brief() */
} rows[_NB_SERVING_VERDICT_N] = {
        [NB_SERVING_APPROVED] = { NB_APPROVED_REASON },
        [NB_SERVING_MALFORMED] = { "ServingMalformed" },
        [NB_SERVING_POLICY_UNUSABLE] = { "PolicyUnusable" },
        [NB_SERVING_RECORD_UNUSABLE] = { "RecordUnusable" },
        [NB_SERVING_NODE_REMOVED] = { "NodeRemoved" },
        [NB_SERVING_NOT_ALLOWED] = { "ServingNotAllowed" },
        [NB_SERVING_NOT_ITS_OWN] = { "ServingNotItsOwn" },
        [NB_SERVING_NO_NODE] = { "ServingWithoutNode", true },
        [NB_SERVING_NOT_IN_STATUS] = { "ServingNotInNodeStatus", true },
        [NB_SERVING_LIST_INCOMPLETE] = { "ServingListIncomplete" },
};

static bool has_suffix(const char *suffixes, const char *host) {
        char item[NB_ITEM_SIZE];

        while (nb_list_next(&suffixes, item)) {
                const size_t len = strlen(item), host_len = strlen(host);

                if (len > 0 && host_len > len && !strcmp(host + host_len - len, item))
                        return true;
        }
        return false;
}

/* What the policy allows belongs to this node alone only if no other one has it. */
static enum nb_serving_verdict find_owner(const struct nb_request_case *c, const char *host,
                                          char ret_reason[static NB_SERVING_REASON_SIZE]) {
        const struct nb_owned *owned;

        if (!c->hosts)
                return NB_SERVING_NEEDS_LIST;
        if (c->hosts->is_incomplete) {
                snprintf(ret_reason, NB_SERVING_REASON_SIZE,
                         "is not enrolled, and a Node or the record of a node cannot be read, so "
                         "it may belong to that node");
                return NB_SERVING_LIST_INCOMPLETE;
        }
        owned = nb_hosts_find(c->hosts, host, c->request->node);
        if (!owned)
                return NB_SERVING_APPROVED;
        snprintf(ret_reason, NB_SERVING_REASON_SIZE, "of node %s %s %s%s", c->request->node,
                 owned->is_enrolled ? "is enrolled for node" : "is also in the Node", owned->owner,
                 owned->is_enrolled ? "" : "; enroll it for the node that it belongs to");
        return NB_SERVING_NOT_ITS_OWN;
}

static enum nb_serving_verdict judge_host(const struct nb_request_case *c, const char *host,
                                          char ret_reason[static NB_SERVING_REASON_SIZE]) {
        const bool is_address = nb_host_is_address(host);
        const struct nb_node_record *record = c->record && nb_node_record_is_enrolled(c->record)
                                                      ? c->record
                                                      : NULL;
        const struct nb_policy *policy = c->policy;
        const struct {
                enum nb_serving_verdict verdict;
                bool applies;
                const char *text;
        } checks[] = {
                { NB_SERVING_NOT_ALLOWED,
                  !is_address && (strcmp(host, c->request->node) != 0 ||
                                  (!record && !has_suffix(policy->serving_names, host))),
                  "is neither enrolled for the node, nor the node's name with a suffix in "
                  "servingNames of the policy" },
                { NB_SERVING_NOT_ALLOWED, is_address && record && record->addresses[0],
                  "is not among the addresses that are enrolled for the node" },
                { NB_SERVING_NOT_ALLOWED,
                  is_address && !nb_hosts_contain(policy->serving_prefixes, host),
                  "is neither enrolled for the node, nor within servingPrefixes of the policy" },
                { NB_SERVING_NOT_ITS_OWN, nb_hosts_contain(policy->serving_refused, host),
                  "is in servingRefused of the policy" },
                { NB_SERVING_NOT_ITS_OWN, nb_hosts_contain(policy->service_networks, host),
                  "is within serviceNetworks of the policy" },
                { NB_SERVING_NOT_ITS_OWN, nb_hosts_contain(policy->pod_networks, host),
                  "is within podNetworks of the policy" },
                { NB_SERVING_NO_NODE,
                  is_address && !c->is_forced && (!c->node || c->node->is_being_deleted),
                  "is not enrolled for the node, and there is no Node of this name" },
                { NB_SERVING_NOT_IN_STATUS,
                  is_address && !c->is_forced && c->node &&
                          !nb_hosts_contain(c->node->addresses, host),
                  "is not among the addresses in the status of the Node" },
        };

        if (nb_hosts_contain(NB_SPECIAL_PREFIXES, host)) {
                snprintf(ret_reason, NB_SERVING_REASON_SIZE, "is not an address of one machine");
                return NB_SERVING_NOT_ITS_OWN;
        }
        if (record && nb_hosts_contain(is_address ? record->addresses : record->dns_names, host))
                return NB_SERVING_APPROVED;
        for (size_t i = 0; i < N_ELEMENTS(checks); i++)
                if (checks[i].applies) {
                        snprintf(ret_reason, NB_SERVING_REASON_SIZE, "%s", checks[i].text);
                        return checks[i].verdict;
                }
        return find_owner(c, host, ret_reason);
}

static enum nb_serving_verdict judge_name(const struct nb_request_case *c,
                                          const struct nb_pkcs10_csr_name *name,
                                          char ret_reason[static NB_SERVING_REASON_SIZE]) {
        char host[NB_HOST_SIZE], quoted[NB_TEXT_QUOTED_SIZE], reason[NB_SERVING_REASON_SIZE];
        enum nb_serving_verdict verdict = NB_SERVING_MALFORMED;
        const char *flaw;

        if (nb_host_fold(name->text, host) < 0)
                host[0] = '\0';
        flaw = find_form_flaw(name, host);
        if (!flaw)
                verdict = judge_host(c, host, reason);
        if (verdict != NB_SERVING_APPROVED && verdict != NB_SERVING_NEEDS_LIST)
                snprintf(ret_reason, NB_SERVING_REASON_SIZE, "the alternative name %s %.450s",
                         nb_text_quote(name->text, strlen(name->text), quoted),
                         flaw ? flaw : reason);
        return verdict;
}

enum nb_serving_verdict nb_serving_decide(const struct nb_request_case *c,
                                          char ret_reason[static NB_SERVING_REASON_SIZE]) {
        const struct nb_node_request *request = c->request;
        const struct nb_pkcs10_facts *facts = &request->facts;
        const struct {
                enum nb_serving_verdict verdict;
                const char *flaw;
        } checks[] = {
                { NB_SERVING_MALFORMED, request->kind != NB_NODE_REQUEST_SERVING
                                                ? "it is not for a serving certificate"
                                        : request->flaw[0]    ? request->flaw
                                        : facts->n_names == 0 ? "it has no alternative names"
                                                              : NULL },
                { NB_SERVING_POLICY_UNUSABLE, c->policy_flaw },
                { NB_SERVING_RECORD_UNUSABLE, c->record_flaw },
                { NB_SERVING_NODE_REMOVED,
                  nb_request_case_is_removed(c)
                          ? "the request was made before the enrolled node was removed"
                          : NULL },
        };
        enum nb_serving_verdict verdict = NB_SERVING_APPROVED;

        for (size_t i = 0; i < N_ELEMENTS(checks); i++)
                if (checks[i].flaw) {
                        snprintf(ret_reason, NB_SERVING_REASON_SIZE, "%s", checks[i].flaw);
                        return checks[i].verdict;
                }
        /* The list is needed only if nothing else is wrong with any name. */
        for (unsigned i = 0; i < facts->n_names; i++) {
                enum nb_serving_verdict found = judge_name(c, &facts->names[i], ret_reason);

                if (found == NB_SERVING_NEEDS_LIST)
                        verdict = found;
                else if (found != NB_SERVING_APPROVED)
                        return found;
        }
        return verdict;
}

bool nb_serving_is_brief(enum nb_serving_verdict verdict) {
        return rows[verdict].is_brief;
}

const char *nb_serving_verdict_name(enum nb_serving_verdict verdict) {
        return rows[verdict].name;
}
