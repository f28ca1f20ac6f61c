/* SPDX-License-Identifier: Apache-2.0 */
#include "metadata/metadata_document.h"
#include "base/macro.h"
#include "codec/yaml.h"

int nb_metadata_seed_name(const char *yaml, size_t len, const char *what, struct nb_secret *ret,
                          struct nb_failure *f) {
        static const char *const keys[] = { "local-hostname", "hostname" };
        _cleanup_(nb_yaml_freep) struct nb_yaml_node *root = NULL;
        int r;

        r = nb_yaml_parse(what, yaml, len, NB_METADATA_MALFORMED, 1, &root, f);
        if (r < 0)
                return r;
        if (root && root->type != NB_YAML_MAPPING)
                return nb_failure_set(f, NB_METADATA_MALFORMED, 0,
                                      "%s: expected a mapping, found %s", what,
                                      nb_yaml_type_name(root));
        for (size_t i = 0; i < N_ELEMENTS(keys); i++) {
                const struct nb_yaml_node *node = nb_yaml_get(root, keys[i]);

                if (nb_yaml_is_null(node))
                        continue;
                if (node->type != NB_YAML_SCALAR)
                        return nb_failure_set(f, NB_METADATA_MALFORMED, 0,
                                              "%s:%u: %s: expected a name, found %s", what,
                                              node->line, keys[i], nb_yaml_type_name(node));
                return nb_secret_copy(ret, node->value, node->value_len) < 0
                               ? nb_failure_set_memory(f)
                               : 1;
        }
        return 0;
}
