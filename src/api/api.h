/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Requests to an API server over one connection, which the proven CA verifies, with the credential
 * of one identity; and what an answer that is a refusal means. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/failure.h"
#include "base/secret.h"
#include "kube/identity.h"
#include "kube/kubeconfig.h"
#include "net/http.h"

struct nb_api {
        struct nb_http *http;
        char base[NB_URL_MAX];          /* "https://host:port/prefix" */
        char name[NB_URL_MAX];          /* "host:port", for people */
        struct nb_secret authorization; /* header line with the credential; empty for none */
};

/* `ca` (PEM) are the proven CAs only, not all of cluster->ca; ca_len 0: the CAs of the system.
 * `identity` may be NULL. */
int nb_api_init(struct nb_api *ret_api, const struct nb_cluster *cluster, const char *ca,
                size_t ca_len, const struct nb_identity *identity, struct nb_failure *f);

void nb_api_done(struct nb_api *api);

/*
 * Both fill in the request: `url` is a path ("/api/v1/..."), `what` lacks the endpoint
 * ("cluster-info from"), and there is a time limit unless it is a stream. A credential is sent only
 * if `authorization` is set. Failures as of nb_http_perform().
 */
int nb_api_start(struct nb_api *api, const struct nb_http_request *request,
                 struct nb_http_transfer **ret_transfer, struct nb_failure *f);
int nb_api_perform(struct nb_api *api, const struct nb_http_request *request, uint64_t until_ms,
                   struct nb_http_answer *ret_answer, struct nb_failure *f);

/* As nb_api_start(), at an endpoint that is not verified. */
int nb_api_start_unverified(struct nb_http *http, const struct nb_url *endpoint,
                            const struct nb_http_request *request,
                            struct nb_http_transfer **ret_transfer, struct nb_failure *f);

/* The body, or "". */
const char *nb_answer_text(const struct nb_http_answer *answer);

/* A 404 of an API server, as opposed to one of anything on the path to it. */
bool nb_answer_is_not_found(const struct nb_http_answer *answer);

/* What a status means depends on the call, since RBAC for different objects has different remedies.
 * NB_NONE is NB_ANSWER_MALFORMED. */
struct nb_answer_codes {
        enum nb_code unauthorized; /* 401 */
        enum nb_code forbidden;    /* 403 */
        enum nb_code invalid;      /* 400, 409, 422 */
        enum nb_code anonymous;    /* 403 for system:anonymous although a credential was sent;
                                      NB_NONE: as `forbidden` */
        bool has_plain_refusals;   /* 401 and 403 come without a Status: from a supervisor of k3s */
};

/* Sets the failure for an unexpected status of the call `what` ("cluster-info from") to `name`:
 * NB_SERVER_ERROR for 429 and 5xx, NB_ANSWER_FOREIGN for a redirect and a refusal that no API
 * server sent, otherwise `codes`. Quotes the Status. */
int nb_answer_failure(const struct nb_http_answer *answer, const char *what, const char *name,
                      const struct nb_answer_codes *codes, struct nb_failure *f);
