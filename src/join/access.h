/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * node.verifyAccess: asks whether the API server still accepts this machine's certificate. The
 * request goes to the server in kubelet's kubeconfig, is verified with the CA in that file, and
 * presents the certificate in that file. Only a 401 from the API server means that the certificate
 * is revoked: a node must start without its API server, so any other outcome keeps the certificate.
 */

#include "base/failure.h"
#include "base/sources.h"
#include "kube/identity.h"
#include "kube/kubeconfig.h"
#include "settings/settings.h"

/* The cluster and the identity in kubelet's kubeconfig. */
struct nb_access {
        struct nb_cluster cluster;
        struct nb_identity identity;
        unsigned n_refused; /* times that the server answered 401 */
        uint64_t deadline_ms;
        const char *node_name;
};

#define NB_ACCESS_INIT \
        { .identity = NB_IDENTITY_INIT }

/* Reads kubelet's kubeconfig, and the files that it names, through nb_sources_read(). Failures as
 * for nb_kubeconfig_parse(). */
int nb_access_load(struct nb_sources *sources, const struct nb_settings *settings,
                   struct nb_access *ret_access, struct nb_failure *f);
void nb_access_done(struct nb_access *access);

/*
 * 1: accepted; 0: revoked (several answers with 401), and `f` is set. Negative: unknown, and `f`
 * contains the reason; or -ECANCELED. Takes about 10 s at most.
 */
int nb_access_verify(struct nb_access *access, const char *node_name, struct nb_failure *f);
