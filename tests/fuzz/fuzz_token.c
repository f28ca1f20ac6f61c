/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"
#include "kube/token.h"

void fuzz_one(const char *data, size_t len) {
        struct nb_token token, again;
        char flaw[NB_TOKEN_FLAW_SIZE];
        bool is_parsed = nb_token_parse(data, len, &token) >= 0;

        nb_token_find_flaw(data, len, flaw);
        FUZZ_CHECK(is_parsed == (flaw[0] == '\0') && strlen(flaw) < sizeof(flaw) - 1);
        if (!is_parsed)
                return;
        FUZZ_CHECK(token.value.len == NB_TOKEN_LEN &&
                   memcmp(token.value.data, data, NB_TOKEN_LEN) == 0);
        FUZZ_CHECK(strlen(token.id) == NB_TOKEN_ID_LEN);
        FUZZ_CHECK(nb_token_parse(token.value.data, token.value.len, &again) == 0);
        FUZZ_CHECK(strcmp(token.secret, again.secret) == 0);
        nb_token_done(&again);
        nb_token_done(&token);
}
