/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>

#include "base/sources.h"
#include "bootstrap/documents.h"
#include "verb/load.h"

int nb_load_settings(const char *config_directory, struct nb_settings_tokens *tokens, struct nb_settings *ret_settings, struct nb_failure *f) {
        return nb_documents_merge(config_directory, NULL, tokens, ret_settings, f);
}

int nb_load_node_name(const struct nb_settings *settings, char ret_name[static NB_NODE_NAME_MAX + 1], struct nb_failure *f) {
        char host[HOST_NAME_MAX + 1];
        bool is_override_needed;
        int r;

        r = nb_sources_host_name(host, f);
        return r < 0 ? r : nb_node_name_choose(settings->node_name, host, ret_name, &is_override_needed, f);
}
