/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/json.h"
#include "fuzz.h"

static void check_quoting(const char *data, size_t len) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(1024 * 1024);
        _cleanup_(nb_json_done) struct nb_json json = {};
        struct nb_failure f = {};
        const char *again;

        if (memchr(data, '\0', len))
                return;
        nb_buffer_append_string(&text, "{\"k\":");
        nb_json_quote(data, len, &text);
        if (text.error < 0)
                return;
        FUZZ_CHECK(fuzz_is_printable(text.data));
        nb_buffer_append_string(&text, "}");
        json = nb_json_parse(text.data, text.len, "quoted", NB_INTERNAL, &f);
        again = nb_json_string(&json, "k");
        FUZZ_CHECK(json.r == 0 && again);
        FUZZ_CHECK(strlen(again) == len && memcmp(again, data, len) == 0);
}

void fuzz_one(const char *data, size_t len) {
        static const char *const paths[] = { "a",           "a.b",      "a[0]",
                                             "a[0].b",      "a[b=c].b", "[name=x].value",
                                             "a.b.c[1][2]", "b",        "" };
        struct nb_failure f = {};
        _cleanup_(nb_json_done) struct nb_json json = nb_json_parse(data, len, "fuzzed",
                                                                    NB_ANSWER_MALFORMED, &f);

        check_quoting(data, len);
        FUZZ_CHECK_FAILURE(f, json.r);
        if (json.r < 0)
                return;
        for (size_t i = 0; i < N_ELEMENTS(paths); i++) {
                struct nb_failure ignored = {};

                json.f = &ignored;
                json.r = 0;
                (void)nb_json_identifier(&json, paths[i]);
                json.r = 0;
                (void)nb_json_integer(&json, paths[i]);
                json.r = 0;
                (void)nb_json_boolean(&json, paths[i]);
                json.r = 0;
                (void)nb_json_array(&json, paths[i]);
                json.r = 0;
                for (const char *key = NULL; (key = nb_json_next_key(&json, paths[i], key));)
                        FUZZ_CHECK(json.r == 0);
        }
}
