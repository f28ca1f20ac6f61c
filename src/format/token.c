/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "format/token.h"

static bool is_token_character(char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_token_part(const char *text, size_t len) {
        for (size_t i = 0; i < len; i++)
                if (!is_token_character(text[i]))
                        return false;
        return true;
}

/*
 * What systemd-creds encrypts is base64 of struct encrypted_credential_header (systemd src/shared/creds-util.c): an
 * ID of 16 bytes that says where the key comes from, then key, block, IV and tag size as little-endian 32 bit. For
 * all key sources the cipher is AES-256-GCM, so the sizes are always 32, 1, 12 and 16: characters 22 to 41.
 */
static bool is_ciphertext(const char *data, size_t len) {
        static const char sizes[] = "AAAAABAAAADAAAABAAAA";
        const size_t offset = 22;

        return len >= offset + strlen(sizes) && memcmp(data + offset, sizes, strlen(sizes)) == 0;
}

int nb_token_parse(const char *data, size_t len, struct nb_token *ret_token) {
        struct nb_token token = { .value = NB_SECRET_INIT };
        int r;

        if (is_ciphertext(data, len))
                return -EBADMSG;
        if (len == NB_TOKEN_LEN + 1 && data[NB_TOKEN_LEN] == '\n')
                len = NB_TOKEN_LEN;
        if (len != NB_TOKEN_LEN || data[NB_TOKEN_ID_LEN] != '.' || !is_token_part(data, NB_TOKEN_ID_LEN) ||
            !is_token_part(data + NB_TOKEN_ID_LEN + 1, NB_TOKEN_SECRET_LEN))
                return -EINVAL;

        r = nb_secret_init(&token.value, NB_TOKEN_LEN);
        if (r < 0)
                return r;
        r = nb_secret_append(&token.value, data, NB_TOKEN_LEN);
        if (r < 0) {
                nb_secret_done(&token.value);
                return r;
        }

        memcpy(token.id, data, NB_TOKEN_ID_LEN);
        token.secret = token.value.data + NB_TOKEN_ID_LEN + 1;
        *ret_token = token;
        return 0;
}

bool nb_token_may_stand_in(const char *text) {
        size_t len = strlen(text);

        for (const char *dot = strchr(text, '.'); dot; dot = strchr(dot + 1, '.')) {
                size_t before = (size_t)(dot - text), after = len - before - 1;

                if (before >= NB_TOKEN_ID_LEN && after >= NB_TOKEN_SECRET_LEN &&
                    is_token_part(dot - NB_TOKEN_ID_LEN, NB_TOKEN_ID_LEN) &&
                    is_token_part(dot + 1, NB_TOKEN_SECRET_LEN))
                        return true;
        }
        return false;
}

void nb_token_done(struct nb_token *token) {
        nb_secret_done(&token->value);
        token->secret = NULL;
}
