/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "kube/kubeconfig.h"
#include "method/settings_documents.h"
#include "system/sources.h"

struct merge {
        struct nb_settings *settings;
        bool is_salvage;
};

static int merge_document(void *userdata, const struct nb_config_document *document,
                          struct nb_failure *f) {
        const struct merge *merge = userdata;
        const struct nb_settings_source source = { .origin = document->origin,
                                                   .is_exposed = document->is_exposed,
                                                   .is_salvage = merge->is_salvage };
        struct nb_failure ignored = { 0 };
        int r;

        r = nb_settings_merge(merge->settings, &source, document->data, document->len,
                              merge->is_salvage ? &ignored : f);
        return merge->is_salvage ? 0 : r;
}

void nb_documents_salvage(struct nb_sources *sources, struct nb_settings *ret_settings) {
        struct merge merge = { ret_settings, true };
        struct nb_failure ignored = { 0 };

        nb_settings_init(ret_settings);
        (void)nb_sources_config(sources, merge_document, &merge, &ignored);
}

bool nb_setting_is_from(const struct nb_settings *settings, enum nb_setting setting,
                        const char *origin) {
        char text[sizeof(settings->origin[0])];

        NB_TEXT_COPY_LINE(text, origin);
        return !strcmp(settings->origin[setting], text);
}

static void reset_if_from(struct nb_settings *settings, enum nb_setting setting, const char *origin,
                          bool *value) {
        if (!nb_setting_is_from(settings, setting, origin))
                return;
        *value = false;
        snprintf(settings->origin[setting], sizeof(settings->origin[0]),
                 NB_SETTINGS_DEFAULT_ORIGIN);
}

static bool is_set_here(const struct nb_settings *settings, enum nb_setting setting,
                        const char *origin) {
        return nb_setting_is_set(settings, setting) &&
               !nb_setting_is_from(settings, setting, origin);
}

static bool has_own_document(struct nb_sources *sources, const struct nb_settings *settings,
                             const char *origin) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        struct nb_failure ignored = { 0 };

        if (settings->discovery_file[0] && is_set_here(settings, NB_SETTING_DISCOVERY_FILE, origin))
                return true;
        return nb_sources_credential(sources, NB_CREDENTIAL_CLUSTER_INFO_NAME, NB_KUBECONFIG_MAX,
                                     &text, &ignored) >= 0;
}

/* Metadata must not weaken the pins or the document by which root has chosen the cluster. */
static void keep_trust(struct nb_sources *sources, struct nb_settings *settings,
                       const char *origin) {
        bool has_pins = settings->n_pins > 0 &&
                        is_set_here(settings, NB_SETTING_CA_CERT_HASHES, origin);

        if (!has_pins && !has_own_document(sources, settings, origin))
                return;
        reset_if_from(settings, NB_SETTING_UNSAFE_SKIP_CA_VERIFICATION, origin,
                      &settings->unsafe_skip_ca_verification);
        reset_if_from(settings, NB_SETTING_TRUST_WHOLE_BUNDLE, origin,
                      &settings->trust_whole_bundle);
}

int nb_documents_merge(struct nb_sources *sources, const struct nb_metadata_document *metadata,
                       struct nb_settings_tokens *tokens, struct nb_settings *ret_settings,
                       struct nb_failure *f) {
        struct merge merge = { ret_settings, false };
        int r;

        nb_settings_init(ret_settings);
        if (metadata) {
                const struct nb_settings_source source = { .origin = metadata->origin,
                                                           .is_metadata = true };

                r = nb_settings_merge(ret_settings, &source, metadata->data, metadata->len, f);
                if (r < 0) {
                        ret_settings->tokens = tokens;
                        return r;
                }
        }
        ret_settings->tokens = tokens;
        r = nb_sources_config(sources, merge_document, &merge, f);
        if (r >= 0 && metadata)
                keep_trust(sources, ret_settings, metadata->origin);
        return r;
}
