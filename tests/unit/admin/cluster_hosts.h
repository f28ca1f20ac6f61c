/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A cluster with an API server, Services, two Nodes and an enrolled node, for the decision on a
 * serving certificate of NODE. */

#include <string.h>

#include "admin/policy/hosts.h"
#include "admin/policy/node_record.h"
#include "case.h"

#define NODE "node1.nodes.example.org"
#define KEY \
        "-----BEGIN PUBLIC KEY-----\n" \
        "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE8EiAPpZbYLqGus/kSQesFkFvtR+1\n" \
        "+2ghDB8vaRJOW5+3jnUusLrmnBn2lDc7Kues5se44t9DyqCJX89bqYjgGQ==\n" \
        "-----END PUBLIC KEY-----\n"

static inline struct nb_json parse(const char *text, struct nb_failure *f) {
        return nb_json_parse(text, strlen(text), "it", NB_ANSWER_MALFORMED, f);
}

static inline void add_object(struct nb_hosts *hosts, const char *text,
                              int (*add)(void *hosts, struct nb_json *json)) {
        struct nb_failure f = { 0 };
        struct nb_json json = parse(text, &f);

        assert_int_equal(add(hosts, &json), 0);
        assert_int_equal(json.r, 0);
        nb_json_done(&json);
}

static inline void add_cluster(struct nb_hosts *hosts, bool has_service_networks) {
        static struct nb_node_record record = { .node = "node3",
                                                .uid = "u",
                                                .resource_version = "1" };
        struct nb_buffer text = NB_BUFFER_INIT(65536);

        assert_true(nb_node_record_set_names(&record, "10.0.0.8", true));
        strcpy(record.public_key, KEY);
        assert_int_equal(nb_node_record_format(&record, &text), 0);
        add_object(hosts, text.data, nb_hosts_add_record);
        nb_buffer_done(&text);
        /* A removed node owns nothing. */
        add_object(hosts,
                   "{\"metadata\":{\"name\":\"node-bootstrap-node-x\",\"uid\":\"u\","
                   "\"resourceVersion\":"
                   "\"1\"},\"type\":\"node-bootstrap/enrolled-node\",\"data\":{\"node\":\"eA==\","
                   "\"removed\":\"MjAyNi0xMi0wMVQwMDowMDowMFo=\"}}",
                   nb_hosts_add_record);
        add_object(hosts, "{\"type\":\"Opaque\"}", nb_hosts_add_record);
        /* The addresses 10.0.0.30 and x, the name dc.example.org, and no key. */
        add_object(hosts,
                   "{\"metadata\":{\"name\":\"node-bootstrap-node-y\",\"uid\":\"u\","
                   "\"resourceVersion\":\"1\"},\"type\":\"node-bootstrap/enrolled-node\",\"data\":"
                   "{\"node\":\"eQ==\",\"addresses\":\"MTAuMC4wLjMwLHg=\","
                   "\"dnsNames\":\"ZGMuZXhhbXBsZS5vcmc=\"}}",
                   nb_hosts_add_record);
        assert_int_equal(nb_hosts_add(hosts, NB_OWNER_CLUSTER, "api.example.org", "the API server"),
                         0);
        assert_int_equal(nb_hosts_add(hosts, NB_OWNER_CLUSTER, "", "the API server"), 0);
        add_object(hosts,
                   "{\"subsets\":[{\"addresses\":[{\"ip\":\"10.0.0.2\"}],\"notReadyAddresses\":"
                   "[{\"ip\":\"10.0.0.3\"},{\"ip\":\"10.0.0.1\"}]}]}",
                   nb_hosts_add_endpoints);
        add_object(hosts,
                   "{\"metadata\":{\"name\":\"kubernetes\",\"namespace\":\"default\"},\"spec\":"
                   "{\"clusterIP\":\"10.96.0.1\",\"clusterIPs\":[\"10.96.0.1\",\"fd00:96::1\"]}}",
                   nb_hosts_add_service);
        add_object(
                hosts,
                "{\"metadata\":{\"name\":\"web\",\"namespace\":\"shop\"},\"spec\":{\"clusterIP\":"
                "\"10.0.1.10\",\"externalIPs\":[\"10.0.0.9\"],\"loadBalancerIP\":\"10.0.0.11\"},"
                "\"status\":{\"loadBalancer\":{\"ingress\":[{\"ip\":\"10.0.0.10\"},{\"hostname\":"
                "\"lb.example.org\"}]}}}",
                nb_hosts_add_service);
        add_object(hosts,
                   "{\"metadata\":{\"name\":\"headless\",\"namespace\":\"shop\"},"
                   "\"spec\":{\"clusterIP\":\"None\"}}",
                   nb_hosts_add_service);
        add_object(hosts,
                   "{\"metadata\":{\"name\":\"node2\"},\"spec\":{\"podCIDRs\":[\"10.244.1.0/24\"]},"
                   "\"status\":{\"addresses\":[{\"type\":\"InternalIP\",\"address\":\"10.0.0.7\"},"
                   "{\"type\":\"Hostname\",\"address\":\"DB2.example.org\"},{\"address\":\"*\"},{"
                   "\"address\":\"0.0.0.0/0\"}]}}",
                   nb_hosts_add_node);
        /* Kubernetes accepts leading zeros, and bits behind the length of a prefix. */
        add_object(hosts,
                   "{\"metadata\":{\"name\":\"node4\"},\"spec\":{\"podCIDRs\":[\"10.245.1.5/24\"]},"
                   "\"status\":{\"addresses\":[{\"address\":\"010.000.00.20\"},{\"address\":"
                   "\"10.0.0.021\"}]}}",
                   nb_hosts_add_node);
        /* Its own claims do not keep it from anything. */
        add_object(hosts,
                   "{\"metadata\":{\"name\":\"" NODE "\"},\"spec\":{\"podCIDRs\":[\"10.246.0.0/"
                   "24\"]},\"status\":{\"addresses\":[{\"type\":"
                   "\"InternalIP\",\"address\":\"10.0.0.5\"}]}}",
                   nb_hosts_add_node);
        if (has_service_networks)
                add_object(hosts, "{\"spec\":{\"cidrs\":[\"10.97.0.0/16\",\"fd00:96::/112\"]}}",
                           nb_hosts_add_service_network);
}
