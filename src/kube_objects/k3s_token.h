/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Token of k3s and RKE2 (k3s pkg/clientaccess/token.go): `K10<64 hex>::<id>.<secret>` and `K10<64
 * hex>::<user>:<password>`; without the hash `K10::<id>.<secret>`, `K10::<user>:<password>`. At
 * most one newline may follow. No message quotes a rejected token. A bare password, which k3s
 * accepts too, is refused: it looks like a damaged token.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/failure.h"
#include "base/secret.h"
#include "kube_objects/identity.h"

#define NB_K3S_HASH_SIZE 32   /* SHA-256 */
#define NB_K3S_TOKEN_MAX 1024 /* bytes; real ones have some hundred */

struct nb_k3s_token {
        bool has_hash;
        uint8_t hash[NB_K3S_HASH_SIZE]; /* of /cacerts: see crypto/certificate.h */
        struct nb_identity identity;    /* NB_IDENTITY_TOKEN; or NB_IDENTITY_PASSWORD of the user
                                           "node", as in k3s' agent */
};

/* Whether the credential node-bootstrap.token is a k3s token rather than a bootstrap token. */
bool nb_k3s_token_looks_like(const char *data, size_t len);

/* 0; -EINVAL if the token is malformed; -ENOMEM. */
int nb_k3s_token_parse(const char *data, size_t len, const char *source,
                       struct nb_k3s_token *ret_token);

/* Verifies the form of a bootstrap token or a k3s token. 0; -EINVAL; -EBADMSG, as from
 * nb_token_verify(); -ENOMEM. `ret_flaw` then says what is wrong. */
int nb_any_token_verify(const char *data, size_t len, char ret_flaw[static NB_TOKEN_FLAW_SIZE]);

/* As nb_token_find_flaw(), for the kind of token that the text looks like. Call it only for a token
 * that was refused. */
void nb_any_token_find_flaw(const char *data, size_t len, char ret[static NB_TOKEN_FLAW_SIZE]);

/* The form that only a token of k3s has, even if it is malformed: K10 at the beginning, or its hash
 * alone. */
bool nb_k3s_token_is_meant(const char *data, size_t len);

/* "; ..." for a message about a token that was refused: where the whole token of k3s is. "" for
 * text that is something else, since it has a dot or is longer than a hash. */
const char *nb_k3s_token_hint(const char *data, size_t len);

void nb_k3s_token_done(struct nb_k3s_token *token);

#define NB_RKE2_SUPERVISOR_PORT 9345

#define NB_NODE_PASSWORD_FOLDER "/etc/rancher/node" /* of k3s and RKE2 */
#define NB_NODE_PASSWORD_FILE NB_NODE_PASSWORD_FOLDER "/password"
#define NB_NODE_PASSWORD_FILE_MAX 4096

/* Validates the text of NB_NODE_PASSWORD_FILE, and removes trailing white space from it, as k3s
 * does. The password is sent in an HTTP header, in which a newline would start another header.
 * NB_NODE_PASSWORD_MISSING. */
int nb_node_password_parse(struct nb_secret *text, struct nb_failure *f);
