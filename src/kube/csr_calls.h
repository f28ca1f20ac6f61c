/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* CertificateSigningRequest of certificates.k8s.io/v1: create, get, watch. 401 and 403 are told apart. */

#include <stddef.h>
#include <stdint.h>

#include "base/failure.h"
#include "format/csr.h"
#include "kube/api.h"

/* Server-side end of a watch; client-go takes 5 to 10 min. */
#define NB_WATCH_TIMEOUT_SEC 300
/* Bookmarks come each minute (kube-apiserver's defaultBookmarkFrequency): without a byte for longer, the connection is dead or somebody on
 * the way swallows what is sent. */
#define NB_WATCH_SILENCE_SEC 90
#define NB_WATCH_LINE_MAX (512 * 1024)

/*
 * Creates the object. 0: created; 1: one of this name is there already (409), and *ret_csr is that one, as GET returned it. The caller
 * must look whether it is its own. NB_TOKEN_REJECTED, NB_CSR_FORBIDDEN, NB_CSR_REJECTED, NB_SERVER_ERROR, ...
 */
int nb_csr_submit(struct nb_api *api, const char *name, const char *request, size_t request_len, uint32_t expiration_seconds,
                  uint64_t until_ms, struct nb_csr *ret_csr, struct nb_failure *f);

/* 1: read; 0: there is none (404). */
int nb_csr_read(struct nb_api *api, const char *name, uint64_t until_ms, struct nb_csr *ret_csr, struct nb_failure *f);

/* A watch on one object, from a resourceVersion on. */
struct nb_csr_watch {
        struct nb_api *api;
        struct nb_http_transfer *transfer; /* NULL once it is over */
        struct nb_http_transfer *other;    /* with NB_WATCH_OTHER: which one is over */
};

int nb_csr_watch_start(struct nb_csr_watch *ret_watch, struct nb_api *api, const char *name, const char *resource_version,
                       struct nb_failure *f);

enum nb_watch_result {
        NB_WATCH_EVENT, /* *ret_event is set */
        NB_WATCH_TIME,  /* until_ms has passed; the watch goes on */
        NB_WATCH_OTHER, /* another transfer of this connection is over; the watch goes on */
        NB_WATCH_ENDED, /* the server ended it, as it does after its timeout */
};

/* One of the above, or a failure (the watch is over then): refused, cut, silent, malformed. */
int nb_csr_watch_next(struct nb_csr_watch *watch, uint64_t until_ms, struct nb_csr_event *ret_event, struct nb_failure *f);

void nb_csr_watch_done(struct nb_csr_watch *watch);
