/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The node name that kubelet derives from a host name: trimmed, in lower case (kubernetes
 * pkg/util/node GetHostname), and a DNS-1123 subdomain, as the API server requires. */

#include <stdbool.h>
#include <stddef.h>

#include "base/failure.h"

#define NB_NODE_NAME_MAX 253

/* 0, or -EINVAL with nothing written. */
int nb_node_name_parse(const char *text, size_t len, char ret_name[static NB_NODE_NAME_MAX + 1]);

/* Chooses `configured`, or the name derived from `host` if `configured` is "".
 * *ret_is_override_needed is true if kubelet would use another name on this host.
 * NB_NODE_NAME_INVALID if `configured` is "" and `host` is not a valid node name. */
int nb_node_name_choose(const char *configured, const char *host,
                        char ret_name[static NB_NODE_NAME_MAX + 1], bool *ret_is_override_needed,
                        struct nb_failure *f);
