/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kube/token.h"

#define WHITE_SPACE " \t\r\n\v\f"
#define QUOTES "\"'"

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
 * What systemd-creds encrypts is base64 of struct encrypted_credential_header (systemd
 * src/shared/creds-util.c): an ID of 16 bytes that says where the key comes from, then key, block,
 * IV and tag size as little-endian 32 bit. For all key sources the cipher is AES-256-GCM, so the
 * sizes are always 32, 1, 12 and 16: characters 22 to 41.
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
        if (len != NB_TOKEN_LEN || data[NB_TOKEN_ID_LEN] != '.' ||
            !is_token_part(data, NB_TOKEN_ID_LEN) ||
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

static bool is_one_of(char c, const char *characters) {
        return c != '\0' && strchr(characters, c);
}

size_t nb_token_trim(const char *data, size_t len) {
        while (len > 0 && (data[len - 1] == '\n' || data[len - 1] == '\r'))
                len--;
        return len;
}

/* What an editor or a shell adds at either end without showing it; NULL for nothing. */
static const char *find_flaw_of_ends(const char *data, size_t len) {
        static const char byte_order_mark[] = "\xef\xbb\xbf";

        if (len >= strlen(byte_order_mark) &&
            memcmp(data, byte_order_mark, strlen(byte_order_mark)) == 0)
                return "it begins with a byte order mark";
        if (is_one_of(data[0], QUOTES))
                return "it begins with a quotation mark";
        if (is_one_of(data[0], WHITE_SPACE))
                return "it begins with white space";
        if (is_one_of(data[len - 1], QUOTES))
                return "it ends with a quotation mark";
        if (data[len - 1] == '\r')
                return "it ends with a carriage return, as files from Windows do";
        if (data[len - 1] == '\n')
                return "it ends with more than one newline";
        if (data[len - 1] == '\0')
                return "it ends with a NUL";
        return is_one_of(data[len - 1], WHITE_SPACE) ? "it ends with white space" : NULL;
}

/* What a character is; NULL for one that may be in a token. */
static const char *find_flaw_of_character(char c) {
        if (is_token_character(c))
                return NULL;
        if (c >= 'A' && c <= 'Z')
                return "a capital letter";
        if (is_one_of(c, WHITE_SPACE))
                return "white space";
        return c == '.' ? "another dot" : "not one of a-z and 0-9";
}

void nb_token_find_flaw(const char *data, size_t len, char ret[static NB_TOKEN_FLAW_SIZE]) {
        const char *flaw, *dot;
        size_t before;

        ret[0] = '\0';
        len -= len > 0 && data[len - 1] == '\n';
        flaw = len == 0                   ? "it is empty"
               : is_ciphertext(data, len) ? "it is encrypted"
                                          : find_flaw_of_ends(data, len);
        if (flaw) {
                snprintf(ret, NB_TOKEN_FLAW_SIZE, "%s", flaw);
                return;
        }
        dot = memchr(data, '.', len);
        before = dot ? (size_t)(dot - data) : 0;
        for (size_t i = 0; i < len; i++) {
                flaw = data + i == dot ? NULL : find_flaw_of_character(data[i]);
                /* For text of another length, such as a password, the length says more. */
                if (flaw && (len == NB_TOKEN_LEN || strcmp(flaw, "white space") == 0)) {
                        snprintf(ret, NB_TOKEN_FLAW_SIZE, "its character %zu is %s", i + 1, flaw);
                        return;
                }
        }
        if (!dot)
                snprintf(ret, NB_TOKEN_FLAW_SIZE,
                         "it has %zu characters and no dot, expected %d with one", len,
                         NB_TOKEN_LEN);
        else if (before != NB_TOKEN_ID_LEN || len != NB_TOKEN_LEN)
                snprintf(ret, NB_TOKEN_FLAW_SIZE,
                         "it has %zu characters before the dot and %zu after it, expected "
                         "%d and %d",
                         before, len - before - 1, NB_TOKEN_ID_LEN, NB_TOKEN_SECRET_LEN);
}

void nb_token_done(struct nb_token *token) {
        nb_secret_done(&token->value);
        token->secret = NULL;
}
