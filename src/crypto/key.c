/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "base/macro.h"
#include "crypto/key.h"
#include "crypto/key_internal.h"
#include "crypto/pem.h"

static int key_new(struct nb_key **ret_key) {
        _cleanup_(nb_key_freep) struct nb_key *key = calloc(1, sizeof(*key));

        if (!key || gnutls_x509_privkey_init(&key->key) < 0)
                return -ENOMEM;
        *ret_key = TAKE(key);
        return 0;
}

static int read_public_key(struct nb_key *key) {
        _cleanup_(nb_privkey_deinitp) gnutls_privkey_t private = NULL;
        _cleanup_(nb_pubkey_deinitp) gnutls_pubkey_t public = NULL;
        gnutls_ecc_curve_t curve;
        size_t id_size = sizeof(key->id);
        int r;

        if (gnutls_privkey_init(&private) < 0 || gnutls_pubkey_init(&public) < 0)
                return -ENOMEM;
        r = gnutls_privkey_import_x509(private, key->key, 0);
        if (r >= 0)
                r = gnutls_pubkey_import_privkey(public, private, 0, 0);
        if (r >= 0)
                r = gnutls_pubkey_export2(public, GNUTLS_X509_FMT_DER, &key->spki);
        if (r >= 0)
                r = gnutls_pubkey_get_key_id(public, GNUTLS_KEYID_USE_SHA256, key->id, &id_size);
        if (r < 0)
                return nb_gnutls_to_errno(r);
        key->is_p256 = gnutls_pubkey_export_ecc_raw2(public, &curve, NULL, NULL, 0) >= 0 &&
                       curve == GNUTLS_ECC_CURVE_SECP256R1;
        return 0;
}

int nb_key_generate(struct nb_key **ret_key) {
        _cleanup_(nb_key_freep) struct nb_key *key = NULL;
        int r;

        r = key_new(&key);
        if (r < 0)
                return r;
        r = gnutls_x509_privkey_generate(key->key, GNUTLS_PK_ECDSA,
                                         GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0);
        if (r < 0)
                return nb_gnutls_to_errno(r);
        r = read_public_key(key);
        if (r < 0)
                return r;
        *ret_key = TAKE(key);
        return 0;
}

/* Finds the first private key, which is the one that Go uses. */
static int find_private_key(const char *pem, size_t len, gnutls_datum_t *ret) {
        struct nb_pem_block block;
        size_t offset = 0;
        int r;

        do {
                r = nb_pem_next(pem, len, &offset, &block);
                if (r <= 0)
                        return -EINVAL;
        } while (!nb_pem_block_is_private_key(&block));
        if (block.len > NB_PEM_BLOCK_MAX)
                return -EINVAL;
        *ret = nb_datum_const(block.text, block.len);
        return 0;
}

static int import_error(int r) {
        switch (r) {
        case GNUTLS_E_MEMORY_ERROR:
                return -ENOMEM;
        case GNUTLS_E_UNIMPLEMENTED_FEATURE:
        case GNUTLS_E_UNKNOWN_PK_ALGORITHM:
        case GNUTLS_E_ECC_UNSUPPORTED_CURVE:
                return -ENOTSUP;
        default:
                return -EINVAL;
        }
}

int nb_key_import(const char *pem, size_t len, struct nb_key **ret_key) {
        _cleanup_(nb_key_freep) struct nb_key *key = NULL;
        gnutls_datum_t block;
        unsigned bits = 0;
        int r;

        r = find_private_key(pem, len, &block);
        if (r < 0)
                return r;
        r = key_new(&key);
        if (r < 0)
                return r;
        r = gnutls_x509_privkey_import(key->key, &block, GNUTLS_X509_FMT_PEM);
        if (r < 0)
                return import_error(r);
        /* Reject a huge key here, since verify_params() below would test its primes, which takes
         * long. */
        if (gnutls_x509_privkey_get_pk_algorithm2(key->key, &bits) >= 0 && bits > NB_KEY_BITS_MAX)
                return -EINVAL;
        /* The file also contains the public key, which may belong to another private key. */
        r = gnutls_x509_privkey_verify_params(key->key);
        if (r < 0)
                return import_error(r);
        /* Without this call, a key from PKCS #8 is exported without its curve, and neither Go nor
         * GnuTLS can read it. */
        if (gnutls_x509_privkey_get_pk_algorithm(key->key) == GNUTLS_PK_ECDSA) {
                r = gnutls_x509_privkey_fix(key->key);
                if (r < 0)
                        return import_error(r);
        }
        r = read_public_key(key);
        if (r < 0)
                return r == -ENOMEM ? r : -EINVAL;
        *ret_key = TAKE(key);
        return 0;
}

int nb_key_export(const struct nb_key *key, struct nb_secret *ret_pem) {
        gnutls_datum_t pem = { 0 };
        int r;

        r = gnutls_x509_privkey_export2(key->key, GNUTLS_X509_FMT_PEM, &pem);
        if (r < 0)
                return nb_gnutls_to_errno(r);
        r = nb_secret_copy(ret_pem, pem.data, pem.size);
        gnutls_memset(pem.data, 0, pem.size);
        gnutls_free(pem.data);
        return r;
}

bool nb_key_is_p256(const struct nb_key *key) {
        return key->is_p256;
}

void nb_key_free(struct nb_key *key) {
        if (!key)
                return;
        if (key->key)
                gnutls_x509_privkey_deinit(key->key);
        nb_datum_done(&key->spki);
        free(key);
}

void nb_key_freep(struct nb_key **key) {
        nb_key_free(*key);
}
