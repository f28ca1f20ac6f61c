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
        const char *addresses[6];        /* of the Node; none: the usual ones */
        enum nb_serving_verdict verdict; /* 0: NOT_ITS_OWN, if there is a reason */
        const char *enrolled[3];         /* addresses and names */
        const char *node;                /* NULL: NODE */
        const char *flaw;
        const char
                *policy; /* the data of the ConfigMap; NULL: the usual ones; "-": there is none */
        const char *policy_flaw, *record_flaw;
        bool is_client, has_no_node, is_deleted, has_no_names, is_enrolled;
        bool has_no_service_networks;
};

static const char *const usual_addresses[] = { "node1", NODE, "node1.example.com", "10.0.0.5",
                                               "fd00::5" };

/* The Node reports the name too: it is the node that chooses its addresses. */
#define REPORTED(text) .addresses = { text, "10.0.0.5" }
#define NAMED(text) REPORTED(text), .node = text
#define ASKS(text) { D(text) }, NAMED(text)

static struct row rows[] = {
        { "its address", NULL, { A("10.0.0.5") } },
        { "its name, IPv4 and IPv6", NULL, { D(NODE), A("10.0.0.5"), A("fd00::5") } },
        { "its address, mapped into IPv6", NULL, { A("::ffff:10.0.0.5") } },
        { "its name in upper case", NULL, { D("NODE1.Nodes.Example.ORG") } },
        { "its name with a trailing dot", NULL, { D(NODE ".") } },
        { "its name with a suffix, and it is enrolled",
          NULL,
          { D(NODE ".example.com") },
          REPORTED(NODE ".example.com"),
          .is_enrolled = true },
        { "the name in the status in upper case",
          NULL,
          { D(NODE) },
          { "NODE1.nodes.example.org" } },

        /* The requestor (k0s#8333, ironcore GHSA-rwxr-qr3p-5xq2). */
        { "a request with a flaw: a user is not the node",
          "requested by another user",
          { A("10.0.0.5") },
          .flaw = "it was requested by another user",
          V(MALFORMED) },
        { "a request of another signer",
          "serving",
          { A("10.0.0.5") },
          .is_client = true,
          V(MALFORMED) },
        { "a node that does not exist",
          "no Node of this name",
          { A("10.0.0.5") },
          .has_no_node = true,
          V(NO_NODE) },
        { "a node that is being deleted",
          "no Node of this name",
          { A("10.0.0.5") },
          .is_deleted = true,
          V(NO_NODE) },

        /* talos-cloud-controller-manager GHSA-87pw-5j2g-6376. */
        { "no alternative names",
          "no alternative names",
          { A("10.0.0.5") },
          .has_no_names = true,
          V(MALFORMED) },
        { "one good address and one foreign name",
          "neither the node's name",
          { A("10.0.0.5"), D("db.example.org") },
          REPORTED("db.example.org"),
          V(NOT_ALLOWED) },
        { "kubernetes", "of the cluster", { D("kubernetes") }, REPORTED("kubernetes") },
        { "kubernetes with a trailing dot",
          "of the cluster",
          { D("kubernetes.") },
          REPORTED("kubernetes.") },
        { "a node named kubernetes", "of the cluster", ASKS("kubernetes") },
        { "kubernetes.default",
          "of the cluster",
          { D("KUBERNETES.default") },
          NAMED("kubernetes.default") },
        { "kubernetes.default.svc",
          "of the cluster",
          { D("kubernetes.default.SVC") },
          NAMED("kubernetes.default.svc") },
        { "a name of a Service in the cluster's domain",
          "of the cluster",
          { D("kubernetes.default.svc.Cluster.Local") },
          NAMED("kubernetes.default.svc.cluster.local") },
        { "a name of a Service in a domain that is not configured", "of the cluster",
          ASKS("web.default.svc.corp") },
        { "a name in the cluster's domain",
          "of the cluster",
          { D("node1.K8S.test.") },
          NAMED("node1.k8s.test") },
        { "the cluster's domain", "of the cluster", ASKS("k8s.test") },
        { "a name in cluster.local if another domain is configured", "of the cluster",
          ASKS("node1.cluster.local") },
        { "localhost", "local host", { D("LOCALHOST") }, NAMED("localhost") },

        /* kubelet-serving-cert-approver #337, #348: an address because it was asked for. */
        { "an address that the Node does not have",
          "status of the Node",
          { A("10.0.0.6") },
          V(NOT_IN_STATUS) },
        { "a name that the Node does not have",
          "status of the Node",
          { D(NODE) },
          { "10.0.0.5" },
          V(NOT_IN_STATUS) },
        { "a Node without addresses",
          "status of the Node",
          { A("10.0.0.5") },
          { "" },
          V(NOT_IN_STATUS) },
        { "an address outside the prefixes",
          "servingPrefixes",
          { A("192.168.0.5") },
          REPORTED("192.168.0.5"),
          V(NOT_ALLOWED) },

        { "an address of Services",
          "serviceNetworks",
          { A("10.96.0.77") },
          REPORTED("10.96.0.77") },
        { "an address of Services, mapped",
          "serviceNetworks",
          { A("::ffff:10.96.0.77") },
          REPORTED("10.96.0.77") },
        { "an address of the API server",
          "belongs to the cluster",
          { A("10.0.0.1") },
          REPORTED("10.0.0.1") },
        { "an address of the API server, mapped",
          "belongs to the cluster: the API server",
          { A("::ffff:a00:1") },
          REPORTED("10.0.0.1") },
        { "a name of the API server", "belongs to the cluster: the API server",
          ASKS("api.example.org") },
        { "a name of the API server in upper case with a dot",
          "belongs to the cluster: the API server",
          { D("API.example.org.") },
          NAMED("api.example.org") },
        { "loopback",
          "one machine",
          { A("127.0.0.1") },
          REPORTED("127.0.0.1"),
          .policy = "{\"servingPrefixes\":\"0.0.0.0/0\",\"serviceNetworks\":\"10.96.0.0/12\"}" },
        { "mapped loopback",
          "one machine",
          { A("::ffff:127.0.0.1") },
          REPORTED("127.0.0.1"),
          .policy = "{\"servingPrefixes\":\"0.0.0.0/0\",\"serviceNetworks\":\"10.96.0.0/12\"}" },
        { "link-local",
          "one machine",
          { A("169.254.169.254") },
          REPORTED("169.254.169.254"),
          .policy = "{\"servingPrefixes\":\"0.0.0.0/0\",\"serviceNetworks\":\"10.96.0.0/12\"}" },
        { "an address in the form of a name",
          "form of a DNS name",
          { D("10.0.0.5") },
          V(MALFORMED) },
        { "an abbreviated address in the form of a name", "form of a DNS name", ASKS("10.5"),
          V(MALFORMED) },
        { "an address in hexadecimal in the form of a name", "form of a DNS name",
          ASKS("0x0a000005"), V(MALFORMED) },
        { "a name in the form of an address", "not an address", { A("node1") }, V(MALFORMED) },
        { "a wildcard",
          "not a DNS name",
          { D("*.nodes.example.org") },
          REPORTED("*.nodes.example.org"),
          V(MALFORMED) },
        { "two trailing dots",
          "not a DNS name",
          { D(NODE "..") },
          REPORTED(NODE ".."),
          V(MALFORMED) },
        { "an email address",
          "neither a DNS name nor an address",
          { O("root@example.org") },
          REPORTED("root@example.org"),
          V(MALFORMED) },

        /* Names that are configured. */
        { "a first label that begins with the node's",
          "neither the node's name",
          { D("node10.example.com") },
          REPORTED("node10.example.com"),
          V(NOT_ALLOWED) },
        { "a name below its own",
          "neither the node's name",
          { D("a." NODE) },
          REPORTED("a." NODE),
          V(NOT_ALLOWED) },
        { "the suffix alone",
          "neither the node's name",
          { D("example.com") },
          REPORTED("example.com"),
          V(NOT_ALLOWED) },
        { "a name that ends with the suffix without its dot",
          "neither the node's name",
          { D("node1.badexample.com") },
          REPORTED("node1.badexample.com"),
          V(NOT_ALLOWED) },
        { "its first label with a suffix",
          "neither the node's name",
          { D("node1.example.com") },
          .is_enrolled = true,
          V(NOT_ALLOWED) },
        { "its name with a suffix, and it is not enrolled: it may have chosen its name",
          "neither the node's name",
          { D(NODE ".example.com") },
          REPORTED(NODE ".example.com"),
          V(NOT_ALLOWED) },
        { "its name without prefixes and suffixes", NULL, { D(NODE) }, .policy = "{}" },
        { "an address without prefixes",
          "servingPrefixes",
          { A("10.0.0.5") },
          .policy = "{}",
          V(NOT_ALLOWED) },

        /* What belongs to others. */
        { "the API server's Service",
          "belongs to the Service default/kubernetes",
          { A("fd00:96::1") },
          REPORTED("fd00:96::1"),
          .has_no_service_networks = true },
        { "a Service",
          "belongs to the Service shop/web",
          { A("10.0.1.10") },
          REPORTED("10.0.1.10") },
        { "a network of Services that only a ServiceCIDR names",
          "belongs to the cluster: a network of Services",
          { A("fd00:96::77") },
          REPORTED("fd00:96::77") },
        { "a load balancer",
          "of node " NODE " belongs to the Service shop/web",
          { A("10.0.0.10") },
          REPORTED("10.0.0.10") },
        { "an address that a load balancer is to have",
          "Service shop/web",
          { A("10.0.0.11") },
          REPORTED("10.0.0.11") },
        { "an external address of a Service",
          "Service shop/web",
          { A("10.0.0.9") },
          REPORTED("10.0.0.9") },
        { "the name of a load balancer",
          "Service shop/web",
          { D("LB.example.org") },
          NAMED("lb.example.org") },
        { "the name of a Service", "Service shop/web", ASKS("web") },
        { "the name of a Service in its namespace", "Service shop/web", ASKS("web.shop") },
        { "a pod network", "also in the Node node2", { A("10.244.1.7") }, REPORTED("10.244.1.7") },
        { "an address of another Node",
          "of node " NODE " is also in the Node node2",
          { A("10.0.0.7") },
          REPORTED("10.0.0.7") },
        { "an address of another Node, mapped",
          "also in the Node node2",
          { A("::ffff:10.0.0.7") },
          REPORTED("10.0.0.7") },
        { "the name of another Node", "also in the Node node2", { D("node2") }, REPORTED("node2") },
        { "a name in the status of another Node",
          "also in the Node node2",
          { D("db2.example.org") },
          REPORTED("db2.example.org") },
        { "an address that is enrolled for another node",
          "of node " NODE " is enrolled for node node3",
          { A("10.0.0.8") },
          REPORTED("10.0.0.8") },
        { "an address that is enrolled for both",
          "is enrolled for node node3",
          { A("10.0.0.8") },
          REPORTED("10.0.0.8"),
          .enrolled = { "10.0.0.8" } },
        { "the name of a node that is enrolled",
          "is enrolled for node node3",
          { D("node3") },
          REPORTED("node3") },
        { "an address that the policy refuses",
          "is in servingRefused of the policy",
          { A("10.0.0.5") },
          .policy = "{\"servingPrefixes\":\"10.0.0.0/8\",\"servingRefused\":\"a.b,10.0.0.4/31\"}",
          .enrolled = { "10.0.0.5" },
          V(NOT_ITS_OWN) },
        { "a name that the policy refuses",
          "is in servingRefused of the policy",
          { D(NODE) },
          .policy = "{\"servingPrefixes\":\"10.0.0.0/8\",\"servingRefused\":\"" NODE "\"}",
          V(NOT_ITS_OWN) },
        { "no networks of Services are known",
          "serviceNetworks is missing",
          { A("10.0.0.5") },
          .policy = "{\"servingPrefixes\":\"10.0.0.0/8\"}",
          .has_no_service_networks = true,
          V(NETWORKS_UNKNOWN) },
        { "only ServiceCIDRs are known",
          NULL,
          { A("10.0.0.5") },
          .policy = "{\"servingPrefixes\":\"10.0.0.0/8\"}" },
        { "only the policy names networks of Services",
          NULL,
          { A("10.0.0.5") },
          .has_no_service_networks = true },

        /* A claim cannot keep a node from what is enrolled for it. */
        { "an enrolled address that another Node claims",
          NULL,
          { A("10.0.0.7") },
          REPORTED("10.0.0.7"),
          .enrolled = { "10.0.0.7" } },
        { "an enrolled address in a network that another Node claims",
          NULL,
          { A("10.244.1.7") },
          REPORTED("10.244.1.7"),
          .enrolled = { "10.244.1.7" } },
        { "an enrolled address that a Service claims",
          NULL,
          { A("10.0.0.9") },
          REPORTED("10.0.0.9"),
          .enrolled = { "10.0.0.9" } },
        { "an enrolled name that a Service has", NULL, ASKS("web"), .enrolled = { "web" } },
        { "an enrolled address of the API server",
          "belongs to the cluster",
          { A("10.0.0.1") },
          REPORTED("10.0.0.1"),
          .enrolled = { "10.0.0.1" } },
        { "an enrolled address of a Service",
          "Service shop/web",
          { A("10.0.1.10") },
          REPORTED("10.0.1.10"),
          .enrolled = { "10.0.1.10" } },
        { "an enrolled address of Services",
          "serviceNetworks",
          { A("10.96.0.77") },
          REPORTED("10.96.0.77"),
          .enrolled = { "10.96.0.77" } },
        { "an enrolled name of the cluster",
          "of the cluster",
          { D("web.shop.svc") },
          REPORTED("web.shop.svc"),
          .enrolled = { "web.shop.svc" } },

        /* What is enrolled. */
        { "its address, mapped",
          NULL,
          { A("10.0.0.5") },
          .enrolled = { "fd00::5", "::ffff:10.0.0.5" } },
        { "another address than the enrolled one",
          "is not enrolled for the node",
          { A("10.0.0.5") },
          .enrolled = { "10.0.0.6" },
          V(NOT_ALLOWED) },
        { "an address outside of the prefixes that is enrolled",
          NULL,
          { A("192.168.0.5") },
          REPORTED("192.168.0.5"),
          .enrolled = { "192.168.0.5" } },
        { "only a name is enrolled, so the prefixes count",
          NULL,
          { A("10.0.0.5") },
          .enrolled = { "ec2-1.example.net" } },
        { "an enrolled name",
          NULL,
          { D("EC2-1.example.net.") },
          REPORTED("ec2-1.example.net"),
          .enrolled = { "ec2-1.example.net" } },
        { "its own name, which is not among the enrolled ones",
          NULL,
          { D(NODE) },
          .enrolled = { "ec2-1.example.net" } },
        { "an address in the record of another node, which cannot be used",
          "is enrolled for node (unusable record)",
          { A("10.0.0.30") },
          { "10.0.0.30" } },
        { "a DNS name in the record of another node, which cannot be used",
          "is enrolled for node (unusable record)",
          { D("dc.example.org") },
          REPORTED("dc.example.org") },
        { "a name in a record that cannot be used, for a node with the name of the record",
          "is enrolled for node (unusable record)",
          { D("dc.example.org") },
          .addresses = { "dc.example.org" },
          .node = "node-bootstrap-node-y" },
        { "a pod network with bits behind its length",
          "is also in the Node node4",
          { A("10.245.1.200") },
          { "10.245.1.200" } },
        { "a pod network of its own",
          "is also in the Node " NODE,
          { A("10.246.0.9") },
          { "10.246.0.9" } },
        { "a network among the addresses of another Node",
          NULL,
          { A("10.0.0.40") },
          { "10.0.0.40" } },
        { "another node's address with leading zeros",
          "is also in the Node node4",
          { A("10.0.0.20") },
          { "10.0.0.20" } },
        { "another node's address with a leading zero in its last part",
          "is also in the Node node4",
          { A("10.0.0.21") },
          { "10.0.0.21" } },
        { "the name of an enrolled node, which another Node reports",
          NULL,
          { D("db2.example.org") },
          NAMED("db2.example.org"),
          .is_enrolled = true },
        { "the name of an enrolled node in the form of an address, which another Node reports",
          "is also in the Node node2",
          { A("10.0.0.7") },
          .addresses = { "10.0.0.7" },
          .node = "10.0.0.7",
          .is_enrolled = true },
        { "the name of a node that is not enrolled, which another Node reports",
          "is also in the Node node2",
          { D("db2.example.org") },
          NAMED("db2.example.org") },
        { "an enrolled address that is not in the status",
          "status of the Node",
          { A("10.0.0.66") },
          .enrolled = { "10.0.0.66" },
          V(NOT_IN_STATUS) },

        /* Without policy or record. */
        { "no policy",
          "there is no ConfigMap kube-system/node-bootstrap-policy",
          { A("10.0.0.5") },
          .policy = "-",
          V(NO_POLICY) },
        { "no policy, and no networks of Services are known",
          "there is no ConfigMap kube-system/node-bootstrap-policy",
          { A("10.0.0.5") },
          .policy = "-",
          .has_no_service_networks = true,
          V(NETWORKS_UNKNOWN) },
        { "a policy that cannot be used",
          "unknown key",
          { A("10.0.0.5") },
          .policy = "-",
          .policy_flaw = "unknown key",
          V(NO_POLICY) },
        { "a name of the API server, without a policy",
          "belongs to the cluster",
          { D("api.example.org") },
          REPORTED("api.example.org"),
          .policy = "-" },
        { "a record that cannot be used",
          "its removal is not complete",
          { A("10.0.0.5") },
          .record_flaw = "its removal is not complete",
          V(RECORD_UNUSABLE) },
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
                      : "{\"servingPrefixes\":\"10.0.0.0/8,fd00::/8\",\"servingSuffixes\":"
                        "\".example.com,.nodes.example.org\",\"serviceNetworks\":\"10.96.0.0/12\","
                        "\"clusterDomain\":\"k8s.test\"}");
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
        bool has_policy = !row->policy || strcmp(row->policy, "-") != 0;
        char reason[NB_SERVING_REASON_SIZE] = "";
        struct nb_serving_case c = {
                .request = &request,
                .hosts = &hosts,
                .policy = has_policy ? &policy : NULL,
                .policy_flaw = row->policy_flaw,
                .record = row->enrolled[0] || row->is_enrolled ? &record : NULL,
                .record_flaw = row->record_flaw,
                .node = row->has_no_node ? NULL : &node,
        };

        request = (struct nb_node_request){ 0 };
        record = (struct nb_node_record){ 0 };
        node = (struct nb_node_facts){ 0 };
        add_cluster(&hosts, !row->has_no_service_networks);
        if (has_policy)
                read_policy(row->policy, &policy);
        read_node(row, &node);
        read_request(row, &request);
        for (size_t i = 0; i < N_ELEMENTS(row->enrolled) && row->enrolled[i]; i++) {
                char host[NB_HOST_SIZE];

                assert_int_equal(nb_host_fold(row->enrolled[i], host), 0);
                add_item(nb_host_is_address(host) ? record.addresses : record.dns_names,
                         row->enrolled[i]);
        }
        assert_int_equal(
                nb_serving_decide(&c, NB_SERVING_MALFORMED, _NB_SERVING_VERDICT_N - 1, reason),
                row->reason && !row->verdict ? NB_SERVING_NOT_ITS_OWN : row->verdict);
        if (row->reason && !strstr(reason, row->reason))
                fail_msg("the reason is: %s", reason);
}

/* Who asks with force gets nothing that belongs to others. */
static void limits_force(void **state _unused_) {
        assert_false(nb_serving_is_forcible(NB_SERVING_MALFORMED));
        assert_false(nb_serving_is_forcible(NB_SERVING_NOT_ITS_OWN));
        assert_false(nb_serving_is_forcible(NB_SERVING_NETWORKS_UNKNOWN));
        assert_true(nb_serving_is_forcible(NB_SERVING_NO_POLICY));
        assert_true(nb_serving_is_forcible(NB_SERVING_NOT_IN_STATUS));
        for (enum nb_serving_verdict verdict = 0; verdict < _NB_SERVING_VERDICT_N; verdict++)
                assert_non_null(nb_serving_verdict_name(verdict));
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
