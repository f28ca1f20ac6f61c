/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Node (v1), as the API server returns it. */

#include <stdbool.h>
#include <stddef.h>

#include "base/failure.h"
#include "kube_objects/node_name.h"

/* etcd limits an object to 1.5 MiB; a Node with many images has 100 KiB. */
#define NB_NODE_OBJECT_MAX (2 * 1024 * 1024)

struct nb_node_object {
        char name[NB_NODE_NAME_MAX + 1];
        bool is_ready; /* the condition Ready is True */

        /* What its kubelet reports, as printable text; "" if it does not. Another machine may
         * report anything. */
        char ready_since[32]; /* lastTransitionTime */
        char address[64];     /* the first InternalIP */
        char kubelet_version[32], os_image[64], system_uuid[40];
};

/* NB_ANSWER_MALFORMED if it is not a Node. */
int nb_node_object_parse(const char *text, size_t len, struct nb_node_object *ret_node,
                         struct nb_failure *f);
