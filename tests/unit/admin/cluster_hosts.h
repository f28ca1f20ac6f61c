/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What other nodes than NODE have, for the decision on its serving certificate. */

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

static inline void add_object(struct nb_hosts *hosts, const char *text) {
        struct nb_failure f = { 0 };
        struct nb_json json = parse(text, &f);

        assert_int_equal(nb_hosts_add_object(hosts, &json), 0);
        assert_int_equal(json.r, 0);
        nb_json_done(&json);
}

static inline void add_nodes(struct nb_hosts *hosts) {
        static struct nb_node_record record = { .node = "node3",
                                                .uid = "u",
                                                .resource_version = "1" };
        struct nb_buffer text = NB_BUFFER_INIT(65536);

        assert_true(nb_node_record_set_names(&record, "10.0.0.8", true));
        assert_true(nb_node_record_set_names(&record, "db.nodes.example.org", false));
        strcpy(record.public_key, KEY);
        assert_int_equal(nb_node_record_format(&record, &text), 0);
        add_object(hosts, text.data);
        nb_buffer_done(&text);
        /* A removed node has nothing. */
        add_object(hosts,
                   "{\"metadata\":{\"name\":\"node-bootstrap-node-x\",\"uid\":\"u\","
                   "\"resourceVersion\":"
                   "\"1\"},\"type\":\"node-bootstrap/enrolled-node\",\"data\":{\"node\":\"eA==\","
                   "\"removed\":\"MjAyNi0xMi0wMVQwMDowMDowMFo=\"}}");
        add_object(hosts, "{\"metadata\":{\"name\":\"node2\"},\"status\":{\"addresses\":["
                          "{\"type\":\"InternalIP\",\"address\":\"10.0.0.7\"},"
                          "{\"type\":\"Hostname\",\"address\":\"" NODE "\"},{\"address\":\"*\"},"
                          "{\"address\":\"0.0.0.0/0\"}]}}");
        /* Kubernetes accepts leading zeros. */
        add_object(hosts,
                   "{\"metadata\":{\"name\":\"node4\"},\"status\":{\"addresses\":["
                   "{\"address\":\"010.000.00.20\"},{\"address\":\"10.0.0.21,10.0.0.22\"}]}}");
        add_object(hosts,
                   "{\"metadata\":{\"name\":\"" NODE "\"},\"status\":{\"addresses\":[{\"type\":"
                   "\"InternalIP\",\"address\":\"10.0.0.5\"}]}}");
        assert_false(hosts->is_incomplete);
}
