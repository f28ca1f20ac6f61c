/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a machine that has joined can ask about its node: the API server with the node's
 * certificate, and kubelet itself. Used by `check` and `setup`, in an unprivileged process
 * (system/privilege.h).
 */

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/failure.h"
#include "crypto/certificate.h"
#include "kube/identity.h"
#include "kube/kubeconfig.h"
#include "system/sources.h"

struct nb_node_client {
        bool is_missing;           /* there is no kubeconfig */
        struct nb_failure failure; /* why it has no usable certificate */
        struct nb_cluster cluster;
        struct nb_identity identity;
        time_t not_after;                         /* of the certificate; 0: there is none */
        char node_name[NB_CERTIFICATE_NODE_SIZE]; /* in the certificate; "": none */
};

/* Reads kubelet's kubeconfig, with the certificate and the key that it names. Release `client` with
 * nb_node_client_done(). */
void nb_node_client_read(struct nb_sources *sources, const char *kubeconfig,
                         struct nb_node_client *ret_client);
void nb_node_client_done(struct nb_node_client *client);

/* Asks kubelet, which kubelet.service runs, for /healthz at `address` ("127.0.0.1:10248"). 0: it is
 * healthy; NB_KUBELET_DOWN; -ECANCELED without a failure if a stop was requested. */
int nb_kubelet_ask_health(const char *address, struct nb_failure *f);
