/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The connection of an administrator, or of the controller, to the API server of a cluster, with a
 * kubeconfig that is found as kubectl finds it: --kubeconfig; $KUBECONFIG (a list of files
 * separated by colons, of which each entry is taken from the first file that has it);
 * ~/.kube/config; /etc/kubernetes/admin.conf; the ServiceAccount of the pod that this program runs
 * in. If --kubeconfig is used, the file must exist.
 *
 * Credentials: client certificate, token, tokenFile, and `exec`, which is run as kubectl runs it
 * (client-go plugin/pkg/client/auth/exec). insecure-skip-tls-verify is refused.
 */

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/api.h"
#include "base/failure.h"
#include "kube/identity.h"
#include "kube/kubeconfig.h"

struct nb_admin_place {
        const char *kubeconfig; /* --kubeconfig; NULL: as above */
        const char *context;    /* --context; NULL: the current one */
};

/* Must not be moved after nb_admin_connect(), since `api` points into it. */
struct nb_admin {
        struct nb_cluster cluster;
        struct nb_identity identity;
        struct nb_api api;
        struct nb_admin_place place;
        char origin[PATH_MAX]; /* of the cluster and the user, for messages */
        char context[256];     /* name of the context; "" in a pod */
        uint64_t expires_ms;   /* nb_now_ms() at which the credential of `exec` or a token file has
                                  to be read again; NB_TIME_INFINITE: never */
};

/* Does not contact the server. NB_ADMIN_KUBECONFIG_UNUSABLE, NB_INTERNAL. */
int nb_admin_connect(const struct nb_admin_place *place, struct nb_admin *ret_admin,
                     struct nb_failure *f);

/* Reads the credential again, for example because it has expired, and replaces `api`, so no
 * transfer may be running. Failures as above; the old connection then stays. */
int nb_admin_renew(struct nb_admin *admin, struct nb_failure *f);

void nb_admin_done(struct nb_admin *admin);
