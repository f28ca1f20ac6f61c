/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <string.h>

#include "base/text.h"
#include "metadata/kernel_line.h"

#define VALUE_CHARACTERS NB_LOWER NB_UPPER NB_DIGITS "._-"
#define WORD_SIZE 128 /* fits the longest key and value; the rest of a word is ignored */

/* Copies the value if the word has this key; "" if the value is invalid. */
static void take_value(const char *word, const char *key, char *ret, size_t size) {
        size_t len;

        if (strncmp(word, key, strlen(key)) != 0)
                return;
        word += strlen(key);
        len = strcspn(word, ";");
        if (len >= size || strspn(word, VALUE_CHARACTERS) < len)
                len = 0;
        memcpy(ret, word, len);
        ret[len] = '\0';
}

void nb_kernel_line_parse(const char *line, size_t len, struct nb_platform *platform) {
        bool is_quoted = false;
        char word[WORD_SIZE];
        size_t n = 0;

        platform->platform_id[0] = platform->data_source[0] = '\0';
        for (size_t i = 0; i <= len; i++) {
                if (i < len && line[i] == '"')
                        is_quoted = !is_quoted;
                else if (i == len || (!is_quoted && strchr(" \t\n", line[i]))) {
                        word[n] = '\0';
                        take_value(word, "ignition.platform.id=", platform->platform_id,
                                   sizeof(platform->platform_id));
                        take_value(word, "ds=", platform->data_source,
                                   sizeof(platform->data_source));
                        n = 0;
                } else if (n < sizeof(word) - 1)
                        word[n++] = line[i];
        }
}
