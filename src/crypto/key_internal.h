/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Inside crypto/ only, since it shows GnuTLS. */

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include <gnutls/abstract.h>
#include <gnutls/x509.h>

struct nb_key {
        gnutls_x509_privkey_t key;
        gnutls_datum_t spki; /* SubjectPublicKeyInfo in DER, as GnuTLS writes it */
        bool is_p256;
};

static inline void nb_datum_done(gnutls_datum_t *datum) {
        gnutls_free(datum->data);
        datum->data = NULL;
        datum->size = 0;
}

/* For functions that only read a datum, and do not say so in its type. */
static inline gnutls_datum_t nb_datum_const(const void *data, size_t len) {
        return (gnutls_datum_t){ .data = (unsigned char *)(uintptr_t)data, .size = (unsigned)len };
}

static inline void nb_pubkey_deinitp(gnutls_pubkey_t *pubkey) {
        if (*pubkey)
                gnutls_pubkey_deinit(*pubkey);
}

static inline int nb_gnutls_to_errno(int r) {
        return r == GNUTLS_E_MEMORY_ERROR ? -ENOMEM : -EIO;
}
