/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Private to crypto/, since it uses the types of GnuTLS. */

#include <gnutls/x509.h>

#include "crypto/certificate.h"

struct nb_certificate_entry {
        gnutls_x509_crt_t crt;
        uint8_t pin[NB_SHA256_SIZE];
        uint8_t digest[NB_SHA256_SIZE]; /* SHA-256 of the certificate in DER */
};

struct nb_certificates {
        uint8_t digest[NB_SHA256_SIZE]; /* SHA-256 of the whole text */
        size_t n;
        struct nb_certificate_entry entries[NB_CERTIFICATES_MAX];
};

#define NB_VERIFY_IGNORING_TIME \
        (GNUTLS_VERIFY_DISABLE_TIME_CHECKS | GNUTLS_VERIFY_DISABLE_TRUSTED_TIME_CHECKS)
