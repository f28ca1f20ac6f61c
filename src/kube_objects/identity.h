/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The credential of a machine that is not a node yet, for every join method. Only kube_calls/api.c,
 * which sends it, distinguishes the kinds. */

#include <stdbool.h>
#include <stddef.h>

#include "base/secret.h"
#include "kube_objects/token.h"

#define NB_IDENTITY_SOURCE_MAX 127

enum nb_identity_kind {
        NB_IDENTITY_NONE,
        NB_IDENTITY_TOKEN, /* a bearer token: a bootstrap token, a service account's, any other */
        NB_IDENTITY_PASSWORD,    /* user and password, only for a k3s supervisor */
        NB_IDENTITY_CERTIFICATE, /* a client certificate */
};

struct nb_identity {
        enum nb_identity_kind kind;
        struct nb_secret secret;      /* the token; "user:password"; or the private key in PEM */
        struct nb_secret certificate; /* PEM chain, leaf first; kubelet's file has the key, too */
        char token_id[NB_TOKEN_ID_LEN + 1];      /* of a bootstrap token; otherwise "" */
        char source[NB_IDENTITY_SOURCE_MAX + 1]; /* "credential 'node-bootstrap.token'" */
};

#define NB_IDENTITY_INIT \
        { .secret = NB_SECRET_INIT, .certificate = NB_SECRET_INIT }

/* Whether the text is a valid token in an HTTP header: printable ASCII without blanks, and not too
 * long. */
bool nb_bearer_is_valid(const char *text, size_t len);

/* Copies a bearer token. For a bootstrap token, drops a final newline and sets token_id. 0 or
 * -ENOMEM. */
int nb_identity_set_token(struct nb_identity *ret_identity, const char *token, size_t len,
                          const char *source);

void nb_identity_done(struct nb_identity *identity);
