/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "admin/policy/serving_policy.h"

#include "case.h"
#include "cluster_hosts.h"

#define A(text) \
        { NB_REQUEST_NAME_ADDRESS, text }
#define D(text) \
        { NB_REQUEST_NAME_DNS, text }
#define V(name) .verdict = NB_SERVING_##name
#define O(text) \
        { NB_REQUEST_NAME_OTHER, text }

/* What differs from a correct request of the node NODE with the addresses in `usual_addresses`. */
struct row {
        const char *name;
        const char *reason; /* a part of it; NULL: approved */
        struct nb_pkcs10_csr_name names[4];
        enum nb_serving_verdict verdict;
        const char *addresses[6]; /* of the Node; none: the usual ones */
        const char *enrolled[3];  /* addresses and names */
        const char *node;         /* NULL: NODE */
        const char *flaw;
        const char *policy; /* the data of the ConfigMap; NULL: the usual one */
        const char *policy_flaw, *record_flaw;
        bool is_client, has_no_node, is_deleted, has_no_names, is_enrolled, is_removed;
        bool is_forced, is_incomplete, has_no_list;
};

static const char *const usual_addresses[] = { "node1", "10.0.0.5", "fd00::5", "10.0.0.7",
                                               "10.0.0.8" };

#define REFUSING "\"serviceNetworks\":\"10.96.0.0/12\",\"podNetworks\":\"10.244.0.0/16,fd01::/16\""
#define WIDE "{\"servingPrefixes\":\"0.0.0.0/0,::/0\",\"servingRefused\":\"none\"," REFUSING "}"

static struct row rows[] = {
        { "its address", NULL, { A("10.0.0.5") } },
        { "its name, IPv4 and IPv6", NULL, { D(NODE), A("10.0.0.5"), A("fd00::5") } },
        { "its address, mapped into IPv6", NULL, { A("::ffff:10.0.0.5") } },
        { "its name in upper case", NULL, { D("NODE1.Nodes.Example.ORG") } },
        { "its name with a trailing dot", NULL, { D(NODE ".") } },
        { "its name needs no address in the status", NULL, { D(NODE) }, .addresses = { "x" } },

        /* The requestor (k0s#8333, ironcore GHSA-rwxr-qr3p-5xq2). */
        { "a request with a flaw: a user is not the node",
          "requested by another user",
          { A("10.0.0.5") },
          V(MALFORMED),
          .flaw = "it was requested by another user" },
        { "a request of another signer",
          "serving",
          { A("10.0.0.5") },
          V(MALFORMED),
          .is_client = true },
        { "no alternative names",
          "no alternative names",
          { A("10.0.0.5") },
          V(MALFORMED),
          .has_no_names = true },
        { "a node that does not exist",
          "no Node of this name",
          { A("10.0.0.5") },
          V(NO_NODE),
          .has_no_node = true },
        { "a node that is being deleted",
          "no Node of this name",
          { A("10.0.0.5") },
          V(NO_NODE),
          .is_deleted = true },
        { "a node that does not exist, with force",
          NULL,
          { A("10.0.0.5") },
          .has_no_node = true,
          .is_forced = true },

        /* Forms (talos-cloud-controller-manager GHSA-87pw-5j2g-6376). */
        { "an address in the form of a name",
          "form of a DNS name",
          { D("10.0.0.5") },
          V(MALFORMED) },
        { "an abbreviated address", "form of a DNS name", { D("10.5") }, V(MALFORMED) },
        { "an address in hexadecimal", "form of a DNS name", { D("0x0a000005") }, V(MALFORMED) },
        { "a name in the form of an address", "not an address", { A("node1") }, V(MALFORMED) },
        { "a wildcard", "not a DNS name", { D("*.nodes.example.org") }, V(MALFORMED) },
        { "two trailing dots", "not a DNS name", { D(NODE "..") }, V(MALFORMED) },
        { "an email address",
          "neither a DNS name nor an address",
          { O("root@example.org") },
          V(MALFORMED) },

        /* DNS names. */
        { "a name of the API server, with a good address",
          "neither enrolled",
          { A("10.0.0.5"), D("api.corp.test") },
          V(NOT_ALLOWED) },
        { "a node with the name of a Service",
          "neither enrolled",
          { D("kubernetes.default.svc") },
          V(NOT_ALLOWED),
          .node = "kubernetes.default.svc" },
        { "a node with a name without suffix",
          "neither enrolled",
          { D("node1") },
          V(NOT_ALLOWED),
          .node = "node1" },
        { "an enrolled node with a name without suffix",
          NULL,
          { D("node1") },
          .node = "node1",
          .is_enrolled = true },
        { "a suffix alone",
          "neither enrolled",
          { D("nodes.example.org") },
          V(NOT_ALLOWED),
          .node = "nodes.example.org" },
        { "a name that ends with a suffix without its dot",
          "neither enrolled",
          { D("badnodes.example.org") },
          V(NOT_ALLOWED),
          .node = "badnodes.example.org" },
        { "the name of another node",
          "neither enrolled",
          { D("node2.nodes.example.org") },
          V(NOT_ALLOWED) },
        { "a name below its own", "neither enrolled", { D("a." NODE) }, V(NOT_ALLOWED) },
        { "a name without suffixes in the policy",
          "neither enrolled",
          { D(NODE) },
          V(NOT_ALLOWED),
          .policy = "{}" },
        { "a name that is refused",
          "in servingRefused",
          { D("api.nodes.example.org") },
          V(NOT_ITS_OWN),
          .node = "api.nodes.example.org" },
        { "a name that is enrolled for another node",
          "is enrolled for node node3",
          { D("db.nodes.example.org") },
          V(NOT_ITS_OWN),
          .node = "db.nodes.example.org" },
        { "an enrolled name",
          NULL,
          { D("EC2-1.example.net.") },
          .enrolled = { "ec2-1.example.net" } },

        /* Addresses (kubelet-serving-cert-approver #337, #348). */
        { "an address that the Node does not have",
          "status of the Node",
          { A("10.0.0.6") },
          V(NOT_IN_STATUS) },
        { "a Node without addresses",
          "status of the Node",
          { A("10.0.0.5") },
          V(NOT_IN_STATUS),
          .addresses = { "" } },
        { "an address that the Node does not have, with force",
          NULL,
          { A("10.0.0.6") },
          .is_forced = true },
        { "an address outside the prefixes",
          "nor within servingPrefixes",
          { A("192.168.0.5") },
          V(NOT_ALLOWED),
          .addresses = { "192.168.0.5" } },
        { "an address outside the prefixes, with force",
          "nor within servingPrefixes",
          { A("192.168.0.5") },
          V(NOT_ALLOWED),
          .is_forced = true },
        { "an address without prefixes",
          "nor within servingPrefixes",
          { A("10.0.0.5") },
          V(NOT_ALLOWED),
          .policy = "{}" },
        { "an address that is refused",
          "in servingRefused",
          { A("10.0.0.9") },
          V(NOT_ITS_OWN),
          .addresses = { "10.0.0.9" } },
        { "an address that is refused, with force",
          "in servingRefused",
          { A("::ffff:10.0.0.9") },
          V(NOT_ITS_OWN),
          .is_forced = true },
        { "an address of Services",
          "serviceNetworks",
          { A("10.96.0.77") },
          V(NOT_ITS_OWN),
          .addresses = { "10.96.0.77" } },
        { "an address of a Pod",
          "podNetworks",
          { A("10.244.3.3") },
          V(NOT_ITS_OWN),
          .addresses = { "10.244.3.3" } },
        { "loopback", "one machine", { A("127.0.0.1") }, V(NOT_ITS_OWN), .policy = WIDE },
        { "mapped loopback",
          "one machine",
          { A("::ffff:127.0.0.1") },
          V(NOT_ITS_OWN),
          .policy = WIDE },
        { "link-local",
          "one machine",
          { A("169.254.169.254") },
          V(NOT_ITS_OWN),
          .policy = WIDE,
          .enrolled = { "169.254.169.254" } },
        { "an enrolled address, whatever else is true of it",
          NULL,
          { A("::ffff:10.0.0.9") },
          .enrolled = { "fd00::5", "10.0.0.9" },
          .has_no_node = true },
        { "another address than the enrolled one",
          "not among the addresses that are enrolled",
          { A("10.0.0.5") },
          V(NOT_ALLOWED),
          .enrolled = { "10.0.0.6" } },
        { "only a name is enrolled, so the prefixes count",
          NULL,
          { A("10.0.0.5") },
          .enrolled = { "ec2-1.example.net" } },

        /* What other nodes have. */
        { "an address of another Node",
          "of node " NODE " is also in the Node node2; enroll it",
          { A("10.0.0.7") },
          V(NOT_ITS_OWN) },
        { "an address of another Node, with force",
          "is also in the Node node2",
          { A("10.0.0.7") },
          V(NOT_ITS_OWN),
          .is_forced = true },
        { "an address of another Node that is enrolled",
          NULL,
          { A("10.0.0.7") },
          .enrolled = { "10.0.0.7" } },
        { "an address of another Node with leading zeros",
          "is also in the Node node4",
          { A("10.0.0.20") },
          V(NOT_ITS_OWN),
          .addresses = { "10.0.0.20" } },
        { "one of two addresses in a text",
          "is also in the Node node4",
          { A("10.0.0.22") },
          V(NOT_ITS_OWN),
          .addresses = { "10.0.0.22" } },
        { "a network among the addresses of another Node",
          NULL,
          { A("10.0.0.40") },
          .addresses = { "10.0.0.40" } },
        { "an address that is enrolled for another node",
          "of node " NODE " is enrolled for node node3",
          { A("10.0.0.8") },
          V(NOT_ITS_OWN) },
        { "an object could not be read",
          "cannot be read",
          { A("10.0.0.5") },
          V(LIST_INCOMPLETE),
          .is_incomplete = true },
        { "an object could not be read, but what is enrolled needs no list",
          NULL,
          { A("10.0.0.5"), D(NODE "x") },
          .enrolled = { "10.0.0.5", NODE "x" },
          .is_incomplete = true },
        { "the list was not read, and it decides",
          "",
          { A("10.0.0.5") },
          V(NEEDS_LIST),
          .has_no_list = true },
        { "the list was not read, but another name is not allowed",
          "nor within servingPrefixes",
          { A("10.0.0.5"), A("192.168.0.5") },
          V(NOT_ALLOWED),
          .has_no_list = true },
        { "the list was not read, and is not needed",
          NULL,
          { A("10.0.0.5") },
          .enrolled = { "10.0.0.5" },
          .has_no_list = true },

        /* Without policy or record. */
        { "a policy that cannot be used",
          "unknown key",
          { A("10.0.0.5") },
          V(POLICY_UNUSABLE),
          .policy_flaw = "unknown key" },
        { "a record that cannot be used",
          "its removal is not complete",
          { A("10.0.0.5") },
          V(RECORD_UNUSABLE),
          .record_flaw = "its removal is not complete" },
        { "a request from before the removal of the node",
          "before the enrolled node was removed",
          { A("10.0.0.5") },
          V(NODE_REMOVED),
          .is_removed = true },
};

static void add_item(char list[static NB_LIST_SIZE], const char *item) {
        size_t len = strlen(list);

        snprintf(list + len, NB_LIST_SIZE - len, "%s%s", len > 0 ? "," : "", item);
}

static void read_node(const struct row *row, struct nb_node_facts *node) {
        const char *const *addresses = row->addresses[0] ? row->addresses : usual_addresses;

        for (size_t i = 0; i < N_ELEMENTS(usual_addresses) && addresses[i]; i++)
                add_item(node->addresses, addresses[i]);
        node->is_being_deleted = row->is_deleted;
}

static void read_request(const struct row *row, struct nb_node_request *request) {
        request->kind = row->is_client ? NB_NODE_REQUEST_CLIENT : NB_NODE_REQUEST_SERVING;
        snprintf(request->node, sizeof(request->node), "%s", row->node ? row->node : NODE);
        snprintf(request->flaw, sizeof(request->flaw), "%s", row->flaw ? row->flaw : "");
        while (!row->has_no_names && request->facts.n_names < N_ELEMENTS(row->names) &&
               row->names[request->facts.n_names].text[0]) {
                request->facts.names[request->facts.n_names] = row->names[request->facts.n_names];
                request->facts.n_names++;
        }
}

static void read_policy(const char *data, struct nb_policy *policy) {
        struct nb_failure f = { 0 };
        struct nb_json json;
        char text[1024];

        snprintf(text, sizeof(text), "{\"data\":%s}",
                 data ? data
                      : "{\"servingNames\":\".example.com,.nodes.example.org\","
                        "\"servingPrefixes\":\"10.0.0.0/8,fd00::/8\","
                        "\"servingRefused\":\"10.0.0.9,api.nodes.example.org\"," REFUSING "}");
        json = parse(text, &f);
        nb_policy_read(&json, policy);
        assert_int_equal(json.r, 0);
        nb_json_done(&json);
}

static void decides(void **state) {
        const struct row *row = *state;
        _cleanup_(nb_hosts_done) struct nb_hosts hosts = { 0 };
        static struct nb_policy policy;
        static struct nb_node_request request;
        static struct nb_node_record record;
        static struct nb_node_facts node;
        char reason[NB_SERVING_REASON_SIZE] = "";
        struct nb_request_case c = {
                .request = &request,
                .hosts = row->has_no_list ? NULL : &hosts,
                .policy = &policy,
                .policy_flaw = row->policy_flaw,
                .record = row->enrolled[0] || row->is_enrolled || row->is_removed ? &record : NULL,
                .record_flaw = row->record_flaw,
                .node = row->has_no_node ? NULL : &node,
                .is_forced = row->is_forced,
        };

        request = (struct nb_node_request){ 0 };
        record = (struct nb_node_record){ .removed = row->is_removed };
        strcpy(record.public_key, row->is_enrolled ? "key" : "");
        node = (struct nb_node_facts){ 0 };
        policy = (struct nb_policy){ 0 };
        add_nodes(&hosts);
        hosts.is_incomplete = row->is_incomplete;
        read_policy(row->policy, &policy);
        read_node(row, &node);
        read_request(row, &request);
        for (size_t i = 0; i < N_ELEMENTS(row->enrolled) && row->enrolled[i]; i++) {
                char host[NB_HOST_SIZE];

                assert_int_equal(nb_host_fold(row->enrolled[i], host), 0);
                add_item(nb_host_is_address(host) ? record.addresses : record.dns_names,
                         row->enrolled[i]);
        }
        assert_int_equal(nb_serving_decide(&c, reason), row->verdict);
        if (row->reason && !strstr(reason, row->reason))
                fail_msg("the reason is: %s", reason);
}

/* Who asks with force gets nothing that is not allowed. */
static void limits_force(void **state _unused_) {
        for (enum nb_serving_verdict verdict = 0; verdict < _NB_SERVING_VERDICT_N; verdict++) {
                assert_non_null(nb_serving_verdict_name(verdict));
                assert_int_equal(nb_serving_is_brief(verdict),
                                 verdict == NB_SERVING_NO_NODE ||
                                         verdict == NB_SERVING_NOT_IN_STATUS);
        }
}

/* --- Nodes --- */

static void reads_node(void **state _unused_) {
        static const char text[] =
                "{\"metadata\":{\"name\":\"n\",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"},"
                "\"status\":{\"addresses\":[{\"type\":\"InternalIP\",\"address\":\"10.0.0.5\"},"
                "{\"type\":\"Hostname\",\"address\":\"node1\"},{\"address\":\"0.0.0.0/0\"}]}}";
        struct nb_failure f = { 0 };
        _cleanup_(nb_json_done) struct nb_json json = nb_json_parse(text, strlen(text), "the Node",
                                                                    NB_ANSWER_MALFORMED, &f);
        static struct nb_node_facts node;

        nb_node_facts_read(&json, &node);
        assert_int_equal(json.r, 0);
        assert_true(node.is_being_deleted);
        assert_string_equal(node.addresses, "10.0.0.5,node1,");
}

int main(void) {
        CASES(rows, decides);
        CASE(limits_force);
        CASE(reads_node);
        return case_run("serving_policy");
}
