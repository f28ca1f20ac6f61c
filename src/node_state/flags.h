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
#include "settings/settings.h"
#include "state_files/record.h"

#define NB_FLAGS_FILE "kubeadm-flags.env"
#define NB_FLAGS_MAX (64 * 1024)

/* Appends "--a=b --c=d". `is_remote_needed`: see install/runtime.h. */
void nb_flags_format(const struct nb_settings *settings, const char *node, bool is_remote_needed,
                     struct nb_buffer *ret);

/*
 * The same after a join. Returns whether these arguments differ from those in the record. Of those,
 * what the settings do not set stays if it may come from elsewhere: if metadata supplied something
 * to the join, or if the settings do not name a cluster, since the rest of them may have been in a
 * credential of the first boot alone.
 */
bool nb_flags_renew(const struct nb_settings *settings, const struct nb_record *record,
                    bool is_remote_needed, struct nb_buffer *ret);

/* Whether they are for a kubelet that uses Docker otherwise. */
bool nb_flags_are_remote(const char *arguments);

/* Appends the contents of the file with these arguments. */
void nb_flags_file_format(const char *arguments, struct nb_buffer *ret);

/* Whether the file has these arguments and no others, in any order and without those that `kubeadm
 * upgrade` removes. An empty file has the arguments "". */
bool nb_flags_file_is(const char *file, const char *arguments);

/* Appends those of `arguments` that the file `text` does not contain. Without `is_override_needed`,
 * --hostname-override is needed only if the file sets another name. */
void nb_flags_find_missing(const char *text, const char *arguments, bool is_override_needed,
                           struct nb_buffer *ret);
