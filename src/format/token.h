/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Bootstrap token: [a-z0-9]{6}\.[a-z0-9]{16} (Kubernetes cluster-bootstrap/token/api/types.go) and at most one newline.
 * Nothing here ever repeats what was rejected.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/secret.h"

#define NB_TOKEN_ID_LEN 6
#define NB_TOKEN_SECRET_LEN 16
#define NB_TOKEN_LEN (NB_TOKEN_ID_LEN + 1 + NB_TOKEN_SECRET_LEN)

struct nb_token {
        char id[NB_TOKEN_ID_LEN + 1]; /* the public half */
        struct nb_secret value;       /* "id.secret": what the API server takes as a bearer token */
        const char *secret;           /* into value: NB_TOKEN_SECRET_LEN bytes, the HMAC key of the signature */
};

/* 0; -EINVAL when it is not of the form; -EBADMSG when it looks like the ciphertext of systemd-creds; -ENOMEM. */
int nb_token_parse(const char *data, size_t len, struct nb_token *ret_token);

/* Why it is none, as the end of a sentence that says that it is none: "a carriage return stands at its end". */
#define NB_TOKEN_FLAW_SIZE 112
void nb_token_find_flaw(const char *data, size_t len, char ret[static NB_TOKEN_FLAW_SIZE]);

/* Whether there is something of this form anywhere in it: text that was refused elsewhere is quoted only where not. */
bool nb_token_may_stand_in(const char *text);

void nb_token_done(struct nb_token *token);
