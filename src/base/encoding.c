/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/encoding.h"

static const char standard[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char url_safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static int encode(const uint8_t *data, size_t len, const char *alphabet, bool is_padded,
                  struct nb_buffer *ret) {
        size_t before = ret->len;
        int r = 0;

        for (size_t i = 0; i < len && r >= 0; i += 3) {
                size_t n = len - i < 3 ? len - i : 3;
                uint32_t bits = (uint32_t)data[i] << 16;
                char group[4];

                if (n > 1)
                        bits |= (uint32_t)data[i + 1] << 8;
                if (n > 2)
                        bits |= data[i + 2];
                for (size_t k = 0; k < 4; k++)
                        group[k] = k <= n ? alphabet[(bits >> (18 - 6 * k)) & 63] : '=';
                r = nb_buffer_append(ret, group, is_padded ? 4 : n + 1);
        }
        if (r < 0)
                ret->len = before;
        return r;
}

static int digit_value(char c, const char *alphabet) {
        const char *p = c ? strchr(alphabet, c) : NULL;

        return p ? (int)(p - alphabet) : -1;
}

/* Decodes a group of 2 to 4 digits into 1 to 3 bytes. Unused bits must be zero, so that each value
 * has one encoding. */
static int decode_group(const char *text, size_t n, const char *alphabet, struct nb_buffer *ret) {
        uint32_t bits = 0;
        uint8_t bytes[3];

        if (n < 2)
                return -EINVAL;
        for (size_t k = 0; k < 4; k++) {
                int value = k < n ? digit_value(text[k], alphabet) : 0;

                if (value < 0)
                        return -EINVAL;
                bits = bits << 6 | (uint32_t)value;
        }
        if ((n == 2 && (bits & 0xffff)) || (n == 3 && (bits & 0xff)))
                return -EINVAL;
        bytes[0] = (uint8_t)(bits >> 16);
        bytes[1] = (uint8_t)(bits >> 8);
        bytes[2] = (uint8_t)bits;
        return nb_buffer_append(ret, bytes, n - 1);
}

static int decode(const char *text, size_t len, const char *alphabet, struct nb_buffer *ret) {
        size_t before = ret->len;

        for (size_t i = 0; i < len; i += 4) {
                int r = decode_group(text + i, len - i < 4 ? len - i : 4, alphabet, ret);

                if (r < 0) {
                        ret->len = before;
                        return r;
                }
        }
        return 0;
}

int nb_base64_encode(const void *data, size_t len, struct nb_buffer *ret) {
        return encode(data, len, standard, true, ret);
}

int nb_base64url_encode(const void *data, size_t len, struct nb_buffer *ret) {
        return encode(data, len, url_safe, false, ret);
}

int nb_base64_decode(const char *text, size_t len, struct nb_buffer *ret) {
        if (len % 4 != 0)
                return -EINVAL;
        if (len > 0 && text[len - 1] == '=')
                len -= text[len - 2] == '=' ? 2 : 1;
        return decode(text, len, standard, ret);
}

int nb_base64url_decode(const char *text, size_t len, struct nb_buffer *ret) {
        return decode(text, len, url_safe, ret);
}

void nb_hex_encode(const uint8_t *data, size_t len, char *ret) {
        static const char digits[] = "0123456789abcdef";

        for (size_t i = 0; i < len; i++) {
                ret[2 * i] = digits[data[i] >> 4];
                ret[2 * i + 1] = digits[data[i] & 15];
        }
        ret[2 * len] = '\0';
}

static int hex_digit(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        if (c >= 'A' && c <= 'F')
                return c - 'A' + 10;
        return -1;
}

int nb_hex_decode(const char *text, size_t text_len, uint8_t *ret, size_t len) {
        if (text_len != 2 * len)
                return -EINVAL;
        for (size_t i = 0; i < text_len; i++)
                if (hex_digit(text[i]) < 0)
                        return -EINVAL;
        for (size_t i = 0; i < len; i++)
                ret[i] = (uint8_t)((unsigned)hex_digit(text[2 * i]) << 4 |
                                   (unsigned)hex_digit(text[2 * i + 1]));
        return 0;
}
