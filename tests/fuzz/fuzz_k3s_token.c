/* SPDX-License-Identifier: Apache-2.0 */
#include "base/encoding.h"
#include "fuzz.h"
#include "kube_objects/k3s_token.h"

/* A token that is accepted is the same after formatting and parsing again. */
void fuzz_one(const char *data, size_t len) {
        struct nb_k3s_token token, again;
        char text[NB_K3S_TOKEN_MAX + 256], hash[2 * NB_K3S_HASH_SIZE + 1] = "";
        char flaw[NB_TOKEN_FLAW_SIZE];
        bool is_parsed = nb_k3s_token_parse(data, len, "fuzzed", &token) >= 0;
        int n;

        if (nb_any_token_verify(data, len, flaw) < 0)
                FUZZ_CHECK(!is_parsed && flaw[0] && strlen(flaw) < sizeof(flaw) - 1);
        if (!is_parsed)
                return;
        FUZZ_CHECK(nb_k3s_token_looks_like(data, len) && token.identity.secret.len > 0);
        FUZZ_CHECK(token.identity.kind == NB_IDENTITY_TOKEN ||
                   token.identity.kind == NB_IDENTITY_PASSWORD);
        FUZZ_CHECK((token.identity.kind == NB_IDENTITY_TOKEN) ==
                   (token.identity.token_id[0] != '\0'));
        FUZZ_CHECK(strlen(token.identity.secret.data) == token.identity.secret.len &&
                   fuzz_is_printable(token.identity.secret.data));
        FUZZ_CHECK(token.identity.kind != NB_IDENTITY_PASSWORD ||
                   strncmp(token.identity.secret.data, "node:", 5) == 0);
        if (token.has_hash)
                nb_hex_encode(token.hash, sizeof(token.hash), hash);
        n = snprintf(text, sizeof(text), "K10%s::%s\n", hash, token.identity.secret.data);
        FUZZ_CHECK(n > 0 && (size_t)n < sizeof(text));
        /* The longest may become longer by the agent's name. */
        if (n <= NB_K3S_TOKEN_MAX) {
                FUZZ_CHECK(nb_k3s_token_parse(text, (size_t)n, "fuzzed", &again) == 0);
                FUZZ_CHECK(strcmp(again.identity.secret.data, token.identity.secret.data) == 0);
                FUZZ_CHECK(again.has_hash == token.has_hash &&
                           memcmp(again.hash, token.hash, sizeof(token.hash)) == 0);
                nb_k3s_token_done(&again);
        }
        nb_k3s_token_done(&token);
}
