/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* SHA-256 (FIPS 180-4), HMAC-SHA256 (RFC 2104), and comparison in constant time. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NB_SHA256_SIZE 32

/* 0 or -EIO (GnuTLS refuses the algorithm, for example in FIPS mode). */
int nb_sha256(const void *data, size_t len, uint8_t ret[static NB_SHA256_SIZE]);
int nb_hmac_sha256(const void *key, size_t key_len, const void *data, size_t len,
                   uint8_t ret[static NB_SHA256_SIZE]);

/* Compares in constant time. */
bool nb_digest_is_equal(const uint8_t a[static NB_SHA256_SIZE],
                        const uint8_t b[static NB_SHA256_SIZE]);
