/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the stages share. */

#include "net/http.h"
#include "stage/join.h"
#include "stage/retry.h"

/* pause.c: after a failed attempt, tells of it and waits. 0: try again now; -ECANCELED when stopping was asked for; else `r`: what it ends
 * with. `waiting_since` as for nb_report_wait(). */
int nb_pause_before_retry(struct nb_retry *retry, time_t *waiting_since, uint64_t deadline_ms, int r, struct nb_failure *f);

/* report.c: what is waited for goes to STATUS=, and into the journal when it is new. */
void nb_join_report_wait(struct nb_join *join, const struct nb_failure *f, bool is_new);
void nb_report_wait(time_t *waiting_since, const struct nb_failure *f, bool is_new);         /* *waiting_since: 0 at first */
void nb_join_report_approval(struct nb_join *join, const struct nb_failure *f, bool is_new); /* join->csr and its pending */
void nb_join_report_done(struct nb_join *join);

/* report.c: after how long it was given up, and by whose limit, behind the words of the last attempt: the same words as at the first one would leave
 * open whether there was another. */
void nb_report_given_up(uint64_t patience_ms, const char *limit, struct nb_failure *f);

/* connection.c: how long a connection took to make, for the journal: where it served its purpose, or where the join ends with it. The second form is of
 * the newest one since the last call; nothing when there is none. */
void nb_report_connection(const struct nb_http_connection *connection, const char *endpoint);
void nb_report_new_connection(const struct nb_api *api);

/* report.c: the server's clock by its last Date header; how far this machine's is behind it (negative: ahead); 0 when not known. */
int64_t nb_join_clock_skew_sec(const struct nb_join *join);

/*
 * race.c: asks all endpoints together, unverified, each with retries of its own, until one proves good: a dead one costs nothing.
 * `prove` decides about an endpoint's answer, and sets the cluster, the CA and the endpoint in `join`.
 */
struct nb_race {
        const char *what; /* for messages, before the endpoint: "cluster-info from" */
        int (*start)(struct nb_http *unverified, const struct nb_url *endpoint, struct nb_http_transfer **ret_transfer,
                     struct nb_failure *f);
        int (*prove)(struct nb_join *join, const struct nb_url *endpoint, const struct nb_unverified *unverified,
                     struct nb_failure *f);
};

int nb_join_race(struct nb_join *join, const struct nb_race *kind, struct nb_failure *f);

/* race.c: until when a second, verified copy of what an endpoint says is waited for. */
uint64_t nb_join_second_copy_ms(const struct nb_join *join);

/*
 * discover_document.c: goes by a kubeconfig that was given, found at `origin` (its own server, or the web server that it came from), and
 * by newer cluster-info over TLS that its CAs verify, if there is some. `document` is taken over.
 */
int nb_join_take_document(struct nb_join *join, struct nb_cluster *document, const struct nb_url *origin, struct nb_failure *f);

/* discover_document.c: somebody who reaches the cluster by another name, or by a proxy, goes on doing so where newer facts do not
 * say otherwise. */
void nb_cluster_keep_way(const struct nb_cluster *known, struct nb_cluster *newer);

/* issued.c: checks what was issued (PEM) and keeps it in `join`. NB_CERTIFICATE_UNUSABLE, NB_CLOCK_WRONG. */
int nb_join_take_issued(struct nb_join *join, const char *pem, size_t len, struct nb_failure *f);

/* prove.c: decides about an endpoint's unverified answer; on 0 the cluster, the CA and the endpoint are set in `join`. */
int nb_join_prove(struct nb_join *join, const struct nb_url *endpoint, const struct nb_unverified *unverified,
                  struct nb_failure *f);

/* pending_key.c: the key in the state folder, made and durable where there is none. */
int nb_pending_key_take(struct nb_join *join, struct nb_failure *f);

/* pending_key.c: forgets the key, here and on disk; the next request is another one. */
int nb_pending_key_drop(struct nb_join *join, struct nb_failure *f);
