/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "base/encoding.h"
#include "base/macro.h"
#include "crypto/digest.h"

/* FIPS 180-4 examples, and the empty message. */
static void sha256_vectors(void **state) {
        static const struct {
                const char *message, *digest;
        } cases[] = {
                { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
                { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
                { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
        };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                uint8_t digest[NB_SHA256_SIZE];
                char hex[2 * NB_SHA256_SIZE + 1];

                assert_int_equal(nb_sha256(cases[i].message, strlen(cases[i].message), digest), 0);
                nb_hex_encode(digest, sizeof(digest), hex);
                assert_string_equal(hex, cases[i].digest);
        }
}

/* RFC 4231, test cases 1 to 4, 6 and 7 (5 is of a shortened MAC). */
static void hmac_vectors(void **state) {
        static const char big[] = "Test Using Larger Than Block-Size Key - Hash Key First";
        static const char bigger[] = "This is a test using a larger than block-size key and a "
                                     "larger than block-size data. The key "
                                     "needs to be hashed before being used by the HMAC algorithm.";
        uint8_t key_0b[20], key_aa[131], key_count[25], data_dd[50], data_cd[50];
        const struct {
                const void *key;
                size_t key_len;
                const void *data;
                size_t len;
                const char *mac;
        } cases[] = {
                { key_0b, 20, "Hi There", 8,
                  "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7" },
                { "Jefe", 4, "what do ya want for nothing?", 28,
                  "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" },
                { key_aa, 20, data_dd, 50,
                  "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe" },
                { key_count, 25, data_cd, 50,
                  "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b" },
                { key_aa, 131, big, sizeof(big) - 1,
                  "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54" },
                { key_aa, 131, bigger, sizeof(bigger) - 1,
                  "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2" },
        };

        memset(key_0b, 0x0b, sizeof(key_0b));
        memset(key_aa, 0xaa, sizeof(key_aa));
        memset(data_dd, 0xdd, sizeof(data_dd));
        memset(data_cd, 0xcd, sizeof(data_cd));
        for (size_t i = 0; i < sizeof(key_count); i++)
                key_count[i] = (uint8_t)(i + 1);
        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                uint8_t mac[NB_SHA256_SIZE];
                char hex[2 * NB_SHA256_SIZE + 1];

                assert_int_equal(nb_hmac_sha256(cases[i].key, cases[i].key_len, cases[i].data,
                                                cases[i].len, mac),
                                 0);
                nb_hex_encode(mac, sizeof(mac), hex);
                assert_string_equal(hex, cases[i].mac);
        }
}

/*
 * The MAC of cluster-info's signature. The first two are kubernetes/cluster-bootstrap
 * token/jws/jws_test.go, the third is kubernetes/kubernetes pkg/controller/bootstrap/jws_test.go
 * (all over base64url(header) "." base64url(content)).
 */
static void jws_vectors(void **state) {
        static const struct {
                const char *header, *content, *secret, *mac;
        } cases[] = {
                { "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9",
                  "Hello from the other side. I must have called a thousand times.",
                  "my voice is my passcode", "VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8" },
                { "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9", "", "my voice is my passcode",
                  "7Ui1ALizW4jXphVUB7xUqC9vLYLL9RZeOFfVLoB7Tgk" },
                { "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiYzEyMyJ9", "payload", "tokenSecret",
                  "QSxpUG7Q542CirTI2ECPSZjvBOJURUW5a7XqFpNI958" },
        };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                struct nb_buffer input = NB_BUFFER_INIT(1024), text = NB_BUFFER_INIT(64);
                uint8_t mac[NB_SHA256_SIZE];

                nb_buffer_printf(&input, "%s.", cases[i].header);
                nb_base64url_encode(cases[i].content, strlen(cases[i].content), &input);
                assert_int_equal(nb_hmac_sha256(cases[i].secret, strlen(cases[i].secret),
                                                input.data, input.len, mac),
                                 0);
                nb_base64url_encode(mac, sizeof(mac), &text);
                assert_string_equal(text.data, cases[i].mac);
                nb_buffer_done(&input);
                nb_buffer_done(&text);
        }
}

static void equality(void **state) {
        uint8_t a[NB_SHA256_SIZE] = { 1 }, b[NB_SHA256_SIZE] = { 1 };

        assert_true(nb_digest_is_equal(a, b));
        b[NB_SHA256_SIZE - 1] = 1;
        assert_false(nb_digest_is_equal(a, b));
        b[NB_SHA256_SIZE - 1] = 0;
        b[0] = 0;
        assert_false(nb_digest_is_equal(a, b));
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(sha256_vectors),
                cmocka_unit_test(hmac_vectors),
                cmocka_unit_test(jws_vectors),
                cmocka_unit_test(equality),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
