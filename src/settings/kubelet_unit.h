/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The names of the services, and what kubelet's unit tells kubelet: its arguments and its
 * configuration file. */

#include <stdbool.h>

#include "base/buffer.h"
#include "os/sources.h"
#include "systemd/unit.h"

#define NB_SERVICE_UNIT "node-bootstrap.service"
#define NB_GATE_UNIT "node-bootstrap-gate.service"
#define NB_KUBELET_UNIT "kubelet.service"
#define NB_KUBELET_ARGUMENTS_MAX ((size_t)256 * 1024)
#define NB_KUBELET_ENDPOINT "--container-runtime-endpoint"
#define NB_KUBELET_ENDPOINT_KEY "containerRuntimeEndpoint" /* of a KubeletConfiguration */

/* Without a message bus, systemd answers only root. Negative if it does not answer. */
int nb_kubelet_show(struct nb_unit *ret_unit);

/*
 * Appends the command line with the variables that are in the environment and in the files of
 * EnvironmentFile=, in systemd's order: the last value of an argument is the one in force. If that
 * is longer than the buffer may be, ret->error is -E2BIG, and the first ones were appended.
 */
void nb_kubelet_read_arguments(struct nb_sources *sources, const struct nb_unit *unit,
                               struct nb_buffer *ret);

/* Appends the command line of the kubelet that runs. -ESRCH if none does; -errno. */
int nb_kubelet_read_command_line(const struct nb_unit *unit, struct nb_buffer *ret);

/* Finds the value of the last argument with this name. `arguments` may be NULL. */
bool nb_kubelet_find_argument(const char *arguments, const char *name, char *ret, size_t size);
