/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * node.verifyAccess: whether the API server still accepts this machine's certificate. Asks the
 * server in kubelet's kubeconfig, verified by the CA there, with the certificate there. Only a 401
 * of the API server revokes it: a node must start without its API server, so any other outcome
 * keeps the certificate.
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

/* Reads it, and the files that it names, through nb_sources_read(). Failures as of
 * nb_kubeconfig_parse(). */
int nb_access_load(struct nb_sources *sources, const struct nb_settings *settings,
                   struct nb_access *ret_access, struct nb_failure *f);
void nb_access_done(struct nb_access *access);

/*
 * 1: accepted; 0: revoked (401, several times), and `f` says so. Negative: unknown, and `f` says
 * why; or -ECANCELED. Takes some seconds at the most.
 */
int nb_access_verify(struct nb_access *access, const char *node_name, struct nb_failure *f);
