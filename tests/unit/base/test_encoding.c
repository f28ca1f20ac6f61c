/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/encoding.h"
#include "base/macro.h"

/* RFC 4648 section 10, and bytes whose digits differ between the two alphabets. */
static const struct {
        const char *bytes, *base64, *base64url;
} vectors[] = {
        { "", "", "" },
        { "f", "Zg==", "Zg" },
        { "fo", "Zm8=", "Zm8" },
        { "foo", "Zm9v", "Zm9v" },
        { "foob", "Zm9vYg==", "Zm9vYg" },
        { "fooba", "Zm9vYmE=", "Zm9vYmE" },
        { "foobar", "Zm9vYmFy", "Zm9vYmFy" },
        { "\xfb\xff\xbe", "+/++", "-_--" },
};

static void vectors_both_ways(void **state) {
        for (size_t i = 0; i < N_ELEMENTS(vectors); i++) {
                _cleanup_(nb_buffer_done) struct nb_buffer standard = NB_BUFFER_INIT(64),
                                                           url = NB_BUFFER_INIT(64),
                                                           back = NB_BUFFER_INIT(64);
                size_t len = strlen(vectors[i].bytes);

                nb_base64_encode(vectors[i].bytes, len, &standard);
                nb_base64url_encode(vectors[i].bytes, len, &url);
                assert_int_equal(
                        nb_base64_decode(vectors[i].base64, strlen(vectors[i].base64), &back), 0);
                assert_int_equal(back.len, len);
                if (len == 0)
                        continue;
                assert_string_equal(standard.data, vectors[i].base64);
                assert_string_equal(url.data, vectors[i].base64url);
                assert_memory_equal(back.data, vectors[i].bytes, len);
        }
}

static void what_is_not_exactly_base64_is_refused(void **state) {
        static const struct {
                const char *name, *text;
        } cases[] = {
                { "no padding", "Zg" },           { "half of the padding", "Zg=" },
                { "padding inside", "Zg==Zm9v" }, { "too much padding", "Z===" },
                { "only padding", "====" },       { "bits after the last byte", "Zh==" },
                { "a line end", "Zm9v\n" },       { "a space", "Zm 9v" },
                { "the other alphabet", "-_--" },
        };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                _cleanup_(nb_buffer_done) struct nb_buffer bytes = NB_BUFFER_INIT(64);

                if (nb_base64_decode(cases[i].text, strlen(cases[i].text), &bytes) != -EINVAL)
                        fail_msg("%s: accepted", cases[i].name);
                assert_int_equal(bytes.error, -EINVAL);
        }
}

static void decoding_keeps_to_the_ceiling(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer bytes = NB_BUFFER_INIT(5);

        assert_int_equal(nb_base64_decode("Zm9vYmFy", 8, &bytes), -E2BIG);
}

/* As in a kubeconfig and in user data. */
static void white_space_in_base64_of_a_secret(void **state) {
        static const struct {
                const char *name, *text, *expected; /* NULL: refused */
                size_t len;                         /* 0: of the text */
        } cases[] = {
                { "lines", "YWJj\r\nZGVm\nZw==\n", "abcdefg", 0 },
                { "blanks and tabs", " YW\tJj ", "abc", 0 },
                { "nothing", "", "", 0 },
                { "white space alone", " \r\n", "", 0 },
                { "cut", "YWJjZ", NULL, 0 },
                { "another character", "YW-j", NULL, 0 },
                { "text after the padding", "YQ==YQ==", NULL, 0 },
                { "a NUL at the end", "YWJj", NULL, 5 },
                { "a NUL inside", "YW\0JjYWJj", NULL, 9 },
        };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                _cleanup_(nb_secret_done) struct nb_secret bytes = NB_SECRET_INIT;
                size_t len = cases[i].len > 0 ? cases[i].len : strlen(cases[i].text);

                print_message("%s\n", cases[i].name);
                assert_int_equal(nb_base64_decode_secret(cases[i].text, len, &bytes),
                                 cases[i].expected ? 0 : -EBADMSG);
                if (!cases[i].expected) {
                        assert_null(bytes.data);
                        continue;
                }
                assert_int_equal(bytes.len, strlen(cases[i].expected));
                assert_string_equal(bytes.data, cases[i].expected);
        }
}

static void hex_both_ways(void **state) {
        uint8_t bytes[3];
        char text[7];

        assert_int_equal(nb_hex_decode("00fFA5", 6, bytes, 3), 0);
        nb_hex_encode(bytes, 3, text);
        assert_string_equal(text, "00ffa5");
        assert_int_equal(nb_hex_decode("00fFA", 5, bytes, 3), -EINVAL);
        assert_int_equal(nb_hex_decode("00fFA5b", 7, bytes, 3), -EINVAL);
        assert_int_equal(nb_hex_decode("00fFg5", 6, bytes, 3), -EINVAL);
}

static unsigned n_grown;

void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size) {
        n_grown++;
        return __real_realloc(p, size);
}

/* A buffer that grows would leave copies of the password behind. */
static void a_secret_is_encoded_without_a_copy(void **state) {
        for (size_t len = 0; len < 3000; len += 599) {
                _cleanup_(nb_secret_done) struct nb_secret secret = NB_SECRET_INIT,
                                                           line = NB_SECRET_INIT,
                                                           decoded = NB_SECRET_INIT;

                assert_int_equal(nb_secret_init(&secret, len), 0);
                memset(secret.data, 'S', len);
                secret.len = len;
                n_grown = 0;
                assert_int_equal(nb_base64_encode_secret("Basic ", &secret, &line), 0);
                assert_int_equal(n_grown, 0);
                assert_int_equal(line.len, line.size);
                assert_memory_equal(line.data, "Basic ", 6);
                assert_int_equal(nb_base64_decode_secret(line.data + 6, line.len - 6, &decoded), 0);
                assert_int_equal(decoded.len, len);
                assert_memory_equal(decoded.data, secret.data, len);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(vectors_both_ways),
                cmocka_unit_test(what_is_not_exactly_base64_is_refused),
                cmocka_unit_test(decoding_keeps_to_the_ceiling),
                cmocka_unit_test(white_space_in_base64_of_a_secret),
                cmocka_unit_test(hex_both_ways),
                cmocka_unit_test(a_secret_is_encoded_without_a_copy),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
