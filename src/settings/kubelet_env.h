/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * node-bootstrap.env, an environment file with a fixed path. It sets KUBELET_NODE_NAME for kubelet
 * units that do not read kubeadm-flags.env, such as OpenShift's, and it says where kubelet's files
 * are, so that a machine that has joined is recognized without its settings.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "settings/settings.h"

#define NB_KUBELET_ENV_FILE "node-bootstrap.env"
#define NB_KUBELET_ENV_PATH NB_KUBELET_DIRECTORY "/" NB_KUBELET_ENV_FILE

/* Where the files are that a join writes for kubelet. */
struct nb_kubelet_paths {
        char kubeconfig[NB_SETTINGS_PATH_MAX];
        char certificate_directory[NB_SETTINGS_PATH_MAX];
        char ca_file[NB_SETTINGS_PATH_MAX];
};

void nb_kubelet_paths_get(const struct nb_settings *settings, struct nb_kubelet_paths *ret_paths);
void nb_kubelet_paths_set(const struct nb_kubelet_paths *paths, struct nb_settings *settings);
bool nb_kubelet_paths_are_equal(const struct nb_kubelet_paths *a, const struct nb_kubelet_paths *b);

/* Appends the contents of the file: the paths that are not the default ones
 * (NODE_BOOTSTRAP_KUBECONFIG, NODE_BOOTSTRAP_CERTIFICATE_DIRECTORY, NODE_BOOTSTRAP_CA_FILE), and
 * the node name. */
void nb_kubelet_env_format(const char *node_name, const struct nb_kubelet_paths *paths,
                           struct nb_buffer *ret);

/* The paths of the last join: 1; 0 if the file does not exist or is incomplete; -ENOMEM. */
int nb_kubelet_env_read_paths(int root_fd, struct nb_kubelet_paths *ret_paths);

/* Finds the paths in the text; the default ones where it has none. Whether the text is complete. */
bool nb_kubelet_env_find_paths(const char *text, size_t len, struct nb_kubelet_paths *ret_paths);
