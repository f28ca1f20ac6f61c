/* SPDX-License-Identifier: Apache-2.0 */
#include <endian.h>
#include <errno.h>

#include <gnutls/abstract.h>
#include <gnutls/crypto.h>

#include "base/macro.h"
#include "crypto/key_internal.h"
#include "crypto/raw_key.h"

#define P256_SIZE 32

/* DER requires the shortest form, and GnuTLS keeps leading zeros. */
static gnutls_datum_t number_datum(struct nb_number number) {
        while (number.len > 1 && *number.data == 0) {
                number.data++;
                number.len--;
        }
        return nb_datum_const(number.data, number.len);
}

/* `r`: of the import. */
static int append_key(int r, gnutls_pubkey_t key, struct nb_buffer *ret_spki) {
        _cleanup_(nb_datum_done) gnutls_datum_t spki = { 0 };

        if (r >= 0)
                r = gnutls_pubkey_export2(key, GNUTLS_X509_FMT_DER, &spki);
        if (r < 0)
                return nb_gnutls_to_errno(r);
        nb_buffer_append(ret_spki, spki.data, spki.size);
        return ret_spki->error;
}

int nb_raw_key_rsa(struct nb_number modulus, uint32_t exponent, struct nb_buffer *ret_spki) {
        _cleanup_(nb_pubkey_deinitp) gnutls_pubkey_t key = NULL;
        gnutls_datum_t m = number_datum(modulus), e;

        exponent = htobe32(exponent);
        e = nb_datum_const(&exponent, sizeof(exponent));
        if (m.size > NB_KEY_BITS_MAX / 8)
                return -EINVAL;
        if (gnutls_pubkey_init(&key) < 0)
                return -ENOMEM;
        return append_key(gnutls_pubkey_import_rsa_raw(key, &m, &e), key, ret_spki);
}

int nb_raw_key_p256(struct nb_number x, struct nb_number y, struct nb_buffer *ret_spki) {
        _cleanup_(nb_pubkey_deinitp) gnutls_pubkey_t key = NULL;
        gnutls_datum_t a = number_datum(x), b = number_datum(y);

        if (a.size > P256_SIZE || b.size > P256_SIZE)
                return -EINVAL;
        if (gnutls_pubkey_init(&key) < 0)
                return -ENOMEM;
        return append_key(gnutls_pubkey_import_ecc_raw(key, GNUTLS_ECC_CURVE_SECP256R1, &a, &b),
                          key, ret_spki);
}

int nb_raw_signature_ecdsa(struct nb_number r, struct nb_number s, struct nb_buffer *ret) {
        _cleanup_(nb_datum_done) gnutls_datum_t der = { 0 };
        gnutls_datum_t a = number_datum(r), b = number_datum(s);
        int error = gnutls_encode_rs_value(&der, &a, &b);

        if (error < 0)
                return nb_gnutls_to_errno(error);
        nb_buffer_append(ret, der.data, der.size);
        return ret->error;
}

int nb_raw_signature_verify(const struct nb_buffer *spki, struct nb_number message,
                            const struct nb_buffer *signature) {
        _cleanup_(nb_pubkey_deinitp) gnutls_pubkey_t key = NULL;
        const gnutls_datum_t key_data = nb_datum_const(spki->data, spki->len);
        const gnutls_datum_t message_data = nb_datum_const(message.data, message.len);
        const gnutls_datum_t signature_data = nb_datum_const(signature->data, signature->len);
        gnutls_sign_algorithm_t algorithm;
        int r;

        if (gnutls_pubkey_init(&key) < 0)
                return -ENOMEM;
        r = gnutls_pubkey_import(key, &key_data, GNUTLS_X509_FMT_DER);
        algorithm = gnutls_pk_to_sign(
                (gnutls_pk_algorithm_t)gnutls_pubkey_get_pk_algorithm(key, NULL),
                GNUTLS_DIG_SHA256);
        if (r >= 0)
                r = gnutls_pubkey_verify_data2(key, algorithm, 0, &message_data, &signature_data);
        return r < 0 ? nb_gnutls_to_errno(r) : 0;
}
