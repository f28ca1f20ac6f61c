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
#include "codec/url.h"
#include "kube/kubeconfig.h"

struct nb_publication {
        struct nb_url server; /* for cluster-info; without a host: the one in the kubeconfig */
        bool is_dry_run;
        bool is_forced;        /* also replaces the cluster-info of another cluster */
        bool is_auto_approved; /* also lets kube-controller-manager approve every request with a
                                  token of kubeadm's default group, whatever node it names */
};

/* Prints how the objects differ, then creates or changes those that do. Labels, annotations,
 * signatures and further subjects stay. NB_ADMIN_WRONG_CLUSTER, NB_ADMIN_EXISTS (a binding to
 * another role, which Kubernetes does not let anyone change), NB_ADMIN_CONFLICT, NB_USAGE (a
 * loopback server); nothing is changed then. */
int nb_publication_apply(struct nb_admin *admin, const struct nb_publication *publication,
                         struct nb_failure *f);

/* Lets NB_TOKEN_GROUP_NODE or NB_TOKEN_GROUP_ENROLLED submit requests, and nothing else, as
 * nb_publication_apply() does, and prints nothing. */
int nb_publication_bind(struct nb_admin *admin, const char *group, struct nb_failure *f);

/* Prints what keeps machines from joining, a line for each check: ok, a warning, a problem, or why
 * it is not known. 0: nothing; 1: something; 2: nothing was found, but the user lacks a permission;
 * the failures of nb_admin_perform(), but a lack of permissions is a line, too. */
int nb_publication_verify(struct nb_admin *admin, struct nb_failure *f);

/* Reads data.kubeconfig of cluster-info. NB_CLUSTER_INFO_UNACCEPTABLE, also if it has no CA. */
int nb_publication_parse(const char *kubeconfig, struct nb_cluster *ret_cluster,
                         struct nb_failure *f);

/* Whether both have the same CAs, in any order: 1 or 0; negative as nb_certificates_parse(). */
int nb_publication_compare_ca(const struct nb_cluster *a, const struct nb_cluster *b);

/* Whether no other machine can reach this host: localhost, 127.0.0.0/8, ::1. */
bool nb_host_is_loopback(const char *host);
