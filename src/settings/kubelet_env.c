/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "settings/kubelet_env.h"

#define KEY_KUBECONFIG "NODE_BOOTSTRAP_KUBECONFIG="
#define KEY_DIRECTORY "NODE_BOOTSTRAP_CERTIFICATE_DIRECTORY="
#define KEY_CA_FILE "NODE_BOOTSTRAP_CA_FILE="

void nb_kubelet_env_format(const char *node_name, const struct nb_settings *settings,
                           struct nb_buffer *ret) {
        nb_buffer_printf(ret, "KUBELET_NODE_NAME=%s\n", node_name);
        if (nb_setting_is_set(settings, NB_SETTING_KUBECONFIG))
                nb_buffer_printf(ret, KEY_KUBECONFIG "%s\n", settings->kubeconfig);
        if (nb_setting_is_set(settings, NB_SETTING_CERTIFICATE_DIRECTORY))
                nb_buffer_printf(ret, KEY_DIRECTORY "%s\n", settings->certificate_directory);
        if (nb_setting_is_set(settings, NB_SETTING_CA_FILE))
                nb_buffer_printf(ret, KEY_CA_FILE "%s\n", settings->ca_file);
}

static void take_path(const char *line, size_t len, const char *key,
                      char ret[static NB_SETTINGS_PATH_MAX]) {
        size_t key_len = strlen(key), path_len = len - key_len;

        if (len <= key_len || path_len >= NB_SETTINGS_PATH_MAX || memcmp(line, key, key_len) != 0 ||
            line[key_len] != '/')
                return;
        memcpy(ret, line + key_len, path_len);
        ret[path_len] = '\0';
}

void nb_kubelet_env_find_paths(const char *text, size_t len, struct nb_settings *settings) {
        for (const char *line = text, *end = text + len; line < end;) {
                const char *newline = memchr(line, '\n', (size_t)(end - line));
                size_t line_len = (size_t)((newline ? newline : end) - line);

                take_path(line, line_len, KEY_KUBECONFIG, settings->kubeconfig);
                take_path(line, line_len, KEY_DIRECTORY, settings->certificate_directory);
                take_path(line, line_len, KEY_CA_FILE, settings->ca_file);
                line += line_len + 1;
        }
}
