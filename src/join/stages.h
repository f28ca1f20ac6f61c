/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The stages of a join. Each is idempotent: after a failure or a crash it goes on with what is on
 * disk. A machine uses one join method (method/method.h) and one issuer. Cloud metadata is read
 * before the stages (metadata.h).
 *
 * discover
 *      token: cluster-info from all endpoints at once; signature, pins; verified by a second fetch
 *      over verified TLS if the server is not a configured endpoint.
 *      document, URL: a kubeconfig; then newer cluster-info over TLS verified by it, if available.
 *      k3s: the unverified CAs of a server; the hash in the token; a second, verified fetch.
 * connect
 *      one connection for all that follows; only it carries the identity.
 * node (CSR only)
 *      no other node of this name may be Ready.
 * request
 *      CSR: key and CSR. Leaves pending.key, durable before the CSR leaves the machine.
 *      supervisor: signs at once, so there is no await. Leaves pending.key.
 * await (CSR only)
 *      watches until the CSR is approved and issued; verifies the certificate.
 * configure (if requested)
 *      reads kubelet's configuration from the cluster. Leaves kubelet-config.yaml.
 * hand-over
 *      leaves joined.json for the installer.
 *
 * A stage returns 0 (done), NB_STAGE_REQUEST (go back to the request: its object is gone or
 * unusable), -ECANCELED (stopping was requested), or a failure, whose class says whether the stage
 * is repeated (retry.h). discover repeats each endpoint separately, so that a dead one costs
 * nothing.
 */

#include "join/join.h"
#include "kube/cluster_info.h"

#define NB_STAGE_REQUEST 1

/* Runs all stages; 0, -ECANCELED, or the failure that ended it. */
int nb_join_run(struct nb_join *join, struct nb_failure *f);

/* Discovery by any method sets cluster, ca and endpoint. */
int nb_stage_discover(struct nb_join *join, struct nb_failure *f);
#define NB_METHOD(ID, method, discover) \
        int nb_discover_##discover(struct nb_join *join, struct nb_failure *f);
#include "method/methods.def"
#undef NB_METHOD

int nb_stage_node(struct nb_join *join, struct nb_failure *f);
int nb_stage_request(struct nb_join *join, struct nb_failure *f);
int nb_stage_await(struct nb_join *join, struct nb_failure *f);
int nb_stage_request_supervisor(struct nb_join *join, struct nb_failure *f);
int nb_stage_configure(struct nb_join *join, struct nb_failure *f);
int nb_stage_hand_over(struct nb_join *join, struct nb_failure *f);

/*
 * Asks the API server at once why join->csr is not approved automatically, for callers that do not
 * wait for it. NB_PENDING_UNKNOWN if it does not say. 0; -ECANCELED.
 */
int nb_join_ask_reason(struct nb_join *join, enum nb_pending_reason *ret);

/* --- Between stages --- */

/* Fetches cluster-info over TLS that known->ca verifies, and parses its cluster, which keeps the
 * proxy and TLS server name of `known` unless it has its own. */
int nb_cluster_fetch_info(const struct nb_cluster *known, uint64_t deadline_ms,
                          struct nb_cluster_info *ret_info, struct nb_cluster *ret_newer,
                          struct nb_failure *f);

/* Makes join->key the key in the state directory, created and durable if there is none. */
int nb_pending_key_load(struct nb_join *join, struct nb_failure *f);

/* Deletes the key, in memory and, if possible, on disk; the next request is another one. */
void nb_pending_key_drop(struct nb_join *join);

/* Verifies the issued certificate in PEM, and keeps it in `join`. NB_CERTIFICATE_UNUSABLE,
 * NB_CLOCK_WRONG. */
int nb_join_take_issued(struct nb_join *join, const char *pem, size_t len, struct nb_failure *f);
