/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/macro.h"
#include "settings/join_configuration.h"
#include "settings/store.h"

#define API_VERSION "node-bootstrap/v1"
#define KIND "NodeBootstrap"

static const char *setting_key(size_t i) {
        return i < _NB_SETTING_N ? nb_setting_rows[i].key : NULL;
}

static int take_setting(void *userdata, size_t i, const char *path,
                        const struct nb_yaml_node *node) {
        return nb_settings_store(userdata, (enum nb_setting)i, node, path);
}

static int check_header(const struct nb_settings_merge *merge, const struct nb_yaml_node *root,
                        const char *key, const char *expected) {
        const struct nb_yaml_node *node = nb_yaml_get(root, key);

        if (!node && merge->source->key)
                return 0;
        if (!node)
                return nb_failure_set(merge->f, NB_SETTINGS_INVALID, 0,
                                      "%s: %s: expected %s, found nothing", merge->source->origin,
                                      key, expected);
        if (node->type != NB_YAML_SCALAR || strcmp(node->value, expected) != 0)
                return nb_settings_refuse_node(merge, node, key, expected, NULL);
        return 0;
}

static int merge_document(struct nb_settings_merge *merge, const struct nb_yaml_node *root) {
        const struct nb_settings_walk walk = { merge, setting_key, take_setting,
                                               merge, 0,           merge->source->is_tolerant };
        int r;

        if (root->type != NB_YAML_MAPPING)
                return nb_failure_set(merge->f, NB_SETTINGS_MALFORMED, 0,
                                      "%s:%u: expected a mapping, found %s", merge->source->origin,
                                      root->line, nb_yaml_type_name(root));
        r = check_header(merge, root, "apiVersion", API_VERSION);
        if (r < 0)
                return r;
        r = check_header(merge, root, "kind", KIND);
        if (r < 0)
                return r;
        return nb_settings_walk(&walk, root, "");
}

static int merge_file(struct nb_settings_merge *merge, const char *yaml, size_t len) {
        _cleanup_(nb_yaml_freep) struct nb_yaml_node *documents = NULL;
        const struct nb_settings_source *source = merge->source;
        int r;

        r = source->key ? nb_yaml_parse_key(source->origin, yaml, len, NB_SETTINGS_MALFORMED,
                                            source->key, &documents, merge->f)
                        : nb_yaml_parse(source->origin, yaml, len, NB_SETTINGS_MALFORMED,
                                        NB_YAML_DOCUMENTS_MAX, &documents, merge->f);
        if (r < 0 || !documents)
                return r;
        r = nb_join_configuration_merge(merge, documents);
        if (r != 0)
                return r;
        /* A NodeBootstrap document must be the only one in its file. */
        if (documents->next)
                return nb_failure_set(merge->f, NB_SETTINGS_MALFORMED, 0,
                                      "%s:%u: expected one document, found a second one",
                                      source->origin, documents->next->line);
        return merge_document(merge, documents);
}

int nb_settings_merge(struct nb_settings *settings, const struct nb_settings_source *source,
                      const char *yaml, size_t len, struct nb_failure *f) {
        struct nb_settings next = *settings;
        struct nb_settings_merge merge = { &next, source, f };
        int r;

        r = merge_file(&merge, yaml, len);
        if (r >= 0)
                *settings = next;
        return r < 0 ? r : 0;
}
