/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What in kubelet's configuration contradicts a certificate that a supervisor of k3s or RKE2 has
 * issued. kubelet starts nevertheless. */

#include "base/buffer.h"
#include "codec/yaml.h"

/* Appends a line for each contradiction. `config` is a KubeletConfiguration, `arguments` the
 * options of the command line, a line each, or NULL, and `client_ca` the file with the CA of the
 * API server's client certificate. Pure. */
void nb_kubelet_contradict_k3s(const struct nb_yaml_node *config, const char *arguments,
                               const char *client_ca, struct nb_buffer *ret);
