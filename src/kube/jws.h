/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The detached signature of cluster-info (kubernetes cluster-bootstrap/token/jws):
 * base64url(header) ".." base64url(mac), header exactly {"alg":"HS256","kid":"<token id>"}, signed
 * input base64url(header) "." base64url(content). The MAC is HMAC-SHA256 with the token's secret
 * as key; it is not verified here.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/failure.h"

#define NB_JWS_MAC_SIZE 32
#define NB_JWS_MAX 512

/* Decodes the MAC of a signature; NB_SIGNATURE_INVALID if the header is not the expected one. */
int nb_jws_parse(const char *text, size_t len, const char *token_id,
                 uint8_t ret_mac[static NB_JWS_MAC_SIZE], struct nb_failure *f);

/* Appends the signed input. 0, -E2BIG, -ENOMEM. */
int nb_jws_input(const char *token_id, const char *content, size_t len, struct nb_buffer *ret);
