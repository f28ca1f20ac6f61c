/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The ConfigMap of kube-system with which kubeadm configures the kubelets of a cluster. */

#include <stdint.h>

#include "base/buffer.h"
#include "base/failure.h"
#include "kube/api.h"

#define NB_KUBELET_CONFIG_NAME_SIZE 32

/*
 * kubelet-config; where there is none, or this identity may not read it, kubelet-config-1.N for the server's version (GET /version) and the two
 * before it: older clusters have one for each version, and let a joining machine read that one and no other. Appends the text, and sets the name.
 * NB_KUBELET_CONFIG_MISSING, NB_KUBELET_CONFIG_REFUSED, NB_KUBELET_CONFIG_UNACCEPTABLE (too large), and what any call may fail with.
 */
int nb_kubelet_config_fetch(struct nb_api *api, uint64_t until_ms, struct nb_buffer *ret_text, char ret_name[static NB_KUBELET_CONFIG_NAME_SIZE],
                            struct nb_failure *f);
