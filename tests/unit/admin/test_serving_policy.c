/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "admin/policy/serving_policy.h"

#include "case.h"

#define NODE "node1.nodes.example.org"
#define A(text) \
        { NB_REQUEST_NAME_ADDRESS, text }
#define D(text) \
        { NB_REQUEST_NAME_DNS, text }
#define O(text) \
        { NB_REQUEST_NAME_OTHER, text }

/* What differs from a correct request of the node NODE with the addresses in `usual_addresses`. */
struct row {
        const char *name;
        const char *reason; /* a part of it; NULL: approved */
        struct nb_pkcs10_csr_name names[4];
        const char *addresses[6];        /* of the Node; none: the usual ones */
        enum nb_serving_verdict verdict; /* 0: refused, if there is a reason */
        const char *listed[3];           /* enrolled */
        const char *node;                /* NULL: NODE */
        const char *flaw;
        const char *prefixes; /* "-" for none; NULL: the usual ones */
        const char *suffixes; /* likewise */
        bool is_not_in_group, is_client, has_no_node, is_deleted, has_no_names;
};

static const char *const usual_addresses[] = { "node1", NODE, "node1.example.com", "10.0.0.5",
                                               "fd00::5" };

/* The Node reports the name too: it is the node that chooses its addresses. */
#define REPORTED(text) .addresses = { text, "10.0.0.5" }

static struct row rows[] = {
        { "its address", NULL, { A("10.0.0.5") } },
        { "its name, IPv4 and IPv6", NULL, { D(NODE), A("10.0.0.5"), A("fd00::5") } },
        { "its address, mapped into IPv6", NULL, { A("::ffff:10.0.0.5") } },
        { "its name in upper case", NULL, { D("NODE1.Nodes.Example.ORG") } },
        { "its name with a trailing dot", NULL, { D(NODE ".") } },
        { "its first label with a configured suffix", NULL, { D("node1.example.com") } },
        { "the name in the status in upper case",
          NULL,
          { D(NODE) },
          { "NODE1.nodes.example.org" } },

        /* The requestor (k0s#8333, ironcore GHSA-rwxr-qr3p-5xq2). */
        { "a request with a flaw: a user is not the node",
          "requested by another user",
          { A("10.0.0.5") },
          .flaw = "it was requested by another user" },
        { "a requestor outside system:nodes",
          "system:nodes",
          { A("10.0.0.5") },
          .is_not_in_group = true },
        { "a request of another signer", "serving", { A("10.0.0.5") }, .is_client = true },
        { "a node that does not exist",
          "no Node",
          { A("10.0.0.5") },
          .has_no_node = true,
          .verdict = NB_SERVING_NO_NODE },
        { "a node that is being deleted",
          "no Node",
          { A("10.0.0.5") },
          .is_deleted = true,
          .verdict = NB_SERVING_NO_NODE },

        /* talos-cloud-controller-manager GHSA-87pw-5j2g-6376. */
        { "no alternative names", "no alternative names", { A("10.0.0.5") }, .has_no_names = true },
        { "one good address and one foreign name",
          "neither the node's name",
          { A("10.0.0.5"), D("db.example.org") },
          REPORTED("db.example.org") },
        { "only a foreign name",
          "neither the node's name",
          { D("db.example.org") },
          REPORTED("db.example.org") },
        { "kubernetes", "of the cluster", { D("kubernetes") }, REPORTED("kubernetes") },
        { "Kubernetes", "of the cluster", { D("Kubernetes") }, REPORTED("Kubernetes") },
        { "kubernetes with a trailing dot",
          "of the cluster",
          { D("kubernetes.") },
          REPORTED("kubernetes.") },
        { "a node named kubernetes",
          "of the cluster",
          { D("kubernetes") },
          REPORTED("kubernetes"),
          .node = "kubernetes" },
        { "kubernetes.default",
          "of the cluster",
          { D("KUBERNETES.default") },
          REPORTED("kubernetes.default"),
          .node = "kubernetes.default" },
        { "kubernetes.default.svc",
          "of the cluster",
          { D("kubernetes.default.SVC") },
          REPORTED("kubernetes.default.svc"),
          .node = "kubernetes.default.svc" },
        { "a name of a Service in the cluster's domain",
          "of the cluster",
          { D("kubernetes.default.svc.Cluster.Local") },
          REPORTED("kubernetes.default.svc.cluster.local"),
          .node = "kubernetes.default.svc.cluster.local" },
        { "a name of a Service in a domain that is not configured",
          "of the cluster",
          { D("web.default.svc.corp") },
          REPORTED("web.default.svc.corp"),
          .node = "web.default.svc.corp" },
        { "a name in the cluster's domain",
          "of the cluster",
          { D("node1.K8S.test.") },
          REPORTED("node1.k8s.test"),
          .node = "node1.k8s.test" },
        { "the cluster's domain",
          "of the cluster",
          { D("k8s.test") },
          REPORTED("k8s.test"),
          .node = "k8s.test" },
        { "a name in cluster.local if another domain is configured",
          "of the cluster",
          { D("node1.cluster.local") },
          REPORTED("node1.cluster.local"),
          .node = "node1.cluster.local" },
        { "localhost",
          "local host",
          { D("LOCALHOST") },
          REPORTED("localhost"),
          .node = "localhost" },
        { "a name below localhost",
          "local host",
          { D("a.localhost") },
          REPORTED("a.localhost"),
          .node = "a.localhost" },

        /* kubelet-serving-cert-approver #337, #348: an address because it was asked for. */
        { "an address that the Node does not have",
          "status of the Node",
          { A("10.0.0.6") },
          .verdict = NB_SERVING_NOT_IN_STATUS },
        { "a name that the Node does not have",
          "status of the Node",
          { D(NODE) },
          { "10.0.0.5" },
          .verdict = NB_SERVING_NOT_IN_STATUS },
        { "a Node without addresses",
          "status of the Node",
          { A("10.0.0.5") },
          { "" },
          .verdict = NB_SERVING_NOT_IN_STATUS },
        { "an address that differs in the last bit of IPv6",
          "status of the Node",
          { A("fd00::4") },
          .verdict = NB_SERVING_NOT_IN_STATUS },
        { "an address outside the prefixes",
          "--serving-prefixes",
          { A("192.168.0.5") },
          REPORTED("192.168.0.5") },

        { "an address of Services",
          "--service-cidrs",
          { A("10.96.0.77") },
          REPORTED("10.96.0.77") },
        { "an address of Services, mapped",
          "--service-cidrs",
          { A("::ffff:10.96.0.77") },
          REPORTED("10.96.0.77") },
        { "an address of the API server", "API server", { A("10.0.0.1") }, REPORTED("10.0.0.1") },
        { "an address of the API server, mapped",
          "API server",
          { A("::ffff:a00:1") },
          REPORTED("10.0.0.1") },
        { "a name of the API server",
          "API server",
          { D("api.example.org") },
          REPORTED("api.example.org"),
          .node = "api.example.org" },
        { "a name of the API server in upper case with a dot",
          "API server",
          { D("API.example.org.") },
          REPORTED("api.example.org"),
          .node = "api.example.org" },
        { "loopback",
          "one machine",
          { A("127.0.0.1") },
          REPORTED("127.0.0.1"),
          .prefixes = "0.0.0.0/0" },
        { "mapped loopback",
          "one machine",
          { A("::ffff:127.0.0.1") },
          REPORTED("127.0.0.1"),
          .prefixes = "0.0.0.0/0" },
        { "link-local",
          "one machine",
          { A("169.254.169.254") },
          REPORTED("169.254.169.254"),
          .prefixes = "0.0.0.0/0" },
        { "an address in the form of a name", "form of a DNS name", { D("10.0.0.5") } },
        { "an abbreviated address in the form of a name",
          "form of a DNS name",
          { D("10.5") },
          REPORTED("10.5"),
          .node = "10.5" },
        { "an address in hexadecimal in the form of a name",
          "form of a DNS name",
          { D("0x0a000005") },
          REPORTED("0x0a000005"),
          .node = "0x0a000005" },
        { "a name in the form of an address", "not an address", { A("node1") } },
        { "a wildcard",
          "not a DNS name",
          { D("*.nodes.example.org") },
          REPORTED("*.nodes.example.org") },
        { "two trailing dots", "not a DNS name", { D(NODE "..") }, REPORTED(NODE "..") },
        { "an email address",
          "neither a DNS name nor an address",
          { O("root@example.org") },
          REPORTED("root@example.org") },

        /* Names that are configured. */
        { "the name of another node",
          "neither the node's name",
          { D("node2.nodes.example.org") },
          REPORTED("node2.nodes.example.org") },
        { "a first label that begins with the node's",
          "neither the node's name",
          { D("node10.example.com") },
          REPORTED("node10.example.com") },
        { "a name below its own",
          "neither the node's name",
          { D("a." NODE) },
          REPORTED("a." NODE) },
        { "the suffix alone",
          "neither the node's name",
          { D("example.com") },
          REPORTED("example.com") },
        { "a name that ends with the suffix without its dot",
          "neither the node's name",
          { D("node1.badexample.com") },
          REPORTED("node1.badexample.com") },
        { "its own name without --serving-names", NULL, { D(NODE) }, .suffixes = "-" },
        { "a suffix without --serving-names",
          "neither the node's name",
          { D("node1.example.com") },
          .suffixes = "-" },
        { "an address without --serving-prefixes",
          "--serving-prefixes",
          { A("10.0.0.5") },
          .prefixes = "-" },
        { "its own name with neither option",
          "is configured",
          { D(NODE) },
          .prefixes = "-",
          .suffixes = "-" },

        /* Enrolled names. */
        { "enrolled: listed with the address",
          NULL,
          { A("10.0.0.5") },
          .listed = { "fd00::5", "::ffff:10.0.0.5" } },
        { "enrolled: listed with another address",
          "is not enrolled for this node",
          { A("10.0.0.5") },
          .listed = { "10.0.0.6" },
          .verdict = NB_SERVING_NOT_LISTED },
        { "enrolled: listed with another form of the name",
          NULL,
          { D(NODE) },
          .listed = { "Node1.nodes.example.org." } },
        { "enrolled: a name without the node's label",
          NULL,
          { D("ec2-1.example.com") },
          REPORTED("ec2-1.example.com"),
          .listed = { "ec2-1.example.com" } },
        { "enrolled: a listed name outside the suffixes",
          "neither the node's name",
          { D("ec2-1.example.net") },
          REPORTED("ec2-1.example.net"),
          .listed = { "ec2-1.example.net" } },
        { "enrolled: a listed name of the API server",
          "API server",
          { D("api.example.org") },
          REPORTED("api.example.org"),
          .listed = { "api.example.org" } },
};

static void read_node(const struct row *row, struct nb_node_facts *node) {
        const char *const *addresses = row->addresses[0] ? row->addresses : usual_addresses;

        for (size_t i = 0; i < N_ELEMENTS(usual_addresses) && addresses[i]; i++)
                snprintf(node->addresses[node->n_addresses++], sizeof(node->addresses[0]), "%s",
                         addresses[i]);
        node->is_being_deleted = row->is_deleted;
}

static void read_request(const struct row *row, struct nb_node_request *request) {
        request->kind = row->is_client ? NB_NODE_REQUEST_CLIENT : NB_NODE_REQUEST_SERVING;
        request->is_group_exact = !row->is_not_in_group;
        snprintf(request->node, sizeof(request->node), "%s", row->node ? row->node : NODE);
        snprintf(request->flaw, sizeof(request->flaw), "%s", row->flaw ? row->flaw : "");
        while (!row->has_no_names && request->facts.n_names < N_ELEMENTS(row->names) &&
               row->names[request->facts.n_names].text[0]) {
                request->facts.names[request->facts.n_names] = row->names[request->facts.n_names];
                request->facts.n_names++;
        }
}

static const char *option(const char *value, const char *usual) {
        if (!value)
                return usual;
        return strcmp(value, "-") == 0 ? NULL : value;
}

static void decides(void **state) {
        static const char *const hosts[] = { "10.0.0.1", "api.example.org" };
        const struct row *row = *state;
        static struct nb_serving_policy policy;
        static struct nb_node_request request;
        static struct nb_node_record listed;
        static struct nb_node_facts node;
        static struct nb_serving_endpoints endpoints;
        struct nb_failure f = { 0 };
        char reason[NB_SERVING_REASON_SIZE] = "";
        struct nb_serving_case c = {
                .policy = &policy,
                .endpoints = &endpoints,
                .request = &request,
                .node = row->has_no_node ? NULL : &node,
                .record = row->listed[0] ? &listed : NULL,
        };

        request = (struct nb_node_request){ 0 };
        listed = (struct nb_node_record){ 0 };
        node = (struct nb_node_facts){ 0 };
        endpoints = (struct nb_serving_endpoints){ 0 };
        assert_int_equal(nb_serving_policy_init(
                                 &(const struct nb_serving_options){
                                         option(row->prefixes, "10.0.0.0/8,fd00::/8"),
                                         option(row->suffixes, ".example.com,.nodes.example.org"),
                                         "10.96.0.0/12", "k8s.test" },
                                 &policy, &f),
                         0);
        for (size_t i = 0; i < N_ELEMENTS(hosts); i++)
                assert_int_equal(nb_serving_endpoints_add(&endpoints, hosts[i]), 0);
        read_node(row, &node);
        read_request(row, &request);
        for (; listed.n_names < N_ELEMENTS(row->listed) && row->listed[listed.n_names];
             listed.n_names++)
                snprintf(listed.names[listed.n_names].text, sizeof(listed.names[0].text), "%s",
                         row->listed[listed.n_names]);
        if (!row->reason) {
                assert_int_equal(nb_serving_decide(&c, reason), NB_SERVING_APPROVED);
                return;
        }
        assert_int_equal(nb_serving_decide(&c, reason),
                         row->verdict != NB_SERVING_APPROVED ? row->verdict : NB_SERVING_REFUSED);
        if (!strstr(reason, row->reason))
                fail_msg("the reason is: %s", reason);
}

/* --- Options --- */

struct option_case {
        const char *name;
        struct nb_serving_options options;
        const char *expected; /* a part of the failure; NULL: accepted */
};

static struct option_case options[] = {
        { "options: none", { 0 }, NULL },
        { "options: all", { "10.0.0.0/8", ".a.org,.b", "10.96.0.0/12", "k8s.test" }, NULL },
        { "options: a malformed prefix", { .prefixes = "10.0.0.0" }, "--serving-prefixes" },
        { "options: a malformed service range", { .service_cidrs = "x" }, "--service-cidrs" },
        { "options: a suffix without a dot", { .names = "example.org" }, "--serving-names" },
        { "options: a dot alone", { .names = "." }, "--serving-names" },
        { "options: an empty suffix", { .names = ".a.org," }, "--serving-names" },
        { "options: a pattern", { .names = ".*.example.org" }, "--serving-names" },
        { "options: a suffix in upper case", { .names = ".Example.org" }, "--serving-names" },
        { "options: a domain with a dot", { .cluster_domain = ".local" }, "--cluster-domain" },
};

static void reads_options(void **state) {
        const struct option_case *c = *state;
        static struct nb_serving_policy policy;
        struct nb_failure f = { 0 };
        int r = nb_serving_policy_init(&c->options, &policy, &f);

        if (!c->expected) {
                assert_int_equal(r, 0);
                return;
        }
        assert_true(r < 0);
        assert_int_equal(f.code, NB_USAGE);
        assert_non_null(strstr(f.detail, c->expected));
}

static void refuses_too_many_endpoints(void **state _unused_) {
        static struct nb_serving_endpoints endpoints;

        for (unsigned i = 0; i < NB_SERVING_ENDPOINTS_MAX; i++)
                assert_int_equal(nb_serving_endpoints_add(&endpoints, "10.0.0.1"), 0);
        assert_true(nb_serving_endpoints_add(&endpoints, "10.0.0.1") < 0);
}

/* --- Nodes --- */

static void reads_node(void **state _unused_) {
        static const char text[] =
                "{\"metadata\":{\"name\":\"n\",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"},"
                "\"status\":{\"addresses\":[{\"type\":\"InternalIP\",\"address\":\"10.0.0.5\"},"
                "{\"type\":\"Hostname\",\"address\":\"node1\"}]}}";
        struct nb_failure f = { 0 };
        _cleanup_(nb_json_done) struct nb_json json = nb_json_parse(text, strlen(text), "the Node",
                                                                    NB_ANSWER_MALFORMED, &f);
        static struct nb_node_facts node;

        nb_node_facts_read(&json, &node);
        assert_int_equal(json.r, 0);
        assert_true(node.is_being_deleted);
        assert_int_equal(node.n_addresses, 2);
        assert_string_equal(node.addresses[0], "10.0.0.5");
        assert_string_equal(node.addresses[1], "node1");
}

int main(void) {
        CASES(rows, decides);
        CASES(options, reads_options);
        CASE(refuses_too_many_endpoints);
        CASE(reads_node);
        return case_run("serving_policy");
}
