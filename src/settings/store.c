/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "kube_objects/k3s_token.h"
#include "kube_objects/token.h"
#include "settings/store.h"
#include "systemd/log.h"

#define ON_THE_MACHINE "set it in config.yaml on the machine"

/* --- Messages --- */

#define BELONGS "; a token belongs in the credential node-bootstrap.token"

int nb_settings_refuse(const struct nb_settings_merge *merge, unsigned line, const char *path,
                       const char *format, ...) {
        char text[NB_FAILURE_DETAIL_MAX];
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(text, sizeof(text), format, arguments);
        va_end(arguments);
        if (line == 0)
                return nb_failure_set(merge->f, NB_SETTINGS_INVALID, 0, "%s: %s", path, text);
        return nb_failure_set(merge->f, NB_SETTINGS_INVALID, 0, "%s:%u: %s%s%s",
                              merge->source->origin, line, path, path[0] ? ": " : "", text);
}

int nb_settings_refuse_text(const struct nb_settings_merge *merge, unsigned line, const char *path,
                            const char *expected, const char *text, const char *hint) {
        char found[NB_TEXT_QUOTED_SIZE];

        /* A typed word may be a part of a secret that was cut anywhere. */
        if (line == 0) {
                size_t n = nb_text_count(text, strlen(text));

                snprintf(found, sizeof(found), "%zu character%s", n, n == 1 ? "" : "s");
        } else
                nb_text_quote_value(text, strlen(text), found);
        return nb_settings_refuse(merge, line, path, "expected %s, found %s%s%s", expected, found,
                                  nb_text_is_token(text) ? BELONGS : "", hint ? hint : "");
}

int nb_settings_refuse_bare_ipv6(const struct nb_settings_merge *merge, unsigned line,
                                 const char *path, const char *text) {
        char likely[NB_URL_MAX];
        struct nb_url url;

        if (text[0] == '[' || nb_endpoint_parse(text, strlen(text), &url) < 0 || !url.is_ipv6)
                return 0;
        (void)nb_endpoint_lacks_brackets(&url, likely);
        return nb_settings_refuse(merge, line, path,
                                  "expected HOST:PORT, found an IPv6 address without brackets; "
                                  "with them, it may be %s",
                                  likely);
}

int nb_settings_refuse_node(const struct nb_settings_merge *merge, const struct nb_yaml_node *node,
                            const char *path, const char *expected, const char *type) {
        bool is_quote_missing = type && strcmp(type, "a string") == 0 && node->is_plain;
        const char *found = nb_yaml_type_name(node);
        char hint[64] = "";

        if (nb_yaml_is_null(node) || node->type != NB_YAML_SCALAR)
                return nb_settings_refuse(merge, node->line, path, "expected %s, found %s",
                                          expected, found);
        if (type && !nb_text_is_token(node->value))
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

/* A key that is not known is quoted as a value is, so `path` is that of its mapping. */
static int refuse_key(const struct nb_settings_merge *merge, const struct nb_yaml_node *node,
                      const char *path, const char *what, const char *hint, int hint_len) {
        const char *secret = nb_text_describe_secret(node->key, strlen(node->key));
        char quoted[NB_TEXT_QUOTED_SIZE];

        if (secret)
                return nb_settings_refuse(merge, node->line, path, "expected a key, found %s%s",
                                          secret, nb_text_is_token(node->key) ? BELONGS : "");
        nb_text_quote_value(node->key, strlen(node->key), quoted);
        return nb_settings_refuse(merge, node->line, path, "%s (%s)%s%.*s%s", what, quoted,
                                  hint ? "; did you mean " : "", hint_len, hint ? hint : "",
                                  hint ? "?" : "");
}

/* A value that is refused may have been stored in parts. */
__attribute__((noinline)) static int take_whole(const struct nb_settings_walk *walk, size_t i,
                                                const char *path, const struct nb_yaml_node *node) {
        const struct nb_settings before = *walk->merge->settings;
        int r = walk->take(walk->userdata, i, path, node);

        if (r < 0)
                *walk->merge->settings = before;
        return r;
}

static int take_value(const struct nb_settings_walk *walk, size_t i, const char *path,
                      const struct nb_yaml_node *node) {
        return walk->is_tolerant ? take_whole(walk, i, path, node)
                                 : walk->take(walk->userdata, i, path, node);
}

static bool is_kubelet_path(const char *path) {
        static const enum nb_setting paths[] = { NB_SETTING_KUBECONFIG,
                                                 NB_SETTING_CERTIFICATE_DIRECTORY,
                                                 NB_SETTING_CA_FILE };

        for (size_t i = 0; i < N_ELEMENTS(paths); i++) {
                const char *key = nb_setting_rows[paths[i]].key;

                if (strcmp(path, key) == 0 || is_section_of(path, key))
                        return true;
        }
        return strcmp(path, "caCertPath") == 0;
}

static int take_key(const struct nb_settings_walk *walk, const char *parent, const char *path,
                    const struct nb_yaml_node *node) {
        const char *key = path + walk->base_len;
        struct guess guess = { .distance = 3 };
        bool is_section = false;
        const char *name;

        if (strchr(node->key, '.'))
                return refuse_key(walk->merge, node, parent,
                                  "a key must not contain a dot; nest the mappings", NULL, 0);
        if (!walk->known_key)
                return take_value(walk, 0, path, node);
        if (strcmp(path, "apiVersion") == 0 || strcmp(path, "kind") == 0)
                return 0;
        for (size_t i = 0; (name = walk->known_key(i)); i++) {
                if (strcmp(name, key) == 0)
                        return take_value(walk, i, path, node);
                is_section = is_section || is_section_of(key, name);
                add_candidate(&guess, key, name);
        }
        if (!is_section)
                return refuse_key(walk->merge, node, parent, "unknown key", guess.key, guess.len);
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
        int r;

        for (const struct nb_yaml_node *node = mapping->first; node; node = node->next) {
                const struct nb_failure before = *walk->merge->f;

                snprintf(path, sizeof(path), "%.63s%s%.63s", parent, parent[0] ? "." : "",
                         node->key);
                r = take_key(walk, parent, path, node);
                if (r < 0 && !walk->is_tolerant)
                        return r;
                if (r < 0 && (before.code != NB_NONE || !is_kubelet_path(path)))
                        *walk->merge->f = before;
        }
        return 0;
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

void nb_settings_copy_origin(const char *origin, char ret[static NB_SETTINGS_ORIGIN_SIZE]) {
        size_t len = strlen(origin), begin = 0;
        char text[NB_SETTINGS_ORIGIN_SIZE + 3];

        if (len >= NB_SETTINGS_ORIGIN_SIZE) {
                begin = len - (NB_SETTINGS_ORIGIN_SIZE - sizeof("..."));
                while ((origin[begin] & 0xc0) == 0x80)
                        begin++;
        }
        len = (size_t)snprintf(text, sizeof(text), "%s%s", begin > 0 ? "..." : "", origin + begin);
        nb_text_copy_line(text, len, ret, NB_SETTINGS_ORIGIN_SIZE);
}

static void set_origin(const struct nb_settings_merge *merge, enum nb_setting setting) {
        nb_settings_copy_origin(merge->source->origin, merge->settings->origin[setting]);
}

void nb_settings_clear_list(const struct nb_settings_merge *merge, enum nb_setting setting) {
        memset((char *)merge->settings + nb_setting_rows[setting].n_offset, 0, sizeof(unsigned));
        set_origin(merge, setting);
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
        /* A token can have the form of a host name, a label or a file name, and everybody can read
         * the files with the settings. */
        r = nb_text_is_token(text) ? -EINVAL
                                   : nb_setting_parse(merge->settings, setting, text, strlen(text));
        if (r >= 0) {
                set_origin(merge, setting);
                return 0;
        }
        if (r == -EEXIST)
                expected = "each one once";
        else if (r == -E2BIG) {
                snprintf(most, sizeof(most), "at most %u entries", row->max);
                expected = most;
        } else if (row->type->hint)
                hint = row->type->hint(text, buffer);
        if (hint && row->type->is_hint_enough)
                return nb_settings_refuse(merge, line, path, "node-bootstrap sets this option%s",
                                          hint);
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

/* --- Tokens --- */

static int verify_token(const struct nb_settings_merge *merge, bool may_be_k3s,
                        const struct nb_yaml_node *node, const char *path) {
        const char *form = "six characters, a dot and sixteen characters of a-z and 0-9",
                   *text = "";
        size_t len = 0;
        bool is_k3s;
        char flaw[NB_TOKEN_FLAW_SIZE];
        int r;

        if (node->type == NB_YAML_SCALAR) {
                text = node->value;
                len = node->value_len;
        }
        /* Decides which remedy a failure has. */
        if (may_be_k3s && nb_k3s_token_is_meant(text, len))
                nb_log_field(NB_FIELD_CLUSTER, "k3s");
        /* Metadata is always exposed; users who put a token there accept that. */
        if (merge->source->is_exposed && !merge->source->is_metadata)
                return nb_failure_set(merge->f, NB_TOKEN_EXPOSED, EPERM,
                                      "%s:%u: %s: other users can read this file; it must not "
                                      "contain a token",
                                      merge->source->origin, node->line, path);
        is_k3s = may_be_k3s && nb_k3s_token_looks_like(text, len);
        if (is_k3s)
                form = "K10<hash>::<id>.<secret> or K10<hash>::<user>:<password>";
        else
                nb_token_find_flaw(text, len, flaw);
        r = is_k3s ? nb_any_token_verify(text, len, flaw) : nb_token_verify(text, len);
        if (r >= 0)
                return 0;
        if (r == -ENOMEM)
                return nb_failure_set_memory(merge->f);
        if (node->type != NB_YAML_SCALAR)
                snprintf(flaw, sizeof(flaw), "it is %s", nb_yaml_type_name(node));
        return nb_failure_set(
                merge->f, merge->source->is_metadata ? NB_METADATA_MALFORMED : NB_TOKEN_MALFORMED,
                EINVAL, "%s:%u: %s: expected a token (%s): %s%s", merge->source->origin, node->line,
                path, form, flaw, may_be_k3s ? nb_k3s_token_hint(text, len) : "");
}

static int keep_token(const struct nb_settings_merge *merge, const struct nb_yaml_node *node,
                      struct nb_secret *token, char ret_origin[static NB_SETTINGS_ORIGIN_SIZE]) {
        struct nb_secret secret = NB_SECRET_INIT;
        size_t len = node->value_len;
        int r;

        /* Both forms accept a newline at the end. */
        if (len > 0 && node->value[len - 1] == '\n')
                len--;
        r = nb_secret_init(&secret, len);
        if (r >= 0)
                r = nb_secret_append(&secret, node->value, len);
        if (r < 0)
                return nb_failure_set_memory(merge->f);
        nb_secret_done(token);
        *token = secret;
        nb_settings_copy_origin(merge->source->origin, ret_origin);
        return 0;
}

int nb_settings_store_token(const struct nb_settings_merge *merge, enum nb_settings_token kind,
                            const struct nb_yaml_node *node, const char *path) {
        struct nb_settings *settings = merge->settings;
        struct nb_settings_tokens *tokens = settings->tokens;
        bool is_tls = kind == NB_SETTINGS_TOKEN_TLS_BOOTSTRAP;
        int r;

        r = verify_token(merge, kind == NB_SETTINGS_TOKEN_ANY, node, path);
        if (r >= 0 && tokens)
                r = keep_token(merge, node, is_tls ? &tokens->tls_bootstrap : &tokens->discovery,
                               is_tls ? tokens->tls_bootstrap_origin : tokens->discovery_origin);
        if (r < 0)
                return r;
        if (!is_tls) {
                settings->has_discovery_token = true;
                set_origin(merge, NB_SETTING_BOOTSTRAP_TOKEN);
        }
        return 0;
}

/* --- A setting --- */

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
        return 0;
}

void nb_settings_tokens_done(struct nb_settings_tokens *tokens) {
        nb_secret_done(&tokens->discovery);
        nb_secret_done(&tokens->tls_bootstrap);
}

void nb_settings_forget_tokens(struct nb_settings *settings) {
        if (settings->tokens)
                nb_settings_tokens_done(settings->tokens);
        settings->tokens = NULL;
        settings->has_discovery_token = false;
        NB_TEXT_COPY(settings->origin[NB_SETTING_BOOTSTRAP_TOKEN], NB_SETTINGS_DEFAULT_ORIGIN);
}
