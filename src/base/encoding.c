/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/encoding.h"
#include "base/macro.h"

static const char standard[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char url_safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static void encode_digits(const uint8_t *data, size_t len, const char *alphabet, bool is_padded,
                          struct nb_buffer *ret) {
        size_t n_digits = (len * 8 + 5) / 6;
        size_t n = is_padded ? (len + 2) / 3 * 4 : n_digits;

        for (size_t i = 0; i < n; i++) {
                size_t at = i * 6 / 8;
                unsigned bits = at < len ? (unsigned)data[at] << 8 : 0;

                if (at + 1 < len)
                        bits |= data[at + 1];
                nb_buffer_append(ret, i < n_digits ? &alphabet[bits >> (10 - i * 6 % 8) & 63] : "=",
                                 1);
        }
}

/* Unused bits must be zero, so that each value has exactly one encoding. */
int nb_base64_decode(const char *text, size_t len, struct nb_buffer *ret) {
        unsigned n_bits = 0;
        uint32_t bits = 0;

        if (len % 4 != 0)
                ret->error = -EINVAL;
        if (len > 1 && text[len - 1] == '=')
                len -= text[len - 2] == '=' ? 2 : 1;
        for (size_t i = 0; i < len && ret->error >= 0; i++) {
                const char *digit = text[i] ? strchr(standard, text[i]) : NULL;
                uint8_t byte;

                bits = bits << 6 | (uint32_t)(digit ? digit - standard : 0);
                n_bits += 6;
                if (!digit)
                        ret->error = -EINVAL;
                else if (n_bits >= 8) {
                        n_bits -= 8;
                        byte = (uint8_t)(bits >> n_bits);
                        nb_buffer_append(ret, &byte, 1);
                }
        }
        if (ret->error >= 0 && (n_bits == 6 || bits & ((1U << n_bits) - 1)))
                ret->error = -EINVAL;
        return ret->error;
}

int nb_base64_decode_secret(const char *text, size_t len, struct nb_secret *ret) {
        _cleanup_(nb_secret_done) struct nb_secret digits = NB_SECRET_INIT, bytes = NB_SECRET_INIT;
        struct nb_buffer buffer;
        int r;

        if (nb_secret_init(&digits, len) < 0 || nb_secret_init(&bytes, len) < 0)
                return -ENOMEM;
        for (size_t i = 0; i < len; i++)
                if (!text[i] || !strchr(" \t\r\n", text[i]))
                        digits.data[digits.len++] = text[i];
        /* Decode into the secret itself, which is large enough, so that no copy is left. */
        buffer = (struct nb_buffer){ .data = bytes.data,
                                     .allocated = bytes.size + 1,
                                     .max = bytes.size };
        r = nb_base64_decode(digits.data, digits.len, &buffer);
        if (r < 0)
                return r == -EINVAL ? -EBADMSG : r;
        bytes.len = buffer.len;
        *ret = TAKE(bytes);
        return 0;
}

void nb_base64_encode(const void *data, size_t len, struct nb_buffer *ret) {
        encode_digits(data, len, standard, true, ret);
}

int nb_base64_encode_secret(const char *prefix, const struct nb_secret *secret,
                            struct nb_secret *ret) {
        size_t len = strlen(prefix);
        struct nb_buffer buffer;

        if (nb_secret_init(ret, len + (secret->len + 2) / 3 * 4) < 0)
                return -ENOMEM;
        /* Encode into the secret itself, which is large enough, so that no copy is left. */
        buffer = (struct nb_buffer){ .data = ret->data,
                                     .allocated = ret->size + 1,
                                     .max = ret->size };
        nb_buffer_append_string(&buffer, prefix);
        nb_base64_encode(secret->data, secret->len, &buffer);
        ret->len = buffer.len;
        return 0;
}

void nb_base64url_encode(const void *data, size_t len, struct nb_buffer *ret) {
        encode_digits(data, len, url_safe, false, ret);
}

void nb_hex_encode(const uint8_t *data, size_t len, char *ret) {
        *ret = '\0';
        for (size_t i = 0; i < len; i++)
                snprintf(ret + 2 * i, 3, "%02x", data[i]);
}

int nb_hex_decode(const char *text, size_t text_len, uint8_t *ret, size_t len) {
        static const char digits[] = "0123456789abcdef";
        unsigned byte = 0;

        if (text_len != 2 * len)
                return -EINVAL;
        for (size_t i = 0; i < text_len; i++) {
                const char *digit = text[i] ? strchr(digits, tolower((unsigned char)text[i]))
                                            : NULL;

                if (!digit)
                        return -EINVAL;
                byte = byte << 4 | (unsigned)(digit - digits);
                if (i % 2 == 1)
                        ret[i / 2] = (uint8_t)byte;
        }
        return 0;
}
