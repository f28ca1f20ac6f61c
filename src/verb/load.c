/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>

#include "base/macro.h"
#include "base/sources.h"
#include "verb/load.h"

static int merge(void *userdata, const struct nb_config_document *document, struct nb_failure *f) {
        return nb_settings_merge(userdata, document->origin, document->data, document->len, document->is_exposed, f);
}

int nb_load_settings(const char *config_directory, struct nb_settings_tokens *tokens, struct nb_settings *ret_settings, struct nb_failure *f) {
        nb_settings_init(ret_settings);
        ret_settings->tokens = tokens;
        return nb_sources_config(config_directory, merge, ret_settings, f);
}

int nb_load_node_name(const struct nb_settings *settings, char ret_name[static NB_NODE_NAME_MAX + 1], struct nb_failure *f) {
        char host[HOST_NAME_MAX + 1];
        bool is_override_needed;
        int r;

        r = nb_sources_host_name(host, f);
        return r < 0 ? r : nb_node_name_choose(settings->node_name, host, ret_name, &is_override_needed, f);
}
