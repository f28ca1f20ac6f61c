/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Base64 (RFC 4648 section 4), base64url without padding (section 5, as JWS uses it) and hex.
 * Decoders are strict: no white space, canonical trailing bits, exact padding.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/secret.h"

/* Append to `ret`; errors are in ret->error. */
void nb_base64_encode(const void *data, size_t len, struct nb_buffer *ret);
void nb_base64url_encode(const void *data, size_t len, struct nb_buffer *ret);

/* `prefix`, such as the name of a header, and the encoded bytes of a secret. 0, or -ENOMEM. */
int nb_base64_encode_secret(const char *prefix, const struct nb_secret *secret,
                            struct nb_secret *ret);

/* Appends the decoded bytes to `ret`. Returns 0 or ret->error, which is -EINVAL if the text is not
 * strict base64; `ret` may then hold part of the bytes. */
int nb_base64_decode(const char *text, size_t len, struct nb_buffer *ret);

/* Decodes base64 with white space anywhere in it. 0; -EBADMSG, -ENOMEM. */
int nb_base64_decode_secret(const char *text, size_t len, struct nb_secret *ret);

/* Lower case; `ret` holds 2 * len + 1 bytes. */
void nb_hex_encode(const uint8_t *data, size_t len, char *ret);

/* Decodes exactly 2 * len digits of either case. 0, or -EINVAL; `ret` may then hold part of the
 * bytes. */
int nb_hex_decode(const char *text, size_t text_len, uint8_t *ret, size_t len);
