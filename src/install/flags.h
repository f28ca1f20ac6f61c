/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * kubelet's arguments in kubeadm-flags.env, as kubeadm join writes them (kubernetes
 * cmd/kubeadm/app/phases/kubelet/flags.go):
 *
 *      kubelet.criSocket       --container-runtime-endpoint, and --container-runtime=remote for a
 *                              kubelet before 1.24
 *      the node name           --hostname-override
 *      kubelet.providerID      --provider-id
 *      node.taints             --register-with-taints
 *      kubelet.extraArgs       as configured
 *
 * A file that has arguments of another program is never edited: a warning names the arguments that
 * it lacks.
 */

#include "base/buffer.h"
#include "node_state/context.h"

#define NB_FLAGS_FILE "kubeadm-flags.env"
#define NB_FLAGS_MAX (64 * 1024)

/* Appends "--a=b --c=d". */
void nb_flags_format(const struct nb_context *context, bool is_remote_needed,
                     struct nb_buffer *ret);

/* Appends the contents of the file with these arguments. */
void nb_flags_file_format(const char *arguments, struct nb_buffer *ret);

/* Whether the file has these arguments and no others, in any order and without those that `kubeadm
 * upgrade` removes. An empty file has the arguments "". */
bool nb_flags_file_is(const char *file, const char *arguments);

/* Appends those of `arguments` that the file `text` does not contain. Without `is_override_needed`,
 * --hostname-override is needed only if the file sets another name. */
void nb_flags_find_missing(const char *text, const char *arguments, bool is_override_needed,
                           struct nb_buffer *ret);
