/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "join_method/settings_documents.h"
#include "kube_objects/kubeconfig.h"
#include "os/process.h"
#include "os/sources.h"

static int merge_document(void *userdata, const struct nb_config_document *document,
                          struct nb_failure *f) {
        const struct nb_settings_source source = { .origin = document->origin,
                                                   .is_exposed = document->is_exposed };

        return nb_settings_merge(userdata, &source, document->data, document->len, f);
}

bool nb_setting_is_from(const struct nb_settings *settings, enum nb_setting setting,
                        const char *origin) {
        char text[NB_SETTINGS_ORIGIN_SIZE];

        nb_settings_copy_origin(origin, text);
        return !strcmp(settings->origin[setting], text);
}

static int ignore_document(_unused_ void *userdata,
                           _unused_ const struct nb_config_document *document,
                           _unused_ struct nb_failure *f) {
        return 0;
}

static void try_directory(void *userdata) {
        const struct nb_sources *sources = userdata;
        struct nb_sources few = { .config_directory = sources->config_directory };
        struct nb_failure ignored = { 0 };

        (void)nb_sources_config(&few, ignore_document, NULL, &ignored);
}

/* Without asking the file system and without mounting it, since both may hang. */
static int look_at(int folder_fd, const char *name, struct statx *ret) {
        return statx(folder_fd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC,
                     STATX_TYPE, ret);
}

/* Whether a file may be on another file system than `here`. */
static bool is_elsewhere(int folder_fd, const char *name, const struct statx *here) {
        struct statx found;

        if (look_at(folder_fd, name, &found) < 0)
                return errno != ENOENT;
        return S_ISLNK(found.stx_mode) || found.stx_dev_major != here->stx_dev_major ||
               found.stx_dev_minor != here->stx_dev_minor;
}

/* Whether the settings may be on another file system than the folder that holds them. */
static bool may_hang(const char *directory) {
        static const char *const names[] = { "", "/config.yaml", "/config.yaml.d" };
        _cleanup_(nb_folder_closep) DIR *folder = NULL;
        const char *slash = strrchr(directory, '/');
        const struct dirent *entry;
        struct statx above;
        char path[PATH_MAX];

        snprintf(path, sizeof(path), "%.*s/", slash ? (int)(slash - directory) : 1,
                 slash ? directory : ".");
        if (look_at(AT_FDCWD, path, &above) < 0)
                return true;
        for (size_t i = 0; i < N_ELEMENTS(names); i++) {
                snprintf(path, sizeof(path), "%s%s", directory, names[i]);
                if (is_elsewhere(AT_FDCWD, path, &above))
                        return true;
        }
        folder = opendir(path);
        while (folder && (entry = readdir(folder)))
                if (is_elsewhere(dirfd(folder), entry->d_name, &above))
                        return true;
        return false;
}

/* As nb_sources_read_named(): another process tries first, if there is another file system. */
static int verify_answer(struct nb_sources *sources, struct nb_failure *f) {
        const char *directory = sources->config_directory;
        int r;

        if (!directory || sources->kept || !may_hang(directory))
                return 0;
        r = nb_process_try(try_directory, sources, NB_SOURCES_READ_TIMEOUT_MS);
        if (r >= 0 || r == -EPERM)
                return 0;
        sources->config_directory = NULL;
        if (r != -ETIMEDOUT)
                return nb_failure_set(f, NB_SETTINGS_UNREADABLE, r,
                                      "the settings in '%s' cannot be read: %m",
                                      nb_text_shown(directory));
        return nb_failure_set(f, NB_SETTINGS_UNREADABLE, ETIMEDOUT,
                              "the settings in '%s' cannot be read within %d s: the file system "
                              "does not answer",
                              nb_text_shown(directory), NB_SOURCES_READ_TIMEOUT_MS / 1000);
}

int nb_documents_merge(struct nb_sources *sources, struct nb_settings_tokens *tokens,
                       struct nb_settings *ret_settings, struct nb_failure *f) {
        int r;

        nb_settings_init(ret_settings);
        ret_settings->tokens = tokens;
        r = verify_answer(sources, f);
        return r < 0 ? r : nb_sources_config(sources, merge_document, ret_settings, f);
}

static int merge_readable(void *userdata, const struct nb_config_document *document,
                          struct nb_failure *f) {
        const struct nb_settings_source source = { .origin = document->origin,
                                                   .is_tolerant = true };
        struct nb_failure why = { 0 };

        (void)nb_settings_merge(userdata, &source, document->data, document->len, &why);
        if (why.code != NB_NONE && f->code == NB_NONE)
                *f = why;
        return 0;
}

void nb_documents_merge_readable(struct nb_sources *sources, struct nb_settings *ret_settings,
                                 struct nb_failure *ret_unread) {
        nb_settings_init(ret_settings);
        *ret_unread = (struct nb_failure){ 0 };
        if (verify_answer(sources, ret_unread) < 0)
                return;
        sources->is_tolerant = true;
        (void)nb_sources_config(sources, merge_readable, ret_settings, ret_unread);
        sources->is_tolerant = false;
}

static void reset_unless_own(const struct nb_settings *own, enum nb_setting setting, bool *value,
                             struct nb_settings *settings) {
        if (nb_setting_is_set(own, setting))
                return;
        *value = false;
        snprintf(settings->origin[setting], sizeof(settings->origin[0]),
                 NB_SETTINGS_DEFAULT_ORIGIN);
}

/* Whether root has chosen the cluster by pins or by a document. */
static bool has_own_trust(struct nb_sources *sources, const struct nb_settings *own) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        struct nb_failure ignored = { 0 };

        return own->n_pins > 0 || own->discovery_file[0] ||
               nb_sources_credential(sources, NB_CREDENTIAL_CLUSTER_INFO_NAME, NB_KUBECONFIG_MAX,
                                     &text, &ignored) >= 0;
}

void nb_settings_settle(struct nb_sources *sources, const struct nb_settings *own,
                        const struct nb_settings *metadata, struct nb_settings_tokens *tokens,
                        struct nb_settings *ret_settings) {
        *ret_settings = *metadata;
        nb_settings_overlay(ret_settings, own);
        ret_settings->tokens = tokens;
        if (nb_setting_is_set(own, NB_SETTING_BOOTSTRAP_TOKEN))
                nb_secret_done(&tokens->discovery);
        if (!has_own_trust(sources, own))
                return;
        reset_unless_own(own, NB_SETTING_UNSAFE_SKIP_CA_VERIFICATION,
                         &ret_settings->unsafe_skip_ca_verification, ret_settings);
        reset_unless_own(own, NB_SETTING_TRUST_WHOLE_BUNDLE, &ret_settings->trust_whole_bundle,
                         ret_settings);
}
