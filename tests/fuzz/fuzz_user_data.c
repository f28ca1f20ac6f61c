/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buffer.h"
#include "base/encoding.h"
#include "base/text.h"
#include "fuzz.h"
#include "kube_objects/token.h"
#include "metadata/user_data.h"
#include "settings/settings.h"

/* If a failure or a description contains text in the form of a token, it is not from the data. */
static void check_no_token(const char *detail, const char *data, size_t len) {
        for (const char *p = detail; strlen(p) >= NB_TOKEN_LEN; p++) {
                char text[NB_TOKEN_LEN + 1];

                memcpy(text, p, NB_TOKEN_LEN);
                text[NB_TOKEN_LEN] = '\0';
                FUZZ_CHECK(nb_token_verify(text, NB_TOKEN_LEN) < 0 ||
                           !memmem(data, len, text, NB_TOKEN_LEN));
        }
}

static void check_kind(const struct nb_user_data *user_data) {
        FUZZ_CHECK(user_data->what[0] && strlen(user_data->what) < sizeof(user_data->what) - 1 &&
                   fuzz_is_printable(user_data->what));
        FUZZ_CHECK((user_data->kind == NB_USER_DATA_DOCUMENT) ==
                   (user_data->document.data != NULL));
        FUZZ_CHECK(user_data->document.data || !user_data->key);
        FUZZ_CHECK(user_data->document.len <= NB_USER_DATA_MAX);
}

static bool is_same(const struct nb_secret *a, const struct nb_secret *b) {
        return !a->data == !b->data &&
               (!a->data || (a->len == b->len && memcmp(a->data, b->data, a->len) == 0));
}

/* User data that is recognised is also recognised in base64. */
static void check_base64(const struct nb_user_data *user_data, const char *data, size_t len) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_USER_DATA_MAX);
        struct nb_user_data again = NB_USER_DATA_INIT;
        struct nb_failure f = {};

        /* base64 is decoded only once. */
        nb_base64_encode(data, len, &text);
        if (strstr(user_data->what, ", in base64") || text.error < 0)
                return;
        FUZZ_CHECK(nb_user_data_parse("fuzzed", text.data, text.len, &again, &f) == 0);
        FUZZ_CHECK(again.kind == user_data->kind && is_same(&again.document, &user_data->document));
        nb_user_data_done(&again);
}

/* Whatever it holds can be merged or refused, and names nothing but what metadata may set. */
static void check_document(const struct nb_user_data *user_data) {
        const struct nb_settings_source source = { .origin = "fuzzed",
                                                   .key = user_data->key,
                                                   .is_metadata = true };
        const struct nb_secret *document = &user_data->document;
        struct nb_settings settings;
        struct nb_failure f = {};
        int r;

        nb_settings_init(&settings);
        r = nb_settings_merge(&settings, &source, document->data, document->len, &f);
        FUZZ_CHECK_FAILURE(f, r);
        for (unsigned i = 0; i < _NB_SETTING_N; i++)
                FUZZ_CHECK(strcmp(settings.origin[i], "fuzzed") != 0 ||
                           nb_setting_rows[i].metadata != NB_SETTING_METADATA_NEVER);
}

void fuzz_one(const char *data, size_t len) {
        struct nb_user_data user_data = NB_USER_DATA_INIT;
        struct nb_failure f = {};
        int r;

        r = nb_user_data_parse("fuzzed", data, len, &user_data, &f);
        FUZZ_CHECK_FAILURE(f, r);
        check_no_token(f.detail, data, len);
        FUZZ_CHECK(r >= 0 || f.code == NB_METADATA_MALFORMED);
        if (r < 0) {
                FUZZ_CHECK(!user_data.what[0] && !user_data.document.data);
                return;
        }
        check_kind(&user_data);
        check_no_token(user_data.what, data, len);
        if (user_data.kind != NB_USER_DATA_NOTHING)
                check_base64(&user_data, data, len);
        if (user_data.document.data)
                check_document(&user_data);
        nb_user_data_done(&user_data);
}
