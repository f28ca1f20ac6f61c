/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <string.h>

#include "metadata/kernel_line.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
#define WORD_SIZE 128 /* more than a key with the longest value; the rest of a word is dropped */

static void take_value(const char *value, size_t len, char *ret, size_t size) {
        if (len >= size || strspn(value, LETTERS) < len)
                len = 0;
        memcpy(ret, value, len);
        ret[len] = '\0';
}

static void take_word(const char *word, struct nb_platform *platform) {
        static const char id[] = "ignition.platform.id=", source[] = "ds=";

        if (strncmp(word, id, strlen(id)) == 0) {
                word += strlen(id);
                take_value(word, strlen(word), platform->platform_id,
                           sizeof(platform->platform_id));
        } else if (strncmp(word, source, strlen(source)) == 0) {
                word += strlen(source);
                take_value(word, strcspn(word, ";"), platform->data_source,
                           sizeof(platform->data_source));
        }
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
                        take_word(word, platform);
                        n = 0;
                } else if (n < sizeof(word) - 1)
                        word[n++] = line[i];
        }
}
