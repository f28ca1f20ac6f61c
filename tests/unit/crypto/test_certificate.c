/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <gnutls/abstract.h>

#include "base/encoding.h"
#include "base/macro.h"
#include "base/text.h"
#include "crypto/certificate.h"
#include "pki.h"
#include "unusual_keys.h"

#define NODE_DN "O=system:nodes,CN=system:node:a"

/* ISRG Root X2, a certificate that everybody has. */
static const char isrg_root_x2[] =
        "-----BEGIN CERTIFICATE-----\n"
        "MIICGzCCAaGgAwIBAgIQQdKd0XLq7qeAwSxs6S+HUjAKBggqhkjOPQQDAzBPMQsw\n"
        "CQYDVQQGEwJVUzEpMCcGA1UEChMgSW50ZXJuZXQgU2VjdXJpdHkgUmVzZWFyY2gg\n"
        "R3JvdXAxFTATBgNVBAMTDElTUkcgUm9vdCBYMjAeFw0yMDA5MDQwMDAwMDBaFw00\n"
        "MDA5MTcxNjAwMDBaME8xCzAJBgNVBAYTAlVTMSkwJwYDVQQKEyBJbnRlcm5ldCBT\n"
        "ZWN1cml0eSBSZXNlYXJjaCBHcm91cDEVMBMGA1UEAxMMSVNSRyBSb290IFgyMHYw\n"
        "EAYHKoZIzj0CAQYFK4EEACIDYgAEzZvVn4CDCuwJSvMWSj5cz3es3mcFDR0HttwW\n"
        "+1qLFNvicWDEukWVEYmO6gbf9yoWHKS5xcUy4APgHoIYOIvXRdgKam7mAHf7AlF9\n"
        "ItgKbppbd9/w+kHsOdx1ymgHDB/qo0IwQDAOBgNVHQ8BAf8EBAMCAQYwDwYDVR0T\n"
        "AQH/BAUwAwEB/zAdBgNVHQ4EFgQUfEKWrt5LSDv6kviejM9ti6lyN5UwCgYIKoZI\n"
        "zj0EAwMDaAAwZQIwe3lORlCEwkSHRhtFcP9Ymd70/aTSVaYgLXTWNLxBo1BfASdW\n"
        "tL4ndQavEi51mI38AjEAi/V3bNTIZargCyzuFJ0nN6T5U6VR5CmD1/iQMVtCnwr1\n"
        "/q4AaOeMSQ+2b1tbFfLn\n"
        "-----END CERTIFICATE-----\n";

static struct nb_certificates *parse(const char *pem, bool is_mixed) {
        struct nb_certificates *certificates = NULL;

        assert_int_equal(nb_certificates_parse(pem, strlen(pem), is_mixed, &certificates), 0);
        return certificates;
}

/* What openssl x509 prints of it; the pin is openssl x509 -pubkey -noout | openssl pkey -pubin
 * -outform DER | sha256sum. */
static void known_certificate(void **state) {
        struct nb_certificates *certificates = parse(isrg_root_x2, false);
        struct nb_buffer pem = NB_BUFFER_INIT(4096);
        char text[NB_SUBJECT_SIZE], hex[2 * NB_SHA256_SIZE + 1];
        uint8_t pin[NB_SHA256_SIZE];

        assert_int_equal(nb_certificates_count(certificates), 1);
        nb_certificate_subject(certificates, 0, text);
        assert_string_equal(text, "CN=ISRG Root X2,O=Internet Security Research Group,C=US");
        nb_certificate_issuer(certificates, 0, text);
        assert_string_equal(text, "CN=ISRG Root X2,O=Internet Security Research Group,C=US");
        assert_int_equal(nb_certificate_not_before(certificates, 0),
                         1599177600); /* 2020-09-04T00:00:00Z */
        assert_int_equal(nb_certificate_not_after(certificates, 0),
                         2231510400); /* 2040-09-17T16:00:00Z */
        assert_true(nb_certificate_is_ca(certificates, 0));
        memcpy(pin, nb_certificate_pin(certificates, 0), NB_SHA256_SIZE);
        nb_hex_encode(pin, sizeof(pin), hex);
        assert_string_equal(hex,
                            "762195c225586ee6c0237456e2107dc54f1efc21f61a792ebd515913cce68332");
        nb_certificate_export(certificates, 0, &pem);
        assert_string_equal(pem.data, isrg_root_x2);
        nb_buffer_done(&pem);
        nb_certificates_free(certificates);
}

static void texts_that_are_lists(void **state) {
        struct pki_cert leaf = pki_make(&(struct pki_options){ .dn = NODE_DN });
        char *two = PKI_JOIN(isrg_root_x2, leaf.pem),
             *commented = PKI_JOIN("# a bundle\n", isrg_root_x2, "\nSubject: x\n", leaf.pem,
                                   "end\n");
        char *kubelets = PKI_JOIN(leaf.pem, isrg_root_x2, leaf.key_pem);
        const struct {
                const char *name, *pem;
                bool is_mixed;
                int r;
                size_t n;
        } cases[] = {
                { "one", isrg_root_x2, false, 0, 1 },
                { "two", two, false, 0, 2 },
                { "explanatory text between and around", commented, false, 0, 2 },
                { "kubelet's file", kubelets, true, 0, 2 },
                { "a key where only certificates may stand", kubelets, false, -EINVAL, 0 },
                { "nothing", "", false, -EINVAL, 0 },
                { "text alone", "none\n", true, -EINVAL, 0 },
                { "a key alone", leaf.key_pem, true, -EINVAL, 0 },
                { "no base64", "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n",
                  true, -EINVAL, 0 },
                { "no certificate in the block",
                  "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", true, -EINVAL,
                  0 },
                { "the older label",
                  "-----BEGIN X509 CERTIFICATE-----\nAAAA\n-----END X509 CERTIFICATE-----\n", true,
                  -EINVAL, 0 },
                { "no end", "-----BEGIN CERTIFICATE-----\nAAAA\n", true, -EINVAL, 0 },
                { "a begin in a block",
                  "-----BEGIN CERTIFICATE-----\n-----BEGIN CERTIFICATE-----\n", true, -EINVAL, 0 },
                { "no label", "-----BEGIN -----\nAAAA\n-----END -----\n", true, -EINVAL, 0 },
        };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                struct nb_certificates *certificates = NULL;

                print_message("%s\n", cases[i].name);
                assert_int_equal(nb_certificates_parse(cases[i].pem, strlen(cases[i].pem),
                                                       cases[i].is_mixed, &certificates),
                                 cases[i].r);
                if (cases[i].r == 0)
                        assert_int_equal(nb_certificates_count(certificates), cases[i].n);
                else
                        assert_null(certificates);
                nb_certificates_free(certificates);
        }
        free(two);
        free(commented);
        free(kubelets);
        pki_done(&leaf);
}

/* Each prefix of a list, and each with one byte changed: refused, or what it says it is. */
static void damaged_texts(void **state) {
        size_t len = strlen(isrg_root_x2);
        char copy[sizeof(isrg_root_x2)];

        for (size_t n = 0; n < len - 1; n++) {
                struct nb_certificates *certificates = NULL;

                assert_int_equal(nb_certificates_parse(isrg_root_x2, n, false, &certificates),
                                 -EINVAL);
        }
        for (size_t i = 0; i < len; i++) {
                struct nb_certificates *certificates = NULL;

                memcpy(copy, isrg_root_x2, sizeof(copy));
                copy[i] = '\0';
                /* What stands behind the last hyphen is outside of the block. */
                assert_int_equal(nb_certificates_parse(copy, len, false, &certificates), -EINVAL);
        }
}

static void too_many(void **state) {
        struct nb_buffer text = NB_BUFFER_INIT(1024 * 1024);
        struct nb_certificates *certificates = NULL;

        for (unsigned i = 0; i < NB_CERTIFICATES_MAX; i++)
                nb_buffer_append_string(&text, isrg_root_x2);
        assert_int_equal(nb_certificates_parse(text.data, text.len, false, &certificates), 0);
        nb_certificates_free(certificates);
        certificates = NULL;
        nb_buffer_append_string(&text, isrg_root_x2);
        assert_int_equal(nb_certificates_parse(text.data, text.len, false, &certificates), -E2BIG);
        assert_null(certificates);
        nb_buffer_done(&text);
}

/* The pin of a CA that GnuTLS knows nothing of is still the pin that kubeadm would compute. */
static void unknown_key_algorithm(void **state) {
        static const uint8_t oid[] = {
                0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01
        }; /* id-ecPublicKey */
        struct pki_cert ca = pki_make(&(struct pki_options){ .dn = "CN=ca", .is_ca = true });
        struct nb_certificates *certificates;
        uint8_t pin[NB_SHA256_SIZE], expected[NB_SHA256_SIZE];
        gnutls_datum_t der, pem;
        uint8_t *at;

        assert_int_equal(gnutls_x509_crt_export2(ca.crt, GNUTLS_X509_FMT_DER, &der), 0);
        at = memmem(der.data, der.size, oid, sizeof(oid));
        assert_non_null(at);
        at[sizeof(oid) - 1] = 0x7f;
        /* SEQUENCE { SEQUENCE { this OID, the curve's }, BIT STRING }: 91 bytes for P-256. */
        assert_int_equal(nb_sha256(at - 4, 91, expected), 0);
        assert_int_equal(gnutls_pem_base64_encode2("CERTIFICATE", &der, &pem), 0);
        assert_int_equal(nb_certificates_parse((char *)pem.data, pem.size, false, &certificates),
                         0);
        memcpy(pin, nb_certificate_pin(certificates, 0), NB_SHA256_SIZE);
        assert_memory_equal(pin, expected, sizeof(pin));
        nb_certificates_free(certificates);
        gnutls_free(pem.data);
        gnutls_free(der.data);
        pki_done(&ca);
}

/* A certificate as an attacker makes it: with a public key that needs no private one. */
static char *make_costly(gnutls_pk_algorithm_t algorithm, size_t bits, size_t exponent_bits,
                         unsigned n_names) {
        struct pki_cert issuer = pki_make(&(struct pki_options){ .dn = "CN=ca", .is_ca = true });
        struct pki_cert ca = pki_make(&(struct pki_options){ .dn = "CN=ca", .is_ca = true });
        uint8_t *number = calloc(1, bits / 8), exponent[8] = { 0 };
        uint8_t two_bytes[] = { 0x7f, 0x03 };
        gnutls_datum_t m = { number, (unsigned)(bits / 8) },
                       e = { exponent, (unsigned)(exponent_bits / 8) }, small = { two_bytes, 2 },
                       out;
        gnutls_pubkey_t key;
        char *pem, name[200];

        memset(name, 'a', sizeof(name));
        memset(number, 0xa5, bits / 8);
        memset(exponent, 0x81, sizeof(exponent));
        assert_int_equal(gnutls_pubkey_init(&key), 0);
        if (algorithm == GNUTLS_PK_RSA)
                assert_int_equal(gnutls_pubkey_import_rsa_raw(key, &m, &e), 0);
        else
                assert_int_equal(gnutls_pubkey_import_dsa_raw(key, &m, &small, &small, &small), 0);
        if (bits > 0)
                assert_int_equal(gnutls_x509_crt_set_pubkey(ca.crt, key), 0);
        for (unsigned i = 0; i < n_names; i++)
                assert_int_equal(gnutls_x509_crt_set_subject_alt_name(ca.crt, GNUTLS_SAN_DNSNAME,
                                                                      name, sizeof(name),
                                                                      GNUTLS_FSAN_APPEND),
                                 0);
        assert_int_equal(
                gnutls_x509_crt_sign2(ca.crt, issuer.crt, issuer.key, GNUTLS_DIG_SHA256, 0), 0);
        assert_int_equal(gnutls_x509_crt_export2(ca.crt, GNUTLS_X509_FMT_PEM, &out), 0);
        pem = strndup((char *)out.data, out.size);
        assert_non_null(pem);
        gnutls_free(out.data);
        gnutls_pubkey_deinit(key);
        pki_done(&ca);
        pki_done(&issuer);
        free(number);
        return pem;
}

static void pins_of_unusual_keys(void **state) {
        static const struct {
                const char *pem, *pin;
        } cases[] = {
                { pss_ca, PSS_PIN },
                { nonull_ca, NONULL_PIN },
                { explicit_ca, EXPLICIT_PIN },
        };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                struct nb_certificates *certificates;
                uint8_t pin[NB_SHA256_SIZE];
                char text[2 * NB_SHA256_SIZE + 1];

                assert_int_equal(nb_certificates_parse(cases[i].pem, strlen(cases[i].pem), false,
                                                       &certificates),
                                 0);
                memcpy(pin, nb_certificate_pin(certificates, 0), NB_SHA256_SIZE);
                nb_hex_encode(pin, sizeof(pin), text);
                assert_string_equal(text, cases[i].pin);
                nb_certificates_free(certificates);
        }
}

static void keys_that_cost_too_much(void **state) {
        static const struct {
                const char *name;
                gnutls_pk_algorithm_t algorithm;
                size_t bits, exponent_bits;
                unsigned n_names;
                int r;
        } rows[] = {
                { "RSA with 8192 bits and an exponent of 32", GNUTLS_PK_RSA, 8192, 32, 0, 0 },
                { "RSA with 8200 bits", GNUTLS_PK_RSA, 8200, 24, 0, -EFBIG },
                { "RSA with 64 kbit", GNUTLS_PK_RSA, 65536, 24, 0, -EFBIG },
                { "RSA with an exponent of 40 bits", GNUTLS_PK_RSA, 2048, 40, 0, -EFBIG },
                { "DSA with 3072 bits", GNUTLS_PK_DSA, 3072, 0, 0, 0 },
                { "DSA with 16 kbit", GNUTLS_PK_DSA, 16384, 0, 0, -EFBIG },
                { "20 long names", GNUTLS_PK_RSA, 2048, 24, 20, 0 },
                { "100 long names", GNUTLS_PK_RSA, 2048, 24, 100, -EFBIG },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                _cleanup_(nb_certificates_freep) struct nb_certificates *certificates = NULL;
                char *pem = make_costly(rows[i].algorithm, rows[i].bits, rows[i].exponent_bits,
                                        rows[i].n_names);
                int r = nb_certificates_parse(pem, strlen(pem), false, &certificates);

                if (r != rows[i].r)
                        fail_msg("%s: %d, expected %d", rows[i].name, r, rows[i].r);
                free(pem);
        }
}

static void names_are_printable(void **state) {
        struct pki_cert leaf = pki_make(&(struct pki_options){ .dn = "CN=a\x1b[31mb\xc2\x9b"
                                                                     "31mc\xe2\x80\xae" });
        struct nb_certificates *certificates = parse(leaf.pem, false);
        char text[NB_SUBJECT_SIZE];

        nb_certificate_subject(certificates, 0, text);
        assert_true(nb_text_is_printable(text, strlen(text)));
        nb_certificates_free(certificates);
        pki_done(&leaf);
}

static void subjects(void **state) {
        static const struct {
                const char *dn;
                int exact, identity;
                const char *node_name;
        } cases[] = {
                { "O=system:nodes,CN=system:node:a", 0, 0, "a" },
                { "CN=system:node:a,O=system:nodes", 0, 0, "a" },
                { "O=system:nodes,OU=x,CN=system:node:a", -EPERM, 0, "a" },
                { "O=x,O=system:nodes,CN=system:node:a", -EPERM, 0, "a" },
                { "O=system:nodes,CN=x,CN=system:node:a", -EPERM, 0, "a" },
                { "O=system:nodes,CN=system:node:a,CN=x", -EPERM, -EPERM, "" },
                { "O=system:masters,CN=system:node:a", -EPERM, -EPERM, "a" },
                { "O=system:nodes,CN=system:node:ab", -EPERM, -EPERM, "ab" },
                { "O=system:nodes,CN=system:node:", -EPERM, -EPERM, "" },
                { "O=system:nodes,CN=systen:mode:a", -EPERM, -EPERM, "" },
                { "O=system:modes,CN=system:node:a", -EPERM, -EPERM, "a" },
                { "O=system:nodes,CN=a", -EPERM, -EPERM, "" },
                { "O=system:node:a,CN=system:nodes", -EPERM, -EPERM, "" },
                { "O=system:nodes", -EPERM, -EPERM, "" },
                { "CN=system:node:a", -EPERM, -EPERM, "a" },
                { "O=system:nodes,CN=xsystem:node:a", -EPERM, -EPERM, "" },
                { "O=system:nodes,O=x CN=system:node:b,CN=system:node:a", -EPERM, 0, "a" },
                { "O=system:nodes,O=system:nodes", -EPERM, -EPERM, "" },
        };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                struct pki_cert leaf = pki_make(&(struct pki_options){ .dn = cases[i].dn });
                struct nb_certificates *certificates = parse(leaf.pem, false);

                char name[NB_CERTIFICATE_NODE_SIZE];

                print_message("%s\n", cases[i].dn);
                nb_certificate_node_name(certificates, name);
                assert_string_equal(name, cases[i].node_name);
                assert_int_equal(nb_certificate_is_for_node(certificates, "a", true),
                                 cases[i].exact == 0);
                assert_int_equal(nb_certificate_is_for_node(certificates, "a", false),
                                 cases[i].identity == 0);
                nb_certificates_free(certificates);
                pki_done(&leaf);
        }
}

static void keys_compared(void **state) {
        struct pki_cert a = pki_make(&(struct pki_options){ .dn = NODE_DN }),
                        b = pki_make(&(struct pki_options){ .dn = NODE_DN, .is_rsa = true });
        struct nb_certificates *certificates = parse(a.pem, false);
        struct nb_key *key = NULL, *other = NULL;

        assert_int_equal(nb_key_import(a.key_pem, strlen(a.key_pem), &key), 0);
        assert_int_equal(nb_key_import(b.key_pem, strlen(b.key_pem), &other), 0);
        assert_int_equal(nb_certificate_verify_key(certificates, key), 0);
        assert_int_equal(nb_certificate_verify_key(certificates, other), -EKEYREJECTED);
        nb_key_free(key);
        nb_key_free(other);
        nb_certificates_free(certificates);
        pki_done(&a);
        pki_done(&b);
}

static void leaves(void **state) {
        static const struct {
                const char *name;
                struct pki_options options;
                const char *detail; /* part of what is said; NULL: accepted */
        } cases[] = {
                { "as kube-controller-manager issues it",
                  { .dn = NODE_DN, .purpose = PKI_CLIENT_AUTH },
                  NULL },
                { "common name before organization",
                  { .dn = "CN=system:node:a,O=system:nodes", .purpose = PKI_CLIENT_AUTH },
                  NULL },
                { "valid tomorrow, since the clock is wrong",
                  { .dn = NODE_DN, .purpose = PKI_CLIENT_AUTH, .not_before = PKI_NOW + PKI_DAY },
                  NULL },
                { "ends now",
                  { .dn = NODE_DN, .purpose = PKI_CLIENT_AUTH, .not_after = PKI_NOW },
                  NULL },
                { "ended a second ago",
                  { .dn = NODE_DN, .purpose = PKI_CLIENT_AUTH, .not_after = PKI_NOW - 1 },
                  "expired at 2027-01-15T07:59:59Z" },
                { "a CA", { .dn = NODE_DN, .purpose = PKI_CLIENT_AUTH, .is_ca = true }, "is a CA" },
                { "no extended key usage", { .dn = NODE_DN }, "client authentication" },
                { "for servers",
                  { .dn = NODE_DN, .purpose = PKI_SERVER_AUTH },
                  "client authentication" },
                { "for any use",
                  { .dn = NODE_DN, .purpose = GNUTLS_KP_ANY },
                  "client authentication" },
                { "another node",
                  { .dn = "O=system:nodes,CN=system:node:b", .purpose = PKI_CLIENT_AUTH },
                  "CN=system:node:b" },
                { "another group",
                  { .dn = "O=system:masters,CN=system:node:a", .purpose = PKI_CLIENT_AUTH },
                  "O=system:masters" },
                { "one more group",
                  { .dn = "O=system:masters,O=system:nodes,CN=system:node:a",
                    .purpose = PKI_CLIENT_AUTH },
                  "O=system:masters" },
        };
        struct pki_cert ca = pki_make(&(struct pki_options){ .dn = "CN=ca", .is_ca = true });

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                struct pki_options options = cases[i].options;
                struct pki_cert leaf;
                struct nb_certificates *chain;
                struct nb_failure f = { 0 };
                struct nb_key *key = NULL;
                int r;

                options.issuer = &ca;
                leaf = pki_make(&options);
                chain = parse(leaf.pem, false);
                assert_int_equal(nb_key_import(leaf.key_pem, strlen(leaf.key_pem), &key), 0);
                r = nb_certificate_verify_node(chain, key, "a", PKI_NOW, &f);
                print_message("%s: %s\n", cases[i].name, f.detail);
                if (cases[i].detail) {
                        assert_true(r < 0);
                        assert_int_equal(f.code, NB_CERTIFICATE_UNUSABLE);
                        assert_non_null(strstr(f.detail, cases[i].detail));
                } else
                        assert_int_equal(r, 0);
                nb_key_free(key);
                nb_certificates_free(chain);
                pki_done(&leaf);
        }
        pki_done(&ca);
}

static void leaf_of_another_key(void **state) {
        struct pki_cert leaf = pki_make(
                &(struct pki_options){ .dn = NODE_DN, .purpose = PKI_CLIENT_AUTH });
        struct nb_certificates *chain = parse(leaf.pem, false);
        struct nb_failure f = { 0 };
        struct nb_key *key = NULL;

        assert_int_equal(nb_key_generate(&key), 0);
        assert_true(nb_certificate_verify_node(chain, key, "a", PKI_NOW, &f) < 0);
        assert_int_equal(f.code, NB_CERTIFICATE_UNUSABLE);
        assert_int_equal(f.errnum, EKEYREJECTED);
        nb_key_free(key);
        nb_certificates_free(chain);
        pki_done(&leaf);
}

static void chains(void **state) {
        struct pki_cert root = pki_make(&(struct pki_options){ .dn = "CN=root", .is_ca = true });
        struct pki_cert first = pki_make(
                &(struct pki_options){ .dn = "CN=first", .is_ca = true, .issuer = &root });
        struct pki_cert second = pki_make(
                &(struct pki_options){ .dn = "CN=second", .is_ca = true, .issuer = &first });
        struct pki_cert past = pki_make(&(struct pki_options){ .dn = "CN=second",
                                                               .is_ca = true,
                                                               .issuer = &first,
                                                               .key_of = &second,
                                                               .not_after = PKI_NOW - 1 });
        struct pki_cert no_ca = pki_make(
                &(struct pki_options){ .dn = "CN=second", .issuer = &first, .key_of = &second });
        struct pki_cert namesake = pki_make(
                &(struct pki_options){ .dn = "CN=second", .is_ca = true, .issuer = &first });
        struct pki_cert leaf = pki_make(&(struct pki_options){
                .dn = NODE_DN, .purpose = PKI_CLIENT_AUTH, .issuer = &second });
        struct pki_cert own = pki_make(&(struct pki_options){
                .dn = NODE_DN, .purpose = PKI_CLIENT_AUTH, .key_of = &leaf });
        const struct {
                const char *name;
                const char *chain[5];
                bool is_good;
        } cases[] = {
                { "leaf alone", { leaf.pem }, true },
                { "one intermediate", { leaf.pem, second.pem }, true },
                { "two intermediates", { leaf.pem, second.pem, first.pem }, true },
                { "with the root", { leaf.pem, second.pem, first.pem, root.pem }, true },
                { "explanatory text between", { leaf.pem, "issued by:\n", second.pem }, true },
                { "one left out", { leaf.pem, first.pem }, false },
                { "the wrong order", { leaf.pem, first.pem, second.pem }, false },
                { "the leaf twice", { leaf.pem, leaf.pem }, false },
                { "a leaf that has signed itself, twice", { own.pem, own.pem }, false },
                { "an expired intermediate", { leaf.pem, past.pem }, false },
                { "an intermediate that is no CA", { leaf.pem, no_ca.pem }, false },
                { "an intermediate of the same name", { leaf.pem, namesake.pem }, false },
                { "a CA that has nothing to do with it",
                  { leaf.pem, second.pem, isrg_root_x2 },
                  false },
        };
        struct nb_key *key = NULL;

        assert_int_equal(nb_key_import(leaf.key_pem, strlen(leaf.key_pem), &key), 0);
        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                char *text = pki_join(cases[i].chain);
                struct nb_certificates *chain = parse(text, false);
                struct nb_failure f = { 0 };
                int r = nb_certificate_verify_node(chain, key, "a", PKI_NOW, &f);

                print_message("%s: %s\n", cases[i].name, f.detail);
                assert_int_equal(r >= 0, cases[i].is_good);
                assert_int_equal(f.code, cases[i].is_good ? NB_NONE : NB_CERTIFICATE_UNUSABLE);
                nb_certificates_free(chain);
                free(text);
        }
        nb_key_free(key);
        pki_done(&own);
        pki_done(&leaf);
        pki_done(&namesake);
        pki_done(&no_ca);
        pki_done(&past);
        pki_done(&second);
        pki_done(&first);
        pki_done(&root);
}

/* The names of a serving certificate, for which a new one may be requested. */
static void alternative_names(void **state) {
        static const struct {
                int r;
                const char *name;
        } rows[] = {
                { 1, "node-1.example" },   { 1, "192.0.2.1" },
                { 1, "2001:db8::1" },      { 0, "" }, /* another kind */
                { 1, "*.node-2.example" }, { -ENOENT, "" },
                { -ENOENT, "" },
        };
        struct pki_cert leaf = pki_make(&(struct pki_options){
                .dn = NODE_DN,
                .names = "dns:node-1.example,ip:192.0.2.1,ip:2001:db8::1,mail:a@b,"
                         "dns:*.node-2.example" });
        struct nb_certificates *certificates = parse(leaf.pem, false);
        char name[64];

        for (unsigned n = 0; n < N_ELEMENTS(rows); n++) {
                name[0] = '\0';
                assert_int_equal(nb_certificate_name(certificates, 0, n, name, sizeof(name)),
                                 rows[n].r);
                if (rows[n].r > 0)
                        assert_string_equal(name, rows[n].name);
        }
        /* A name that is cut would be another one. */
        for (size_t size = 1; size <= strlen(rows[0].name); size++)
                assert_int_equal(nb_certificate_name(certificates, 0, 0, name, size), 0);
        for (size_t size = 1; size <= strlen(rows[2].name); size++)
                assert_int_equal(nb_certificate_name(certificates, 0, 2, name, size), 0);
        nb_certificates_free(certificates);
        pki_done(&leaf);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(known_certificate),
                cmocka_unit_test(texts_that_are_lists),
                cmocka_unit_test(damaged_texts),
                cmocka_unit_test(too_many),
                cmocka_unit_test(unknown_key_algorithm),
                cmocka_unit_test(keys_that_cost_too_much),
                cmocka_unit_test(pins_of_unusual_keys),
                cmocka_unit_test(names_are_printable),
                cmocka_unit_test(subjects),
                cmocka_unit_test(keys_compared),
                cmocka_unit_test(alternative_names),
                cmocka_unit_test(leaves),
                cmocka_unit_test(leaf_of_another_key),
                cmocka_unit_test(chains),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
