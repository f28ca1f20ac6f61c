/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"
#include "kube/node_object.h"

void fuzz_one(const char *data, size_t len) {
        struct nb_node_object node = {};
        struct nb_failure f = {};
        int r = nb_node_object_parse(data, len, &node, &f);

        FUZZ_CHECK_FAILURE(f, r);
        if (r < 0)
                return;
        FUZZ_CHECK(node.name[0] && strlen(node.name) <= NB_NODE_NAME_MAX);
        for (const char *p = node.address; *p; p++)
                FUZZ_CHECK((unsigned char)*p >= ' ');
}
