/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Formats the kubeconfig for kubelet, and recognizes a kubeconfig that this module formatted. */

#include "base/buffer.h"
#include "base/failure.h"
#include "kube_objects/kubeconfig.h"

/* Uses the names that kubelet uses: default-cluster, default-auth, default-context. `ca_file` NULL:
 * the CAs of the system. The key is in the file of the client certificate. */
void nb_kubeconfig_format(const struct nb_cluster *cluster, const char *ca_file,
                          const char *client_certificate, struct nb_buffer *ret);

/* Reads the cluster of a kubeconfig that is byte for byte what nb_kubeconfig_format() writes for
 * this CA file and client certificate; NB_REFRESH_INAPPLICABLE otherwise. `ca` stays NULL. */
int nb_kubeconfig_parse_own(const struct nb_kubeconfig_input *input, const char *ca_file,
                            const char *client_certificate, struct nb_cluster *ret_cluster,
                            struct nb_failure *f);
