/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>

#include "fuzz.h"
#include "kube_objects/identity.h"

void fuzz_one(const char *data, size_t len) {
        struct nb_identity token = NB_IDENTITY_INIT;
        char flaw[NB_TOKEN_FLAW_SIZE];
        bool is_parsed = nb_token_verify(data, len) >= 0;

        nb_token_find_flaw(data, len, flaw);
        FUZZ_CHECK(is_parsed == (flaw[0] == '\0') && strlen(flaw) < sizeof(flaw) - 1);
        if (!is_parsed)
                return;
        FUZZ_CHECK(nb_identity_set_token(&token, data, len, "fuzzed") == 0);
        FUZZ_CHECK(token.secret.len == NB_TOKEN_LEN &&
                   memcmp(token.secret.data, data, NB_TOKEN_LEN) == 0);
        FUZZ_CHECK(strlen(token.token_id) == NB_TOKEN_ID_LEN);
        FUZZ_CHECK(nb_token_verify(token.secret.data, token.secret.len) == 0);
        nb_identity_done(&token);
}
