/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The proven API server and the identity that is shown to it: what every call with a credential needs. There is one connection for
 * all of them, verified by the proven CA.
 */

#include "base/failure.h"
#include "base/secret.h"
#include "format/identity.h"
#include "format/kubeconfig.h"
#include "net/http.h"

struct nb_api {
        struct nb_http *http;
        char base[NB_URL_MAX];          /* "https://host:port/prefix" */
        char name[NB_URL_MAX];          /* "host:port", for people */
        struct nb_secret authorization; /* the whole header line; empty for none */
};

/*
 * `cluster` says where; `ca` (PEM) who must answer: only what was proven, not what cluster->ca holds besides. ca_len 0:
 * who the system's CAs vouch for. `identity` is what requests show; NULL or NB_IDENTITY_NONE for none.
 */
int nb_api_init(struct nb_api *ret_api, const struct nb_cluster *cluster, const char *ca, size_t ca_len,
                const struct nb_identity *identity, struct nb_failure *f);

void nb_api_done(struct nb_api *api);

/* GET of `path`, "/api/v1/...", with the identity; `what` names it for messages. Outcome as of nb_http_perform(). */
int nb_api_get(struct nb_api *api, const char *path, const char *what, size_t max_body, uint64_t until_ms,
               struct nb_http_answer *ret_answer, struct nb_failure *f);

/* The same for what everybody may read: the identity is not shown. */
int nb_api_get_public(struct nb_api *api, const char *path, const char *what, size_t max_body, uint64_t until_ms,
                      struct nb_http_answer *ret_answer, struct nb_failure *f);

/* The same begun at an endpoint that has proven nothing. */
int nb_api_start_unverified(struct nb_http *unverified, const struct nb_url *endpoint, const char *path, const char *what,
                            size_t max_body, struct nb_http_transfer **ret_transfer, struct nb_failure *f);
