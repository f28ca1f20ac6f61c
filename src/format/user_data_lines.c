/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/macro.h"
#include "format/settings_merge.h"
#include "format/user_data_forms.h"

#define WORD_MAX 24 /* bytes of what can be a misspelt word of ours */
#define KEY "node_bootstrap"
#define FIRST_LINE "#cloud-config"

/* Without the quotes that may stand around it; NULL where there is only one of them. */
static const char *without_quotes(const char *text, size_t *len) {
        char quote = *len > 0 ? text[0] : '\0';

        if (quote != '"' && quote != '\'')
                return text;
        if (*len < 2 || text[*len - 1] != quote)
                return NULL;
        *len -= 2;
        return text + 1;
}

static size_t trimmed_len(const char *text, size_t len) {
        while (len > 0 && isspace((unsigned char)text[len - 1]))
                len--;
        return len;
}

static void split(const char *text, size_t len, struct nb_user_data_line *line) {
        const char *end = text + len, *colon = memchr(text, ':', len), *comment, *value;

        if (!colon)
                return;
        line->key_len = trimmed_len(text, (size_t)(colon - text));
        line->key = without_quotes(text, &line->key_len);
        for (value = colon + 1; value < end && isblank((unsigned char)*value);)
                value++;
        comment = memmem(value, (size_t)(end - value), " #", 2);
        line->value_len = trimmed_len(value, (size_t)((comment ? comment : end) - value));
        line->value = without_quotes(value, &line->value_len);
}

bool nb_user_data_next_line(const char **data, const char *end, struct nb_user_data_line *line) {
        const char *text = *data, *newline;

        if (text >= end)
                return false;
        newline = memchr(text, '\n', (size_t)(end - text));
        *data = newline ? newline + 1 : end;
        *line = (struct nb_user_data_line){ .number = line->number + 1 };
        split(text, (size_t)((newline ? newline : end) - text), line);
        return true;
}

/* --- Near misses --- */

/* A text that may be a word of ours; what it is made of can be no token, and can be shown. */
static bool copy_word(const char *text, size_t len, char ret[static WORD_MAX + 1]) {
        if (!text || len == 0 || len > WORD_MAX)
                return false;
        for (size_t i = 0; i < len; i++)
                if ((unsigned char)text[i] >= 0x80 || (!isalnum((unsigned char)text[i]) && !strchr("-_", text[i])))
                        return false;
        memcpy(ret, text, len);
        ret[len] = '\0';
        return true;
}

static bool is_near(const char *word, const char *expected) {
        unsigned least = NB_SETTINGS_FAR;
        const char *meant = NULL;

        nb_settings_nearer(word, expected, &meant, &least);
        return meant != NULL;
}

/* The group of an apiVersion, "node-bootstrap/" and whatever follows. */
static bool copy_group(const struct nb_user_data_line *line, char ret[static WORD_MAX + 1]) {
        const char *slash = line->value ? memchr(line->value, '/', line->value_len) : NULL;

        return slash && copy_word(line->value, (size_t)(slash - line->value), ret);
}

static bool is_key_missed(const struct nb_user_data_line *line, const char *key, bool is_cloud_config, char *ret, size_t size) {
        if (!is_near(key, KEY))
                return false;
        if (is_cloud_config && strcmp(key, KEY) == 0)
                (void)snprintf(ret, size, "line %u: expected '" KEY ":' at the top of the first document, found it elsewhere", line->number);
        else if (is_cloud_config)
                (void)snprintf(ret, size, "line %u: expected '" KEY ":', found '%s:'", line->number, key);
        else if (strcmp(key, KEY) == 0)
                (void)snprintf(ret, size, "line %u: expected '" FIRST_LINE "' in a line above '" KEY ":', the first one; found none", line->number);
        else
                (void)snprintf(ret, size, "line %u: expected '" KEY ":' below a first line '" FIRST_LINE "', found '%s:'", line->number, key);
        return true;
}

static bool is_kind_missed(const struct nb_user_data_line *line, const char *key, char *ret, size_t size) {
        const char *expected;
        char kind[WORD_MAX + 1];

        if (strcasecmp(key, "kind") != 0 || !copy_word(line->value, line->value_len, kind))
                return false;
        expected = is_near(kind, "NodeBootstrap") ? "NodeBootstrap" : "JoinConfiguration";
        if (strcmp(expected, "JoinConfiguration") == 0 && strcasecmp(kind, expected) != 0)
                return false;
        (void)snprintf(ret, size, "line %u: expected 'kind: %s', found '%s: %s'", line->number, expected, key, kind);
        return true;
}

static bool is_version_missed(const struct nb_user_data_line *line, const char *key, char *ret, size_t size) {
        char group[WORD_MAX + 1];

        if (strcasecmp(key, "apiVersion") != 0 || !copy_group(line, group) || !is_near(group, "node-bootstrap"))
                return false;
        (void)snprintf(ret, size, "line %u: expected 'apiVersion: node-bootstrap/v1', found '%s: %s/...'", line->number, key, group);
        return true;
}

/* A whole document stands where cloud-init has its own keys. */
static bool is_document(const struct nb_user_data_line *line, const char *key, char *ret, size_t size) {
        char ignored[WORD_MAX * 4];

        if (!is_kind_missed(line, key, ignored, sizeof(ignored)) && !is_version_missed(line, key, ignored, sizeof(ignored)))
                return false;
        (void)snprintf(ret, size, "line %u: expected the keys of the document below '" KEY ":', or no '" FIRST_LINE "' above it; found '%s:'", line->number, key);
        return true;
}

void nb_user_data_find_near_miss(const char *data, size_t len, bool is_cloud_config, char *ret, size_t size) {
        struct nb_user_data_line line = { 0 };
        char key[WORD_MAX + 1];

        ret[0] = '\0';
        for (const char *end = data + len; nb_user_data_next_line(&data, end, &line);) {
                if (!copy_word(line.key, line.key_len, key))
                        continue;
                if (is_key_missed(&line, key, is_cloud_config, ret, size))
                        return;
                if (is_cloud_config && is_document(&line, key, ret, size))
                        return;
                if (!is_cloud_config && (is_kind_missed(&line, key, ret, size) || is_version_missed(&line, key, ret, size)))
                        return;
        }
}
