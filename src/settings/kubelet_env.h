/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * node-bootstrap.env, an environment file that sets KUBELET_NODE_NAME for kubelet units that do not
 * read kubeadm-flags.env, such as OpenShift's.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "settings/settings.h"

#define NB_KUBELET_ENV_FILE "node-bootstrap.env"
#define NB_KUBELET_ENV_PATH NB_KUBELET_DIRECTORY "/" NB_KUBELET_ENV_FILE

/*
 * Appends the contents of the file. If the settings set the path of the kubeconfig, the certificate
 * directory or the CA file, the file also contains it (NODE_BOOTSTRAP_KUBECONFIG,
 * NODE_BOOTSTRAP_CERTIFICATE_DIRECTORY, NODE_BOOTSTRAP_CA_FILE): the path of this file is fixed, so
 * the others are found even if the settings cannot be read.
 */
void nb_kubelet_env_format(const char *node_name, const struct nb_settings *settings,
                           struct nb_buffer *ret);

/* Sets these paths in `settings`, if the text has them. */
void nb_kubelet_env_find_paths(const char *text, size_t len, struct nb_settings *settings);
