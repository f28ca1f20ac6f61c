/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The stages of a join. Each is idempotent: after a failure or a crash it continues with the files
 * in the state directory. A machine uses one join method (join_method/method.h) and one issuer.
 * Cloud metadata is read before the stages (join/load.h).
 *
 * discover
 *      token: fetches cluster-info from the first endpoint that proves itself; verifies signature
 *      and pins; if the server is not a configured endpoint, fetches a second copy over verified
 *      TLS.
 *      document, URL: reads a kubeconfig; then newer cluster-info over TLS that its CAs verify, if
 *      available.
 *      k3s: fetches the CAs from a server without verification; verifies them by the hash in the
 *      token; fetches a second copy over verified TLS.
 * connect
 *      prepares the connection on which the next stages present the bootstrap identity. discover
 *      never sends it. Always the server in cluster-info, which kubelet will use.
 * node (CSR only)
 *      waits while another node of this name is Ready, for at most NB_RETRY_NODE_MS.
 * request
 *      CSR: creates the CSR. Writes pending.key durably before the CSR leaves the machine, unless
 *      the node stage has written it while it waited.
 *      supervisor: signs at once, so there is no await. Writes pending.key.
 * await (CSR only)
 *      watches until the CSR is approved and issued; verifies the certificate.
 * handoff
 *      writes joined.json for the installer.
 *
 * A stage returns 0 (done), NB_REQUEST_AGAIN (go back to the request: its object is gone or
 * unusable), -ECANCELED (stopping was requested), or a failure, whose class decides whether the
 * stage is repeated (retry.h). discover retries each endpoint separately, so that an unreachable
 * one does not delay the others.
 */

#include "join/join.h"
#include "kube_objects/cluster_info.h"

#define NB_REQUEST_AGAIN 1

/* Runs all stages; 0, -ECANCELED, or the failure that ended it. */
int nb_join_run(struct nb_join *join, struct nb_failure *f);

/* Discovery by any method sets join->cluster, which includes the trusted CAs, and
 * join->endpoint. */
int nb_stage_discover(struct nb_join *join, struct nb_failure *f);
#define NB_METHOD(ID, method, discover) \
        int nb_discover_##discover(struct nb_join *join, struct nb_failure *f);
#include "join_method/methods.def"
#undef NB_METHOD

int nb_stage_node(struct nb_join *join, struct nb_failure *f);
int nb_stage_request(struct nb_join *join, struct nb_failure *f);
int nb_stage_await(struct nb_join *join, struct nb_failure *f);
int nb_stage_request_supervisor(struct nb_join *join, struct nb_failure *f);
int nb_stage_hand_over(struct nb_join *join, struct nb_failure *f);

/*
 * Asks the API server at once why join->csr is not approved automatically, for callers that do not
 * wait for it. NB_PENDING_UNKNOWN if it does not say. 0; -ECANCELED.
 */
int nb_join_ask_reason(struct nb_join *join, enum nb_pending_reason *ret);

/* --- Between stages --- */

/* Fetches cluster-info over TLS that known->ca verifies, and parses its cluster. Unless
 * cluster-info contains its own, *ret_newer has the proxy of `known` and, if the server is the
 * same, its TLS server name. */
int nb_cluster_fetch_info(const struct nb_cluster *known, uint64_t deadline_ms,
                          struct nb_cluster_info *ret_info, struct nb_cluster *ret_newer,
                          struct nb_failure *f);

/* Finds the addresses of this machine to which the node's name resolves, unless they are known.
 * Does nothing once there is a key: no process that resolves names may have a copy of it. */
void nb_join_find_named_ips(struct nb_join *join);

/* Loads join->key from the state directory. If there is no usable key, creates one in memory. */
int nb_pending_key_prepare(struct nb_join *join, struct nb_failure *f);

/* The same, and writes a new key durably. */
int nb_pending_key_keep(struct nb_join *join, struct nb_failure *f);

/* Deletes the key in memory and, if possible, on disk, so that the next request uses a new one. */
void nb_pending_key_drop(struct nb_join *join);

/* Verifies the issued certificate in PEM, and keeps it in `join`. NB_CERTIFICATE_UNUSABLE,
 * NB_CLOCK_WRONG. */
int nb_join_take_issued(struct nb_join *join, const char *pem, size_t len, struct nb_failure *f);
