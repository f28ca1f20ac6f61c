/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "format/join_configuration.h"
#include "format/settings_merge.h"

#define API_VERSION "node-bootstrap/v1"
#define KIND "NodeBootstrap"

static const char *const type_names[] = {
        [NB_SETTING_TYPE_LIST] = "a list",
        [NB_SETTING_TYPE_STRING] = "a string",
        [NB_SETTING_TYPE_BOOLEAN] = "a boolean",
        [NB_SETTING_TYPE_NUMBER] = "a number",
};

/* --- Storing --- */

static bool is_type(const struct nb_yaml_node *node, enum nb_setting_type type) {
        return strcmp(nb_yaml_type_name(node), type_names[type]) == 0;
}

static const char *hint_for(const struct nb_setting_row *row, const char *value, char buffer[static NB_SETTING_HINT_SIZE]) {
        return row->hint ? row->hint(value, buffer) : NULL;
}

/* What the row expects, for the reason that its `store` gave. */
static const char *expected_by(const struct nb_setting_row *row, int reason, char *buffer, size_t size) {
        if (reason == -EEXIST)
                return "each one once";
        if (reason != -E2BIG)
                return row->expected;
        (void)snprintf(buffer, size, "at most %u entries", row->max);
        return buffer;
}

static int store(const struct nb_settings_merge *merge, enum nb_setting setting, enum nb_setting_type type,
                 const struct nb_yaml_node *node, const char *path) {
        const struct nb_setting_row *row = &nb_setting_rows[setting];
        char buffer[32], hint[NB_SETTING_HINT_SIZE];
        int r;

        if (!is_type(node, type))
                return nb_settings_refuse(merge, node, path, row->expected, type_names[type], NULL);
        r = nb_settings_check_metadata_value(merge, setting, node->line, path, node->value);
        if (r < 0)
                return r;
        r = row->store(merge->settings, row->offset, node->value, node->value_len);
        return r < 0 ? nb_settings_refuse(merge, node, path, expected_by(row, r, buffer, sizeof(buffer)), NULL,
                                          hint_for(row, node->value, hint))
                     : 0;
}

void nb_settings_set_origin(const struct nb_settings_merge *merge, enum nb_setting setting) {
        (void)snprintf(merge->settings->origin[setting], sizeof(merge->settings->origin[0]), "%s", merge->origin);
}

void nb_settings_clear_list(const struct nb_settings_merge *merge, enum nb_setting setting) {
        memset((char *)merge->settings + nb_setting_rows[setting].n_offset, 0, sizeof(unsigned));
        nb_settings_set_origin(merge, setting);
}

int nb_settings_store_entry(const struct nb_settings_merge *merge, enum nb_setting setting, unsigned line,
                            const char *text, const char *path) {
        const struct nb_setting_row *row = &nb_setting_rows[setting];
        char buffer[32], hint[NB_SETTING_HINT_SIZE];
        int r;

        r = nb_settings_check_metadata_value(merge, setting, line, path, text);
        if (r < 0)
                return r;
        r = row->store(merge->settings, row->offset, text, strlen(text));
        return r < 0 ? nb_settings_refuse_text(merge, line, path, expected_by(row, r, buffer, sizeof(buffer)), text,
                                               hint_for(row, text, hint))
                     : 0;
}

/* A list takes the place of the one in a weaker document. */
static int store_list(const struct nb_settings_merge *merge, enum nb_setting setting, const struct nb_yaml_node *node,
                      const char *key) {
        char path[NB_SETTING_KEY_MAX];
        unsigned i = 0;
        int r;

        if (!is_type(node, NB_SETTING_TYPE_LIST))
                return nb_settings_refuse(merge, node, key, "a list of strings", type_names[NB_SETTING_TYPE_LIST], NULL);
        nb_settings_clear_list(merge, setting);
        for (const struct nb_yaml_node *entry = node->first; entry; entry = entry->next) {
                (void)snprintf(path, sizeof(path), "%s[%u]", key, i++);
                r = store(merge, setting, NB_SETTING_TYPE_STRING, entry, path);
                if (r < 0)
                        return r;
        }
        return 0;
}

static bool is_empty(const struct nb_yaml_node *node) {
        return node->type == NB_YAML_SCALAR && node->value_len == 0;
}

int nb_settings_store(const struct nb_settings_merge *merge, enum nb_setting setting, const struct nb_yaml_node *node,
                      const char *path) {
        enum nb_setting_type type = nb_setting_rows[setting].type;
        int r;

        r = nb_settings_check_metadata_key(merge, setting, node->line, path);
        if (r < 0)
                return r;
        if (setting == NB_SETTING_BOOTSTRAP_TOKEN && !is_empty(node))
                return nb_settings_store_discovery_token(merge, node, path, true);
        if (type == NB_SETTING_TYPE_LIST)
                return store_list(merge, setting, node, path);
        r = store(merge, setting, type, node, path);
        if (r < 0)
                return r;
        nb_settings_set_origin(merge, setting);
        return 0;
}

/* --- Our own document --- */

static int merge_key(const struct nb_settings_merge *merge, const struct nb_yaml_node *node, const char *path) {
        const char *meant = NULL;
        unsigned least = NB_SETTINGS_FAR;

        for (size_t i = 0; i < _NB_SETTING_N; i++)
                if (strcmp(nb_setting_rows[i].key, path) == 0)
                        return nb_settings_store(merge, (enum nb_setting)i, node, path);
        for (size_t i = 0; i < _NB_SETTING_N; i++)
                nb_settings_nearer(path, nb_setting_rows[i].key, &meant, &least);
        return nb_settings_refuse_unknown(merge, node, path, meant);
}

static bool is_section(const char *path) {
        size_t len = strlen(path);

        for (size_t i = 0; i < _NB_SETTING_N; i++)
                if (strncmp(nb_setting_rows[i].key, path, len) == 0 && nb_setting_rows[i].key[len] == '.')
                        return true;
        return false;
}

/* A section whose keys are all commented out is null. */
static int merge_section(const struct nb_settings_merge *merge, const struct nb_yaml_node *section) {
        char path[NB_SETTING_KEY_MAX];
        int r;

        if (nb_yaml_is_null(section))
                return 0;
        if (section->type != NB_YAML_MAPPING)
                return nb_settings_refuse(merge, section, section->key, "a mapping", "a mapping", NULL);
        for (const struct nb_yaml_node *node = section->first; node; node = node->next) {
                r = nb_settings_check_key(merge, node);
                if (r < 0)
                        return r;
                (void)snprintf(path, sizeof(path), "%.63s.%.63s", section->key, node->key);
                r = merge_key(merge, node, path);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int check_header(const struct nb_settings_merge *merge, const struct nb_yaml_node *root, const char *key,
                        const char *expected) {
        const struct nb_yaml_node *node = nb_yaml_get(root, key);

        if (!node)
                return nb_failure_set(merge->f, NB_SETTINGS_INVALID, 0, "%s: %s: expected %s, found nothing",
                                      merge->origin, key, expected);
        if (node->type != NB_YAML_SCALAR || strcmp(node->value, expected) != 0)
                return nb_settings_refuse(merge, node, key, expected, NULL, NULL);
        return 0;
}

static int merge_document(const struct nb_settings_merge *merge, const struct nb_yaml_node *root) {
        int r;

        if (root->type != NB_YAML_MAPPING)
                return nb_failure_set(merge->f, NB_SETTINGS_MALFORMED, 0, "%s:%u: expected a mapping, found %s",
                                      merge->origin, root->line, nb_yaml_type_name(root));
        r = check_header(merge, root, "apiVersion", API_VERSION);
        if (r >= 0)
                r = check_header(merge, root, "kind", KIND);
        for (const struct nb_yaml_node *node = root->first; node && r >= 0; node = node->next) {
                char path[NB_SETTING_KEY_MAX];

                if (strcmp(node->key, "apiVersion") == 0 || strcmp(node->key, "kind") == 0)
                        continue;
                r = nb_settings_check_key(merge, node);
                if (r < 0)
                        return r;
                (void)snprintf(path, sizeof(path), "%s", node->key);
                if (strchr(node->key, '.'))
                        r = nb_failure_set(merge->f, NB_SETTINGS_INVALID, 0,
                                           "%s:%u: %s: expected one mapping in another, found a key with a dot",
                                           merge->origin, node->line, path);
                else
                        r = is_section(path) ? merge_section(merge, node) : merge_key(merge, node, path);
        }
        return r;
}

static int merge_file(const struct nb_settings_merge *merge, const char *yaml, size_t len) {
        _cleanup_(nb_yaml_freep) struct nb_yaml_node *documents = NULL, *root = NULL;
        int r;

        r = nb_yaml_parse_stream(merge->origin, yaml, len, NB_SETTINGS_MALFORMED, &documents, merge->f);
        if (r < 0)
                return r;
        if (nb_join_configuration_is_meant(documents))
                return nb_join_configuration_merge(merge, documents);
        /* Our own document stands alone. */
        r = nb_yaml_parse(merge->origin, yaml, len, NB_SETTINGS_MALFORMED, &root, merge->f);
        return r < 0 || !root ? r : merge_document(merge, root);
}

int nb_settings_merge(struct nb_settings *settings, const struct nb_settings_source *source, const char *yaml, size_t len,
                      struct nb_failure *f) {
        struct nb_settings next = *settings;
        const struct nb_settings_merge merge = { &next, source->origin, source->is_exposed, source->is_metadata, f };
        int r;

        r = merge_file(&merge, yaml, len);
        if (r < 0)
                return r;
        *settings = next;
        return 0;
}

/* --- The whole --- */

void nb_settings_init(struct nb_settings *ret_settings) {
        *ret_settings = (struct nb_settings){
                .kubeconfig = "/etc/kubernetes/kubelet.conf",
                .certificate_directory = "/var/lib/kubelet/pki",
                .ca_file = "/etc/kubernetes/pki/ca.crt",
                .metadata_provider = NB_PROVIDER_AUTO,
                .timeout_ms = UINT64_MAX,
        };
        for (size_t i = 0; i < _NB_SETTING_N; i++)
                memcpy(ret_settings->origin[i], NB_SETTINGS_DEFAULT_ORIGIN, sizeof(NB_SETTINGS_DEFAULT_ORIGIN));
}

static const char *path_of(const struct nb_settings *settings, enum nb_setting setting) {
        return (const char *)settings + nb_setting_rows[setting].offset;
}

/* What is read, then what is written: a target that is one of the others would take its place. */
static int verify_paths(const struct nb_settings *settings, struct nb_failure *f) {
        static const enum nb_setting paths[] = { NB_SETTING_DISCOVERY_FILE, NB_SETTING_URL_CA_FILE,
                                                 NB_SETTING_BOOTSTRAP_KUBECONFIG, NB_SETTING_KUBECONFIG,
                                                 NB_SETTING_CERTIFICATE_DIRECTORY, NB_SETTING_CA_FILE };
        const size_t first_target = 3;

        for (size_t i = first_target; i < N_ELEMENTS(paths); i++)
                for (size_t j = 0; j < i; j++)
                        if (strcmp(path_of(settings, paths[i]), path_of(settings, paths[j])) == 0)
                                return nb_failure_set(f, NB_SETTINGS_INVALID, 0,
                                                      "%s: expected another path than that of %s, found '%s'",
                                                      nb_setting_key(paths[i]), nb_setting_key(paths[j]),
                                                      path_of(settings, paths[i]));
        return 0;
}

static int verify_arguments(const struct nb_settings *settings, struct nb_failure *f) {
        static const char option[] = "provider-id=";

        for (unsigned i = 0; i < settings->n_extra_args; i++)
                if (settings->provider_id[0] && strncmp(settings->extra_args[i], option, strlen(option)) == 0)
                        return nb_failure_set(f, NB_SETTINGS_INVALID, 0,
                                              "expected kubelet.providerID or 'provider-id' in kubelet.extraArgs, found both: the first in %s, the other in %s",
                                              settings->origin[NB_SETTING_PROVIDER_ID], settings->origin[NB_SETTING_EXTRA_ARGS]);
        return 0;
}

int nb_settings_verify(const struct nb_settings *settings, struct nb_failure *f) {
        int r = verify_paths(settings, f);

        return r < 0 ? r : verify_arguments(settings, f);
}
