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

#include "admin/client/exchange.h"
#include "admin/client/kubeconfig_load.h"
#include "base/failure.h"
#include "kube/identity.h"
#include "kube/kubeconfig.h"
#include "kube_api/api.h"

#define NB_ADMIN_STATUS_N 600

/* Must not be moved after nb_admin_connect(), since `api` points into it. */
struct nb_admin {
        struct nb_cluster cluster;
        struct nb_identity identity;
        struct nb_api api;
        struct nb_admin_place place;
        char origin[PATH_MAX]; /* of the cluster and the user, for messages */
        char context[256];     /* name of the context; "" in a pod */
        bool is_renewable;     /* the credential is from `exec` or a token file */
        uint64_t expires_ms;   /* nb_now_ms() at which it has to be read again; NB_TIME_INFINITE:
                                  never */
        struct nb_exchange *exchange; /* of the work that runs; NULL: calls wait (exchange.h) */
        unsigned long long n_answers[NB_ADMIN_STATUS_N]; /* by status; [0]: without an answer */
};

/* Does not contact the server. NB_ADMIN_KUBECONFIG_UNUSABLE, NB_ADMIN_EXEC_FAILED, NB_INTERNAL;
 * -ECANCELED without a failure if a stop was requested while `exec` ran. */
int nb_admin_connect(const struct nb_admin_place *place, struct nb_admin *ret_admin,
                     struct nb_failure *f);

/* Reads the credential of the same context again. A new token does not affect transfers that run. A
 * new client certificate replaces `api`, so no transfer may be running then. Failures as above,
 * also if the kubeconfig names another cluster by now; the old connection then stays. */
int nb_admin_renew(struct nb_admin *admin, struct nb_failure *f);

/* nb_admin_renew() after expires_ms, unless transfers prevent it. nb_admin_perform() calls this, so
 * only programs whose transfers never end must renew a client certificate of `exec` themselves. */
int nb_admin_renew_if_expired(struct nb_admin *admin, struct nb_failure *f);

void nb_admin_done(struct nb_admin *admin);

void nb_admin_count(struct nb_admin *admin, long status);
