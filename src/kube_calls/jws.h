/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The detached signature of cluster-info (kubernetes cluster-bootstrap/token/jws):
 * base64url(header) ".." base64url(mac), header exactly {"alg":"HS256","kid":"<token id>"}, signed
 * input base64url(header) "." base64url(content). The MAC is HMAC-SHA256 with the token's secret as
 * key. Token and content determine the signature, so it is not parsed but computed and compared.
 */

#include <stddef.h>

#include "base/buffer.h"

#define NB_JWS_LEN 85 /* with the ID of a bootstrap token */

/* Appends the signature of `content`. 0, -ENOMEM, or -EIO: HMAC-SHA256 cannot be computed. */
int nb_jws_sign(const char *token_id, const char *key, size_t key_len, const char *content,
                struct nb_buffer *ret);
