/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/macro.h"
#include "base/sources.h"
#include "verb/check_internal.h"

#define PATH_SIZE (NB_SETTINGS_PATH_MAX + 256)

/* What a name in a folder has to do with this program, though nobody reads it: what was expected; NULL: nothing. */
typedef const char *(*nb_check_judge)(const struct nb_check *check, const char *folder, const char *name);

static bool ends(const char *name, const char *suffix) {
        size_t len = strlen(name), n = strlen(suffix);

        return len > n && strcasecmp(name + len - n, suffix) == 0;
}

static bool is_document_name(const char *name) {
        return name[0] != '.' && (ends(name, ".yml") || ends(name, ".yaml") || ends(name, ".json"));
}

/* A kubeconfig may well stand beside the settings. */
static bool is_named(const struct nb_check *check, const char *folder, const char *name) {
        const struct nb_settings *settings = &check->settings;
        const char *const paths[] = { settings->discovery_file, settings->bootstrap_kubeconfig, settings->url_ca_file };
        char path[PATH_SIZE];

        (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
        for (size_t i = 0; i < N_ELEMENTS(paths); i++)
                if (strcmp(paths[i], path) == 0)
                        return true;
        return false;
}

static const char *judge_settings(const struct nb_check *check, const char *folder, const char *name) {
        bool is_folder = !strcmp(name, "config.d") || !strcmp(name, "config.yml.d");

        if (is_folder)
                return "config.yaml.d";
        return is_document_name(name) && strcmp(name, "config.yaml") != 0 && !is_named(check, folder, name) ? "config.yaml, or config.yaml.d/*.yaml" : NULL;
}

static const char *judge_drop_in(const struct nb_check *check, const char *folder, const char *name) {
        size_t len = strlen(name);
        bool is_read = len > 5 && !strcmp(name + len - 5, ".yaml");

        return is_document_name(name) && !is_read && !is_named(check, folder, name) ? "*.yaml" : NULL;
}

static const char *judge_credential(const struct nb_check *check, const char *folder, const char *name) {
        static const char *const prefixes[] = { "node-bootstrap", "node_bootstrap", "nodebootstrap" };
        char path[PATH_SIZE];
        bool is_near = false;

        (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
        for (size_t i = 0; i < N_ELEMENTS(prefixes); i++)
                is_near = is_near || strncasecmp(name, prefixes[i], strlen(prefixes[i])) == 0;
        for (unsigned c = 0; c < _NB_CHECK_CREDENTIAL_N; c++)
                if (strcmp(name, nb_check_credential_name((enum nb_check_credential)c)) == 0 || strstr(check->unit.sources[c], path))
                        return NULL;
        return is_near ? "node-bootstrap.token, .tls-bootstrap-token, .kubeconfig, .cluster-info or .config" : NULL;
}

static void print(const struct nb_check *check, const char *folder, nb_check_judge judge) {
        struct dirent **entries = NULL;
        int n = scandir(folder, &entries, NULL, alphasort);

        for (int i = 0; i < n; i++) {
                const char *expected = judge(check, folder, entries[i]->d_name);

                if (expected)
                        nb_check_row(check, NB_CHECK_DOUBT, "%s/%s is not read: expected %s", folder, entries[i]->d_name, expected);
                free(entries[i]);
        }
        free(entries);
}

void nb_check_print_unread_credentials(const struct nb_check *check, const char *folder) {
        print(check, folder, judge_credential);
}

void nb_check_print_unread_settings(const struct nb_check *check) {
        char folder[PATH_SIZE];

        (void)snprintf(folder, sizeof(folder), "%s/config.yaml.d", check->config_directory);
        print(check, check->config_directory, judge_settings);
        print(check, folder, judge_drop_in);
}

int nb_check_folder(const struct nb_check *check, struct nb_failure *f) {
        DIR *folder = check->is_folder_given ? opendir(check->config_directory) : NULL;

        if (check->is_folder_given && !folder)
                return nb_failure_set(f, NB_SETTINGS_UNREADABLE, errno, "--config-directory: '%s' cannot be read: %m", check->config_directory);
        if (folder)
                (void)closedir(folder);
        return 0;
}
