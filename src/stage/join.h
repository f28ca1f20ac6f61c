/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The join as a list of stages. Each is idempotent: called again after a failure or a crash it goes on where things stand.
 * Which ones there are depends on what the machine was given (bootstrap/bootstrap.h): one way to discover, then
 * one issuer. A new way in is a file and a row of a table in join.c; the other stages do not know of it. What the cloud's metadata gives is read
 * before them (metadata.h).
 *
 *      stage      what it does                                                on disk when it is done
 *      discover   by token: cluster-info from all endpoints at once,          nothing
 *                 unverified; signature, pins; once more, verified, where
 *                 the server is not a configured endpoint
 *                 by document, by URL: a kubeconfig; then newer
 *                 cluster-info over TLS that it verifies, if there is one
 *                 by /cacerts: the CAs of a k3s server, unverified; hash
 *                 of the token; once more, verified
 *      node       no other node that is Ready has this name; not with a       nothing
 *                 supervisor
 *      request    key, durable before anything leaves the machine; CSR        pending.key
 *      await      watch until approved and issued; the certificate checked    pending.key
 *      (request   of a k3s supervisor: signs at once, in the place of both)   pending.key
 *      configure  kubelet's configuration out of the cluster, if asked for    pending.key, kubelet-config.yaml
 *      hand over  note for the installer                                      pending.key, joined.json
 *
 * A stage returns 0 (done), NB_STAGE_REQUEST (go back to the request: the object is gone or cannot be used), -ECANCELED
 * (stopping was asked for), or a failure, whose class says whether it is called again. Retrying happens here and nowhere else,
 * but that discover retries each endpoint by itself, so that a dead one costs nothing.
 */

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/buffer.h"
#include "base/failure.h"
#include "bootstrap/bootstrap.h"
#include "crypto/key.h"
#include "crypto/request.h"
#include "format/csr.h"
#include "format/kubeconfig.h"
#include "format/settings.h"
#include "kube/api.h"
#include "stage/pending.h"

#define NB_STAGE_REQUEST 1
#define NB_CA_BUNDLE_MAX (256 * 1024)

struct nb_join {
        /* What is given. Borrowed. */
        const struct nb_settings *settings;
        const struct nb_bootstrap *bootstrap;
        const char *node_name;
        bool is_name_own;          /* a good certificate for this name is on this machine: if there is such a Node, this is the one */
        enum nb_provider metadata; /* whose metadata gave token or settings; NB_PROVIDER_NONE */
        int state_fd;
        uint64_t deadline_ms; /* nb_now_ms(); NB_TIME_INFINITE */
        bool is_rehearsal;    /* each endpoint is asked once, and nobody is told what would be waited for */

        /* discover: what was proven. */
        struct nb_cluster cluster;
        struct nb_buffer ca;       /* PEM of the trusted CAs; empty: the CAs of the system */
        char endpoint[NB_URL_MAX]; /* where the cluster was discovered: the endpoint that proved good, the host of the URL, the
                                    * server of the document */
        struct nb_api api;
        time_t server_date;      /* of the last unverified answer; a hint for diagnosis only */
        uint64_t server_date_ms; /* nb_now_ms() at that time; 0 while there is none */

        /* request */
        struct nb_key *key;
        char csr_name[NB_REQUEST_NAME_SIZE];
        struct nb_csr csr;
        bool is_csr_found;        /* it was there already */
        bool is_previous_refused; /* of a supervisor: the certificate that this node has was answered with 401 */

        /* await */
        uint64_t watch_refused_until_ms; /* nb_now_ms(); polled until then */
        enum nb_code reported;           /* the reason to wait that was told last */
        struct nb_pending pending;       /* the wait */
        unsigned n_idle_rounds;          /* watches and polls in a row that brought nothing */
        struct nb_buffer certificate;    /* PEM chain, checked */

        time_t waiting_since; /* 0 while nothing is waited for */
};

/* Runs all stages; 0, -ECANCELED, or the failure that ended it. */
int nb_join_run(struct nb_join *join, struct nb_failure *f);

void nb_join_done(struct nb_join *join);

/* A certificate that does not look good while the clock is far off, by server_date or by standing before this program was built, is not
 * to blame: NB_TLS_EXPIRED, NB_TLS_UNTRUSTED and an NB_CERTIFICATE_UNUSABLE for its time become NB_CLOCK_WRONG then. Returns r. */
int nb_join_blame_clock(const struct nb_join *join, int r, struct nb_failure *f);

/*
 * Why nobody approves join->csr by itself, asked of join->api at once: for who looks at a request without waiting for it. NB_PENDING_UNKNOWN
 * where the API server does not say. 0; -ECANCELED.
 */
int nb_join_ask_reason(struct nb_join *join, uint64_t until_ms, enum nb_pending_reason *ret);

/* Adds to an NB_TOKEN_REJECTED what was rejected: by its ID where it has one, and where it came from. Returns r. */
int nb_join_name_identity(const struct nb_identity *identity, int r, struct nb_failure *f);

/* The stages. Those that discover set cluster, ca and endpoint; the connection with the identity is made after them. */
int nb_stage_discover_token(struct nb_join *join, struct nb_failure *f);
int nb_stage_discover_document(struct nb_join *join, struct nb_failure *f);
int nb_stage_discover_url(struct nb_join *join, struct nb_failure *f);
int nb_stage_discover_cacerts(struct nb_join *join, struct nb_failure *f);
int nb_stage_node(struct nb_join *join, struct nb_failure *f);
int nb_stage_request(struct nb_join *join, struct nb_failure *f);
int nb_stage_await(struct nb_join *join, struct nb_failure *f);
int nb_stage_request_supervisor(struct nb_join *join, struct nb_failure *f);
int nb_stage_configure(struct nb_join *join, struct nb_failure *f);
int nb_stage_hand_over(struct nb_join *join, struct nb_failure *f);
