/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * kubelet's configuration (KubeletConfiguration, kubelet.config.k8s.io/v1beta1) as a cluster gives it to its nodes. Some of its keys are as
 * much as root on the machine: where pods without an API server come from (staticPodPath), what is executed (volumePluginDir), which socket is
 * the container runtime. Only keys that are known to be no more than tuning come through; kubelet_config.c has the list, with the reasons.
 */

#include <stddef.h>

#include "base/buffer.h"
#include "base/failure.h"

#define NB_KUBELET_CONFIG_MAX (256 * 1024)           /* kubeadm's is 1 KiB */
#define NB_KUBELET_CONFIG_FILE "kubelet-config.yaml" /* in the state directory */
#define NB_KUBELET_CONFIG_DROPPED_SIZE 256

/* A ConfigMap as the API server returns it: the text in data.kubelet, appended. NB_ANSWER_MALFORMED, NB_KUBELET_CONFIG_MISSING without one. */
int nb_kubelet_config_map_parse(const char *text, size_t len, struct nb_buffer *ret_text, struct nb_failure *f);

/*
 * Writes the document anew out of what is allowed in it; its own output comes out as it is. `ca_file` takes the place of
 * authentication.x509.clientCAFile; NULL: there is none. ret_dropped names the keys that were left out ("featureGates, staticPodPath"), and ends
 * with "..." when not all of them fit. `code` is the failure for what is no KubeletConfiguration, has a value of another type than
 * kubelet expects, or an authorization mode other than Webhook: with another anybody could run commands here.
 */
int nb_kubelet_config_filter(const char *origin, const char *yaml, size_t len, const char *ca_file, enum nb_code code, struct nb_buffer *ret,
                             char ret_dropped[static NB_KUBELET_CONFIG_DROPPED_SIZE], struct nb_failure *f);

/* Each key that may come out, as "authentication.webhook.cacheTTL"; NULL past the last one. For tests. */
const char *nb_kubelet_config_key(size_t i);
