/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Token of k3s and RKE2 (k3s pkg/clientaccess/token.go): `K10<64 hex>::<id>.<secret>` and `K10<64 hex>::<user>:<password>`;
 * without the hash `K10::<id>.<secret>`, `K10::<user>:<password>`. At most one newline after it. Nothing here ever
 * repeats what was rejected. A bare password, which k3s takes too, is not accepted: it cannot be told from a damaged token.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/identity.h"

#define NB_K3S_HASH_SIZE 32   /* SHA-256 */
#define NB_K3S_TOKEN_MAX 1024 /* bytes; real ones have some hundred */

struct nb_k3s_token {
        bool has_hash;
        uint8_t hash[NB_K3S_HASH_SIZE]; /* what /cacerts has to have: see crypto/certificate.h */
        struct nb_identity identity;    /* NB_IDENTITY_TOKEN, or NB_IDENTITY_PASSWORD: always of the user "node", as k3s' agent has it */
};

/* Whether it begins as one: tells the two forms of the credential node-bootstrap.token apart. */
bool nb_k3s_token_is_meant(const char *data, size_t len);

/* Whether K10, hex digits and :: stand anywhere in it: for what goes into messages, where not even a damaged one may be. */
bool nb_k3s_token_may_stand_in(const char *text);

/* That, or nb_token_may_stand_in(). */
bool nb_any_token_may_stand_in(const char *text);

/* 0; -EINVAL when it is not of the form; -ENOMEM. */
int nb_k3s_token_parse(const char *data, size_t len, const char *source, struct nb_k3s_token *ret_token);

/* As nb_token_find_flaw(), for what begins as one. */
void nb_k3s_token_find_flaw(const char *data, size_t len, char ret[static NB_TOKEN_FLAW_SIZE]);

/* For one of the two forms: the one that it begins as. */
void nb_any_token_find_flaw(const char *data, size_t len, char ret[static NB_TOKEN_FLAW_SIZE]);

void nb_k3s_token_done(struct nb_k3s_token *token);
