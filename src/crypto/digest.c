/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

#include "crypto/digest.h"

int nb_sha256(const void *data, size_t len, uint8_t ret[static NB_SHA256_SIZE]) {
        return gnutls_hash_fast(GNUTLS_DIG_SHA256, data, len, ret) < 0 ? -EIO : 0;
}

int nb_hmac_sha256(const void *key, size_t key_len, const void *data, size_t len,
                   uint8_t ret[static NB_SHA256_SIZE]) {
        return gnutls_hmac_fast(GNUTLS_MAC_SHA256, key, key_len, data, len, ret) < 0 ? -EIO : 0;
}

bool nb_digest_is_equal(const uint8_t a[static NB_SHA256_SIZE],
                        const uint8_t b[static NB_SHA256_SIZE]) {
        return gnutls_memcmp(a, b, NB_SHA256_SIZE) == 0;
}
