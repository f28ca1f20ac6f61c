/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What joining nodes need from the cluster: the ConfigMap kube-public/cluster-info, which anybody
 * may read, and the permissions of bootstrap tokens. The objects are those of `kubeadm init phase
 * bootstrap-token` (kubernetes cmd/kubeadm/app/phases/bootstraptoken), with the same names and
 * contents, so that kubeadm and this program do not change each other's objects; and the bindings
 * of the groups of bound and enrolled tokens.
 */

#include <stdbool.h>

#include "admin/client/client.h"
#include "base/failure.h"
#include "codec/json.h"
#include "kube/kubeconfig.h"

/* Lets NB_TOKEN_GROUP_NODE or NB_TOKEN_GROUP_ENROLLED submit requests, and nothing else, as
 * `publish` does, and prints nothing. */
int nb_publication_bind(struct nb_admin *admin, const char *group, struct nb_failure *f);

/* Reads cluster-info and the cluster that it names. NB_ADMIN_MISSING, NB_CLUSTER_INFO_UNACCEPTABLE,
 * also if it has no CA, and the failures of nb_admin_get(). The caller frees both also then. */
int nb_publication_read(struct nb_admin *admin, struct nb_json *ret_info,
                        struct nb_cluster *ret_cluster, struct nb_failure *f);

/* Whether both have the same CAs, in any order: 1 or 0. NB_CLUSTER_INFO_UNACCEPTABLE if those of
 * `published` are no certificates. */
int nb_publication_compare_ca(const struct nb_cluster *published, const struct nb_cluster *own,
                              struct nb_failure *f);

/* Whether no other machine can reach this host: localhost, 127.0.0.0/8, ::1. */
bool nb_host_is_loopback(const char *host);
