/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include <gnutls/gnutls.h>

#include "case.h"
#include "crypto/certificate.h"
#include "pki.h"

#define HOST "api.example"

static time_t pki_now(time_t *ret) {
        return ret ? *ret = PKI_NOW : PKI_NOW;
}

/* Of this many bits, in PEM. */
static gnutls_datum_t make_rsa_key(unsigned bits) {
        gnutls_x509_privkey_t key;
        gnutls_datum_t pem;

        assert_int_equal(gnutls_x509_privkey_init(&key), 0);
        assert_int_equal(gnutls_x509_privkey_generate(key, GNUTLS_PK_RSA, bits, 0), 0);
        assert_int_equal(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &pem), 0);
        gnutls_x509_privkey_deinit(key);
        return pem;
}

enum ca { CLUSTER, NAMESAKE, EXPIRED, WEAK, NO_CA, UNTRUSTED, N_CAS };

static int verify(const struct pki_cert cas[static N_CAS], enum ca issuer,
                  struct pki_options options, const char *host) {
        char *bundle = PKI_JOIN(cas[CLUSTER].pem, cas[EXPIRED].pem, cas[WEAK].pem, cas[NO_CA].pem);
        struct nb_certificates *chain = NULL;
        struct pki_cert leaf;
        int r;

        options.dn = "CN=" HOST;
        options.issuer = issuer == UNTRUSTED ? NULL : &cas[issuer];
        leaf = pki_make(&options);
        assert_int_equal(nb_certificates_parse(leaf.pem, strlen(leaf.pem), false, &chain), 0);
        r = nb_certificate_verify_server(chain, bundle, strlen(bundle), host);
        nb_certificates_free(chain);
        pki_done(&leaf);
        free(bundle);
        return r;
}

static void servers(void **state) {
        gnutls_datum_t weak = make_rsa_key(768);
        const struct {
                const char *name;
                enum ca issuer;
                struct pki_options options;
                const char *host;
                int r;
        } cases[] = {
                { "for servers", CLUSTER, { .purpose = PKI_SERVER_AUTH }, HOST, 0 },
                { "for any use", CLUSTER, { .purpose = GNUTLS_KP_ANY }, HOST, 0 },
                { "without extended key usage", CLUSTER, { 0 }, HOST, 0 },
                { "for clients", CLUSTER, { .purpose = PKI_CLIENT_AUTH }, HOST, -EKEYREJECTED },
                { "for signing certificates", CLUSTER, { .is_ca = true }, HOST, -EKEYREJECTED },
                { "for another name", CLUSTER, { 0 }, "other.example", -EKEYREJECTED },
                { "for a longer name", CLUSTER, { 0 }, "x" HOST, -EKEYREJECTED },
                { "for an address", CLUSTER, { 0 }, "192.0.2.1", -EKEYREJECTED },
                { "ended a second ago",
                  CLUSTER,
                  { .not_after = PKI_NOW - 1 },
                  HOST,
                  -EKEYREJECTED },
                { "valid in a second",
                  CLUSTER,
                  { .not_before = PKI_NOW + 1 },
                  HOST,
                  -EKEYREJECTED },
                { "with a weak key",
                  CLUSTER,
                  { .key_pem = (char *)weak.data },
                  HOST,
                  -EKEYREJECTED },
                { "of another CA of that name", NAMESAKE, { 0 }, HOST, -EKEYREJECTED },
                { "of an expired CA", EXPIRED, { 0 }, HOST, -EKEYREJECTED },
                { "of a CA with a weak key", WEAK, { 0 }, HOST, -EKEYREJECTED },
                { "of a certificate that is no CA", NO_CA, { 0 }, HOST, -EKEYREJECTED },
                { "signed by itself", UNTRUSTED, { 0 }, HOST, -EKEYREJECTED },
        };
        struct pki_cert cas[N_CAS] = {
                [CLUSTER] = pki_make(&(struct pki_options){ .dn = "CN=ca", .is_ca = true }),
                [NAMESAKE] = pki_make(&(struct pki_options){ .dn = "CN=ca", .is_ca = true }),
                [EXPIRED] = pki_make(&(struct pki_options){
                        .dn = "CN=expired", .is_ca = true, .not_after = PKI_NOW - 1 }),
                [WEAK] = pki_make(&(struct pki_options){
                        .dn = "CN=weak", .is_ca = true, .key_pem = (char *)weak.data }),
                [NO_CA] = pki_make(&(struct pki_options){ .dn = "CN=node" }),
        };

        gnutls_global_set_time_function(pki_now);
        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                print_message("%s\n", cases[i].name);
                assert_int_equal(verify(cas, cases[i].issuer, cases[i].options, cases[i].host),
                                 cases[i].r);
        }
        for (size_t i = 0; i < UNTRUSTED; i++)
                pki_done(&cas[i]);
        gnutls_free(weak.data);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(servers),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
