/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/sources.h"
#include "bootstrap/documents.h"
#include "format/kubeconfig.h"
#include "format/settings_text.h"

static int merge(void *userdata, const struct nb_config_document *document, struct nb_failure *f) {
        const struct nb_settings_source source = { .origin = document->origin, .is_exposed = document->is_exposed };

        return nb_settings_merge(userdata, &source, document->data, document->len, f);
}

bool nb_setting_is_from(const struct nb_settings *settings, enum nb_setting setting, const char *origin) {
        char text[sizeof(settings->origin[0])];

        (void)snprintf(text, sizeof(text), "%s", origin);
        return !strcmp(settings->origin[setting], text);
}

static void take_back(struct nb_settings *settings, enum nb_setting setting, const char *origin, bool *value) {
        if (!nb_setting_is_from(settings, setting, origin))
                return;
        *value = false;
        (void)snprintf(settings->origin[setting], sizeof(settings->origin[0]), NB_SETTINGS_DEFAULT_ORIGIN);
}

static bool is_own(const struct nb_settings *settings, enum nb_setting setting, const char *origin) {
        return nb_setting_is_set(settings, setting) && !nb_setting_is_from(settings, setting, origin);
}

/* A document is as good as pins: its own CAs are what counts. */
static bool has_own_document(const struct nb_settings *settings, const char *origin) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        struct nb_failure ignored = { 0 };

        if (settings->discovery_file[0] && is_own(settings, NB_SETTING_DISCOVERY_FILE, origin))
                return true;
        return nb_sources_credential(NB_CREDENTIAL_CLUSTER_INFO, NB_KUBECONFIG_MAX, &text, &ignored) >= 0;
}

/* Whoever hands out metadata would otherwise decide what it is worth that root has said which cluster is meant. */
static void keep_trust(struct nb_settings *settings, const char *origin) {
        bool has_pins = settings->n_pins > 0 && is_own(settings, NB_SETTING_CA_CERT_HASHES, origin);

        if (!has_pins && !has_own_document(settings, origin))
                return;
        take_back(settings, NB_SETTING_UNSAFE_SKIP_CA_VERIFICATION, origin, &settings->unsafe_skip_ca_verification);
        take_back(settings, NB_SETTING_TRUST_WHOLE_BUNDLE, origin, &settings->trust_whole_bundle);
}

int nb_documents_merge(const char *config_directory, const struct nb_metadata_document *metadata, struct nb_settings_tokens *tokens,
                       struct nb_settings *ret_settings, struct nb_failure *f) {
        int r = 0;

        nb_settings_init(ret_settings);
        if (metadata) {
                const struct nb_settings_source source = { .origin = metadata->origin, .is_metadata = true };

                r = nb_settings_merge(ret_settings, &source, metadata->data, metadata->len, f);
        }
        ret_settings->tokens = tokens;
        if (r >= 0)
                r = nb_sources_config(config_directory, merge, ret_settings, f);
        if (r >= 0 && metadata)
                keep_trust(ret_settings, metadata->origin);
        return r;
}
