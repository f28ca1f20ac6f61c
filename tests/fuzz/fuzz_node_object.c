/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"
#include "fuzz.h"
#include "kube_objects/node_object.h"

void fuzz_one(const char *data, size_t len) {
        struct nb_node_object node = {};
        struct nb_failure f = {};
        int r = nb_node_object_parse(data, len, &node, &f);

        FUZZ_CHECK_FAILURE(f, r);
        if (r < 0)
                return;
        FUZZ_CHECK(node.name[0] && strlen(node.name) <= NB_NODE_NAME_MAX);
        FUZZ_CHECK(nb_text_is_printable(node.address, strlen(node.address)));
        FUZZ_CHECK(nb_text_is_printable(node.kubelet_version, strlen(node.kubelet_version)));
        FUZZ_CHECK(nb_text_is_printable(node.os_image, strlen(node.os_image)));
        FUZZ_CHECK(nb_text_is_printable(node.system_uuid, strlen(node.system_uuid)));
}
