/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include <cmocka.h>

#include "base/macro.h"
#include "crypto/key.h"
#include "crypto/pkcs10.h"

static struct nb_key *make_key(void) {
        struct nb_key *key = NULL;

        assert_int_equal(nb_key_generate(&key), 0);
        return key;
}

/* Read by GnuTLS on its own, as the API server's Go would. */
static void request_is_kubelets(void **state) {
        struct nb_buffer pem = NB_BUFFER_INIT(NB_PKCS10_PEM_MAX);
        struct nb_key *key = make_key();
        gnutls_x509_crq_t crq;
        gnutls_datum_t datum, dn, requested;
        unsigned critical;

        assert_int_equal(nb_pkcs10_create(key, "worker-1.example.com", true, &pem), 0);
        assert_int_equal(strncmp(pem.data, "-----BEGIN CERTIFICATE REQUEST-----\n", 36), 0);
        assert_non_null(strstr(pem.data, "\n-----END CERTIFICATE REQUEST-----\n"));
        datum = (gnutls_datum_t){ (unsigned char *)pem.data, (unsigned)pem.len };
        assert_int_equal(gnutls_x509_crq_init(&crq), 0);
        assert_int_equal(gnutls_x509_crq_import(crq, &datum, GNUTLS_X509_FMT_PEM), 0);
        assert_int_equal(gnutls_x509_crq_verify(crq, 0), 0);
        assert_int_equal(gnutls_x509_crq_get_signature_algorithm(crq), GNUTLS_SIGN_ECDSA_SHA256);
        /* RFC 4514 prints the last attribute first. */
        assert_int_equal(gnutls_x509_crq_get_dn3(crq, &dn, 0), 0);
        assert_string_equal((const char *)dn.data,
                            "CN=system:node:worker-1.example.com,O=system:nodes");
        gnutls_free(dn.data);
        assert_int_equal(
                gnutls_x509_crq_get_extension_by_oid2(crq, "2.5.29.17", 0, &requested, &critical),
                GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE);
        gnutls_x509_crq_deinit(crq);
        nb_key_free(key);
        nb_buffer_done(&pem);
}

/* The stream is kubelet's: with SHA-512/256 it gives the name that kubelet 1.26 makes of this key
 * (node-csr-gkncmfGvwU9ORjLhY1S6Bz6FjGBWJ6HXCI0HmuUAwUk); with SHA-256, hashed elsewhere, this one.
 */
static void name_vector(void **state) {
        static const char pem[] =
                "-----BEGIN EC PRIVATE KEY-----\n"
                "MHcCAQEEIHb7bL0ccx8oLfPycKQT/R2sKrPH8LU5CnDz/65jUjWooAoGCCqGSM49\n"
                "AwEHoUQDQgAExNsMY0QTw83e3eFOZMLqpT6vqEAvpSMo5+9TSU/faJScYeSsHxlK\n"
                "tO96nbPcQbWCMGjhrpBWYZcn07iu125DpA==\n"
                "-----END EC PRIVATE KEY-----\n";
        char name[NB_PKCS10_NAME_SIZE], other[NB_PKCS10_NAME_SIZE];
        struct nb_key *key = NULL;

        assert_int_equal(nb_key_import(pem, strlen(pem), &key), 0);
        assert_int_equal(nb_pkcs10_csr_name(key, "node1", name), 0);
        assert_string_equal(name, "node-csr-W8wyalj4-PuSuS0VpBnjdAGiOVdfwB1qh-o5FcCALVc");
        assert_int_equal(nb_pkcs10_csr_name(key, "node2", other), 0);
        assert_string_not_equal(name, other);
        nb_key_free(key);
}

/* A CSR that another program might have created. */
static char *make_foreign(const char *const *attributes, const char *label) {
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
        for (size_t i = 0; attributes[i]; i += 2)
                assert_int_equal(gnutls_x509_crq_set_dn_by_oid(crq, attributes[i], 0,
                                                               attributes[i + 1],
                                                               (unsigned)strlen(attributes[i + 1])),
                                 0);
        assert_int_equal(gnutls_x509_crq_set_key(crq, key), 0);
        assert_int_equal(gnutls_x509_crq_sign2(crq, key, GNUTLS_DIG_SHA256, 0), 0);
        assert_int_equal(gnutls_x509_crq_export2(crq, GNUTLS_X509_FMT_DER, &der), 0);
        assert_int_equal(gnutls_pem_base64_encode2(label, &der, &pem), 0);
        gnutls_free(der.data);
        text = strndup((char *)pem.data, pem.size);
        assert_int_equal(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &der), 0);
        text = realloc(text, strlen(text) + der.size + 1);
        strncat(text, (char *)der.data, der.size);
        gnutls_free(der.data);
        gnutls_free(pem.data);
        gnutls_x509_crq_deinit(crq);
        gnutls_x509_privkey_deinit(key);
        return text;
}

static void requests_compared(void **state) {
        static const char o[] = GNUTLS_OID_X520_ORGANIZATION_NAME,
                          cn[] = GNUTLS_OID_X520_COMMON_NAME;
        static const struct {
                const char *name;
                const char *attributes[8];
                const char *label;
                int r;
        } cases[] = {
                { "as ours", { o, "system:nodes", cn, "system:node:a" }, "CERTIFICATE REQUEST", 0 },
                { "armour of GnuTLS",
                  { o, "system:nodes", cn, "system:node:a" },
                  "NEW CERTIFICATE REQUEST",
                  -EINVAL },
                { "common name first",
                  { cn, "system:node:a", o, "system:nodes" },
                  "CERTIFICATE REQUEST",
                  0 },
                { "another node",
                  { o, "system:nodes", cn, "system:node:b" },
                  "CERTIFICATE REQUEST",
                  -EPERM },
                { "a longer node name",
                  { o, "system:nodes", cn, "system:node:ab" },
                  "CERTIFICATE REQUEST",
                  -EPERM },
                { "another group",
                  { o, "system:masters", cn, "system:node:a" },
                  "CERTIFICATE REQUEST",
                  -EPERM },
                { "one more group",
                  { o, "system:nodes", o, "system:masters", cn, "system:node:a" },
                  "CERTIFICATE REQUEST",
                  -EPERM },
                { "one more attribute",
                  { o, "system:nodes", cn, "system:node:a", "2.5.4.11", "x" },
                  "CERTIFICATE REQUEST",
                  -EPERM },
                { "no group", { cn, "system:node:a" }, "CERTIFICATE REQUEST", -EPERM },
        };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                char *text = make_foreign(cases[i].attributes, cases[i].label);
                struct nb_key *key = NULL;

                print_message("%s\n", cases[i].name);
                assert_int_equal(nb_key_import(text, strlen(text), &key), 0);
                assert_int_equal(nb_pkcs10_verify(text, strlen(text), key, "a"), cases[i].r);
                nb_key_free(key);
                free(text);
        }
}

static void request_of_another_key(void **state) {
        struct nb_buffer pem = NB_BUFFER_INIT(NB_PKCS10_PEM_MAX);
        struct nb_key *key = make_key(), *other = make_key();

        assert_int_equal(nb_pkcs10_create(key, "a", true, &pem), 0);
        assert_int_equal(nb_pkcs10_verify(pem.data, pem.len, key, "a"), 0);
        assert_int_equal(nb_pkcs10_verify(pem.data, pem.len, other, "a"), -EKEYREJECTED);
        assert_int_equal(nb_pkcs10_verify("", 0, key, "a"), -EINVAL);
        /* Changes a bit of the signature, which is at the end. */
        pem.data[pem.len - 45] = pem.data[pem.len - 45] == 'A' ? 'B' : 'A';
        assert_int_equal(nb_pkcs10_verify(pem.data, pem.len, key, "a"), -EINVAL);
        nb_key_free(key);
        nb_key_free(other);
        nb_buffer_done(&pem);
}

static void request_without_armour(void **state) {
        struct nb_buffer der = NB_BUFFER_INIT(NB_PKCS10_PEM_MAX);
        struct nb_key *key = make_key();
        gnutls_datum_t datum, pem;

        assert_int_equal(nb_pkcs10_create(key, "a", false, &der), 0);
        datum = (gnutls_datum_t){ (unsigned char *)der.data, (unsigned)der.len };
        assert_int_equal(gnutls_pem_base64_encode2("CERTIFICATE REQUEST", &datum, &pem), 0);
        assert_int_equal(nb_pkcs10_verify((const char *)pem.data, pem.size, key, "a"), 0);
        gnutls_free(pem.data);
        nb_key_free(key);
        nb_buffer_done(&der);
}

static void request_that_does_not_fit(void **state) {
        struct nb_buffer pem = NB_BUFFER_INIT(100);
        struct nb_key *key = make_key();

        assert_int_equal(nb_pkcs10_create(key, "a", true, &pem), -E2BIG);
        assert_int_equal(pem.len, 0);
        nb_key_free(key);
        nb_buffer_done(&pem);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(request_is_kubelets),
                cmocka_unit_test(name_vector),
                cmocka_unit_test(requests_compared),
                cmocka_unit_test(request_of_another_key),
                cmocka_unit_test(request_without_armour),
                cmocka_unit_test(request_that_does_not_fit),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
