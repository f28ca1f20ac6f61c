/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How the node name reaches kubelet: node-bootstrap.env (KUBELET_NODE_NAME, for OpenShift's unit and one's own), and
 * --hostname-override in KUBELET_KUBEADM_ARGS of kubeadm-flags.env, as kubeadm writes it (kubernetes
 * cmd/kubeadm/app/phases/kubelet/flags.go). KUBELET_EXTRA_ARGS is the operator's and not ours.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

int nb_kubelet_env_format(const char *node_name, struct nb_buffer *ret);

/*
 * The contents of kubeadm-flags.env with these arguments in place; other arguments and other lines stay as they are.
 * `old` may be NULL (no such file). An argument is "name=value"; one of the same name that is there already is replaced.
 * 1 when `ret` holds what to write; 0 when nothing is to be written (every argument stands there already); -EINVAL when
 * KUBELET_KUBEADM_ARGS stands there in a form that cannot be edited safely, or an argument holds what such a line cannot
 * carry; -E2BIG, -ENOMEM.
 */
struct nb_kubelet_argument {
        const char *name; /* without dashes */
        const char *value;
        bool is_kept_only; /* only where the option stands there already: --hostname-override with the name that kubelet takes by itself */
};

/* What must not be in a value: KUBELET_KUBEADM_ARGS has no way to keep it together. Control characters neither. */
#define NB_KUBELET_ARGUMENT_REFUSED " \"'\\$`"

/* Name and value as kubelet and that line take them; the name is `name_len` bytes long. */
bool nb_kubelet_argument_is_valid(const char *name, size_t name_len, const char *value);

int nb_kubeadm_flags_edit(const char *old, size_t old_len, const struct nb_kubelet_argument *arguments, size_t n_arguments,
                          struct nb_buffer *ret);

/* Appends the words of KUBELET_KUBEADM_ARGS, with a blank between two. 0; -EINVAL as above; -E2BIG, -ENOMEM. */
int nb_kubeadm_flags_words(const char *text, size_t len, struct nb_buffer *ret);

/*
 * The contents without these words ("--hostname-override=node-1"), where they stand exactly so. 1 when something was taken
 * out: `ret` holds what to write, or nothing where nothing else is in the file; 0 when none of them stands there; -EINVAL as
 * above; -E2BIG, -ENOMEM.
 */
int nb_kubeadm_flags_remove(const char *old, size_t old_len, const char *const words[], size_t n_words, struct nb_buffer *ret);
