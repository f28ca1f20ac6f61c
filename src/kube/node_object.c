/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "codec/json.h"
#include "kube/node_object.h"
#include "kube/object.h"

#define LIST_MAX 64
#define PATH_SIZE 64

/* Finds the entry of `list` with this type: 1 and its index, or 0. */
static int find_type(const struct nb_json *json, const char *list, const char *type, size_t *ret_i,
                     struct nb_failure *f) {
        char path[PATH_SIZE];
        const char *text;
        size_t n = 0, len;
        int r;

        r = nb_json_array(json, list, &n, f);
        if (r <= 0)
                return r;
        for (size_t i = 0; i < n && i < LIST_MAX; i++) {
                snprintf(path, sizeof(path), "%s[%zu].type", list, i);
                r = nb_json_string(json, path, &text, &len, f);
                if (r < 0)
                        return r;
                if (r > 0 && strcmp(text, type) == 0) {
                        *ret_i = i;
                        return 1;
                }
        }
        return 0;
}

static int read_ready(const struct nb_json *json, struct nb_node_object *node,
                      struct nb_failure *f) {
        char path[PATH_SIZE], status[16];
        size_t i;
        int r;

        r = find_type(json, "status.conditions", "Ready", &i, f);
        if (r <= 0)
                return r;
        snprintf(path, sizeof(path), "status.conditions[%zu].status", i);
        r = nb_json_line(json, path, status, sizeof(status), f);
        if (r < 0)
                return r;
        node->is_ready = strcmp(status, "True") == 0;
        snprintf(path, sizeof(path), "status.conditions[%zu].lastTransitionTime", i);
        return nb_json_line(json, path, node->ready_since, sizeof(node->ready_since), f);
}

static int read_address(const struct nb_json *json, struct nb_node_object *node,
                        struct nb_failure *f) {
        char path[PATH_SIZE];
        size_t i;
        int r;

        r = find_type(json, "status.addresses", "InternalIP", &i, f);
        if (r <= 0)
                return r;
        snprintf(path, sizeof(path), "status.addresses[%zu].address", i);
        return nb_json_line(json, path, node->address, sizeof(node->address), f);
}

int nb_node_object_parse(const char *text, size_t len, struct nb_node_object *ret_node,
                         struct nb_failure *f) {
        static const struct nb_object_type type = {
                .what = "the Node",
                .kind = "Node",
                .api_version = "v1",
                .max = NB_NODE_OBJECT_MAX,
        };
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        struct nb_node_object node = { 0 };
        int r;

        r = nb_object_parse(text, len, &type, &json, f);
        if (r < 0)
                return r;
        r = nb_json_copy(&json, "metadata.name", node.name, sizeof(node.name), f);
        if (r < 0)
                return r;
        r = read_ready(&json, &node, f);
        if (r < 0)
                return r;
        r = read_address(&json, &node, f);
        if (r < 0)
                return r;
        *ret_node = node;
        return 0;
}
