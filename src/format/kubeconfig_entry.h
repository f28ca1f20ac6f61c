/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the readers of a kubeconfig share: entries of its lists, and what may stand in a cluster. Private to kubeconfig*.c. */

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/failure.h"
#include "format/kubeconfig.h"
#include "format/yaml.h"

#define NB_KUBECONFIG_DATA_MAX (256 * 1024) /* bytes that one *-data member decodes to */

/* The document that is being read, and what its refusal is. */
struct nb_kubeconfig_reading {
        const char *origin;
        enum nb_code code;
        struct nb_failure *f;
};

/* "origin: path: expected ..., found ..." */
int nb_kubeconfig_refuse(const struct nb_kubeconfig_reading *reading, const char *path, const char *found,
                         const char *expected);

/* Whether a mapping has exactly this text under the key. */
bool nb_kubeconfig_has_text(const struct nb_yaml_node *mapping, const char *key, const char *expected);

/* Nothing, an empty list or an empty mapping. */
bool nb_kubeconfig_is_empty(const struct nb_yaml_node *node);

/* A scalar that is neither empty nor null; NULL otherwise. */
const struct nb_yaml_node *nb_kubeconfig_find_scalar(const struct nb_yaml_node *mapping, const char *key);
const char *nb_kubeconfig_find_text(const struct nb_yaml_node *mapping, const char *key);

/* `member` of the entry with this name in a list; NULL when there is none. Two entries of one name: clientcmd refuses
 * the file. */
const struct nb_yaml_node *nb_kubeconfig_find_named(const struct nb_yaml_node *root, const char *list, const char *name,
                                                    const char *member);

/* Base64 with line breaks in it, as Go reads it. 0, -EINVAL, also for nothing and for a NUL in it; -E2BIG, -ENOMEM. */
int nb_kubeconfig_decode(const struct nb_yaml_node *node, struct nb_buffer *ret);

/* Server, tls-server-name and proxy-url of a cluster, and that TLS is verified; the CA is each reader's own. */
int nb_kubeconfig_take_cluster(const struct nb_kubeconfig_reading *reading, const struct nb_yaml_node *cluster,
                               struct nb_cluster *ret);

/* The CA that stands there in base64. */
int nb_kubeconfig_take_ca_data(const struct nb_kubeconfig_reading *reading, const struct nb_yaml_node *node,
                               struct nb_cluster *ret);
