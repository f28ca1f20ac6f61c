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

/* Whether the certificate names this one as its issuer. */
bool nb_crt_has_issuer_name(gnutls_x509_crt_t crt, gnutls_x509_crt_t issuer);

/* Whether the certificate is a CA: basicConstraints say cA TRUE. A certificate that a pin or a file
 * names (`is_anchor`) may instead be a self-signed one of X.509 version 1, where nothing can say
 * so. */
bool nb_crt_is_ca(gnutls_x509_crt_t crt, bool is_anchor);

/* The same, and the key usage is for it. */
bool nb_crt_may_issue(gnutls_x509_crt_t crt, bool is_anchor);

/* Whether the issuer's key made the signature, of any algorithm. Nothing else is compared. */
bool nb_crt_is_signed_by(gnutls_x509_crt_t crt, gnutls_x509_crt_t issuer);
/* Whether that algorithm is acceptable in a certificate. */
bool nb_crt_has_strong_signature(gnutls_x509_crt_t crt);

/* Whether the names fit and the issuer's key, which is for signing certificates, made the
 * signature, with such an algorithm. Whether it is a CA is for the caller. */
bool nb_crt_is_issued_by(gnutls_x509_crt_t crt, gnutls_x509_crt_t issuer);

/* Whether the name constraints of a CA permit the names of the certificates below it (the first `n`
 * of them), as in Go. Constraints on names that are not compared are refused if they are critical.
 */
bool nb_crt_permits_names(gnutls_x509_crt_t ca, const gnutls_x509_crt_t *below, size_t n);

/* Copies a name (RFC 4514). It is text from another party, so it is made safe for terminals and the
 * journal. */
void nb_crt_copy_name(int (*get)(gnutls_x509_crt_t, gnutls_datum_t *, unsigned),
                      gnutls_x509_crt_t crt, char *ret, size_t size);

/* Finds what the issuer has signed in a certificate (DER): tbsCertificate (RFC 5280, section 4.1).
 * *ret_signed points into it. 0 or -EINVAL. */
int nb_der_find_signed(const gnutls_datum_t *certificate, gnutls_datum_t *ret_signed);
