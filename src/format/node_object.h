/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A Node of the API group v1, as the API server returns it: whether a kubelet speaks for it at present. */

#include <stdbool.h>
#include <stddef.h>

#include "base/failure.h"
#include "format/node_name.h"

#define NB_NODE_OBJECT_MAX (2 * 1024 * 1024) /* etcd's limit for an object is 1.5 MiB; with many images real ones are 100 KiB */

struct nb_node_object {
        char name[NB_NODE_NAME_MAX + 1];
        bool is_ready;        /* the condition Ready is True */
        char ready_since[32]; /* lastTransitionTime of it, for people; "" when not known */
        char address[64];     /* InternalIP, the first one, for people; "" when there is none */
};

/* NB_ANSWER_MALFORMED when it is no Node with a name. */
int nb_node_object_parse(const char *text, size_t len, struct nb_node_object *ret_node, struct nb_failure *f);
