/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Encodes public keys and signatures of which only the numbers are known, as a TPM has them. */

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

/* Unsigned, the most significant byte first, at least one byte; leading zeros are allowed. */
struct nb_number {
        const uint8_t *data;
        size_t len;
};

/* Append a SubjectPublicKeyInfo in DER. Whether the numbers are a key, and a strong one, is not
 * checked. 0; -EINVAL if a number is too long; -EIO, -ENOMEM; ret_spki->error. */
int nb_raw_key_rsa(struct nb_number modulus, uint32_t exponent, struct nb_buffer *ret_spki);
int nb_raw_key_p256(struct nb_number x, struct nb_number y, struct nb_buffer *ret_spki);

/* Appends an ECDSA signature in DER (RFC 3279, 2.2.3). 0; -ENOMEM, -EIO; ret->error. */
int nb_raw_signature_ecdsa(struct nb_number r, struct nb_number s, struct nb_buffer *ret);

/* Verifies a signature with SHA-256 (ECDSA in DER, or RSASSA-PKCS1-v1_5, by the type of the key).
 * 0; -EIO, -ENOMEM. */
int nb_raw_signature_verify(const struct nb_buffer *spki, struct nb_number message,
                            const struct nb_buffer *signature);
