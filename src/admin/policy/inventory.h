/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The inventory: the nodes that may join, by the administrator's own list. A file, or a directory
 * with one file for each node, NAME or NAME.yaml, such as a ConfigMap that is mounted into a pod.
 * Nothing is cached but a parsed file, so a change applies to the next decision. A file lists at
 * most 1000 nodes (NB_YAML_KEYS_MAX); a directory has no limit. A node whose own name ends with
 * .yaml has the file NAME.yaml only.
 *
 *      node1:                             (in a directory, the file name is the node's)
 *        until: 2026-12-01T00:00:00Z      may join until then; missing: no limit
 *        publicKey: |                     the enrolled key, SubjectPublicKeyInfo as PEM;
 *                                         missing: none
 *          -----BEGIN PUBLIC KEY-----
 *        addresses: [10.0.0.5, fd00::5]   for serving certificates; missing: not limited here
 *        dnsNames: [node1.example.org]
 */

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "base/failure.h"
#include "kube/node_name.h"

#define NB_INVENTORY_MAX ((size_t)4 * 1024 * 1024) /* of the whole file */
#define NB_INVENTORY_KEY_MAX 4096
#define NB_INVENTORY_NAMES_MAX 32
#define NB_INVENTORY_NAME_SIZE 256

struct nb_inventory {
        const char *path;                 /* borrowed; NULL: there is no inventory */
        struct nb_inventory_cache *cache; /* private */
};

struct nb_inventory_node {
        time_t until;                              /* 0: no limit */
        char public_key[NB_INVENTORY_KEY_MAX + 1]; /* PEM; "" for none */
        unsigned n_names;                          /* of dnsNames and addresses; 0: not limited */
        char names[NB_INVENTORY_NAMES_MAX][NB_INVENTORY_NAME_SIZE];
};

/* 1: found; 0: the inventory does not list this node; NB_ADMIN_INPUT_MALFORMED. */
int nb_inventory_find(struct nb_inventory *inventory, const char *node,
                      struct nb_inventory_node *ret_node, struct nb_failure *f);

void nb_inventory_done(struct nb_inventory *inventory);
