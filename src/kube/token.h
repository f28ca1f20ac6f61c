/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Bootstrap token: [a-z0-9]{6}\.[a-z0-9]{16} (Kubernetes cluster-bootstrap/token/api/types.go) and
 * at most one newline. No message quotes a rejected token.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/secret.h"

#define NB_TOKEN_ID_LEN 6
#define NB_TOKEN_SECRET_LEN 16
#define NB_TOKEN_LEN (NB_TOKEN_ID_LEN + 1 + NB_TOKEN_SECRET_LEN)

struct nb_token {
        char id[NB_TOKEN_ID_LEN + 1]; /* the public half */
        struct nb_secret value;       /* "id.secret": the bearer token */
        const char
                *secret; /* into value: NB_TOKEN_SECRET_LEN bytes, the HMAC key of the signature */
};

/* 0; -EINVAL if the token is malformed; -EBADMSG if it looks like the ciphertext of systemd-creds;
 * -ENOMEM. */
int nb_token_parse(const char *data, size_t len, struct nb_token *ret_token);

/* Its length without the line ends that editors add, for example CRLF on Windows. */
size_t nb_token_trim(const char *data, size_t len);

/* Why it is not a token: "it ends with a carriage return"; "" if the reason is unknown. */
#define NB_TOKEN_FLAW_SIZE 112
void nb_token_find_flaw(const char *data, size_t len, char ret[static NB_TOKEN_FLAW_SIZE]);

void nb_token_done(struct nb_token *token);
