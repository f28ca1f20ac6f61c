/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <string.h>

#include "format/kernel_line.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

/* The length of the word at the beginning; a space within double quotes does not end it. */
static size_t measure_word(const char *line, size_t len) {
        bool is_quoted = false;
        size_t n = 0;

        for (; n < len && line[n] != '\0' && (is_quoted || !strchr(" \t\n", line[n])); n++)
                if (line[n] == '"')
                        is_quoted = !is_quoted;
        return n;
}

/* What is behind `key` and '=' in a word, without quotes around the whole word or the value. False where it is another key. */
static bool find_value(const char *word, size_t len, const char *key, const char **ret_value, size_t *ret_len) {
        size_t key_len = strlen(key);
        bool is_whole = len > 0 && word[0] == '"';

        if (is_whole) {
                word++;
                len--;
        }
        if (len <= key_len || memcmp(word, key, key_len) != 0 || word[key_len] != '=')
                return false;
        word += key_len + 1;
        len -= key_len + 1;
        if (!is_whole && len > 0 && word[0] == '"') {
                word++;
                len--;
                is_whole = true;
        }
        if (is_whole && len > 0 && word[len - 1] == '"')
                len--;
        *ret_value = word;
        *ret_len = len;
        return true;
}

static void take(const char *value, size_t len, char *ret, size_t size) {
        ret[0] = '\0';
        if (len >= size)
                return;
        for (size_t i = 0; i < len; i++)
                if (value[i] == '\0' || !strchr(LETTERS, value[i]))
                        return;
        memcpy(ret, value, len);
        ret[len] = '\0';
}

void nb_kernel_line_parse(const char *line, size_t len, struct nb_platform *platform) {
        platform->platform_id[0] = platform->data_source[0] = '\0';
        for (size_t i = 0, n; i<len; i += n> 0 ? n : 1) {
                const char *value;
                size_t value_len;

                n = measure_word(line + i, len - i);
                if (find_value(line + i, n, "ignition.platform.id", &value, &value_len))
                        take(value, value_len, platform->platform_id, sizeof(platform->platform_id));
                else if (find_value(line + i, n, "ds", &value, &value_len)) {
                        const char *end = memchr(value, ';', value_len);

                        take(value, end ? (size_t)(end - value) : value_len, platform->data_source, sizeof(platform->data_source));
                }
        }
}
