/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * node-bootstrap.env, an environment file for units of kubelet that do not read kubeadm-flags.env,
 * such as OpenShift's: KUBELET_NODE_NAME.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "settings/settings.h"

#define NB_KUBELET_ENV_FILE "node-bootstrap.env"
#define NB_KUBELET_ENV_PATH "/var/lib/kubelet/" NB_KUBELET_ENV_FILE

/*
 * The path of that file is fixed. If the kubeconfig or the certificates are not in their default
 * paths, it names these as well (NODE_BOOTSTRAP_KUBECONFIG, NODE_BOOTSTRAP_CERTIFICATE_DIRECTORY),
 * so that they are found if the settings cannot be read.
 */
void nb_kubelet_env_format(const char *node_name, const struct nb_settings *settings,
                           struct nb_buffer *ret);

/* Sets these two paths in `settings`, if the text has them. */
void nb_kubelet_env_find_paths(const char *text, size_t len, struct nb_settings *settings);
