/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Finds the kubeconfig as kubectl does (see client.h), merges several files, and reads the cluster
 * and the credential of one context. The ServiceAccount of a pod is read like a kubeconfig. */

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/failure.h"
#include "kube/identity.h"
#include "kube/kubeconfig.h"

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

/* Failures as for nb_admin_connect(). */
int nb_admin_kubeconfig_read(const struct nb_admin_place *place, struct nb_admin_access *ret_access,
                             struct nb_failure *f);

void nb_admin_access_done(struct nb_admin_access *access);
