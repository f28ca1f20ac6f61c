/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Private to crypto/, since it uses the types of GnuTLS. */

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include <gnutls/abstract.h>
#include <gnutls/x509.h>

#include "crypto/digest.h"

/* GnuTLS does not limit the size of a key: verifying one RSA signature with a modulus of 64 kbit
 * takes 23 s of CPU time. */
#define NB_KEY_BITS_MAX 8192
#define NB_RSA_EXPONENT_MAX 4 /* bytes */

/* Characters in a PEM block. libtasn1's time grows with the square of the number of elements. */
#define NB_PEM_BLOCK_MAX ((size_t)24 * 1024)

struct nb_key {
        gnutls_x509_privkey_t key;
        gnutls_datum_t spki;        /* SubjectPublicKeyInfo in DER, as GnuTLS encodes it */
        uint8_t id[NB_SHA256_SIZE]; /* key ID as GnuTLS computes it, the same for all encodings of a
                                       key */
        bool is_p256;
};

static inline void nb_datum_done(gnutls_datum_t *datum) {
        gnutls_free(datum->data);
        datum->data = NULL;
        datum->size = 0;
}

/* For functions that only read a datum, but do not declare it const. */
static inline gnutls_datum_t nb_datum_const(const void *data, size_t len) {
        return (gnutls_datum_t){ .data = (unsigned char *)(uintptr_t)data, .size = (unsigned)len };
}

static inline void nb_crq_deinitp(gnutls_x509_crq_t *crq) {
        if (*crq)
                gnutls_x509_crq_deinit(*crq);
}

static inline void nb_privkey_deinitp(gnutls_privkey_t *key) {
        if (*key)
                gnutls_privkey_deinit(*key);
}

static inline void nb_pubkey_deinitp(gnutls_pubkey_t *key) {
        if (*key)
                gnutls_pubkey_deinit(*key);
}

static inline int nb_gnutls_to_errno(int r) {
        return r == GNUTLS_E_MEMORY_ERROR ? -ENOMEM : -EIO;
}
