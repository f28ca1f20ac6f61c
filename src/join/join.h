/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The state of a join, which its stages (stages.h) share. */

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/buffer.h"
#include "base/failure.h"
#include "crypto/key.h"
#include "crypto/pkcs10.h"
#include "join/pending.h"
#include "join_method/method.h"
#include "kube_calls/api.h"
#include "kube_objects/csr.h"
#include "kube_objects/kubeconfig.h"
#include "kube_objects/pin.h"
#include "os/clock.h"
#include "prover/prover.h"
#include "settings/node_ips.h"
#include "settings/settings.h"
#include "state_files/record.h"

struct nb_join {
        /* Inputs, borrowed. */
        const struct nb_settings *settings;
        const struct nb_bootstrap *bootstrap;
        const char *node_name;
        bool is_name_own; /* this machine has a valid certificate for this name, so an existing Node
                             of this name is this machine */
        int proof_channel; /* to install, which connects to the prover; 0: the CSR gets no proof */
        int state_fd;
        uint64_t deadline_ms; /* nb_now_ms(); NB_TIME_INFINITE */
        bool is_rehearsal;    /* ask each endpoint once, and report no waiting */

        /* discover: verified. */
        struct nb_cluster cluster; /* its `ca` are the trusted CAs; NULL: the system's */
        char endpoint[NB_URL_MAX]; /* the verified endpoint, the host of the URL, or the server of
                                    * the document */
        struct nb_api api;       /* after discover: empty, or an early connection to the endpoint */
        time_t server_date;      /* of the last unverified answer: a hint for diagnosis only */
        uint64_t server_date_ms; /* nb_now_ms() at that time; 0: none */

        /* request */
        struct nb_key *key;
        bool is_key_new;          /* it is not in the state directory yet */
        bool is_key_unused;       /* this join has written it, but has made no request with it */
        struct nb_buffer request; /* PEM of the request for this key, with its proof; made once */
        char proof_key_id[NB_PIN_TEXT_SIZE]; /* `sha256:...`; "" without a proof */
        int prover_fd;                       /* 0: no connection */
        struct nb_failure proof_failure;     /* the last one in an answer of the prover */
        char csr_name[NB_PKCS10_NAME_SIZE];
        struct nb_csr csr;
        char username[sizeof(((struct nb_csr *)NULL)->username)]; /* of this machine, as the API
                                                                     server calls it; "": unknown */
        bool is_csr_found;                /* the CSR existed before this join submitted it (409) */
        char named_ips[NB_NODE_IPS_SIZE]; /* of this machine, to which the node's name resolves */
        bool is_previous_refused; /* logged that the supervisor answered 401 to the certificate */

        /* await */
        uint64_t watch_refused_until_ms; /* nb_now_ms(); until then, polls instead of watching */
        enum nb_code reported;           /* the last reason to wait that was logged */
        struct nb_pending pending;
        unsigned n_idle_rounds;       /* successive watches and polls without a change */
        struct nb_buffer certificate; /* PEM chain, verified */
        struct nb_buffer serving;     /* kubelet's serving certificate, from a supervisor */

        time_t waiting_since;       /* 0: not waiting */
        uint64_t usec[_NB_STAGE_N]; /* how long each stage took */
};

void nb_join_done(struct nb_join *join);

/* Replaces the CAs of `cluster` by those that nb_bootstrap_select_ca() trusts; `malformed` or
 * NB_CA_PIN_MISMATCH. */
int nb_join_trust(const struct nb_join *join, struct nb_cluster *cluster, enum nb_code malformed,
                  struct nb_ca_selection *ret_selection, struct nb_failure *f);

/* Moves `cluster`, which was verified through `endpoint`, into `join`. Logs the certificates in
 * `what` that are not trusted. */
void nb_join_adopt(struct nb_join *join, struct nb_cluster *cluster, const char *endpoint,
                   const struct nb_ca_selection *selection, const char *what);

/*
 * If a certificate looks expired or not yet valid while this machine's clock is wrong, replaces the
 * failure by NB_CLOCK_WRONG. The clock is wrong if it differs from server_date, or is before the
 * build of this program. Returns r.
 */
int nb_join_map_clock_skew(const struct nb_join *join, int r, struct nb_failure *f);

/* NTP keeps clocks within seconds; certificates are backdated by minutes. */
#define NB_CLOCK_SKEW_MAX_SEC 60
#define NB_CLOCK_TEXT_SIZE (2 * NB_RFC3339_SIZE + 80)

/* Whether this machine's clock is wrong: at least NB_CLOCK_SKEW_MAX_SEC behind or ahead of the
 * server's, or before the build of this program (0: unknown). If so, sets `ret` to a clause for
 * messages. Pure. */
bool nb_clock_is_wrong(time_t now, time_t built, int64_t behind_sec,
                       char ret[static NB_CLOCK_TEXT_SIZE]);

/* Seconds by which this machine's clock is behind the server's; negative: ahead; 0 also if no
 * server has sent a Date. */
int64_t nb_join_clock_behind_sec(const struct nb_join *join);
