/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Certificate signing requests for tests, as another party might make them. */

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "case.h"

#define O GNUTLS_OID_X520_ORGANIZATION_NAME
#define CN GNUTLS_OID_X520_COMMON_NAME
#define OU GNUTLS_OID_X520_ORGANIZATIONAL_UNIT_NAME

struct made_name {
        gnutls_x509_subject_alt_name_t type;
        const char *data;
        unsigned len; /* 0: strlen(data) */
};

struct made_request {
        const char *attributes[10]; /* OID, value, ..., in this order */
        struct made_name names[4];
        unsigned n_more_names; /* "x" and a number */
        bool has_usages;       /* requests the extension key usage */
        bool has_password;     /* has the attribute challenge password */
        bool is_signature_wrong;
};

static inline void made_add_names(gnutls_x509_crq_t crq, const struct made_request *made) {
        for (size_t i = 0; i < N_ELEMENTS(made->names) && made->names[i].data; i++) {
                const struct made_name *name = &made->names[i];

                assert_int_equal(gnutls_x509_crq_set_subject_alt_name(
                                         crq, name->type, name->data,
                                         name->len ? name->len : (unsigned)strlen(name->data),
                                         GNUTLS_FSAN_APPEND),
                                 0);
        }
        for (unsigned i = 0; i < made->n_more_names; i++) {
                char name[16];

                (void)snprintf(name, sizeof(name), "x%u", i);
                assert_int_equal(gnutls_x509_crq_set_subject_alt_name(crq, GNUTLS_SAN_DNSNAME, name,
                                                                      (unsigned)strlen(name),
                                                                      GNUTLS_FSAN_APPEND),
                                 0);
        }
}

/* PEM, in memory of the caller. */
static inline char *make_request(const struct made_request *made) {
        gnutls_x509_privkey_t key;
        gnutls_x509_crq_t crq;
        gnutls_datum_t der, pem;
        char *text;

        assert_int_equal(gnutls_x509_privkey_init(&key), 0);
        assert_int_equal(
                gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA,
                                             GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0),
                0);
        assert_int_equal(gnutls_x509_crq_init(&crq), 0);
        for (size_t i = 0; made->attributes[i]; i += 2)
                assert_int_equal(gnutls_x509_crq_set_dn_by_oid(
                                         crq, made->attributes[i], 0, made->attributes[i + 1],
                                         (unsigned)strlen(made->attributes[i + 1])),
                                 0);
        made_add_names(crq, made);
        if (made->has_usages)
                assert_int_equal(gnutls_x509_crq_set_key_usage(crq, GNUTLS_KEY_DIGITAL_SIGNATURE),
                                 0);
        if (made->has_password)
                assert_int_equal(gnutls_x509_crq_set_challenge_password(crq, "x"), 0);
        assert_int_equal(gnutls_x509_crq_set_key(crq, key), 0);
        assert_int_equal(gnutls_x509_crq_sign2(crq, key, GNUTLS_DIG_SHA256, 0), 0);
        assert_int_equal(gnutls_x509_crq_export2(crq, GNUTLS_X509_FMT_DER, &der), 0);
        if (made->is_signature_wrong)
                der.data[der.size - 1] ^= 1;
        assert_int_equal(gnutls_pem_base64_encode2("CERTIFICATE REQUEST", &der, &pem), 0);
        text = strndup((char *)pem.data, pem.size);
        gnutls_free(der.data);
        gnutls_free(pem.data);
        gnutls_x509_crq_deinit(crq);
        gnutls_x509_privkey_deinit(key);
        return text;
}
