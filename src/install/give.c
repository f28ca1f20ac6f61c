/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/encoding.h"
#include "base/file.h"
#include "base/macro.h"
#include "files/platform_note.h"
#include "files/refresh_settings.h"
#include "install/give.h"
#include "kube/k3s_token.h"
#include "system/sources.h"

#define NAMED_FILE_MAX (1024 * 1024) /* the largest such file is a CA bundle */
#define PASSWORD_BYTES 16            /* as in k3s, which writes them in hex */

struct giving {
        int root_fd;
        struct nb_sources *sources;
};

/* Reads an installed file, below --root, and keeps its contents. */
static int read_target(void *userdata, const char *path, struct nb_secret *ret) {
        struct giving *giving = userdata;
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        int r;

        r = nb_path_read(giving->root_fd, path, NAMED_FILE_MAX, &text);
        if (r < 0)
                return r;
        r = nb_sources_put(giving->sources, NB_SOURCE_FILE, path, 0600, &text);
        if (r < 0)
                return r;
        *ret = TAKE(text);
        return 0;
}

static int give_target(struct giving *giving, const char *path, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret ignored = NB_SECRET_INIT;
        int r = read_target(giving, path, &ignored);

        return r == -ENOMEM ? nb_failure_set_memory(f) : 0;
}

/* Reads the files that node-bootstrap-platform.service has written, and the CA file for a discovery
 * file from a URL: metadata may name the URL, but not the CA file. */
static int give_for_metadata(const struct nb_context *context, struct nb_failure *f) {
        const char *const paths[] = { NB_PLATFORM_NOTE, NB_PLATFORM_USER_DATA,
                                      NB_PLATFORM_META_DATA, NB_PLATFORM_TOKEN,
                                      context->settings.url_ca_file };

        for (size_t i = 0; i < N_ELEMENTS(paths); i++) {
                _cleanup_(nb_secret_done) struct nb_secret ignored = NB_SECRET_INIT;

                if (paths[i][0] && nb_sources_read(context->sources, paths[i], NAMED_FILE_MAX,
                                                   &ignored, NULL) == -ENOMEM)
                        return nb_failure_set_memory(f);
        }
        return 0;
}

/* `join` could report only that the password is unusable, not why. */
static int verify_password(const struct nb_context *context, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        int r = nb_path_read(context->root_fd, NB_NODE_PASSWORD_FILE, NB_NODE_PASSWORD_FILE_MAX,
                             &text);

        return r < 0 ? nb_failure_set(f, NB_NODE_PASSWORD_MISSING, r,
                                      "'" NB_NODE_PASSWORD_FILE "' cannot be read: %m")
                     : nb_node_password_parse(&text, f);
}

/* Creates the password in the format of k3s. */
static int write_password(int folder_fd, const char *name) {
        uint8_t bytes[PASSWORD_BYTES];
        char text[2 * PASSWORD_BYTES + 2];
        int r;

        if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
                return -EIO;
        nb_hex_encode(bytes, sizeof(bytes), text);
        text[2 * PASSWORD_BYTES] = '\n';
        r = nb_file_create(folder_fd, name, 0600, text, 2 * PASSWORD_BYTES + 1);
        explicit_bzero(text, sizeof(text));
        explicit_bzero(bytes, sizeof(bytes));
        return r;
}

/* The server stores the first password that the node sends, so write it to disk first. */
static int make_password(const struct nb_context *context, struct nb_failure *f) {
        static const char name[] = "password"; /* of NB_NODE_PASSWORD_FILE */
        _cleanup_(nb_closep) int folder_fd = -1;
        int r = nb_path_make_folder(context->root_fd, NB_NODE_PASSWORD_FOLDER, 0755, &folder_fd);

        if (r >= 0 && faccessat(folder_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
                return verify_password(context, f);
        if (r >= 0)
                r = write_password(folder_fd, name);
        if (r >= 0)
                return 0;
        return nb_failure_set(f, NB_TARGET_UNWRITABLE, r,
                              "the node password '" NB_NODE_PASSWORD_FILE
                              "' cannot be created: %m; if the directory is missing, run `mkdir "
                              "--parents " NB_NODE_PASSWORD_FOLDER "`");
}

/* Reads the kubeconfig and the files that it names, whose paths we may not have chosen. */
static int give_kubeconfig(struct giving *giving, const char *path, struct nb_failure *f) {
        _cleanup_(nb_identity_done) struct nb_identity identity = NB_IDENTITY_INIT;
        _cleanup_(nb_cluster_done) struct nb_cluster cluster = { 0 };
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        char folder[NB_SETTINGS_PATH_MAX];
        struct nb_failure ignored = { 0 };
        const char *name;
        int r;

        r = read_target(giving, path, &text);
        if (r >= 0 && nb_path_split(path, folder, sizeof(folder), &name) >= 0)
                r = nb_kubeconfig_parse(&nb_kubeconfig_bootstrap,
                                        &(struct nb_kubeconfig_input){
                                                .origin = path,
                                                .text = text.data,
                                                .len = text.len,
                                                .read = read_target,
                                                .userdata = giving,
                                                .folder = folder,
                                        },
                                        &cluster, &identity, &ignored);
        return r == -ENOMEM ? nb_failure_set_memory(f) : 0;
}

static int give_client(struct giving *giving, const struct nb_settings *settings,
                       const char *certificate, struct nb_failure *f) {
        int r;

        r = give_target(giving, certificate, f);
        if (r < 0)
                return r;
        r = give_target(giving, settings->ca_file, f);
        return r < 0 ? r : give_kubeconfig(giving, settings->kubeconfig, f);
}

int nb_give(const struct nb_context *context, bool is_client_needed, struct nb_failure *f) {
        const struct nb_settings *settings = &context->settings;
        struct giving giving = { context->root_fd, context->sources };
        char certificate[NB_SETTINGS_PATH_MAX + sizeof(NB_STORE_CURRENT) + 1];
        int r = 0;

        if (context->is_metadata_wanted)
                r = give_for_metadata(context, f);
        if (r >= 0 && context->bootstrap.issuer == NB_ISSUER_SUPERVISOR) {
                r = make_password(context, f);
                if (r >= 0)
                        r = give_target(&giving, NB_NODE_PASSWORD_FILE, f);
        }
        if (r < 0)
                return r;
        snprintf(certificate, sizeof(certificate), "%s/" NB_STORE_CURRENT,
                 settings->certificate_directory);
        if (is_client_needed)
                return give_client(&giving, settings, certificate, f);
        /* nb_context_load() may have read it. */
        r = nb_sources_put(context->sources, NB_SOURCE_FILE, certificate, 0, NULL);
        return r < 0 ? nb_failure_set_memory(f) : 0;
}

/* Passes the settings of the context as the only document. */
static int put_settings(const struct nb_context *context) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_SETTINGS_TEXT_MAX);
        struct nb_sources *sources = context->sources;
        char path[PATH_MAX + 32];
        int r;

        nb_refresh_settings_format(&context->settings, true, &text);
        if (text.error < 0)
                return text.error;
        snprintf(path, sizeof(path), "%s/config.yaml.d", sources->config_directory);
        r = nb_sources_put(sources, NB_SOURCE_FOLDER, path, 0, NULL);
        if (r >= 0)
                r = nb_sources_put(sources, NB_SOURCE_CREDENTIAL, NB_CREDENTIAL_CONFIG_NAME, 0,
                                   NULL);
        snprintf(path, sizeof(path), "%s/config.yaml", sources->config_directory);
        if (r >= 0)
                r = nb_sources_put(sources, NB_SOURCE_FILE, path, 0600,
                                   &(struct nb_secret){ .data = text.data, .len = text.len });
        return r;
}

int nb_give_for_refresh(const struct nb_context *context, enum nb_refresh refresh,
                        struct nb_failure *f) {
        static const char password[] = NB_NODE_PASSWORD_FILE;
        const struct nb_settings *settings = &context->settings;
        struct giving giving = { context->root_fd, context->sources };
        char certificate[NB_SETTINGS_PATH_MAX + sizeof(NB_STORE_CURRENT) + 1],
                record[NB_SETTINGS_PATH_MAX + sizeof(NB_RECORD_FILE) + 1];
        const char *const paths[] = {
                settings->kubeconfig,
                settings->ca_file,
                certificate, /* from NB_REFRESH_CONFIG on */
                record,      /* from NB_REFRESH_RENEWAL on */
                password,
        };
        const size_t n = refresh == NB_REFRESH_CLUSTER ? 2 : refresh == NB_REFRESH_CONFIG ? 3 : 5;
        int r = 0;

        nb_sources_done(context->sources);
        context->sources->is_keeping = true;
        if (put_settings(context) < 0)
                return nb_failure_set_memory(f);
        snprintf(record, sizeof(record), "%s/" NB_RECORD_FILE, settings->certificate_directory);
        snprintf(certificate, sizeof(certificate), "%s/" NB_STORE_CURRENT,
                 settings->certificate_directory);
        for (size_t i = 0; i < n && r >= 0; i++)
                r = give_target(&giving, paths[i], f);
        return r;
}
