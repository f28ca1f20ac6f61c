/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The detached signature of cluster-info (kubernetes cluster-bootstrap/token/jws):
 * base64url(header) ".." base64url(mac), header exactly {"alg":"HS256","kid":"<token id>"}, signed
 * input base64url(header) "." base64url(content). The MAC is HMAC-SHA256 with the token's secret as
 * key. Token and content determine the signature, so it is not parsed but computed and compared.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

#define NB_JWS_MAC_SIZE 32
#define NB_SIGNATURE_PREFIX "jws-kubeconfig-" /* and the ID of a token: key in the ConfigMap */

/* Appends the header for this token, `separator` and the content, in base64url. With NB_JWS_INPUT
 * and the kubeconfig as content, the result is the signed input; with NB_JWS_SIGNATURE and the MAC
 * as content, it is the signature. */
#define NB_JWS_INPUT "."
#define NB_JWS_SIGNATURE ".."
void nb_jws_format(const char *token_id, const char *separator, const void *content, size_t len,
                   struct nb_buffer *ret);
