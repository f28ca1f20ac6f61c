/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * kubeadm's JoinConfiguration (kubeadm.k8s.io/v1beta2, v1beta3, v1beta4) read as settings; the
 * table in join_configuration.c has its keys. Private to merge.c.
 *
 * The setting `timeout` is the sum of the timeouts in the document. Without tlsBootstrapToken the
 * discovery token is also the bootstrap token. A key with the value null or "" is absent, as in
 * kubeadm; `taints: []` is an empty list. Keys of other phases are listed as ignored. controlPlane
 * is refused: only workers can join. Unknown keys are refused as in a NodeBootstrap document.
 *
 * In metadata, caCertPath, criSocket and a kubeConfigPath that is a path are listed as ignored.
 *
 * One file can contain several documents: exactly one JoinConfiguration; others that kubeadm knows
 * are listed as ignored, and any other is refused.
 */

#include "codec/yaml.h"
#include "settings/store.h"

/* Merges the JoinConfiguration among these documents, of which there is at least one. 1; 0 if none
 * is there, and the first document is not of kubeadm. NB_SETTINGS_INVALID, NB_TOKEN_MALFORMED,
 * NB_TOKEN_EXPOSED. */
int nb_join_configuration_merge(const struct nb_settings_merge *merge,
                                const struct nb_yaml_node *documents);
