/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The ConfigMap in kube-system with which kubeadm configures the kubelets of a cluster. */

#include <stdint.h>

#include "api/api.h"
#include "base/buffer.h"
#include "base/failure.h"

#define NB_KUBELET_CONFIG_NAME_SIZE 32

/*
 * Appends the text of kubelet-config and sets its name. If it does not exist or may not be read,
 * tries kubelet-config-1.N for the server's version (GET /version) and the two before it: older
 * clusters have one for each version, and let a joining machine read only its own.
 * NB_KUBELET_CONFIG_MISSING, NB_KUBELET_CONFIG_REFUSED, NB_KUBELET_CONFIG_UNACCEPTABLE (too large),
 * and what any call may fail with.
 */
int nb_kubelet_config_fetch(struct nb_api *api, uint64_t until_ms, struct nb_buffer *ret_text,
                            char ret_name[static NB_KUBELET_CONFIG_NAME_SIZE],
                            struct nb_failure *f);
