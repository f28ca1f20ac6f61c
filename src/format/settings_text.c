/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "format/json.h"
#include "format/settings_text.h"

bool nb_setting_is_set(const struct nb_settings *settings, enum nb_setting setting) {
        return strcmp(settings->origin[setting], NB_SETTINGS_DEFAULT_ORIGIN) != 0;
}

static int add_quoted(const char *text, struct nb_buffer *ret) {
        int r = nb_json_quote(text, strlen(text), ret);

        return r == -EINVAL ? -E2BIG : r;
}

static int add_boolean(bool value, struct nb_buffer *ret) {
        return nb_buffer_append_string(ret, value ? "true" : "false");
}

/* Entry `i` of a list as text, which stays until the next call; NULL after the last one. */
typedef const char *(*entry_text)(const struct nb_settings *settings, unsigned i, char *scratch);

static const char *endpoint_text(const struct nb_settings *settings, unsigned i, char *scratch) {
        if (i >= settings->n_endpoints)
                return NULL;
        nb_endpoint_format(&settings->endpoints[i], scratch);
        return scratch;
}

static const char *pin_text(const struct nb_settings *settings, unsigned i, char *scratch) {
        if (i >= settings->n_pins)
                return NULL;
        nb_pin_format(settings->pins[i], scratch);
        return scratch;
}

static const char *taint_text(const struct nb_settings *settings, unsigned i, _unused_ char *scratch) {
        return i < settings->n_taints ? settings->taints[i] : NULL;
}

static const char *extra_arg_text(const struct nb_settings *settings, unsigned i, _unused_ char *scratch) {
        return i < settings->n_extra_args ? settings->extra_args[i] : NULL;
}

static int add_list(const struct nb_settings *settings, entry_text text, struct nb_buffer *ret) {
        char scratch[NB_URL_MAX];
        const char *entry;
        int r = nb_buffer_append_string(ret, "[");

        for (unsigned i = 0; r >= 0 && (entry = text(settings, i, scratch)); i++) {
                if (i > 0)
                        r = nb_buffer_append_string(ret, ", ");
                if (r >= 0)
                        r = add_quoted(entry, ret);
        }
        return r < 0 ? r : nb_buffer_append_string(ret, "]");
}

static int add_timeout(uint64_t timeout_ms, struct nb_buffer *ret) {
        if (timeout_ms == UINT64_MAX)
                return nb_buffer_append_string(ret, "infinity");
        return nb_buffer_printf(ret, "%" PRIu64 "s", timeout_ms / 1000);
}

static const char *const cluster_types[] = {
        [NB_CLUSTER_TYPE_AUTO] = "auto",
        [NB_CLUSTER_TYPE_KUBERNETES] = "kubernetes",
        [NB_CLUSTER_TYPE_K3S] = "k3s",
};

int nb_setting_format(const struct nb_settings *settings, enum nb_setting setting, struct nb_buffer *ret) {
        switch (setting) {
        case NB_SETTING_ENDPOINTS:
                return add_list(settings, endpoint_text, ret);
        case NB_SETTING_CA_CERT_HASHES:
                return add_list(settings, pin_text, ret);
        case NB_SETTING_UNSAFE_SKIP_CA_VERIFICATION:
                return add_boolean(settings->unsafe_skip_ca_verification, ret);
        case NB_SETTING_TRUST_WHOLE_BUNDLE:
                return add_boolean(settings->trust_whole_bundle, ret);
        case NB_SETTING_DISCOVERY_FILE:
                return add_quoted(settings->discovery_file, ret);
        case NB_SETTING_URL_CA_FILE:
                return add_quoted(settings->url_ca_file, ret);
        case NB_SETTING_BOOTSTRAP_KUBECONFIG:
                return add_quoted(settings->bootstrap_kubeconfig, ret);
        case NB_SETTING_BOOTSTRAP_TOKEN:
                return add_quoted(settings->has_discovery_token ? "(not shown)" : "", ret);
        case NB_SETTING_CLUSTER_TYPE:
                return nb_buffer_append_string(ret, cluster_types[settings->cluster_type]);
        case NB_SETTING_ALLOW_EXISTING:
                return add_boolean(settings->allow_existing, ret);
        case NB_SETTING_VERIFY_ACCESS:
                return add_boolean(settings->verify_access, ret);
        case NB_SETTING_TAINTS:
                return add_list(settings, taint_text, ret);
        case NB_SETTING_CRI_SOCKET:
                return add_quoted(settings->cri_socket, ret);
        case NB_SETTING_EXTRA_ARGS:
                return add_list(settings, extra_arg_text, ret);
        case NB_SETTING_CONFIG_FROM:
                return nb_buffer_append_string(ret, settings->is_config_from_cluster ? "cluster" : "none");
        case NB_SETTING_PROVIDER_ID:
                return add_quoted(settings->provider_id, ret);
        case NB_SETTING_RESTART_KUBELET:
                return add_boolean(settings->restart_kubelet, ret);
        case NB_SETTING_NODE_NAME:
                return add_quoted(settings->node_name, ret);
        case NB_SETTING_KUBECONFIG:
                return add_quoted(settings->kubeconfig, ret);
        case NB_SETTING_CERTIFICATE_DIRECTORY:
                return add_quoted(settings->certificate_directory, ret);
        case NB_SETTING_CA_FILE:
                return add_quoted(settings->ca_file, ret);
        case NB_SETTING_KEY_TYPE:
                return nb_buffer_append_string(ret, "ecdsa-p256");
        case NB_SETTING_EXPIRATION_SECONDS:
                return nb_buffer_printf(ret, "%" PRIu32, settings->csr_expiration_seconds);
        case NB_SETTING_METADATA_PROVIDER:
                return nb_buffer_append_string(ret, nb_provider_name(settings->metadata_provider));
        case NB_SETTING_METADATA_NODE_NAME:
                return add_boolean(settings->metadata_node_name, ret);
        case NB_SETTING_METADATA_PROVIDER_ID:
                return add_boolean(settings->metadata_provider_id, ret);
        case NB_SETTING_TOKEN_DISCARD:
                return add_boolean(settings->token_discard, ret);
        case NB_SETTING_TIMEOUT:
                return add_timeout(settings->timeout_ms, ret);
        case _NB_SETTING_N:
                break;
        }
        return -EINVAL;
}

static int add_key(const struct nb_settings *settings, enum nb_setting setting, const char *section, struct nb_buffer *ret) {
        const char *key = nb_setting_key(setting), *dot = strchr(key, '.');
        size_t section_len = dot ? (size_t)(dot - key) : 0;
        int r = 0;

        if (dot && !(strlen(section) == section_len && !strncmp(section, key, section_len)))
                r = nb_buffer_printf(ret, "%.*s:\n", (int)section_len, key);
        if (r >= 0)
                r = nb_buffer_printf(ret, "%s%s: ", dot ? "  " : "", dot ? dot + 1 : key);
        if (r >= 0)
                r = nb_setting_format(settings, setting, ret);
        return r < 0 ? r : nb_buffer_append_string(ret, "\n");
}

/* The keys of one section stand together in enum nb_setting. */
int nb_settings_format(const struct nb_settings *settings, struct nb_buffer *ret) {
        char section[64] = "";
        int r = nb_buffer_append_string(ret, "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n");

        for (unsigned i = 0; i < _NB_SETTING_N && r >= 0; i++) {
                const char *key = nb_setting_key((enum nb_setting)i);

                if (!nb_setting_is_set(settings, (enum nb_setting)i) || i == NB_SETTING_BOOTSTRAP_TOKEN)
                        continue;
                r = add_key(settings, (enum nb_setting)i, section, ret);
                (void)snprintf(section, sizeof(section), "%.*s", (int)strcspn(key, "."), key);
        }
        return r;
}
