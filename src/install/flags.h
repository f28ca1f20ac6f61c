/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * kubelet's arguments in kubeadm-flags.env, as kubeadm join writes them (kubernetes
 * cmd/kubeadm/app/phases/kubelet/flags.go):
 *
 *      kubelet.criSocket       --container-runtime-endpoint
 *      the node name           --hostname-override, if it differs from the host name
 *      kubelet.providerID      --provider-id
 *      node.taints             --register-with-taints
 *      kubelet.extraArgs       as configured
 *
 * A file that another program wrote is never edited: a warning names the arguments that it lacks.
 */

#include "base/buffer.h"
#include "node/context.h"

#define NB_FLAGS_FILE "kubeadm-flags.env"
#define NB_FLAGS_MAX (64 * 1024)

/* Appends "--a=b --c=d"; appends nothing if kubelet needs no argument. */
void nb_flags_format(const struct nb_context *context, struct nb_buffer *ret);

/* Appends the contents of the file with these arguments. */
void nb_flags_file_format(const char *arguments, struct nb_buffer *ret);

/* Whether the file is equal to the output of nb_flags_file_format() for these arguments. */
bool nb_flags_file_is(const char *file, size_t len, const char *arguments);

/*
 * Appends those of `arguments` that the file `text` does not contain. Also appends
 * --hostname-override if `arguments` lacks it but the file sets another name.
 */
void nb_flags_find_missing(const char *text, const char *arguments, const char *node_name,
                           struct nb_buffer *ret);
