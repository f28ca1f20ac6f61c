/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/secret.h"
#include "settings/kubelet_env.h"

#define ENV_MAX ((size_t)64 * 1024)
/* The last line: a file that was cut off, or is empty, does not have it. */
#define NAME_KEY "KUBELET_NODE_NAME="

static const struct {
        const char *key;
        size_t offset, settings_offset;
} rows[] = {
#define ROW(key, member) \
        { \
                "NODE_BOOTSTRAP_" key "=", offsetof(struct nb_kubelet_paths, member), \
                        offsetof(struct nb_settings, member) \
        }
        ROW("KUBECONFIG", kubeconfig),
        ROW("CERTIFICATE_DIRECTORY", certificate_directory),
        ROW("CA_FILE", ca_file),
#undef ROW
};

void nb_kubelet_paths_get(const struct nb_settings *settings, struct nb_kubelet_paths *ret_paths) {
        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                memcpy((char *)ret_paths + rows[i].offset,
                       (const char *)settings + rows[i].settings_offset, NB_SETTINGS_PATH_MAX);
}

void nb_kubelet_paths_set(const struct nb_kubelet_paths *paths, struct nb_settings *settings) {
        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                memcpy((char *)settings + rows[i].settings_offset,
                       (const char *)paths + rows[i].offset, NB_SETTINGS_PATH_MAX);
}

bool nb_kubelet_paths_are_equal(const struct nb_kubelet_paths *a,
                                const struct nb_kubelet_paths *b) {
        return !strcmp(a->kubeconfig, b->kubeconfig) &&
               !strcmp(a->certificate_directory, b->certificate_directory) &&
               !strcmp(a->ca_file, b->ca_file);
}

static void find_defaults(struct nb_kubelet_paths *ret_paths) {
        struct nb_settings settings;

        nb_settings_init(&settings);
        nb_kubelet_paths_get(&settings, ret_paths);
}

void nb_kubelet_env_format(const char *node_name, const struct nb_kubelet_paths *paths,
                           struct nb_buffer *ret) {
        struct nb_kubelet_paths defaults;

        find_defaults(&defaults);
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                const char *path = (const char *)paths + rows[i].offset;

                if (strcmp(path, (const char *)&defaults + rows[i].offset) != 0)
                        nb_buffer_printf(ret, "%s%s\n", rows[i].key, path);
        }
        nb_buffer_printf(ret, NAME_KEY "%s\n", node_name);
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

bool nb_kubelet_env_find_paths(const char *text, size_t len, struct nb_kubelet_paths *ret_paths) {
        bool is_complete = false;

        find_defaults(ret_paths);
        for (const char *line = text, *end = text + len; line < end;) {
                const char *newline = memchr(line, '\n', (size_t)(end - line));
                size_t line_len = (size_t)((newline ? newline : end) - line);

                for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                        take_path(line, line_len, rows[i].key, (char *)ret_paths + rows[i].offset);
                is_complete = newline && line_len > strlen(NAME_KEY) &&
                              !memcmp(line, NAME_KEY, strlen(NAME_KEY));
                line += line_len + 1;
        }
        return is_complete;
}

int nb_kubelet_env_read_paths(int root_fd, struct nb_kubelet_paths *ret_paths) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        int r = nb_path_read(root_fd, NB_KUBELET_ENV_PATH, ENV_MAX, &text);

        if (r == -ENOMEM)
                return r;
        return nb_kubelet_env_find_paths(text.data, text.len, ret_paths);
}
