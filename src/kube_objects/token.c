/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "kube_objects/token.h"

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

int nb_token_verify(const char *data, size_t len) {
        if (is_ciphertext(data, len))
                return -EBADMSG;
        if (len == NB_TOKEN_LEN + 1 && data[NB_TOKEN_LEN] == '\n')
                len = NB_TOKEN_LEN;
        if (len != NB_TOKEN_LEN || data[NB_TOKEN_ID_LEN] != '.' ||
            !is_token_part(data, NB_TOKEN_ID_LEN) ||
            !is_token_part(data + NB_TOKEN_ID_LEN + 1, NB_TOKEN_SECRET_LEN))
                return -EINVAL;
        return 0;
}

size_t nb_token_trim(const char *data, size_t len) {
        while (len > 0 && (data[len - 1] == ' ' || data[len - 1] == '\t' || data[len - 1] == '\r' ||
                           data[len - 1] == '\n'))
                len--;
        return len;
}

/* Describes a character that an editor or a shell may add unnoticed; NULL for any other. */
static const char *describe_hidden(char c) {
        if (c == '\r')
                return "a carriage return, as in files from Windows";
        if (c == '\n')
                return "a newline";
        if (c == ' ' || c == '\t')
                return "white space";
        if (c == '"' || c == '\'')
                return "a quotation mark";
        return c < ' ' || c > '~' ? "not printable ASCII" : NULL;
}

static const char *describe_character(char c) {
        if (describe_hidden(c))
                return describe_hidden(c);
        if (c >= 'A' && c <= 'Z')
                return "a capital letter";
        return c == '.' ? "another dot" : "not one of a-z and 0-9";
}

void nb_token_find_flaw(const char *data, size_t len, char ret[static NB_TOKEN_FLAW_SIZE]) {
        const char *dot = memchr(data, '.', len);
        size_t before = dot ? (size_t)(dot - data) : 0, i;

        ret[0] = '\0';
        len -= len > 0 && data[len - 1] == '\n';
        /* In text of another length, such as a password, search only for such added characters:
         * otherwise the wrong length is the better reason. */
        for (i = 0; i < len; i++)
                if (data + i != dot && !is_token_character(data[i]) &&
                    (len == NB_TOKEN_LEN || describe_hidden(data[i])))
                        break;
        if (len == 0)
                snprintf(ret, NB_TOKEN_FLAW_SIZE, "it is empty");
        else if (is_ciphertext(data, len))
                snprintf(ret, NB_TOKEN_FLAW_SIZE, "it is encrypted");
        else if (i < len)
                snprintf(ret, NB_TOKEN_FLAW_SIZE, "its character %zu is %s", i + 1,
                         describe_character(data[i]));
        else if (!dot)
                snprintf(ret, NB_TOKEN_FLAW_SIZE,
                         "it has %zu characters and no dot, expected %d with one", len,
                         NB_TOKEN_LEN);
        else if (before == NB_TOKEN_ID_LEN && len < NB_TOKEN_LEN)
                snprintf(ret, NB_TOKEN_FLAW_SIZE, "%zu character%s missing after the dot",
                         NB_TOKEN_LEN - len, NB_TOKEN_LEN - len == 1 ? " is" : "s are");
        else if (before != NB_TOKEN_ID_LEN || len != NB_TOKEN_LEN)
                snprintf(ret, NB_TOKEN_FLAW_SIZE,
                         "it has %zu characters before the dot and %zu after it, expected "
                         "%d and %d",
                         before, len - before - 1, NB_TOKEN_ID_LEN, NB_TOKEN_SECRET_LEN);
}
