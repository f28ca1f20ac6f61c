/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/macro.h"
#include "codec/json.h"
#include "kube_objects/node_object.h"
#include "kube_objects/object.h"

int nb_node_object_parse(const char *text, size_t len, struct nb_node_object *ret_node,
                         struct nb_failure *f) {
        static const struct nb_object_type type = {
                .what = "the Node",
                .kind = "Node",
                .api_version = "v1",
                .max = NB_NODE_OBJECT_MAX,
        };
        _cleanup_(nb_json_done) struct nb_json json = nb_object_parse(text, len, &type, f);
        struct nb_node_object node = { 0 };
        char ready[16];

        nb_json_copy(&json, "metadata.name", node.name, sizeof(node.name));
        nb_json_line(&json, "status.conditions[type=Ready].status", ready, sizeof(ready));
        nb_json_line(&json, "status.conditions[type=Ready].lastTransitionTime", node.ready_since,
                     sizeof(node.ready_since));
        nb_json_line(&json, "status.addresses[type=InternalIP].address", node.address,
                     sizeof(node.address));
        nb_json_line(&json, "status.nodeInfo.kubeletVersion", node.kubelet_version,
                     sizeof(node.kubelet_version));
        nb_json_line(&json, "status.nodeInfo.osImage", node.os_image, sizeof(node.os_image));
        nb_json_line(&json, "status.nodeInfo.systemUUID", node.system_uuid,
                     sizeof(node.system_uuid));
        if (json.r < 0)
                return json.r;
        node.is_ready = strcmp(ready, "True") == 0;
        *ret_node = node;
        return 0;
}
