/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Bootstrap token: [a-z0-9]{6}\.[a-z0-9]{16} (Kubernetes cluster-bootstrap/token/api/types.go) and
 * at most one newline. No message quotes a rejected token.
 */

#include <stddef.h>

#define NB_TOKEN_ID_LEN 6
#define NB_TOKEN_SECRET_LEN 16
#define NB_TOKEN_LEN (NB_TOKEN_ID_LEN + 1 + NB_TOKEN_SECRET_LEN)
/* The group of a token for one node. It is bound to system:node-bootstrapper only, so
 * kube-controller-manager approves none of its requests: node-bootstrap's controller decides. */
#define NB_TOKEN_GROUP_NODE "system:bootstrappers:node-bootstrap"
/* The group of a token for a fleet: it counts only together with a proof by the enrolled key of a
 * node. Bound to system:node-bootstrapper only, too. */
#define NB_TOKEN_GROUP_ENROLLED "system:bootstrappers:node-bootstrap-enrolled"

/* 0; -EINVAL if the token is malformed; -EBADMSG if it looks like the ciphertext of
 * systemd-creds. */
int nb_token_verify(const char *data, size_t len);

/* Returns the length without the white space at the end that people and editors add, for example
 * CRLF on Windows. */
size_t nb_token_trim(const char *data, size_t len);

/* Describes why the text is not a token: "it ends with a carriage return"; "" if the reason is
 * unknown. */
#define NB_TOKEN_FLAW_SIZE 112
void nb_token_find_flaw(const char *data, size_t len, char ret[static NB_TOKEN_FLAW_SIZE]);
