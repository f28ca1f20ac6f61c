/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The addresses of a node, as a list such as "10.0.0.5,fd00::5": each once, and as inet_ntop()
 * writes it. */

#include <netinet/in.h>
#include <stdbool.h>

#include "settings/settings.h"

#define NB_NODE_IPS_SIZE 192 /* four addresses of any family */

/* Moves the first address of *list to `ret`. False if there is none. */
bool nb_node_ips_next(const char **list, char ret[static INET6_ADDRSTRLEN]);

bool nb_node_ips_contain(const char *list, const char *address);

/* Unless the list contains the address, or has no room for it. */
void nb_node_ips_add(const char *address, char list[static NB_NODE_IPS_SIZE]);

/* The addresses in `node-ip` of kubelet.extraArgs. "" for none: 0.0.0.0 and :: only select a
 * family. */
void nb_settings_node_ips(const struct nb_settings *settings, char ret[static NB_NODE_IPS_SIZE]);
