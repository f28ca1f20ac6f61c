/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads cluster-info, Nodes, the server's version, and kubelet's configuration. */

#include <stdbool.h>

#include "base/buffer.h"
#include "base/failure.h"
#include "http/http.h"
#include "kube_calls/api.h"
#include "kube_objects/cluster_info.h"
#include "kube_objects/node_object.h"

#define NB_KUBELET_CONFIG_NAME_SIZE 32
#define NB_VERSION_SIZE 64

/*
 * cluster-info is requested without a credential, possibly from several endpoints. An unverified
 * copy proves nothing until the caller has verified its signature and CA.
 */
extern const struct nb_call nb_cluster_info_call;

int nb_cluster_info_read(const struct nb_api *api, const struct nb_http_answer *answer,
                         const char *token_id, struct nb_cluster_info *ret_info,
                         struct nb_failure *f);

/* Fetches cluster-info over verified TLS. Does not read its signature. */
int nb_cluster_info_fetch_verified(struct nb_api *api, struct nb_cluster_info *ret_info,
                                   struct nb_failure *f);

/* Whether the server has no cluster-info, or hides it from clients without a credential. */
bool nb_cluster_info_is_hidden(const struct nb_failure *f);

/* The status of the answer, or a failure. 200: read; 404: there is no such Node; 403: the identity
 * may not read it; 401: the identity is invalid. `more`: other members of the request; NULL. */
int nb_node_read(struct nb_api *api, const char *name, const struct nb_http_request *more,
                 struct nb_node_object *ret_node, struct nb_failure *f);

/* Reads a value of GET /version: "gitVersion", "minor". "" if the server does not report it. */
int nb_version_read(struct nb_api *api, const char *key, char ret[static NB_VERSION_SIZE],
                    struct nb_failure *f);

/*
 * Fetches the ConfigMap in kube-system with which kubeadm configures the kubelets of a cluster:
 * appends the text of kubelet-config and sets its name. If it does not exist or may not be read,
 * tries kubelet-config-1.N for the server's version and the two before it: older clusters have one
 * for each version, and let a joining machine read only its own. NB_KUBELET_CONFIG_MISSING,
 * NB_KUBELET_CONFIG_FORBIDDEN, NB_KUBELET_CONFIG_UNACCEPTABLE (too large), and the failures of any
 * call.
 */
int nb_kubelet_config_fetch(struct nb_api *api, struct nb_buffer *ret_text,
                            char ret_name[static NB_KUBELET_CONFIG_NAME_SIZE],
                            struct nb_failure *f);
