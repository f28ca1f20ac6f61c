/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/macro.h"
#include "crypto/certificate.h"
#include "crypto/key.h"
#include "pki.h"

/* kubernetes/client-go util/certificate/csr/csr_test.go */
static const char client_go_key[] =
        "-----BEGIN EC PRIVATE KEY-----\n"
        "MHcCAQEEIHb7bL0ccx8oLfPycKQT/R2sKrPH8LU5CnDz/65jUjWooAoGCCqGSM49\n"
        "AwEHoUQDQgAExNsMY0QTw83e3eFOZMLqpT6vqEAvpSMo5+9TSU/faJScYeSsHxlK\n"
        "tO96nbPcQbWCMGjhrpBWYZcn07iu125DpA==\n"
        "-----END EC PRIVATE KEY-----\n";

/* The same in PKCS #8: openssl pkcs8 -topk8 -nocrypt. */
static const char client_go_key_pkcs8[] =
        "-----BEGIN PRIVATE KEY-----\n"
        "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgdvtsvRxzHygt8/Jw\n"
        "pBP9Hawqs8fwtTkKcPP/rmNSNaihRANCAATE2wxjRBPDzd7d4U5kwuqlPq+oQC+l\n"
        "Iyjn71NJT99olJxh5KwfGUq073qds9xBtYIwaOGukFZhlyfTuK7XbkOk\n"
        "-----END PRIVATE KEY-----\n";

/* The private key 2, with the public half of the key above. */
static const char foreign_public_half[] =
        "-----BEGIN EC PRIVATE KEY-----\n"
        "MHcCAQEEIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAACoAoGCCqGSM49\n"
        "AwEHoUQDQgAExNsMY0QTw83e3eFOZMLqpT6vqEAvpSMo5+9TSU/faJScYeSsHxlK\n"
        "tO96nbPcQbWCMGjhrpBWYZcn07iu125DpA==\n"
        "-----END EC PRIVATE KEY-----\n";

/* PKCS #8 (RFC 5958) with the algorithm 2.999.1 (an arc for examples), and 32 bytes of zero. */
static const char unknown_algorithm[] =
        "-----BEGIN PRIVATE KEY-----\n"
        "MCwCAQAwBQYDiDcBBCAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==\n"
        "-----END PRIVATE KEY-----\n";

/* Made with OpenSSL: private numbers that begin with a one bit, with 17 zero bits; a public x with
 * a zero byte first. */
static const char high_key[] = "-----BEGIN EC PRIVATE KEY-----\n"
                               "MHcCAQEEIO73ybFezdaQg3JLhM/cIQA1GWNIi1G06i/L3fST++yUoAoGCCqGSM49\n"
                               "AwEHoUQDQgAETnaVEIlqs13a0L4Xez60EAFdBiWJC5Om1Cf1smH7T+nxHmx8jqNR\n"
                               "zlhE31Lxrtz2Tuhy4dNgfkZY3Gkj/eko1g==\n"
                               "-----END EC PRIVATE KEY-----\n";

static const char low_key[] = "-----BEGIN EC PRIVATE KEY-----\n"
                              "MHcCAQEEIAAANg/4TtnTnuJUKntK6QaLpUJGqvlrod1Zdw/H463yoAoGCCqGSM49\n"
                              "AwEHoUQDQgAEyxbnqYokSiQL91wHxaH0P4jbjBuy583NkTAcRi+S3EepqT/cMIui\n"
                              "pzay1QhCe2FtYm+N+8/hoKmSc80NHZ9ZKQ==\n"
                              "-----END EC PRIVATE KEY-----\n";

static const char zero_x_key[] =
        "-----BEGIN EC PRIVATE KEY-----\n"
        "MHcCAQEEIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAF7oAoGCCqGSM49\n"
        "AwEHoUQDQgAEAFVDiUrz0A7X10Cr29dclrBod7eH219w7qeLkKjXwAq7TIWj2Oop\n"
        "76r6JEBpEt2E1bFNwyv2Vu9sa9WKXZQ/kg==\n"
        "-----END EC PRIVATE KEY-----\n";

/* GnuTLS may write the private number in 31 or 33 bytes, where RFC 5915 has 32. Go and OpenSSL read
 * that (Go: crypto/x509/sec1.go). */
static void exported_key_is_the_same_key(void **state) {
        const char *const keys[] = { high_key, low_key, zero_x_key };

        for (size_t i = 0; i < N_ELEMENTS(keys); i++) {
                struct nb_secret pem = NB_SECRET_INIT, again = NB_SECRET_INIT;
                struct nb_key *key = NULL, *imported = NULL;

                assert_int_equal(nb_key_import(keys[i], strlen(keys[i]), &key), 0);
                assert_int_equal(nb_key_export(key, &pem), 0);
                assert_int_equal(nb_key_import(pem.data, pem.len, &imported), 0);
                assert_int_equal(nb_key_export(imported, &again), 0);
                assert_string_equal(pem.data, again.data);
                assert_true(nb_key_is_p256(imported));
                nb_secret_done(&pem);
                nb_secret_done(&again);
                nb_key_free(key);
                nb_key_free(imported);
        }
}

static void generated_key_round_trip(void **state) {
        struct nb_secret pem = NB_SECRET_INIT, again = NB_SECRET_INIT;
        struct nb_key *key = NULL, *imported = NULL;

        assert_int_equal(nb_key_generate(&key), 0);
        assert_true(nb_key_is_p256(key));
        assert_int_equal(nb_key_export(key, &pem), 0);
        assert_non_null(strstr(pem.data, "-----BEGIN EC PRIVATE KEY-----\n"));
        assert_int_equal(strlen(pem.data), pem.len);
        assert_int_equal(nb_key_import(pem.data, pem.len, &imported), 0);
        assert_true(nb_key_is_p256(imported));
        assert_int_equal(nb_key_export(imported, &again), 0);
        assert_string_equal(pem.data, again.data);
        nb_secret_done(&pem);
        nb_secret_done(&again);
        nb_key_free(key);
        nb_key_free(imported);
}

static void keys_that_are_taken(void **state) {
        struct pki_cert ca = pki_make(
                &(struct pki_options){ .dn = "CN=rsa", .is_ca = true, .is_rsa = true });
        char *mixed = PKI_JOIN(ca.pem, client_go_key, ca.key_pem),
             *commented = PKI_JOIN("# made by hand\n", client_go_key);
        const struct {
                const char *name, *pem;
                bool is_p256;
        } cases[] = {
                { "EC PRIVATE KEY", client_go_key, true },
                { "PKCS #8", client_go_key_pkcs8, true },
                { "RSA, as an older kubelet made it", ca.key_pem, false },
                { "kubelet's file: the first key behind certificates", mixed, true },
                { "a comment before it", commented, true },
        };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                struct nb_key *key = NULL;

                print_message("%s\n", cases[i].name);
                assert_int_equal(nb_key_import(cases[i].pem, strlen(cases[i].pem), &key), 0);
                assert_int_equal(nb_key_is_p256(key), cases[i].is_p256);
                nb_key_free(key);
        }
        free(mixed);
        free(commented);
        pki_done(&ca);
}

static void keys_that_are_refused(void **state) {
        struct pki_cert ca = pki_make(&(struct pki_options){ .dn = "CN=ca", .is_ca = true });
        char *cut = PKI_JOIN(client_go_key);
        const struct {
                const char *name, *pem;
                int r;
        } cases[] = {
                { "nothing", "", -EINVAL },
                { "no PEM", "secret", -EINVAL },
                { "a certificate", ca.pem, -EINVAL },
                { "a block that is cut off", cut, -EINVAL },
                { "the public half of another key", foreign_public_half, -EINVAL },
                { "no base64",
                  "-----BEGIN EC PRIVATE KEY-----\n!!!!\n-----END EC PRIVATE KEY-----\n", -EINVAL },
                { "another label at the end",
                  "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", -EINVAL },
                { "encrypted",
                  "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE "
                  "KEY-----\n",
                  -EINVAL },
                { "an algorithm that GnuTLS does not know", unknown_algorithm, -ENOTSUP },
        };

        cut[strlen(cut) - 8] = '\0';
        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                struct nb_key *key = NULL;

                print_message("%s\n", cases[i].name);
                assert_int_equal(nb_key_import(cases[i].pem, strlen(cases[i].pem), &key),
                                 cases[i].r);
                assert_null(key);
        }
        free(cut);
        pki_done(&ca);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(exported_key_is_the_same_key),
                cmocka_unit_test(generated_key_round_trip),
                cmocka_unit_test(keys_that_are_taken),
                cmocka_unit_test(keys_that_are_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
