/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "format/k3s_token.h"
#include "format/settings_merge.h"

#define LOOKS_LIKE_A_TOKEN "what looks like a bootstrap token, which belongs into the credential node-bootstrap.token"
#define DISTANCE_MAX NB_SETTING_KEY_MAX /* bytes of what is compared */

/* What must not be in a message: a token; the password or the signature that a URL may carry. NULL when there is none. */
static const char *secret_in(const char *text) {
        const char *scheme = strstr(text, "://");

        if (nb_any_token_may_stand_in(text) || nb_k3s_token_is_meant(text, strlen(text)))
                return LOOKS_LIKE_A_TOKEN;
        return scheme && strpbrk(scheme, "@?") ? "a URL with a user or a query" : NULL;
}

/* "nothing", "a list", "'foo'", "'5' (a number; in quotes it is a string)". */
static void describe(const struct nb_yaml_node *node, const char *wanted, char *ret, size_t size) {
        const char *type = nb_yaml_type_name(node), *secret = node->value ? secret_in(node->value) : NULL;
        char quoted[NB_TEXT_QUOTED_SIZE];
        bool are_quotes_missing = wanted && strcmp(wanted, "a string") == 0 && node->is_plain;

        if (nb_yaml_is_null(node) || node->type != NB_YAML_SCALAR)
                (void)snprintf(ret, size, "%s", type);
        else if (secret)
                (void)snprintf(ret, size, "%s", secret);
        else if (!wanted)
                (void)snprintf(ret, size, "%s", nb_text_quote(node->value, node->value_len, quoted));
        else
                (void)snprintf(ret, size, "%s (%s%s)", nb_text_quote(node->value, node->value_len, quoted), type,
                               are_quotes_missing ? "; in quotes it is a string" : "");
}

int nb_settings_refuse(const struct nb_settings_merge *merge, const struct nb_yaml_node *node, const char *path,
                       const char *expected, const char *wanted, const char *hint) {
        char found[NB_TEXT_QUOTED_SIZE + 64];

        describe(node, wanted, found, sizeof(found));
        return nb_failure_set(merge->f, NB_SETTINGS_INVALID, 0, "%s:%u: %s: expected %s, found %s%s", merge->origin,
                              node->line, path, expected, found, hint ? hint : "");
}

int nb_settings_refuse_text(const struct nb_settings_merge *merge, unsigned line, const char *path, const char *expected,
                            const char *text, const char *hint) {
        const char *secret = secret_in(text);
        char quoted[NB_TEXT_QUOTED_SIZE];

        return nb_failure_set(merge->f, NB_SETTINGS_INVALID, 0, "%s:%u: %s: expected %s, found %s%s", merge->origin, line, path,
                              expected, secret ? secret : nb_text_quote(text, strlen(text), quoted), hint ? hint : "");
}

int nb_settings_refuse_unknown(const struct nb_settings_merge *merge, const struct nb_yaml_node *node, const char *path,
                               const char *meant) {
        return nb_failure_set(merge->f, NB_SETTINGS_INVALID, 0,
                              "%s:%u: %s: expected a known key, found an unknown one%s%s%s", merge->origin,
                              node->line, path, meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
}

int nb_settings_check_key(const struct nb_settings_merge *merge, const struct nb_yaml_node *node) {
        const char *secret = secret_in(node->key);

        if (!secret)
                return 0;
        return nb_failure_set(merge->f, NB_SETTINGS_INVALID, 0, "%s:%u: expected a key, found %s", merge->origin,
                              node->line, secret);
}

/* Levenshtein's distance, case left aside; 'a' and 'b' are at most DISTANCE_MAX long. */
static unsigned distance(const char *a, const char *b) {
        unsigned row[DISTANCE_MAX + 1], diagonal, above;
        size_t len = strlen(b);

        for (size_t j = 0; j <= len; j++)
                row[j] = (unsigned)j;
        for (size_t i = 0; a[i]; i++) {
                diagonal = row[0]++;
                for (size_t j = 0; j < len; j++) {
                        unsigned replaced = diagonal + ((a[i] | 0x20) != (b[j] | 0x20));

                        above = row[j + 1];
                        diagonal = above;
                        above = (above < row[j] ? above : row[j]) + 1;
                        row[j + 1] = replaced < above ? replaced : above;
                }
        }
        return row[len];
}

static const char *last_component(const char *path) {
        const char *dot = strrchr(path, '.');

        return dot ? dot + 1 : path;
}

void nb_settings_nearer(const char *path, const char *candidate, const char **ret_meant, unsigned *least) {
        unsigned d = distance(last_component(path), last_component(candidate));

        if (d < *least) {
                *least = d;
                *ret_meant = candidate;
        }
}
