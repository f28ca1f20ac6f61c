/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Private to crypto/, since it uses the types of GnuTLS. */

#include <gnutls/x509.h>

#include "crypto/certificate.h"

struct nb_certificate_entry {
        gnutls_x509_crt_t crt;
        gnutls_datum_t der;
        uint8_t pin[NB_SHA256_SIZE];
};

struct nb_certificates {
        size_t n;
        struct nb_certificate_entry entries[NB_CERTIFICATES_MAX];
};

/* Whether `issuer` is a CA and signed `crt`. Ignores validity periods. */
bool nb_crt_is_issued_by(gnutls_x509_crt_t crt, gnutls_x509_crt_t issuer);

bool nb_crt_is_ca(gnutls_x509_crt_t crt);
