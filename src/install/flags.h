/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What kubelet gets on its command line, by KUBELET_KUBEADM_ARGS of kubeadm-flags.env: what kubeadm join would write there for
 * the same node (kubernetes cmd/kubeadm/app/phases/kubelet/flags.go).
 *
 *      kubelet.criSocket       --container-runtime-endpoint, with unix:// before a path
 *      node.taints             --register-with-taints
 *      kubelet.providerID      --provider-id
 *      kubelet.extraArgs       as they are; they win over those above, as with kubeadm
 *      the node name           --hostname-override, where kubelet would take another one by itself; it wins over
 *                              kubelet.extraArgs, since the certificate is for no other name
 */

#include "base/buffer.h"
#include "install/context.h"

#define NB_FLAGS_FILE "kubeadm-flags.env"
#define NB_FLAGS_MAX (64 * 1024)

/* `old` may be NULL. Results as of nb_kubeadm_flags_edit(). */
int nb_flags_make(const struct nb_context *context, const char *old, size_t old_len, struct nb_buffer *ret);
