/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A bootstrap identity: what a machine that is no node yet shows to the API server. One struct for every way in; only
 * kube/api.c, which puts it on the wire, looks at the kind.
 */

#include <stddef.h>

#include "base/secret.h"
#include "format/token.h"

#define NB_IDENTITY_SOURCE_MAX 127

enum nb_identity_kind {
        NB_IDENTITY_NONE,
        NB_IDENTITY_TOKEN,       /* a bearer token: a bootstrap token, a service account's, any other */
        NB_IDENTITY_PASSWORD,    /* user and password, for a k3s supervisor alone */
        NB_IDENTITY_CERTIFICATE, /* a client certificate */
};

struct nb_identity {
        enum nb_identity_kind kind;
        struct nb_secret secret; /* the token; "user:password"; or the private key in PEM */
        char *certificate;       /* PEM chain, leaf first, NUL-terminated; NULL but for NB_IDENTITY_CERTIFICATE */
        size_t certificate_len;
        char token_id[NB_TOKEN_ID_LEN + 1];      /* the public half of a bootstrap token; "" for anything else */
        char source[NB_IDENTITY_SOURCE_MAX + 1]; /* for people: "credential 'node-bootstrap.token'" */
};

#define NB_IDENTITY_INIT \
        { .secret = NB_SECRET_INIT }

/* Copies a bearer token; the ID is filled in when it has the form of a bootstrap token. 0, -ENOMEM. */
int nb_identity_set_token(struct nb_identity *ret_identity, const char *token, size_t len, const char *source);

void nb_identity_done(struct nb_identity *identity);
