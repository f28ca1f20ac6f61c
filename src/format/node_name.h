/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The node name as kubelet makes it of a host name: trimmed and lower-cased (kubernetes pkg/util/node GetHostname),
 * then checked to be a DNS-1123 subdomain, which the API server demands of a Node's name.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/failure.h"

#define NB_NODE_NAME_MAX 253

/* 0, or -EINVAL with nothing written. */
int nb_node_name_parse(const char *text, size_t len, char ret_name[static NB_NODE_NAME_MAX + 1]);

/*
 * The configured name, or that of the host where none ("") is. `ret_is_override_needed`: kubelet would make another one
 * of this host name by itself. NB_NODE_NAME_INVALID when there is none configured and the host's does not do.
 */
int nb_node_name_choose(const char *configured, const char *host, char ret_name[static NB_NODE_NAME_MAX + 1],
                        bool *ret_is_override_needed, struct nb_failure *f);
