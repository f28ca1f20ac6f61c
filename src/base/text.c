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

size_t nb_text_count(const char *text, size_t len) {
        size_t n = 0;

        for (size_t i = 0; i < len; i++)
                n += ((unsigned char)text[i] & 0xc0) != 0x80;
        return n;
}

/* --- What may be a secret --- */

/* [a-z0-9]{6}\.[a-z0-9]{16} (Kubernetes cluster-bootstrap/token/api/types.go). Capital letters are
 * those of a token that a program has changed. */
#define TOKEN_CHARACTERS NB_LOWER NB_UPPER NB_DIGITS
#define TOKEN_ID_LEN 6
#define TOKEN_SECRET_LEN 16
#define SECRET_CUT_LEN 12   /* a half of which up to four characters are missing */
#define SECRET_BEGIN_LEN 4  /* after the ID and the dot */
#define SECRET_REST_LEN 8   /* the same, for what is refused as a value */
#define DIGITS_OF_SECRET 32 /* a k3s password; more hex digits in a row are a digest */

/* Letters and digits in a row. */
struct run {
        size_t len, n_changes; /* between letters and digits */
        bool has_digit, has_lower, has_upper, is_hex;
};

static struct run measure_run(const char *text, size_t len) {
        struct run run = { .is_hex = true };

        for (; run.len < len && isalnum((unsigned char)text[run.len]); run.len++) {
                const unsigned char *c = (const unsigned char *)text + run.len;

                run.n_changes += run.len > 0 && !isdigit(c[0]) != !isdigit(c[-1]);
                run.has_digit |= isdigit(*c) != 0;
                run.has_lower |= islower(*c) != 0;
                run.has_upper |= isupper(*c) != 0;
                run.is_hex &= isxdigit(*c) != 0;
        }
        return run;
}

/* Whether a whole secret begins the run. An ID may end, and a secret begin, a longer word. In a
 * host name, long words are of small letters alone. */
static bool begins_with_secret(const char *text, const struct run *run) {
        size_t n = 0;

        while (n < run->len && !isupper((unsigned char)text[n]))
                n++;
        return n >= TOKEN_SECRET_LEN && (run->has_digit || run->has_upper);
}

static bool may_be_half(const struct run *run) {
        /* Names of keys, such as unsafeSkipCAVerification, are not all in one case. */
        if (run->len > TOKEN_SECRET_LEN)
                return run->has_digit || !run->has_lower;
        if (run->len == TOKEN_SECRET_LEN)
                return run->has_digit || !run->has_lower || !run->has_upper;
        return run->len >= SECRET_CUT_LEN && run->n_changes > 1 && !run->is_hex;
}

/* Of a k3s token, the password after the hash: K10...::server:... (k3s
 * pkg/clientaccess/token.go). */
static bool has_k3s_password(const char *text, size_t len) {
        static const char *const users[] = { "::server:", "::node:" };
        const char *prefix = memmem(text, len, "K10", 3);

        for (size_t i = 0; i < sizeof(users) / sizeof(users[0]); i++)
                if (memmem(text, len, users[i], strlen(users[i])))
                        return true;
        return prefix && memmem(prefix, len - (size_t)(prefix - text), "::", 2);
}

static bool may_be_token(const char *text, size_t len) {
        bool is_after_id = false, is_after_word = false, is_after_dot = false;
        struct run run;

        for (size_t i = 0; i < len; i += run.len + 1) {
                bool is_digest, is_begin;

                run = measure_run(text + i, len - i);
                /* A digest follows "sha256:", not a dot. */
                is_digest = run.is_hex && run.len > DIGITS_OF_SECRET && !is_after_dot;
                is_begin = (is_after_id && run.len >= SECRET_BEGIN_LEN && run.n_changes > 0) ||
                           (is_after_word && begins_with_secret(text + i, &run));
                if (!is_digest && (is_begin || may_be_half(&run)))
                        return true;
                is_after_word = run.len >= TOKEN_ID_LEN && i + run.len < len &&
                                strchr(".:", text[i + run.len]);
                is_after_id = is_after_word && run.len == TOKEN_ID_LEN;
                is_after_dot = is_after_word && text[i + run.len] == '.';
        }
        return has_k3s_password(text, len) || (len > 3 && memcmp(text, "K10", 3) == 0);
}

const char *nb_text_describe_secret(const char *text, size_t len) {
        const char *scheme = memmem(text, len, "://", 3);

        if (scheme && (memchr(scheme, '@', len - (size_t)(scheme - text)) ||
                       memchr(scheme, '?', len - (size_t)(scheme - text))))
                return "a URL with a user or a query";
        return may_be_token(text, len) ? "what may be a token" : NULL;
}

const char *nb_text_shown(const char *path) {
        return nb_text_describe_secret(path, strlen(path)) ? "(not shown: it may be a token)"
                                                           : path;
}

/* All of a value, between the separators of nb_text_is_token(). */
static bool is_whole_token(const char *text, size_t len) {
        const struct run id = measure_run(text, len);
        struct run rest;
        bool is_mixed;

        if (id.len == 0 || id.len > TOKEN_ID_LEN || id.len == len || text[id.len] != '.')
                return false;
        rest = measure_run(text + id.len + 1, len - id.len - 1);
        if (id.len + 1 + rest.len != len)
                return false;
        is_mixed = rest.n_changes > 2 && !rest.is_hex;
        if (rest.len == TOKEN_SECRET_LEN)
                return id.len == TOKEN_ID_LEN || is_mixed;
        return id.len == TOKEN_ID_LEN && rest.len >= SECRET_REST_LEN && is_mixed;
}

bool nb_text_is_token(const char *text) {
        for (const char *p = text; *p; p++) {
                size_t n = strspn(p, TOKEN_CHARACTERS "._-");

                if (is_whole_token(p, n))
                        return true;
                p += n;
                if (!*p)
                        break;
        }
        return has_k3s_password(text, strlen(text));
}

/* --- Quoting --- */

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
        const char *secret;
        char size[32] = "";

        /* A long line of several words may be a pasted command that contains a secret without a
         * recognizable form. */
        if (len > QUOTED_LINE_MAX && word > 0 && word <= NB_TEXT_QUOTED_MAX &&
            has_letters(text + word, len - word))
                head = word;
        secret = nb_text_describe_secret(text, head);
        if (secret) {
                nb_text_copy(ret, NB_TEXT_QUOTED_SIZE, secret);
                return ret;
        }
        if (head > NB_TEXT_QUOTED_MAX) {
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

const char *nb_text_quote_value(const char *text, size_t len,
                                char ret[static NB_TEXT_QUOTED_SIZE]) {
        const char *secret = nb_text_describe_secret(text, len);
        size_t n = nb_text_count(text, len);
        struct run run;

        /* Before an '@' may be a password. */
        bool is_shown = !memchr(text, '@', len);

        for (size_t i = 0; i < len; i += run.len + 1) {
                run = measure_run(text + i, len - i);
                is_shown &= run.len <= NB_TEXT_SHOWN_MAX;
        }
        if (secret)
                nb_text_copy(ret, NB_TEXT_QUOTED_SIZE, secret);
        else if (is_shown)
                return nb_text_quote(text, len, ret);
        else
                snprintf(ret, NB_TEXT_QUOTED_SIZE, "%zu character%s", n, n == 1 ? "" : "s");
        return ret;
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
