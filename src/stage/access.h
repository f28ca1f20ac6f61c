/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * node.verifyAccess: whether the certificate that this machine has still counts. Asked of the server in the node's own kubeconfig, verified by
 * the CA there, with the certificate there. Only the API server's own 401 says no: a node must come up without its API server, so that
 * whatever else happens leaves things as they are.
 */

#include "base/failure.h"
#include "format/identity.h"
#include "format/kubeconfig.h"
#include "format/settings.h"

/* The cluster and the identity in kubelet's kubeconfig. */
struct nb_access {
        struct nb_cluster cluster;
        struct nb_identity identity;
};

#define NB_ACCESS_INIT \
        { .identity = NB_IDENTITY_INIT }

/* Reads it, and the files that it names, through nb_sources_read(). Failures as of nb_kubeconfig_parse_given(). */
int nb_access_load(const struct nb_settings *settings, struct nb_access *ret_access, struct nb_failure *f);
void nb_access_done(struct nb_access *access);

/*
 * 1: it counts; 0: it does not (401, several times), and `f` says so. Negative: that cannot be told, and `f` says why; or -ECANCELED. It
 * takes some seconds at the most.
 */
int nb_access_verify(const struct nb_access *access, const char *node_name, struct nb_failure *f);
