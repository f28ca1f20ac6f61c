/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "format/settings_merge.h"

#define WHERE_TO "belongs into config.yaml on the machine"

/*
 * What user data may say. It is no more trusted than the cloud is, and what the installer gets of it has passed through
 * the side that talks to the network: so nothing that decides which files root writes or reads, or what of kubelet could
 * make somebody else root.
 */
static const bool is_for_metadata[_NB_SETTING_N] = {
        [NB_SETTING_ENDPOINTS] = true,
        [NB_SETTING_CA_CERT_HASHES] = true,
        [NB_SETTING_UNSAFE_SKIP_CA_VERIFICATION] = true,
        [NB_SETTING_TRUST_WHOLE_BUNDLE] = true,
        [NB_SETTING_DISCOVERY_FILE] = true,
        [NB_SETTING_BOOTSTRAP_TOKEN] = true,
        [NB_SETTING_CLUSTER_TYPE] = true,
        [NB_SETTING_NODE_NAME] = true,
        [NB_SETTING_ALLOW_EXISTING] = true,
        [NB_SETTING_TAINTS] = true,
        [NB_SETTING_EXTRA_ARGS] = true,
        [NB_SETTING_PROVIDER_ID] = true,
        [NB_SETTING_EXPIRATION_SECONDS] = true,
        [NB_SETTING_METADATA_NODE_NAME] = true,
        [NB_SETTING_METADATA_PROVIDER_ID] = true,
        [NB_SETTING_TOKEN_DISCARD] = true,
        [NB_SETTING_TIMEOUT] = true,
};

bool nb_setting_is_for_metadata(enum nb_setting setting) {
        return is_for_metadata[setting];
}

int nb_settings_check_metadata_key(const struct nb_settings_merge *merge, enum nb_setting setting, unsigned line, const char *path) {
        if (!merge->is_metadata || is_for_metadata[setting])
                return 0;
        return nb_failure_set(merge->f, NB_SETTINGS_INVALID, 0,
                              "%s:%u: %s: expected a key that metadata may set, found one that " WHERE_TO "; it came from the cloud's metadata, which sets "
                              "those keys only that node-bootstrap.yaml(5) lists under METADATA",
                              merge->origin, line, path);
}

static bool is_option_for_metadata(const char *argument) {
        static const char *const options[] = { "cloud-provider", "max-pods", "node-ip", "node-labels" };
        size_t len = strcspn(argument, "=");

        for (size_t i = 0; i < N_ELEMENTS(options); i++)
                if (strlen(options[i]) == len && memcmp(options[i], argument, len) == 0)
                        return true;
        return false;
}

int nb_settings_check_metadata_value(const struct nb_settings_merge *merge, enum nb_setting setting, unsigned line, const char *path,
                                     const char *value) {
        char name[NB_SETTING_KEY_MAX];

        if (!merge->is_metadata)
                return 0;
        nb_text_copy_line(value, strcspn(value, "="), name, sizeof(name));
        if (setting == NB_SETTING_EXTRA_ARGS && !is_option_for_metadata(value))
                return nb_settings_refuse_text(merge, line, path, "one of the options that metadata may set: cloud-provider, max-pods, node-ip, node-labels",
                                               name, "; any other " WHERE_TO);
        if (setting == NB_SETTING_DISCOVERY_FILE && value[0] == '/')
                return nb_settings_refuse_text(merge, line, path, "an https URL, since it comes from metadata", value, "; a path " WHERE_TO);
        return 0;
}
