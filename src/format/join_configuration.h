/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * kubeadm's JoinConfiguration (kubeadm.k8s.io/v1beta2, v1beta3, v1beta4) read as settings. Private to settings.c.
 *
 *      discovery.bootstrapToken.apiServerEndpoint          discovery.endpoints
 *      discovery.bootstrapToken.token                      the discovery token, and the bootstrap token where none is named
 *      discovery.bootstrapToken.caCertHashes               discovery.caCertHashes
 *      discovery.bootstrapToken.unsafeSkipCAVerification   discovery.unsafeSkipCAVerification
 *      discovery.file.kubeConfigPath                       discovery.file
 *      discovery.tlsBootstrapToken                         the bootstrap token
 *      discovery.timeout (v1beta2, 3), timeouts.discovery and timeouts.tlsBootstrap (v1beta4)   timeout: their sum
 *      nodeRegistration.name, taints, criSocket, kubeletExtraArgs                               node.name, node.taints, kubelet.criSocket, kubelet.extraArgs
 *      caCertPath                                          kubelet.caFile
 *
 * Keys of other phases are named once as ignored; controlPlane is refused: this program joins workers. Unknown keys are
 * refused as in our own document. What is null or "" is not there, as for kubeadm; `taints: []` is none.
 *
 * Out of metadata: caCertPath, criSocket, and a kubeConfigPath that is a path, are named as ignored.
 *
 * kubeadm takes several documents in a file. Exactly one is a JoinConfiguration; the others that kubeadm knows are
 * named as ignored, any other is refused.
 */

#include <stdbool.h>

#include "format/settings_merge.h"
#include "format/yaml.h"

/* Whether one of these documents is of kubeadm's. */
bool nb_join_configuration_is_meant(const struct nb_yaml_node *documents);

/* NB_SETTINGS_INVALID, NB_TOKEN_MALFORMED, NB_TOKEN_EXPOSED. */
int nb_join_configuration_merge(const struct nb_settings_merge *merge, const struct nb_yaml_node *documents);
