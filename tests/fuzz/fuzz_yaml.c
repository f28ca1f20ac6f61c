/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/yaml.h"
#include "fuzz.h"

static unsigned check_tree(const struct nb_yaml_node *node, bool is_in_mapping, unsigned depth) {
        unsigned n = 1;

        FUZZ_CHECK(depth <= NB_YAML_DEPTH_MAX);
        FUZZ_CHECK(node->line > 0);
        FUZZ_CHECK((node->key != NULL) == is_in_mapping);
        FUZZ_CHECK((node->value != NULL) == (node->type == NB_YAML_SCALAR));
        FUZZ_CHECK(!node->value || strlen(node->value) == node->value_len);
        FUZZ_CHECK(nb_yaml_type_name(node));
        for (const struct nb_yaml_node *child = node->first; child; child = child->next) {
                if (node->type == NB_YAML_MAPPING)
                        FUZZ_CHECK(nb_yaml_get(node, child->key) == child);
                n += check_tree(child, node->type == NB_YAML_MAPPING, depth + 1);
        }
        return n;
}

void fuzz_one(const char *data, size_t len) {
        _cleanup_(nb_yaml_freep) struct nb_yaml_node *root = NULL;
        _cleanup_(nb_yaml_freep) struct nb_yaml_node *documents = NULL, *value = NULL;
        struct nb_failure f = {}, g = {}, h = {};
        unsigned n = 0, n_nodes = 0;
        int r;

        r = nb_yaml_parse("fuzzed", data, len, NB_SETTINGS_MALFORMED, 1, &root, &f);
        FUZZ_CHECK_FAILURE(f, r);
        FUZZ_CHECK(r >= 0 || !root);
        if (root)
                FUZZ_CHECK(check_tree(root, false, 0) <= NB_YAML_NODES_MAX);
        /* One document is a stream of one. */
        r = nb_yaml_parse("fuzzed", data, len, NB_SETTINGS_MALFORMED, NB_YAML_DOCUMENTS_MAX,
                          &documents, &g);
        FUZZ_CHECK_FAILURE(g, r);
        FUZZ_CHECK(f.code != NB_NONE || r >= 0);
        FUZZ_CHECK(f.code != NB_NONE || (root != NULL) == (documents != NULL));
        for (struct nb_yaml_node *document = documents, *next; document; document = next, n++) {
                next = document->next;
                document->next = NULL;
                n_nodes += check_tree(document, false, 0);
                document->next = next;
        }
        FUZZ_CHECK(n <= NB_YAML_DOCUMENTS_MAX && n_nodes <= NB_YAML_NODES_MAX);
        FUZZ_CHECK(f.code != NB_NONE || n <= 1);
        /* A key of a document that is read as a whole is the same when it is read alone. */
        r = nb_yaml_parse_key("fuzzed", data, len, NB_SETTINGS_MALFORMED, "a", &value, &h);
        FUZZ_CHECK_FAILURE(h, r);
        FUZZ_CHECK(r >= 0 || !value);
        if (value)
                FUZZ_CHECK(check_tree(value, false, 0) <= NB_YAML_NODES_MAX);
        if (f.code == NB_NONE && n == 1 && nb_yaml_get(root, "a")) {
                FUZZ_CHECK(value && value->type == nb_yaml_get(root, "a")->type);
                FUZZ_CHECK(!value->value ||
                           strcmp(value->value, nb_yaml_get(root, "a")->value) == 0);
        }
}
