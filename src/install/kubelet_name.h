/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether kubelet, as this machine starts it, would take the name that its certificate is for. What --hostname-override says in
 * kubeadm-flags.env, /etc/default/kubelet, /etc/sysconfig/kubelet, and kubelet.service with its drop-ins; no more than a
 * look, since a unit can get its arguments from anywhere: it ends in a warning, never in a failure.
 */

#include <stdbool.h>

#include "install/context.h"

#define NB_OVERRIDE_SIZE 256 /* what is longer is cut, and is another name for that */

/* The value of the last --hostname-override in a text of words; false when there is none. */
bool nb_override_find(const char *text, char ret_value[static NB_OVERRIDE_SIZE]);

/* Of kubelet.service and its drop-ins, read one after the other as systemd does. */
struct nb_kubelet_unit {
        bool is_there;                   /* there is an ExecStart= */
        bool hands_name;                 /* it has a way for a name to kubelet: an override, or a variable that may have one */
        char exec[NB_OVERRIDE_SIZE];     /* --hostname-override of ExecStart=; "" for none */
        char exec_place[128];            /* the file that it stands in, cut at the size */
        char variable[NB_OVERRIDE_SIZE]; /* of Environment= */
        char variable_place[128];
};

void nb_kubelet_unit_read(struct nb_kubelet_unit *unit, const char *place, const char *text);

/* A warning for each place that has another name. `is_flags_kept`: kubeadm-flags.env will not be written. */
void nb_kubelet_name_look(const struct nb_context *context, bool is_flags_kept);
