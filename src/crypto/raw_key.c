/* SPDX-License-Identifier: Apache-2.0 */
#include <endian.h>
#include <errno.h>

#include <gnutls/abstract.h>
#include <gnutls/crypto.h>

#include "base/macro.h"
#include "crypto/key_internal.h"
#include "crypto/raw_key.h"

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
                return r == GNUTLS_E_MEMORY_ERROR ? -ENOMEM : -EINVAL;
        nb_buffer_append(ret_spki, spki.data, spki.size);
        return ret_spki->error;
}

int nb_raw_key_rsa(struct nb_number modulus, uint32_t exponent, struct nb_buffer *ret_spki) {
        _cleanup_(nb_pubkey_deinitp) gnutls_pubkey_t key = NULL;
        gnutls_datum_t m = number_datum(modulus), e;

        exponent = htobe32(exponent);
        e = nb_datum_const(&exponent, sizeof(exponent));
        if (gnutls_pubkey_init(&key) < 0)
                return -ENOMEM;
        return append_key(gnutls_pubkey_import_rsa_raw(key, &m, &e), key, ret_spki);
}

int nb_raw_key_p256(struct nb_number x, struct nb_number y, struct nb_buffer *ret_spki) {
        _cleanup_(nb_pubkey_deinitp) gnutls_pubkey_t key = NULL;
        gnutls_datum_t a = number_datum(x), b = number_datum(y);

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
