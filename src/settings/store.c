/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "kube/k3s_token.h"
#include "settings/store.h"

#define ON_THE_MACHINE "set it in config.yaml on the machine"

/* --- Messages --- */

/* Describes a text that messages must not quote: a token, or a URL that may contain a password or a
 * signature. NULL: the text can be quoted. */
static const char *describe_secret(const char *text) {
        const char *scheme = strstr(text, "://");

        if (nb_text_contains_token(text) || nb_k3s_token_looks_like(text, strlen(text)))
                return "what looks like a bootstrap token, which belongs in the credential "
                       "node-bootstrap.token";
        return scheme && strpbrk(scheme, "@?") ? "a URL with a user or a query" : NULL;
}

int nb_settings_refuse(const struct nb_settings_merge *merge, unsigned line, const char *path,
                       const char *format, ...) {
        char text[NB_FAILURE_DETAIL_MAX];
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(text, sizeof(text), format, arguments);
        va_end(arguments);
        if (line == 0)
                return nb_failure_set(merge->f, NB_SETTINGS_INVALID, 0, "%s: %s", path, text);
        return nb_failure_set(merge->f, NB_SETTINGS_INVALID, 0, "%s:%u: %s: %s",
                              merge->source->origin, line, path, text);
}

int nb_settings_refuse_text(const struct nb_settings_merge *merge, unsigned line, const char *path,
                            const char *expected, const char *text, const char *hint) {
        const char *secret = describe_secret(text);
        char quoted[NB_TEXT_QUOTED_SIZE];

        return nb_settings_refuse(merge, line, path, "expected %s, found %s%s", expected,
                                  secret ? secret : nb_text_quote(text, strlen(text), quoted),
                                  hint ? hint : "");
}

int nb_settings_refuse_node(const struct nb_settings_merge *merge, const struct nb_yaml_node *node,
                            const char *path, const char *expected, const char *type) {
        bool is_quote_missing = type && strcmp(type, "a string") == 0 && node->is_plain;
        const char *found = nb_yaml_type_name(node);
        char hint[64] = "";

        if (nb_yaml_is_null(node) || node->type != NB_YAML_SCALAR)
                return nb_settings_refuse(merge, node->line, path, "expected %s, found %s",
                                          expected, found);
        if (type && !describe_secret(node->value))
                snprintf(hint, sizeof(hint), " (%s%s)", found,
                         is_quote_missing ? "; quote it" : "");
        return nb_settings_refuse_text(merge, node->line, path, expected, node->value, hint);
}

int nb_settings_refuse_type(const struct nb_settings_merge *merge, const struct nb_yaml_node *node,
                            const char *path, const char *type) {
        return nb_settings_refuse_node(merge, node, path, type, type);
}

/* --- Keys --- */

static bool is_section_of(const char *text, const char *key) {
        size_t len = strlen(text);

        return strncmp(key, text, len) == 0 && key[len] == '.';
}

static const char *last_component(const char *path) {
        const char *dot = strrchr(path, '.');

        return dot ? dot + 1 : path;
}

/* The known key that is most similar to an unknown one. */
struct guess {
        const char *key;
        int len;
        unsigned distance;
};

/* The key may be in the wrong section, or be a misspelled section. */
static void add_candidate(struct guess *guess, const char *path, const char *candidate) {
        const char *key = last_component(path), *name = last_component(candidate);
        size_t section_len = strcspn(candidate, ".");
        unsigned distance = nb_text_measure_distance(key, name, strlen(name));

        if (distance < guess->distance)
                *guess = (struct guess){ candidate, (int)strlen(candidate), distance };
        distance = nb_text_measure_distance(key, candidate, section_len);
        if (distance < guess->distance)
                *guess = (struct guess){ candidate, (int)section_len, distance };
}

static int check_key(const struct nb_settings_merge *merge, const struct nb_yaml_node *node,
                     const char *path) {
        const char *secret = describe_secret(node->key);

        /* Check this first, because later messages contain the key. */
        if (secret)
                return nb_failure_set(merge->f, NB_SETTINGS_INVALID, 0,
                                      "%s:%u: expected a key, found %s", merge->source->origin,
                                      node->line, secret);
        if (strchr(node->key, '.'))
                return nb_settings_refuse(merge, node->line, path,
                                          "a key must not contain a dot; nest the mappings");
        return 0;
}

static int take_key(const struct nb_settings_walk *walk, const char *path,
                    const struct nb_yaml_node *node) {
        const char *key = path + walk->base_len;
        struct guess guess = { .distance = 3 };
        bool is_section = false;
        const char *name;

        if (!walk->known_key)
                return walk->take(walk->userdata, 0, path, node);
        if (strcmp(path, "apiVersion") == 0 || strcmp(path, "kind") == 0)
                return 0;
        for (size_t i = 0; (name = walk->known_key(i)); i++) {
                if (strcmp(name, key) == 0)
                        return walk->take(walk->userdata, i, path, node);
                is_section = is_section || is_section_of(key, name);
                add_candidate(&guess, key, name);
        }
        if (!is_section && !guess.key)
                return nb_settings_refuse(walk->merge, node->line, path, "unknown key");
        if (!is_section)
                return nb_settings_refuse(walk->merge, node->line, path,
                                          "unknown key; did you mean %.*s?", guess.len, guess.key);
        /* All keys of a section may be commented out. */
        if (nb_yaml_is_null(node))
                return 0;
        if (node->type != NB_YAML_MAPPING)
                return nb_settings_refuse_type(walk->merge, node, path, "a mapping");
        return nb_settings_walk(walk, node, path);
}

int nb_settings_walk(const struct nb_settings_walk *walk, const struct nb_yaml_node *mapping,
                     const char *parent) {
        char path[NB_SETTING_KEY_MAX];
        int r, result = 0;

        for (const struct nb_yaml_node *node = mapping->first; node; node = node->next) {
                snprintf(path, sizeof(path), "%.63s%s%.63s", parent, parent[0] ? "." : "",
                         node->key);
                r = check_key(walk->merge, node, path);
                if (r >= 0)
                        r = take_key(walk, path, node);
                if (r < 0 && !walk->merge->source->is_salvage)
                        return r;
                if (r < 0)
                        result = r;
        }
        return result;
}

/* --- Values --- */

static bool is_harmless_option(const char *argument) {
        static const char *const options[] = { "cloud-provider", "max-pods", "node-ip",
                                               "node-labels" };
        size_t len = strcspn(argument, "=");

        for (size_t i = 0; i < N_ELEMENTS(options); i++)
                if (strlen(options[i]) == len && memcmp(options[i], argument, len) == 0)
                        return true;
        return false;
}

/* `text` is NULL before the value is known. */
static int check_metadata(const struct nb_settings_merge *merge, enum nb_setting setting,
                          unsigned line, const char *path, const char *text) {
        const enum nb_setting_metadata allowed = nb_setting_rows[setting].metadata;
        char name[NB_SETTING_KEY_MAX];

        if (!merge->source->is_metadata)
                return 0;
        if (allowed == NB_SETTING_METADATA_NEVER)
                return nb_settings_refuse(merge, line, path,
                                          "metadata must not set this key (see METADATA in "
                                          "node-bootstrap.yaml(5)); " ON_THE_MACHINE);
        if (allowed == NB_SETTING_METADATA_URL && text && text[0] == '/')
                return nb_settings_refuse_text(merge, line, path, "an https URL in metadata", text,
                                               "; for a path, " ON_THE_MACHINE);
        if (allowed != NB_SETTING_METADATA_HARMLESS || !text || is_harmless_option(text))
                return 0;
        nb_text_copy_line(text, strcspn(text, "="), name, sizeof(name));
        return nb_settings_refuse_text(merge, line, path,
                                       "cloud-provider, max-pods, node-ip or node-labels in "
                                       "metadata",
                                       name, "; for another option, " ON_THE_MACHINE);
}

void nb_settings_set_origin(const struct nb_settings_merge *merge, enum nb_setting setting) {
        nb_text_copy_line(merge->source->origin, strlen(merge->source->origin),
                          merge->settings->origin[setting], sizeof(merge->settings->origin[0]));
}

void nb_settings_clear_list(const struct nb_settings_merge *merge, enum nb_setting setting) {
        memset((char *)merge->settings + nb_setting_rows[setting].n_offset, 0, sizeof(unsigned));
        nb_settings_set_origin(merge, setting);
}

int nb_settings_store_text(const struct nb_settings_merge *merge, enum nb_setting setting,
                           unsigned line, const char *path, const char *text) {
        const struct nb_setting_row *row = &nb_setting_rows[setting];
        char most[32], buffer[NB_SETTING_HINT_SIZE];
        const char *expected = row->type->expected, *hint = NULL;
        int r;

        r = check_metadata(merge, setting, line, path, text);
        if (r < 0)
                return r;
        r = nb_setting_parse(merge->settings, setting, text, strlen(text));
        if (r >= 0)
                return 0;
        if (r == -EEXIST)
                expected = "each one once";
        else if (r == -E2BIG) {
                snprintf(most, sizeof(most), "at most %u entries", row->max);
                expected = most;
        } else if (row->type->hint)
                hint = row->type->hint(text, buffer);
        return nb_settings_refuse_text(merge, line, path, expected, text, hint);
}

bool nb_settings_is_string(const struct nb_yaml_node *node) {
        return strcmp(nb_yaml_type_name(node), "a string") == 0;
}

int nb_settings_store_node(const struct nb_settings_merge *merge, enum nb_setting setting,
                           const struct nb_yaml_node *node, const char *path) {
        const struct nb_setting_type *type = nb_setting_rows[setting].type;
        const char *yaml = type->yaml ? type->yaml : "a string";

        if (strcmp(nb_yaml_type_name(node), yaml) != 0)
                return nb_settings_refuse_node(merge, node, path, type->expected, yaml);
        return nb_settings_store_text(merge, setting, node->line, path, node->value);
}

/* Replaces the list of a weaker document. */
static int store_list(const struct nb_settings_merge *merge, enum nb_setting setting,
                      const struct nb_yaml_node *node, const char *path) {
        char entry_path[NB_SETTING_KEY_MAX];
        unsigned i = 0;
        int r;

        if (node->type != NB_YAML_SEQUENCE)
                return nb_settings_refuse_node(merge, node, path, "a list of strings", "a list");
        nb_settings_clear_list(merge, setting);
        for (const struct nb_yaml_node *entry = node->first; entry; entry = entry->next) {
                snprintf(entry_path, sizeof(entry_path), "%s[%u]", path, i++);
                r = nb_settings_store_node(merge, setting, entry, entry_path);
                if (r < 0)
                        return r;
        }
        return 0;
}

int nb_settings_store(const struct nb_settings_merge *merge, enum nb_setting setting,
                      const struct nb_yaml_node *node, const char *path) {
        bool is_token = setting == NB_SETTING_BOOTSTRAP_TOKEN;
        int r;

        r = check_metadata(merge, setting, node->line, path, NULL);
        if (r < 0)
                return r;
        if (nb_setting_rows[setting].max > 0)
                return store_list(merge, setting, node, path);
        if (is_token && (node->type != NB_YAML_SCALAR || node->value_len > 0))
                return nb_settings_store_token(merge, NB_SETTINGS_TOKEN_ANY, node, path);
        r = nb_settings_store_node(merge, setting, node, path);
        if (r < 0)
                return r;
        if (is_token && merge->settings->tokens)
                nb_secret_done(&merge->settings->tokens->discovery);
        nb_settings_set_origin(merge, setting);
        return 0;
}
