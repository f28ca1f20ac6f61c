/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Sends requests to one server over one set of connections, with the credential of one identity,
 * and sets the failure for an answer that refuses a request. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/failure.h"
#include "base/secret.h"
#include "http/http.h"
#include "kube_objects/identity.h"
#include "kube_objects/kubeconfig.h"
#include "kube_objects/object.h"

struct nb_api {
        struct nb_http *http;
        const struct nb_identity *identity; /* borrowed; NULL for none */
        uint64_t deadline_ms;  /* nb_now_ms() at which each call ends, or NB_TIME_INFINITE */
        char base[NB_URL_MAX]; /* "https://host:port/prefix" */
        char name[NB_URL_MAX]; /* "host:port", for people */
        struct nb_secret authorization; /* header line with the credential; empty for none */
};

/* The failure for each status. It depends on the call, since RBAC for different objects has
 * different remedies. NB_NONE means NB_ANSWER_MALFORMED. */
struct nb_answer_codes {
        enum nb_code unauthorized; /* 401 */
        enum nb_code forbidden;    /* 403 */
        enum nb_code invalid;      /* 400, 409, 422 */
        enum nb_code anonymous;    /* 403 for system:anonymous although a credential was sent;
                                      NB_NONE: as `forbidden` */
        bool has_plain_refusals;   /* 401 and 403 come without a Status, as from a k3s supervisor */
};

/* What the requests of one kind have in common. */
struct nb_call {
        const char *what; /* for messages, before the server: "cluster-info from" */
        const char *path; /* "/api/v1/..." */
        size_t max;       /* limit for the answer in bytes */
        const struct nb_answer_codes *codes; /* NULL: all are NB_ANSWER_MALFORMED */
};

/* cluster->ca contains only verified CAs; NULL: the system's CAs. `identity` may be NULL, and must
 * outlive *ret_api, which is empty or from nb_api_init_early(). An early connection is used if it
 * is to the same server, and otherwise closed. */
int nb_api_init(struct nb_api *ret_api, const struct nb_cluster *cluster,
                const struct nb_identity *identity, uint64_t deadline_ms, struct nb_failure *f);

/* For an endpoint that is not verified. No credential is sent, and answers are read as struct
 * nb_unverified with nb_http_finish_unverified(). */
int nb_api_init_unverified(struct nb_api *ret_api, const struct nb_url *endpoint,
                           struct nb_failure *f);

/* For a connection that nb_http_request.next opens before the CAs are known. No request can be sent
 * before nb_api_init(). */
int nb_api_init_early(struct nb_api *ret_api, const struct nb_url *endpoint, struct nb_failure *f);

void nb_api_done(struct nb_api *api);

/*
 * Send a request with the credential, and with a time limit unless it is a stream. `name` or
 * `more->url` is appended to call->path; the other fields of `more` are added to the request.
 * Failures as for nb_http_perform().
 */
int nb_api_get(struct nb_api *api, const struct nb_call *call, const char *name,
               struct nb_http_answer *ret_answer, struct nb_failure *f);
int nb_api_perform(struct nb_api *api, const struct nb_call *call,
                   const struct nb_http_request *more, struct nb_http_answer *ret_answer,
                   struct nb_failure *f);
int nb_api_start(struct nb_api *api, const struct nb_call *call, const struct nb_http_request *more,
                 struct nb_http_transfer **ret_transfer, struct nb_failure *f);

/* The body, or "". */
const char *nb_answer_text(const struct nb_http_answer *answer);

/* The Status in the body; empty if there is none. */
struct nb_status nb_answer_status(const struct nb_http_answer *answer);

/* Whether the API server itself answered 404, not a proxy or load balancer on the path to it. */
bool nb_answer_is_not_found(const struct nb_http_answer *answer);

/* Sets the failure for an unexpected status: NB_SERVER_ERROR for 429 and 5xx, NB_ANSWER_FOREIGN for
 * a redirect or refusal that did not come from an API server, otherwise from call->codes. Quotes
 * the Status, and names a rejected identity. */
int nb_answer_failure(const struct nb_api *api, const struct nb_call *call,
                      const struct nb_http_answer *answer, struct nb_failure *f);

/* If `f` is NB_TOKEN_REJECTED, adds the ID and the source of the identity to it. Returns r. */
int nb_api_name_identity(const struct nb_api *api, int r, struct nb_failure *f);
