/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Finds the kubeconfig as kubectl does (see client.h), merges several files, and reads the cluster
 * and the credential of one context. */

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/failure.h"
#include "kube/identity.h"
#include "kube/kubeconfig.h"

#define NB_ADMIN_TOKEN_FILE_MS 60000 /* client-go reads token files again after a minute */
#define NB_ADMIN_POD_FOLDER "/var/run/secrets/kubernetes.io/serviceaccount"

struct nb_admin_place {
        const char *kubeconfig; /* --kubeconfig; NULL: as above */
        const char *context;    /* --context; NULL: the current one */
};

/* What client.h says about the members of struct nb_admin with these names. */
struct nb_admin_access {
        struct nb_cluster cluster;
        struct nb_identity identity;
        char origin[PATH_MAX];
        char context[256];
        bool is_renewable;
        uint64_t expires_ms;
};

/* 1; 0 if there is no kubeconfig; failures as for nb_admin_connect(). */
int nb_admin_kubeconfig_read(const struct nb_admin_place *place, struct nb_admin_access *ret_access,
                             struct nb_failure *f);

/* The same for the ServiceAccount of a pod (client-go rest.InClusterConfig). 0 if this is not a
 * pod. */
int nb_admin_pod_read(struct nb_admin_access *ret_access, struct nb_failure *f);

void nb_admin_access_done(struct nb_admin_access *access);
