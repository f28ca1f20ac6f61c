/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/json.h"
#include "fuzz.h"

static int count(void *userdata, const char *key, struct nb_failure *f) {
        unsigned *n = userdata;

        FUZZ_CHECK(key);
        (*n)++;
        return 0;
}

static void check_quoting(const char *data, size_t len) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(1024 * 1024);
        _cleanup_(nb_json_done) struct nb_json json = {};
        struct nb_failure f = {};
        const char *again;
        size_t again_len;

        if (memchr(data, '\0', len))
                return;
        FUZZ_CHECK(nb_buffer_append_string(&text, "{\"k\":") == 0);
        if (nb_json_quote(data, len, &text) < 0)
                return;
        FUZZ_CHECK(fuzz_is_printable(text.data));
        FUZZ_CHECK(nb_buffer_append_string(&text, "}") == 0);
        FUZZ_CHECK(nb_json_parse(text.data, text.len, "quoted", NB_INTERNAL, &json, &f) == 0);
        FUZZ_CHECK(nb_json_string(&json, "k", &again, &again_len, &f) == 1);
        FUZZ_CHECK(again_len == len && memcmp(again, data, len) == 0);
}

void fuzz_one(const char *data, size_t len) {
        static const char *const paths[] = { "a",           "a.b",      "a[0]",
                                             "a[0].b",      "a[b=c].b", "[name=x].value",
                                             "a.b.c[1][2]", "b",        "" };
        _cleanup_(nb_json_done) struct nb_json json = {};
        struct nb_failure f = {};
        int r;

        check_quoting(data, len);
        r = nb_json_parse(data, len, "fuzzed", NB_ANSWER_MALFORMED, &json, &f);
        FUZZ_CHECK_FAILURE(f, r);
        if (r < 0)
                return;
        for (size_t i = 0; i < N_ELEMENTS(paths); i++) {
                struct nb_failure ignored = {};
                const char *text;
                size_t n;
                int64_t integer;
                bool boolean;
                unsigned n_keys = 0;

                if (nb_json_string(&json, paths[i], &text, &n, &ignored) == 1)
                        FUZZ_CHECK(strlen(text) == n);
                (void)nb_json_integer(&json, paths[i], &integer, &ignored);
                (void)nb_json_boolean(&json, paths[i], &boolean, &ignored);
                (void)nb_json_array(&json, paths[i], &n, &ignored);
                (void)nb_json_each_key(&json, paths[i], count, &n_keys, &ignored);
        }
}
