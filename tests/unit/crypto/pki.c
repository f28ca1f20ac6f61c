/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "pki.h"

#define MUST(call) \
        do { \
                int _r = (call); \
                if (_r < 0) { \
                        (void)fprintf(stderr, #call ": %s\n", gnutls_strerror(_r)); \
                        abort(); \
                } \
        } while (0)

static char *to_string(gnutls_datum_t *datum) {
        char *text = strndup((const char *)datum->data, datum->size);

        if (!text)
                abort();
        gnutls_free(datum->data);
        return text;
}

static void set_dn(gnutls_x509_crt_t crt, const char *dn) {
        char *copy = strdup(dn), *state = NULL;

        for (char *part = strtok_r(copy, ",", &state); part; part = strtok_r(NULL, ",", &state)) {
                char *value = strchr(part, '=') + 1;
                const char *oid = GNUTLS_OID_X520_COMMON_NAME;

                if (!strncmp(part, "OU=", 3))
                        oid = GNUTLS_OID_X520_ORGANIZATIONAL_UNIT_NAME;
                else if (part[0] == 'O')
                        oid = GNUTLS_OID_X520_ORGANIZATION_NAME;
                MUST(gnutls_x509_crt_set_dn_by_oid(crt, oid, 0, value, (unsigned)strlen(value)));
        }
        free(copy);
}

static void take_key(struct pki_cert *cert, const struct pki_options *o) {
        if (o->key_of) {
                cert->key = o->key_of->key;
                cert->is_key_borrowed = true;
                return;
        }
        MUST(gnutls_x509_privkey_init(&cert->key));
        if (o->key_pem) {
                gnutls_datum_t pem = { (unsigned char *)(uintptr_t)o->key_pem,
                                       (unsigned)strlen(o->key_pem) };

                MUST(gnutls_x509_privkey_import(cert->key, &pem, GNUTLS_X509_FMT_PEM));
        } else if (o->is_rsa)
                MUST(gnutls_x509_privkey_generate(cert->key, GNUTLS_PK_RSA, 2048, 0));
        else
                MUST(gnutls_x509_privkey_generate(cert->key, GNUTLS_PK_ECDSA,
                                                  GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1),
                                                  0));
}

struct pki_cert pki_make(const struct pki_options *o) {
        static unsigned char serial[4];
        struct pki_cert cert = { 0 };
        gnutls_datum_t out;

        take_key(&cert, o);
        MUST(gnutls_x509_crt_init(&cert.crt));
        MUST(gnutls_x509_crt_set_version(cert.crt, 3));
        serial[3]++;
        MUST(gnutls_x509_crt_set_serial(cert.crt, serial, sizeof(serial)));
        set_dn(cert.crt, o->dn);
        MUST(gnutls_x509_crt_set_activation_time(cert.crt,
                                                 o->not_before ? o->not_before : PKI_NOW - 300));
        MUST(gnutls_x509_crt_set_expiration_time(cert.crt, o->not_after ? o->not_after
                                                                        : PKI_NOW + 365 * PKI_DAY));
        MUST(gnutls_x509_crt_set_key(cert.crt, cert.key));
        MUST(gnutls_x509_crt_set_basic_constraints(cert.crt, o->is_ca, -1));
        MUST(gnutls_x509_crt_set_key_usage(cert.crt, o->is_ca ? GNUTLS_KEY_KEY_CERT_SIGN
                                                              : GNUTLS_KEY_DIGITAL_SIGNATURE));
        if (o->purpose)
                MUST(gnutls_x509_crt_set_key_purpose_oid(cert.crt, o->purpose, 0));
        if (o->authority)
                MUST(gnutls_x509_crt_set_authority_key_id(cert.crt, o->authority,
                                                          strlen(o->authority)));
        MUST(gnutls_x509_crt_sign2(cert.crt, o->issuer ? o->issuer->crt : cert.crt,
                                   o->issuer ? o->issuer->key : cert.key, GNUTLS_DIG_SHA256, 0));
        MUST(gnutls_x509_crt_export2(cert.crt, GNUTLS_X509_FMT_PEM, &out));
        cert.pem = to_string(&out);
        MUST(gnutls_x509_privkey_export2(cert.key, GNUTLS_X509_FMT_PEM, &out));
        cert.key_pem = to_string(&out);
        return cert;
}

void pki_done(struct pki_cert *cert) {
        gnutls_x509_crt_deinit(cert->crt);
        if (!cert->is_key_borrowed)
                gnutls_x509_privkey_deinit(cert->key);
        free(cert->pem);
        free(cert->key_pem);
}

char *pki_join(const char *const *texts) {
        size_t len = 0;
        char *text;

        for (size_t i = 0; texts[i]; i++)
                len += strlen(texts[i]);
        text = calloc(1, len + 1);
        if (!text)
                abort();
        for (size_t i = 0; texts[i]; i++)
                strcat(text, texts[i]);
        return text;
}
