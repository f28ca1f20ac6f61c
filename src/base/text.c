/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

size_t nb_utf8_decode(const char *text, size_t len, uint32_t *ret_code_point) {
        static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
        const unsigned char *s = (const unsigned char *)text;
        uint32_t code_point;
        size_t n;

        if (len == 0)
                return 0;
        if (s[0] < 0x80) {
                *ret_code_point = s[0];
                return 1;
        }
        n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
        if (s[0] < 0xc2 || s[0] > 0xf4 || n > len)
                return 0;
        code_point = s[0] & (0x7fU >> n);
        for (size_t i = 1; i < n; i++) {
                if ((s[i] & 0xc0) != 0x80)
                        return 0;
                code_point = code_point << 6 | (s[i] & 0x3f);
        }
        if (code_point < least[n] || code_point > 0x10ffff ||
            (code_point >= 0xd800 && code_point <= 0xdfff))
                return 0;
        *ret_code_point = code_point;
        return n;
}

bool nb_code_point_is_control(uint32_t code_point) {
        return code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0) ||
               (code_point >= 0x2028 && code_point <= 0x202e) ||
               (code_point >= 0x2066 && code_point <= 0x2069) || code_point == 0xfeff ||
               (code_point & 0xfffe) == 0xfffe;
}

bool nb_text_is_printable(const char *text, size_t len) {
        uint32_t code_point;
        size_t n;

        for (size_t i = 0; i < len; i += n) {
                n = nb_utf8_decode(text + i, len - i, &code_point);
                if (n == 0 || nb_code_point_is_control(code_point))
                        return false;
        }
        return true;
}

void nb_text_copy(char *ret, size_t size, const char *text) {
        int len = snprintf(ret, size, "%s", text);

        assert(len >= 0 && (size_t)len < size);
}

void nb_text_copy_line(const char *text, size_t len, char *ret, size_t size) {
        size_t used = 0;

        for (size_t i = 0; i < len;) {
                uint32_t code_point;
                size_t n = nb_utf8_decode(text + i, len - i, &code_point), step = n > 0 ? n : 1;
                bool is_copied = n > 0 && !nb_code_point_is_control(code_point);

                if (used + (is_copied ? n : 1) >= size)
                        break;
                if (is_copied) {
                        memmove(ret + used, text + i, n);
                        used += n;
                } else
                        ret[used++] = n > 0 ? ' ' : '?';
                i += step;
        }
        ret[used] = '\0';
}

void nb_text_list_add(char *list, size_t size, const char *name) {
        static const char separator[] = ", ", more[] = "...";
        size_t len = strlen(list), name_len = strlen(name);
        const char *before = len > 0 ? separator : "";

        for (const char *p = list; *p; p += strspn(p, separator)) {
                size_t n = strcspn(p, ",");

                if ((n == name_len && memcmp(p, name, n) == 0) || strcmp(p, more) == 0)
                        return;
                p += n;
        }
        /* Leave room for "..." after this name. */
        if (len + strlen(separator) + name_len + strlen(separator) + sizeof(more) > size)
                name = more;
        len += (size_t)snprintf(list + len, size - len, "%s", before);
        nb_text_copy_line(name, strlen(name), list + len, size - len);
}

#define QUOTED_HEAD 56 /* bytes quoted from a text that is cut */
#define QUOTED_TAIL 32
#define QUOTED_LINE_MAX 64

static size_t count_first_word(const char *text, size_t len) {
        size_t n = 0;

        while (n < len && text[n] && !strchr(" \t\r\n", text[n]))
                n++;
        return n < len ? n : 0;
}

static bool has_letters(const char *text, size_t len) {
        for (size_t i = 0; i < len; i++)
                if (isalnum((unsigned char)text[i]) || (unsigned char)text[i] >= 0x80)
                        return true;
        return false;
}

const char *nb_text_quote(const char *text, size_t len, char ret[static NB_TEXT_QUOTED_SIZE]) {
        size_t head = len, tail = 0, word = count_first_word(text, len);
        char size[32] = "";

        /* A long line of several words may be a pasted command that contains a secret without a
         * recognizable form. */
        if (len > QUOTED_LINE_MAX && word > 0 && word <= NB_TEXT_QUOTED_MAX &&
            has_letters(text + word, len - word))
                head = word;
        else if (len > NB_TEXT_QUOTED_MAX) {
                head = QUOTED_HEAD;
                tail = QUOTED_TAIL;
                while (head > 0 && ((unsigned char)text[head] & 0xc0) == 0x80)
                        head--;
                while (tail > 0 && ((unsigned char)text[len - tail] & 0xc0) == 0x80)
                        tail--;
        }
        if (head < len)
                snprintf(size, sizeof(size), " (%zu bytes)", len);
        snprintf(ret, NB_TEXT_QUOTED_SIZE, "'%.*s%s%.*s'%s", (int)head, text,
                 head < len ? "\u2026" : "", (int)tail, text + len - tail, size);
        return ret;
}

/* [a-z0-9]{6}\.[a-z0-9]{16} (Kubernetes cluster-bootstrap/token/api/types.go) */
#define BOOTSTRAP_TOKEN_CHARACTERS "abcdefghijklmnopqrstuvwxyz0123456789"
#define BOOTSTRAP_TOKEN_ID_LEN 6
#define BOOTSTRAP_TOKEN_SECRET_LEN 16

static bool has_bootstrap_token(const char *text) {
        for (const char *dot = strchr(text, '.'); dot; dot = strchr(dot + 1, '.')) {
                const char *id = dot - BOOTSTRAP_TOKEN_ID_LEN;

                if (dot - text >= BOOTSTRAP_TOKEN_ID_LEN &&
                    strspn(id, BOOTSTRAP_TOKEN_CHARACTERS) == BOOTSTRAP_TOKEN_ID_LEN &&
                    strspn(dot + 1, BOOTSTRAP_TOKEN_CHARACTERS) >= BOOTSTRAP_TOKEN_SECRET_LEN)
                        return true;
        }
        return false;
}

/* K10, hex digits, and :: (k3s pkg/clientaccess/token.go) */
static bool has_k3s_token(const char *text) {
        for (const char *p = strstr(text, "K10"); p; p = strstr(p + 1, "K10")) {
                const char *hash = p + strlen("K10");

                if (strncmp(hash + strspn(hash, "0123456789abcdefABCDEF"), "::", 2) == 0)
                        return true;
        }
        return false;
}

bool nb_text_contains_token(const char *text) {
        return has_bootstrap_token(text) || has_k3s_token(text);
}

unsigned nb_text_measure_distance(const char *a, const char *b, size_t b_len) {
        unsigned row[NB_TEXT_DISTANCE_MAX + 1], diagonal, above;

        for (size_t j = 0; j <= b_len; j++)
                row[j] = (unsigned)j;
        for (size_t i = 0; a[i]; i++) {
                diagonal = row[0]++;
                for (size_t j = 0; j < b_len; j++) {
                        unsigned replaced = diagonal + ((a[i] | 0x20) != (b[j] | 0x20));

                        above = row[j + 1];
                        diagonal = above;
                        above = (above < row[j] ? above : row[j]) + 1;
                        row[j + 1] = replaced < above ? replaced : above;
                }
        }
        return row[b_len];
}
