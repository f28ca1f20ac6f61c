/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/encoding.h"
#include "base/macro.h"
#include "crypto/certificate.h"
#include "pki.h"

#define BUNDLE_MAX (256 * 1024)

/* The cast of all cases. */
enum {
        ROOT,
        INTERMEDIATE, /* issued by ROOT */
        DEEPER,       /* issued by INTERMEDIATE */
        OTHER,        /* another root */
        RENEWED,      /* ROOT's key and name in another certificate */
        LEAF,         /* issued by ROOT, no CA */
        IMPOSTOR,     /* names ROOT as its issuer, signed with another key */
        V1,           /* a root of X.509 version 1, without extensions */
        V1_BELOW,     /* issued by V1, a CA */
        BELOW_V1,     /* of version 1, issued by ROOT */
        BARE,         /* signs itself, without basicConstraints */
        N_CERTS,
};

static struct pki_cert certs[N_CERTS];

static int make_certs(void **state) {
        struct pki_cert false_root = pki_make(
                &(struct pki_options){ .dn = "CN=root", .is_ca = true });

        certs[ROOT] = pki_make(&(struct pki_options){ .dn = "CN=root", .is_ca = true });
        certs[INTERMEDIATE] = pki_make(&(struct pki_options){
                .dn = "CN=intermediate", .is_ca = true, .issuer = &certs[ROOT] });
        certs[DEEPER] = pki_make(&(struct pki_options){
                .dn = "CN=deeper", .is_ca = true, .issuer = &certs[INTERMEDIATE] });
        certs[OTHER] = pki_make(&(struct pki_options){ .dn = "CN=other", .is_ca = true });
        certs[RENEWED] = pki_make(
                &(struct pki_options){ .dn = "CN=root", .is_ca = true, .key_of = &certs[ROOT] });
        certs[LEAF] = pki_make(&(struct pki_options){ .dn = "CN=leaf", .issuer = &certs[ROOT] });
        certs[IMPOSTOR] = pki_make(
                &(struct pki_options){ .dn = "CN=impostor", .is_ca = true, .issuer = &false_root });
        certs[V1] = pki_make(&(struct pki_options){ .dn = "CN=old", .is_v1 = true });
        certs[V1_BELOW] = pki_make(
                &(struct pki_options){ .dn = "CN=below", .is_ca = true, .issuer = &certs[V1] });
        certs[BELOW_V1] = pki_make(
                &(struct pki_options){ .dn = "CN=below", .is_v1 = true, .issuer = &certs[ROOT] });
        certs[BARE] = pki_make(&(struct pki_options){ .dn = "CN=bare",
                                                      .has_no_constraints = true,
                                                      .key_usage = GNUTLS_KEY_KEY_CERT_SIGN });
        pki_done(&false_root);
        return 0;
}

static int free_certs(void **state) {
        for (size_t i = N_CERTS; i > 0; i--)
                pki_done(&certs[i - 1]);
        return 0;
}

static void pin_of(const struct pki_cert *cert, uint8_t ret[static NB_SHA256_SIZE]) {
        struct nb_certificates *certificates = NULL;

        assert_int_equal(nb_certificates_parse(cert->pem, strlen(cert->pem), false, &certificates),
                         0);
        memcpy(ret, nb_certificate_pin(certificates, 0), NB_SHA256_SIZE);
        nb_certificates_free(certificates);
}

#define END (-1)

struct ca_case {
        const char *name;
        int bundle[8], pins[4];
        enum nb_ca_choice choice;
        int taken[8]; /* empty: nothing may be */
        unsigned n_left_out;
        enum nb_code code; /* 0: NB_CA_PIN_MISMATCH, if nothing may be taken */
};

static char *join(const int *which) {
        const char *texts[9] = { NULL };

        for (size_t i = 0; which[i] != END; i++)
                texts[i] = certs[which[i]].pem;
        return pki_join(texts);
}

static void run_case(const struct ca_case *c) {
        char *bundle = join(c->bundle), *expected = join(c->taken);
        uint8_t pins[4][NB_SHA256_SIZE];
        struct nb_buffer pem = NB_BUFFER_INIT(BUNDLE_MAX);
        struct nb_ca_selection selection = { 0 };
        struct nb_failure f = { 0 };
        unsigned n_pins = 0;
        int r;

        while (c->pins[n_pins] != END) {
                pin_of(&certs[c->pins[n_pins]], pins[n_pins]);
                n_pins++;
        }
        r = nb_ca_select(bundle, strlen(bundle),
                         &(struct nb_ca_criteria){ .pins = pins,
                                                   .n_pins = n_pins,
                                                   .choice = c->choice,
                                                   .malformed = NB_CLUSTER_INFO_UNACCEPTABLE,
                                                   .mismatch = NB_CA_PIN_MISMATCH },
                         &pem, &selection, &f);
        print_message("%s: %s\n", c->name, f.detail);
        if (c->taken[0] == END) {
                assert_true(r < 0);
                assert_int_equal(f.code, c->code ? c->code : NB_CA_PIN_MISMATCH);
                assert_int_equal(pem.len, 0);
                assert_int_equal(selection.n_taken, 0);
        } else {
                assert_int_equal(r, 0);
                assert_string_equal(pem.data, expected);
                for (unsigned i = 0; c->taken[i] != END; i++) {
                        uint8_t pin[NB_SHA256_SIZE];

                        pin_of(&certs[c->taken[i]], pin);
                        assert_true(i < selection.n_taken);
                        assert_memory_equal(selection.taken[i], pin, sizeof(pin));
                }
                assert_int_equal(selection.n_left_out, c->n_left_out);
        }
        nb_buffer_done(&pem);
        free(bundle);
        free(expected);
}

static const struct ca_case selection_cases[] = {
        { "the one CA is pinned", { ROOT, END }, { ROOT, END }, NB_CA_PINNED, { ROOT, END }, 0 },
        { "the second pin fits",
          { ROOT, END },
          { OTHER, ROOT, END },
          NB_CA_PINNED,
          { ROOT, END },
          0 },
        { "the second CA is pinned",
          { OTHER, ROOT, END },
          { ROOT, END },
          NB_CA_PINNED,
          { ROOT, END },
          1 },
        { "an unpinned CA beside",
          { ROOT, OTHER, END },
          { ROOT, END },
          NB_CA_PINNED,
          { ROOT, END },
          1 },
        { "a pin for each",
          { ROOT, OTHER, END },
          { OTHER, ROOT, END },
          NB_CA_PINNED,
          { ROOT, OTHER, END },
          0 },
        { "no pin fits", { ROOT, END }, { OTHER, END }, NB_CA_PINNED, { END }, 0 },
        { "pinned root and an intermediate",
          { ROOT, INTERMEDIATE, END },
          { ROOT, END },
          NB_CA_PINNED,
          { ROOT, INTERMEDIATE, END },
          0 },
        { "two levels, the deepest first",
          { DEEPER, INTERMEDIATE, ROOT, END },
          { ROOT, END },
          NB_CA_PINNED,
          { DEEPER, INTERMEDIATE, ROOT, END },
          0 },
        { "pinned intermediate: what is above it is not trusted",
          { ROOT, INTERMEDIATE, DEEPER, END },
          { INTERMEDIATE, END },
          NB_CA_PINNED,
          { INTERMEDIATE, DEEPER, END },
          1 },
        { "a gap in the chain",
          { ROOT, DEEPER, END },
          { ROOT, END },
          NB_CA_PINNED,
          { ROOT, END },
          1 },
        { "says that the root issued it",
          { ROOT, IMPOSTOR, END },
          { ROOT, END },
          NB_CA_PINNED,
          { ROOT, END },
          1 },
        { "a renewed certificate of the pinned key",
          { ROOT, RENEWED, END },
          { ROOT, END },
          NB_CA_PINNED,
          { ROOT, RENEWED, END },
          0 },
        { "twice the same", { ROOT, ROOT, END }, { ROOT, END }, NB_CA_PINNED, { ROOT, END }, 0 },
        { "twice the same that is left out",
          { OTHER, ROOT, OTHER, END },
          { ROOT, END },
          NB_CA_PINNED,
          { ROOT, END },
          1 },
        { "the pin names a leaf",
          { LEAF, ROOT, END },
          { LEAF, END },
          NB_CA_PINNED,
          { END },
          0,
          NB_CA_UNUSABLE },
        { "version 1", { V1, END }, { V1, END }, NB_CA_PINNED, { V1, END }, 0 },
        { "version 1, unpinned", { V1, END }, { END }, NB_CA_ALL_UNPINNED, { V1, END }, 0 },
        { "version 1, in a whole bundle",
          { ROOT, V1, END },
          { ROOT, END },
          NB_CA_ALL,
          { ROOT, V1, END },
          0 },
        { "version 1 beside", { ROOT, V1, END }, { ROOT, END }, NB_CA_PINNED, { ROOT, END }, 1 },
        { "issued by version 1",
          { V1_BELOW, V1, END },
          { V1, END },
          NB_CA_PINNED,
          { V1_BELOW, V1, END },
          0 },
        { "version 1 below the pinned root",
          { ROOT, BELOW_V1, END },
          { ROOT, END },
          NB_CA_PINNED,
          { ROOT, END },
          1 },
        { "version 1 that another one issued",
          { ROOT, BELOW_V1, END },
          { BELOW_V1, END },
          NB_CA_PINNED,
          { END },
          0,
          NB_CA_UNUSABLE },
        { "without basicConstraints",
          { BARE, END },
          { BARE, END },
          NB_CA_PINNED,
          { END },
          0,
          NB_CA_UNUSABLE },
        { "without basicConstraints, beside a CA",
          { ROOT, BARE, END },
          { BARE, END },
          NB_CA_PINNED,
          { END },
          0,
          NB_CA_UNUSABLE },
        { "without basicConstraints, unpinned",
          { BARE, LEAF, END },
          { END },
          NB_CA_ALL_UNPINNED,
          { END },
          0,
          NB_CA_UNUSABLE },
        { "without basicConstraints, left out",
          { BARE, ROOT, END },
          { END },
          NB_CA_ALL_UNPINNED,
          { ROOT, END },
          1 },
        { "no CA, and another pin",
          { BARE, END },
          { ROOT, END },
          NB_CA_PINNED,
          { END },
          0,
          NB_CA_UNUSABLE },
        { "a leaf beside", { LEAF, ROOT, END }, { ROOT, END }, NB_CA_PINNED, { ROOT, END }, 1 },
        { "no pins at all", { ROOT, END }, { END }, NB_CA_PINNED, { END }, 0 },
        { "whole bundle", { ROOT, OTHER, END }, { ROOT, END }, NB_CA_ALL, { ROOT, OTHER, END }, 0 },
        { "whole bundle, a leaf is no CA",
          { OTHER, LEAF, ROOT, END },
          { ROOT, END },
          NB_CA_ALL,
          { OTHER, ROOT, END },
          1 },
        { "whole bundle, no pin fits",
          { ROOT, OTHER, END },
          { DEEPER, END },
          NB_CA_ALL,
          { END },
          0 },
        { "whole bundle, the pin names a leaf",
          { LEAF, ROOT, END },
          { LEAF, END },
          NB_CA_ALL,
          { END },
          0,
          NB_CA_UNUSABLE },
        { "whole bundle, no pins", { ROOT, END }, { END }, NB_CA_ALL, { END }, 0 },
        { "whole bundle, duplicates",
          { ROOT, OTHER, ROOT, END },
          { ROOT, END },
          NB_CA_ALL,
          { ROOT, OTHER, END },
          0 },
        { "unpinned", { OTHER, ROOT, END }, { END }, NB_CA_ALL_UNPINNED, { OTHER, ROOT, END }, 0 },
        { "unpinned, no CA",
          { LEAF, END },
          { END },
          NB_CA_ALL_UNPINNED,
          { END },
          0,
          NB_CA_UNUSABLE },
};

static void selections(void **state) {
        for (size_t i = 0; i < N_ELEMENTS(selection_cases); i++)
                run_case(&selection_cases[i]);
}

static void mismatch_names_what_was_found(void **state) {
        static const int all[] = { ROOT, INTERMEDIATE, DEEPER, OTHER, IMPOSTOR, LEAF, END };
        struct nb_buffer pem = NB_BUFFER_INIT(BUNDLE_MAX);
        struct nb_failure f = { 0 };
        uint8_t pin[1][NB_SHA256_SIZE] = { { 0 } }, found[NB_SHA256_SIZE];
        char hex[2 * NB_SHA256_SIZE + 1];
        char *bundle = join(all);

        assert_true(
                nb_ca_select(bundle, strlen(bundle),
                             &(struct nb_ca_criteria){ .pins = pin,
                                                       .n_pins = 1,
                                                       .choice = NB_CA_PINNED,
                                                       .malformed = NB_CLUSTER_INFO_UNACCEPTABLE,
                                                       .mismatch = NB_CA_PIN_MISMATCH },
                             &pem, NULL, &f) < 0);
        pin_of(&certs[ROOT], found);
        nb_hex_encode(found, sizeof(found), hex);
        assert_non_null(strstr(f.detail, hex));
        assert_non_null(strstr(f.detail, ", ...; expected sha256:0000"));
        free(bundle);
}

static void bundles_that_cannot_be_read(void **state) {
        const char *const cases[] = {
                "", "none", certs[ROOT].key_pem,
                "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
        };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                struct nb_buffer pem = NB_BUFFER_INIT(BUNDLE_MAX);
                struct nb_failure f = { 0 };

                assert_true(
                        nb_ca_select(cases[i], strlen(cases[i]),
                                     &(struct nb_ca_criteria){ .choice = NB_CA_ALL_UNPINNED,
                                                               .malformed = NB_HANDOFF_MALFORMED,
                                                               .mismatch = NB_HANDOFF_UNTRUSTED },
                                     &pem, NULL, &f) < 0);
                assert_int_equal(f.code, NB_HANDOFF_MALFORMED);
        }
}

static void bundle_that_does_not_fit(void **state) {
        struct nb_buffer pem = NB_BUFFER_INIT(700);
        struct nb_failure f = { 0 };
        static const int two[] = { ROOT, OTHER, END };
        char *bundle = join(two);

        nb_buffer_append_string(&pem, "before");
        assert_true(nb_ca_select(bundle, strlen(bundle),
                                 &(struct nb_ca_criteria){ .choice = NB_CA_ALL_UNPINNED,
                                                           .malformed = NB_HANDOFF_MALFORMED,
                                                           .mismatch = NB_HANDOFF_UNTRUSTED },
                                 &pem, NULL, &f) < 0);
        assert_int_equal(pem.len, strlen("before"));
        free(bundle);
        nb_buffer_done(&pem);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(selections),
                cmocka_unit_test(mismatch_names_what_was_found),
                cmocka_unit_test(bundles_that_cannot_be_read),
                cmocka_unit_test(bundle_that_does_not_fit),
        };

        return cmocka_run_group_tests(tests, make_certs, free_certs);
}
