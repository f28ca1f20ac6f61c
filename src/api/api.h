/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Requests to one server over one set of connections, with the credential of one identity; and what
 * an answer that is a refusal means. */

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
        const struct nb_identity *identity; /* borrowed; NULL for none */
        uint64_t deadline_ms;           /* nb_now_ms(): where each call ends; NB_TIME_INFINITE */
        char base[NB_URL_MAX];          /* "https://host:port/prefix" */
        char name[NB_URL_MAX];          /* "host:port", for people */
        struct nb_secret authorization; /* header line with the credential; empty for none */
};

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

/* What the requests of one kind have in common. */
struct nb_call {
        const char *what; /* for messages, before the server: "cluster-info from" */
        const char *path; /* "/api/v1/..." */
        size_t max;       /* bytes of the answer */
        const struct nb_answer_codes *codes; /* NULL: all are NB_ANSWER_MALFORMED */
};

/* cluster->ca are the proven CAs only; NULL: the CAs of the system. `identity` may be NULL. */
int nb_api_init(struct nb_api *ret_api, const struct nb_cluster *cluster,
                const struct nb_identity *identity, uint64_t deadline_ms, struct nb_failure *f);

/* An endpoint that is not verified. It gets no credential, and its answers are a struct
 * nb_unverified: nb_http_finish_unverified(). */
int nb_api_init_unverified(struct nb_api *ret_api, const struct nb_url *endpoint,
                           struct nb_failure *f);

void nb_api_done(struct nb_api *api);

/*
 * These send the credential, and set a time limit unless it is a stream. The path ends with `name`
 * or `more->url`; what else `more` has is added to the request. Failures as of nb_http_perform().
 */
int nb_api_get(struct nb_api *api, const struct nb_call *call, const char *name,
               struct nb_http_answer *ret_answer, struct nb_failure *f);
int nb_api_perform(struct nb_api *api, const struct nb_call *call,
                   const struct nb_http_request *more, struct nb_http_answer *ret_answer,
                   struct nb_failure *f);
int nb_api_start(struct nb_api *api, const struct nb_call *call, const struct nb_http_request *more,
                 struct nb_http_transfer **ret_transfer, struct nb_failure *f);

/* A header line: its name with ": ", and the value. 0, -ENOMEM. */
int nb_header_init(struct nb_secret *ret_line, const char *name, const char *value, size_t len);

/* The body, or "". */
const char *nb_answer_text(const struct nb_http_answer *answer);

/* A 404 of an API server, as opposed to one of anything on the path to it. */
bool nb_answer_is_not_found(const struct nb_http_answer *answer);

/* Sets the failure for an unexpected status: NB_SERVER_ERROR for 429 and 5xx, NB_ANSWER_FOREIGN for
 * a redirect and a refusal that no API server sent, otherwise call->codes. Quotes the Status, and
 * names a rejected identity. */
int nb_answer_failure(const struct nb_api *api, const struct nb_call *call,
                      const struct nb_http_answer *answer, struct nb_failure *f);

/* Adds the ID and the source of the identity to an NB_TOKEN_REJECTED. Returns r. */
int nb_api_name_identity(const struct nb_api *api, int r, struct nb_failure *f);
