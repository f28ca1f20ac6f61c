/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The socket of the container runtime, for instance-config.yaml. From 1.34 on, `kubeadm upgrade
 * node` puts the socket in this file into config.yaml (kubernetes
 * cmd/kubeadm/app/phases/kubelet/config.go); kubelet does not read it. The socket is the first of
 *
 *      kubelet.criSocket
 *      --container-runtime-endpoint in kubelet's arguments
 *      containerRuntimeEndpoint in kubelet's configuration file
 *      the sockets that kubeadm looks for; several of them cause a warning
 *      kubelet's default: at boot, the runtime may not run yet
 */

#include <stdbool.h>

#include "base/buffer.h"
#include "node_state/context.h"
#include "systemd/unit.h"

#define NB_INSTANCE_FILE "instance-config.yaml"

struct nb_runtime {
        char endpoint[NB_SETTINGS_PATH_MAX]; /* unix:///run/containerd/containerd.sock */
        bool is_remote_needed; /* kubelet.criSocket is set, or this was true before the call, and
                                  kubelet is older than 1.24: it uses Docker, unless an argument
                                  says otherwise */
};

/* 0 or -ENOMEM. */
int nb_runtime_find(const struct nb_context *context, struct nb_runtime *ret_runtime);

/* The same, without asking systemd. */
int nb_runtime_find_by_unit(const struct nb_context *context, const struct nb_unit *unit,
                            struct nb_runtime *ret_runtime);

/* Appends the contents of the file with this endpoint, as kubeadm writes them. */
void nb_instance_format(const char *endpoint, struct nb_buffer *ret);
