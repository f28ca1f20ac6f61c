/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* CertificateSigningRequests (certificates.k8s.io/v1): create, read, watch; and whether the
 * identity has the rights for that. */

#include <stdint.h>

#include "base/failure.h"
#include "kube_calls/api.h"
#include "kube_objects/access_review.h"
#include "kube_objects/csr.h"

/* The server ends a watch after this time; client-go sets 5 to 10 min. */
#define NB_WATCH_TIMEOUT_SEC 300
/* Bookmarks come each minute (kube-apiserver's defaultBookmarkFrequency). After a longer silence
 * the connection is dead, or something on the path drops them. */
#define NB_WATCH_SILENCE_SEC 90
#define NB_WATCH_LINE_MAX (512 * 1024)

/*
 * Creates a CSR. 0: created; 1: a CSR of this name already exists (409) and is in *ret_csr; the
 * caller must verify that it is its own. NB_TOKEN_REJECTED, NB_CSR_FORBIDDEN, NB_CSR_REJECTED,
 * NB_SERVER_ERROR, ...
 */
int nb_csr_submit(struct nb_api *api, const char *name, const struct nb_csr_request *request,
                  struct nb_csr *ret_csr, struct nb_failure *f);

/* 1: read; 0: there is none (404). */
int nb_csr_read(struct nb_api *api, const char *name, struct nb_csr *ret_csr, struct nb_failure *f);

/* --- Watch on one CSR --- */

struct nb_csr_watch {
        struct nb_api *api;
        struct nb_http_transfer *transfer; /* NULL after the watch has ended */
};

int nb_csr_watch_start(struct nb_csr_watch *watch, struct nb_api *api, const char *name,
                       const char *resource_version, struct nb_failure *f);

enum nb_watch_result {
        NB_WATCH_EVENT, /* *ret_event is set */
        NB_WATCH_TIME,  /* until_ms has passed; the watch continues */
        NB_WATCH_ENDED, /* the server ended it, as it does after its timeout */
};

/* One of the above, or a failure, which ends the watch. */
int nb_csr_watch_next(struct nb_csr_watch *watch, uint64_t until_ms, struct nb_csr_event *ret_event,
                      struct nb_failure *f);

void nb_csr_watch_done(struct nb_csr_watch *watch);

/* --- Rights --- */

enum nb_right_answer {
        NB_RIGHT_DENIED,
        NB_RIGHT_GRANTED,
        NB_RIGHT_UNKNOWN, /* the identity may not submit the review (403), or the server does not
                            support it (404) */
};

/*
 * Asks the API server whether the identity has a right. Returns one of the above; or
 * NB_TOKEN_REJECTED, NB_SERVER_ERROR, NB_ANSWER_*, and the failures of nb_http_perform().
 */
int nb_right_read(struct nb_api *api, enum nb_right right, struct nb_failure *f);

/*
 * Asks whether the API server accepts the node's certificate; `api` was opened with the cluster and
 * the identity in kubelet's kubeconfig. 0: accepted. NB_NODE_ACCESS_REVOKED: it answered 401, or
 * treats the request as anonymous. With other failures of nb_right_read() the answer is unknown.
 */
int nb_node_access_verify(struct nb_api *api, struct nb_failure *f);
