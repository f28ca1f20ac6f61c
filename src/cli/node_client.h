/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a machine that has joined can ask about its node: the API server with the node's
 * certificate, and kubelet itself. `check` and `setup` ask the same, in an unprivileged process
 * (os/privilege.h).
 */

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/failure.h"
#include "crypto/certificate.h"
#include "kube_calls/api.h"
#include "kube_objects/identity.h"
#include "kube_objects/kubeconfig.h"
#include "kube_objects/node_object.h"
#include "os/sources.h"

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

/*
 * Opens *ret_api with the node's certificate, and asks whether the API server accepts it; up to
 * three times if not, each time with a new connection: there may be several servers behind one
 * address, and one may have just started. Sets the field ENDPOINT. Release *ret_api with
 * nb_api_done() after success. client->failure; NB_NODE_ACCESS_REVOKED; other failures of
 * nb_node_access_verify(), after which the answer is unknown; -ECANCELED without a failure if a
 * stop was requested.
 */
int nb_node_client_connect(const struct nb_node_client *client, uint64_t deadline_ms,
                           struct nb_api *ret_api, struct nb_failure *f);

/* Reads the Node of client->node_name. NB_NODE_DELETED with the status of the answer: 404 if there
 * is none; other failures of nb_node_read(). */
int nb_node_client_find(const struct nb_node_client *client, struct nb_api *api,
                        struct nb_node_object *ret_node, struct nb_failure *f);

/* Asks kubelet, which kubelet.service runs, for /healthz at `address` ("127.0.0.1:10248"). 0: it is
 * healthy; NB_KUBELET_DOWN; -ECANCELED without a failure if a stop was requested. */
int nb_kubelet_ask_health(const char *address, struct nb_failure *f);

/*
 * For a command that root runs: asks kubelet at `health` whether it is healthy or, if that is NULL,
 * the API server for the Node of kubelet's kubeconfig. A child asks, which can neither read root's
 * files nor find a token in its memory, as long as this process has none. 0, or the failure that
 * the child has left, with the field ENDPOINT.
 */
int nb_node_ask(const char *health, struct nb_failure *f);
