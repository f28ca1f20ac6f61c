/* SPDX-License-Identifier: Apache-2.0 */

/* Chains that somebody without the key of the CA can make. None is accepted, as a server's or as a
 * client's, below the CA, and nothing in them is taken for a CA below a pinned one. */

#include <string.h>

#include <gnutls/gnutls.h>

#include "case.h"
#include "crypto/certificate.h"
#include "pki.h"
#include "server_rows.h"

static void assert_forged(const char *chain, const char *ca) {
        struct nb_certificates *certificates = NULL;
        char reason[256];

        assert_int_equal(verify(chain, ca, HOST, reason), UNTRUSTED);
        assert_int_equal(nb_certificates_parse(chain, strlen(chain), false, &certificates), 0);
        assert_false(nb_certificate_is_trusted_by_bundle(certificates, ca, strlen(ca)));
        nb_certificates_free(certificates);
}

/* The forger has a CA of the same name, whose key may be of another type. */
static void signed_by_another_key(void **state) {
        static const gnutls_pk_algorithm_t types[] = { GNUTLS_PK_ECDSA, GNUTLS_PK_RSA,
                                                       GNUTLS_PK_RSA_PSS, GNUTLS_PK_EDDSA_ED25519,
                                                       GNUTLS_PK_EDDSA_ED448 };
        enum { N = N_ELEMENTS(types) };
        struct pki_cert cas[N], forgers[N], leaves[N], middles[N], below[N];

        for (size_t i = 0; i < N; i++) {
                cas[i] = pki_make(&(struct pki_options){ ROOT, .key_type = types[i] });
                forgers[i] = pki_make(&(struct pki_options){ ROOT, .key_type = types[i] });
                leaves[i] = pki_make(&(struct pki_options){
                        .dn = "CN=server", .names = NAMES, .issuer = &forgers[i] });
                middles[i] = pki_make(&(struct pki_options){ MIDDLE, .issuer = &forgers[i] });
                below[i] = pki_make(&(struct pki_options){
                        .dn = "CN=server", .names = NAMES, .issuer = &middles[i] });
        }
        for (size_t ca = 0; ca < N; ca++)
                for (size_t i = 0; i < N; i++) {
                        char *chain = pki_join(
                                (const char *[]){ below[i].pem, middles[i].pem, NULL });

                        assert_forged(leaves[i].pem, cas[ca].pem);
                        assert_forged(chain, cas[ca].pem);
                        free(chain);
                }
        for (size_t i = 0; i < N; i++) {
                pki_done(&below[i]);
                pki_done(&middles[i]);
                pki_done(&leaves[i]);
                pki_done(&forgers[i]);
                pki_done(&cas[i]);
        }
}

/* GnuTLS does not know the algorithm, so it cannot verify the signature. */
static void signed_by_an_unknown_algorithm(void **state) {
        struct pki_cert ca = pki_make(&(struct pki_options){ ROOT }),
                        leaf = pki_make(&(struct pki_options){
                                .dn = "CN=server", .names = NAMES, .issuer = &ca });
        static const unsigned char oid[] = { 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02 };
        gnutls_datum_t der = { 0 }, pem = { 0 };
        unsigned char *at;
        unsigned n = 0;

        assert_int_equal(gnutls_x509_crt_export2(leaf.crt, GNUTLS_X509_FMT_DER, &der), 0);
        for (at = der.data; (at = memmem(at, (size_t)(der.data + der.size - at), oid, sizeof(oid)));
             n++)
                at[sizeof(oid) - 1] = 0x7f;
        assert_int_equal(n, 2);
        assert_int_equal(gnutls_pem_base64_encode2("CERTIFICATE", &der, &pem), 0);
        assert_forged((const char *)pem.data, ca.pem);
        gnutls_free(pem.data);
        gnutls_free(der.data);
        pki_done(&leaf);
        pki_done(&ca);
}

/* --- With what the CA has published --- */

enum cast {
        CA,
        SERVER,      /* of the CA, for another name */
        MIDDLE_CA,   /* of the CA, for no CAs below it */
        FORGER,      /* the CA's name and identifier */
        OLD_FORGER,  /* the same in version 1 */
        NAMELESS,    /* no name at all */
        COPY,        /* the CA's name and public key, signed by the forger */
        NAMED,       /* the name of MIDDLE_CA, signed by the forger */
        BELOW,       /* signed with the key of SERVER, which is no CA */
        BELOW_CA,    /* a CA in the same way */
        BELOW_BELOW, /* of that CA */
        TOO_LOW,     /* a CA below MIDDLE_CA */
        TOO_LOW_LEAF,
        LEAF, /* signed by the forger, as all that follow */
        OLD_LEAF,
        NAMELESS_LEAF,
        SELF_LEAF, /* a server with the CA's name */
        N_CAST,
        END = N_CAST,
};

static struct pki_cert cast[N_CAST];

#define SERVER_OF(name) .dn = "CN=server", .names = name
#define ID .subject_id = "ca", .authority = "ca"

static int make_cast(void **state) {
        const struct {
                enum cast i;
                struct pki_options options;
                enum cast issuer, key_of;
        } parts[] = {
                { CA, { ROOT, ID }, END, END },
                { SERVER, { SERVER_OF("dns:other.example"), ID }, CA, END },
                { MIDDLE_CA, { MIDDLE, .max_path_len = 1, ID }, CA, END },
                { FORGER, { ROOT, ID }, END, END },
                { OLD_FORGER, { .dn = "CN=kubernetes", .is_v1 = true }, END, FORGER },
                { NAMELESS, { .dn = "", .is_ca = true, ID }, END, END },
                { COPY, { ROOT, ID }, FORGER, CA },
                { NAMED, { MIDDLE, ID }, FORGER, END },
                { BELOW, { SERVER_OF(NAMES), ID }, SERVER, END },
                { BELOW_CA, { MIDDLE, ID }, SERVER, END },
                { BELOW_BELOW, { SERVER_OF(NAMES), ID }, BELOW_CA, END },
                { TOO_LOW, { .dn = "CN=low", .is_ca = true, ID }, MIDDLE_CA, END },
                { TOO_LOW_LEAF, { SERVER_OF(NAMES), ID }, TOO_LOW, END },
                { LEAF, { SERVER_OF(NAMES), ID }, FORGER, END },
                { OLD_LEAF, { SERVER_OF(NAMES) }, OLD_FORGER, END },
                { NAMELESS_LEAF, { SERVER_OF(NAMES), ID }, NAMELESS, END },
                { SELF_LEAF, { ROOT, .names = NAMES, ID }, FORGER, FORGER },
        };

        for (size_t i = 0; i < N_ELEMENTS(parts); i++) {
                struct pki_options options = parts[i].options;

                options.issuer = parts[i].issuer == END ? NULL : &cast[parts[i].issuer];
                options.key_of = parts[i].key_of == END ? NULL : &cast[parts[i].key_of];
                cast[parts[i].i] = pki_make(&options);
        }
        return 0;
}

static int free_cast(void **state) {
        for (size_t i = N_CAST; i > 0; i--)
                pki_done(&cast[i - 1]);
        return 0;
}

static struct forged_row {
        const char *name;
        enum cast chain[8];
} forged_rows[] = {
        { "forged: alone", { LEAF, END } },
        { "forged: with its CA", { LEAF, FORGER, END } },
        { "forged: with its CA and the right one", { LEAF, FORGER, CA, END } },
        { "forged: with the right one first", { LEAF, CA, FORGER, END } },
        { "forged: with its CA some times", { LEAF, FORGER, FORGER, FORGER, FORGER, END } },
        { "forged: with a certificate of the CA's key", { LEAF, COPY, END } },
        { "forged: with both", { LEAF, FORGER, COPY, CA, END } },
        { "forged: a certificate of the CA's key first", { COPY, FORGER, CA, END } },
        { "forged: below an intermediate CA", { LEAF, NAMED, FORGER, MIDDLE_CA, CA, END } },
        { "forged: a CA of version 1", { OLD_LEAF, OLD_FORGER, END } },
        { "forged: below a CA of version 1", { LEAF, FORGER, OLD_FORGER, COPY, END } },
        { "forged: no name of the issuer", { NAMELESS_LEAF, NAMELESS, END } },
        { "forged: no name of the issuer, and the CA", { NAMELESS_LEAF, NAMELESS, CA, END } },
        { "forged: the name of the CA as the server's", { SELF_LEAF, FORGER, CA, END } },
        { "forged: by a server", { BELOW, SERVER, END } },
        { "forged: by a server, with the CA", { BELOW, SERVER, CA, END } },
        { "forged: by a CA below a server", { BELOW_BELOW, BELOW_CA, SERVER, CA, END } },
        { "forged: and the right intermediate CA", { BELOW_BELOW, MIDDLE_CA, BELOW_CA, END } },
        { "forged: longer than permitted", { TOO_LOW_LEAF, TOO_LOW, MIDDLE_CA, END } },
        { "forged: longer, in another order", { TOO_LOW_LEAF, CA, MIDDLE_CA, TOO_LOW, END } },
};

static void run_forged(void **state) {
        const struct forged_row *row = *state;
        const char *texts[8] = { NULL };
        char *chain;

        for (size_t i = 0; row->chain[i] != END; i++)
                texts[i] = cast[row->chain[i]].pem;
        chain = pki_join(texts);
        write_row(row->name, false, HOST, cast[CA].pem, chain);
        assert_forged(chain, cast[CA].pem);
        free(chain);
}

/* --- With one bit of a good chain changed --- */

static void assert_unchanged(const struct pki_cert *cert, const char *before, const char *after,
                             const char *ca) {
        gnutls_datum_t der = { 0 };
        unsigned n_refused = 0;

        assert_int_equal(gnutls_x509_crt_export2(cert->crt, GNUTLS_X509_FMT_DER, &der), 0);
        for (unsigned i = 0; i < der.size; i++) {
                struct nb_certificates *certificates = NULL;
                gnutls_datum_t pem = { 0 };
                char reason[256], *chain;

                der.data[i] ^= (unsigned char)(1U << i % 8);
                assert_int_equal(gnutls_pem_base64_encode2("CERTIFICATE", &der, &pem), 0);
                chain = PKI_JOIN(before, (char *)pem.data, after);
                if (nb_certificates_parse(chain, strlen(chain), false, &certificates) >= 0) {
                        assert_int_not_equal(nb_certificate_verify_server(certificates, ca,
                                                                          strlen(ca), HOST, PKI_NOW,
                                                                          reason, sizeof(reason)),
                                             NB_NONE);
                        assert_false(
                                nb_certificate_is_trusted_by_bundle(certificates, ca, strlen(ca)));
                        n_refused++;
                        nb_certificates_free(certificates);
                }
                der.data[i] ^= (unsigned char)(1U << i % 8);
                gnutls_free(pem.data);
                free(chain);
        }
        print_message("%u of %u were certificates\n", n_refused, der.size);
        assert_true(n_refused > der.size / 4);
        gnutls_free(der.data);
}

static void one_bit(void **state) {
        const gnutls_pk_algorithm_t *type = *state;
        struct pki_cert ca = pki_make(&(struct pki_options){ ROOT, .key_type = *type }),
                        middle = pki_make(
                                &(struct pki_options){ MIDDLE, .key_type = *type, .issuer = &ca }),
                        leaf = pki_make(&(struct pki_options){
                                .dn = "CN=server", .names = NAMES, .issuer = &middle });
        char reason[256], *chain = PKI_JOIN(leaf.pem, middle.pem);

        assert_int_equal(verify(chain, ca.pem, HOST, reason), NB_NONE);
        assert_unchanged(&leaf, "", middle.pem, ca.pem);
        assert_unchanged(&middle, leaf.pem, "", ca.pem);
        free(chain);
        pki_done(&leaf);
        pki_done(&middle);
        pki_done(&ca);
}

/* A signature of zeros, or none. */
static void no_signature(void **state) {
        static const gnutls_pk_algorithm_t types[] = { GNUTLS_PK_ECDSA, GNUTLS_PK_RSA,
                                                       GNUTLS_PK_EDDSA_ED25519 };

        for (size_t i = 0; i < N_ELEMENTS(types); i++) {
                struct pki_cert ca = pki_make(&(struct pki_options){ ROOT, .key_type = types[i] }),
                                leaf = pki_make(&(struct pki_options){
                                        .dn = "CN=server", .names = NAMES, .issuer = &ca });
                gnutls_datum_t der = { 0 }, pem = { 0 };
                uint8_t signature[512];
                size_t size = sizeof(signature);

                assert_int_equal(gnutls_x509_crt_get_signature(leaf.crt, (char *)signature, &size),
                                 0);
                assert_int_equal(gnutls_x509_crt_export2(leaf.crt, GNUTLS_X509_FMT_DER, &der), 0);
                assert_memory_equal(der.data + der.size - size, signature, size);
                memset(der.data + der.size - size, 0, size);
                assert_int_equal(gnutls_pem_base64_encode2("CERTIFICATE", &der, &pem), 0);
                assert_forged((const char *)pem.data, ca.pem);
                gnutls_free(pem.data);
                gnutls_free(der.data);
                pki_done(&leaf);
                pki_done(&ca);
        }
}

/* --- In a bundle whose CA a pin names --- */

static void beside_a_pinned_ca(void **state) {
        static const enum cast forged[] = { FORGER, OLD_FORGER, COPY, NAMED, BELOW_CA, NAMELESS };
        uint8_t pin[1][NB_SHA256_SIZE];
        const struct nb_ca_criteria criteria = { .pins = pin,
                                                 .n_pins = 1,
                                                 .choice = NB_CA_PINNED,
                                                 .malformed = NB_CLUSTER_INFO_UNACCEPTABLE,
                                                 .mismatch = NB_CA_PIN_MISMATCH };
        struct nb_certificates *ca = NULL;

        assert_int_equal(nb_certificates_parse(cast[CA].pem, strlen(cast[CA].pem), false, &ca), 0);
        memcpy(pin[0], nb_certificate_pin(ca, 0), sizeof(pin[0]));
        nb_certificates_free(ca);
        for (size_t i = 0; i < N_ELEMENTS(forged); i++) {
                struct nb_buffer pem = NB_BUFFER_INIT(65536);
                struct nb_failure f = { 0 };
                char *bundle = PKI_JOIN(cast[forged[i]].pem, cast[CA].pem);

                assert_int_equal(nb_ca_select(bundle, strlen(bundle), &criteria, &pem, NULL, &f),
                                 0);
                /* Another certificate of the CA's key is the pin's. */
                if (forged[i] != COPY) {
                        nb_buffer_append(&pem, "", 1);
                        assert_string_equal(pem.data, cast[CA].pem);
                }
                nb_buffer_done(&pem);
                free(bundle);
        }
}

int main(void) {
        static gnutls_pk_algorithm_t types[] = { GNUTLS_PK_ECDSA, GNUTLS_PK_RSA,
                                                 GNUTLS_PK_EDDSA_ED25519 };

        CASES(forged_rows, run_forged);
        CASE(signed_by_another_key);
        CASE(signed_by_an_unknown_algorithm);
        CASE(no_signature);
        CASE(beside_a_pinned_ca);
        case_add("one bit of a chain with ECDSA", one_bit, &types[0]);
        case_add("one bit of a chain with RSA", one_bit, &types[1]);
        case_add("one bit of a chain with Ed25519", one_bit, &types[2]);
        return _cmocka_run_group_tests("forged", case_list, n_cases, make_cast, free_cast);
}
