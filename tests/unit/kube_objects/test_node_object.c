/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "kube_objects/node_object.h"

#include "case.h"

#define NODE(status) \
        "{\"kind\":\"Node\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\"}" status "}"
#define CONDITIONS(list) NODE(",\"status\":{\"conditions\":[" list "]}")

struct node_case {
        const char *name;
        const char *json;
        bool is_good, is_ready;
        const char *since, *address, *info;
};

static struct node_case cases[] = {
        { "a Node without status", NODE(""), true, false, "", "" },
        { "no conditions", NODE(",\"status\":{}"), true, false, "", "" },
        { "Ready is True",
          CONDITIONS("{\"type\":\"Ready\",\"status\":\"True\",\"lastTransitionTime\":\"2026-01-"
                     "02T03:04:05Z\"}"),
          true, true, "2026-01-02T03:04:05Z", "" },
        { "Ready is not the first",
          CONDITIONS("{\"type\":\"PIDPressure\",\"status\":\"False\"},{\"type\":\"Ready\","
                     "\"status\":\"True\"}"),
          true, true, "", "" },
        { "another condition is True", CONDITIONS("{\"type\":\"PIDPressure\",\"status\":\"True\"}"),
          true, false, "", "" },
        { "Ready is False", CONDITIONS("{\"type\":\"Ready\",\"status\":\"False\"}"), true, false,
          "", "" },
        { "Ready is Unknown", CONDITIONS("{\"type\":\"Ready\",\"status\":\"Unknown\"}"), true,
          false, "", "" },
        { "Ready without status", CONDITIONS("{\"type\":\"Ready\"}"), true, false, "", "" },
        { "true is another word than True", CONDITIONS("{\"type\":\"Ready\",\"status\":\"true\"}"),
          true, false, "", "" },
        { "the internal address",
          NODE(",\"status\":{\"addresses\":[{\"type\":\"Hostname\",\"address\":\"h\"},{\"type\":"
               "\"InternalIP\",\"address\":\"192.0.2.7\"}]}"),
          true, false, "", "192.0.2.7" },
        { "long lines and control characters in what kubelet reports",
          NODE(",\"status\":{\"nodeInfo\":{\"kubeletVersion\":\"v1.36.3-"
               "0123456789012345678901234567\","
               "\"osImage\":\"a\\u001b[31mb\\nc\\u202ed\",\"systemUUID\":\"u\"}}"),
          true, false, "", "", "v1.36.3-01234567890123456789012|a [31mb c d|u" },
        { "another kind", "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\"}}",
          false, false, "", "" },
        { "another version",
          "{\"kind\":\"Node\",\"apiVersion\":\"v2\",\"metadata\":{\"name\":\"a\"}}", false, false,
          "", "" },
        { "no name", "{\"kind\":\"Node\",\"apiVersion\":\"v1\",\"metadata\":{}}", false, false, "",
          "" },
        { "a line break in the name",
          "{\"kind\":\"Node\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\\nb\"}}", false,
          false, "", "" },
        { "conditions are no list", NODE(",\"status\":{\"conditions\":{}}"), false, false, "", "" },
        { "status is no string", CONDITIONS("{\"type\":\"Ready\",\"status\":true}"), false, false,
          "", "" },
        { "not JSON", "ok", false, false, "", "" },
};

static void parses(void **state) {
        const struct node_case *c = *state;
        struct nb_node_object node = { .name = "kept" };
        struct nb_failure f = { 0 };
        char info[sizeof(node)];
        int r = nb_node_object_parse(c->json, strlen(c->json), &node, &f);

        assert_int_equal(r >= 0, c->is_good);
        assert_int_equal(f.code, c->is_good ? NB_NONE : NB_ANSWER_MALFORMED);
        assert_string_equal(node.name, c->is_good ? "a" : "kept");
        assert_int_equal(node.is_ready, c->is_ready);
        assert_string_equal(node.ready_since, c->since);
        assert_string_equal(node.address, c->address);
        snprintf(info, sizeof(info), "%s|%s|%s", node.kubelet_version, node.os_image,
                 node.system_uuid);
        assert_string_equal(info, c->info ? c->info : "||");
}

int main(void) {
        CASES(cases, parses);
        return case_run("node_object");
}
