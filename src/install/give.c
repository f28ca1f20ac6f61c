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
#include "base/text.h"
#include "install/give.h"
#include "join_method/plan.h"
#include "kube_objects/k3s_token.h"
#include "os/clock.h"
#include "os/sources.h"
#include "state_files/platform_note.h"

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

/* What decides which metadata is read, for how long, and whether node name and provider ID are
 * wanted from there. */
static bool is_about_metadata(enum nb_setting setting) {
        return setting == NB_SETTING_METADATA_PROVIDER ||
               setting == NB_SETTING_METADATA_NODE_NAME ||
               setting == NB_SETTING_METADATA_PROVIDER_ID || setting == NB_SETTING_NODE_NAME ||
               setting == NB_SETTING_PROVIDER_ID || setting == NB_SETTING_TIMEOUT;
}

/* Without the settings. */
static struct nb_plan *new_plan(const struct nb_install *install) {
        struct nb_plan *plan = calloc(1, sizeof(*plan));

        if (!plan)
                return NULL;
        plan->state = install->node.inspection.state;
        NB_TEXT_COPY(plan->valid_until, install->node.inspection.not_after);
        NB_TEXT_COPY(plan->name, install->name);
        plan->started_ms = install->started_ms > 0 ? install->started_ms : nb_now_ms();
        plan->metadata_usec = install->metadata_usec;
        return plan;
}

int nb_give_for_metadata(const struct nb_install *install, struct nb_sources *ret_sources,
                         struct nb_failure *f) {
        static const char *const paths[] = { NB_PLATFORM_NOTE, NB_PLATFORM_USER_DATA,
                                             NB_PLATFORM_META_DATA, NB_PLATFORM_TOKEN };
        _cleanup_(nb_freep) struct nb_plan *plan = new_plan(install);
        struct nb_settings *chosen = calloc(1, sizeof(*chosen));
        int r = plan && chosen ? 0 : -ENOMEM;

        *ret_sources = (struct nb_sources){ .is_keeping = true };
        if (r >= 0) {
                *chosen = install->own.settings;
                for (unsigned i = 0; i < _NB_SETTING_N; i++)
                        if (!is_about_metadata(i))
                                NB_TEXT_COPY(chosen->origin[i], NB_SETTINGS_DEFAULT_ORIGIN);
                nb_settings_init(&plan->settings);
                nb_settings_overlay(&plan->settings, chosen);
                plan->settings.timeout_ms = install->timeout_ms;
                r = nb_plan_put(ret_sources, plan, NULL);
        }
        free(chosen);
        for (size_t i = 0; i < N_ELEMENTS(paths) && r >= 0; i++) {
                _cleanup_(nb_secret_done) struct nb_secret ignored = NB_SECRET_INIT;

                if (nb_sources_read(ret_sources, paths[i], NAMED_FILE_MAX, &ignored, NULL) ==
                    -ENOMEM)
                        r = -ENOMEM;
        }
        return r < 0 ? nb_failure_set_memory(f) : 0;
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

/* A k3s supervisor accepts a node's client certificate instead of a token, but not if it has
 * expired or belongs to another node or cluster. */
static bool is_client_needed(const struct nb_install *install) {
        return install->context->bootstrap.issuer == NB_ISSUER_SUPERVISOR &&
               (install->node.inspection.state == NB_NODE_STATE_ABSENT ||
                install->node.inspection.state == NB_NODE_STATE_NOT_ROTATABLE);
}

/* The settled settings, in place of the documents. */
static int put_plan(const struct nb_install *install) {
        const struct nb_context *context = install->context;
        _cleanup_(nb_freep) struct nb_plan *plan = new_plan(install);

        if (!plan)
                return -ENOMEM;
        plan->settings = context->settings;
        plan->settings.timeout_ms = install->timeout_ms;
        return nb_plan_put(context->sources, plan, &context->tokens);
}

int nb_give(const struct nb_install *install, struct nb_failure *f) {
        const struct nb_context *context = install->context;
        struct giving giving = { context->root_fd, context->sources };
        char certificate[NB_SETTINGS_PATH_MAX + sizeof(NB_STORE_CURRENT) + 1];
        int r = put_plan(install);

        if (r < 0)
                return nb_failure_set_memory(f);
        if (context->bootstrap.issuer == NB_ISSUER_SUPERVISOR) {
                r = make_password(context, f);
                if (r >= 0)
                        r = give_target(&giving, NB_NODE_PASSWORD_FILE, f);
        }
        if (r < 0)
                return r;
        snprintf(certificate, sizeof(certificate), "%s/" NB_STORE_CURRENT,
                 context->settings.certificate_directory);
        if (is_client_needed(install))
                return give_client(&giving, &context->settings, certificate, f);
        /* nb_context_load() may have read it. */
        r = nb_sources_put(context->sources, NB_SOURCE_FILE, certificate, 0, NULL);
        return r < 0 ? nb_failure_set_memory(f) : 0;
}

int nb_give_for_refresh(const struct nb_context *context, enum nb_refresh refresh,
                        uint64_t timeout_ms, struct nb_failure *f) {
        _cleanup_(nb_freep) struct nb_plan *plan = calloc(1, sizeof(*plan));
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
        const size_t n = refresh <= NB_REFRESH_CLUSTER ? 2 : refresh == NB_REFRESH_CONFIG ? 3 : 5;
        int r = 0;

        nb_sources_done(context->sources);
        context->sources->is_keeping = true;
        if (!plan)
                return nb_failure_set_memory(f);
        plan->settings = *settings;
        if (timeout_ms < settings->timeout_ms)
                plan->settings.timeout_ms = timeout_ms;
        if (refresh == NB_REFRESH_SERVER)
                plan->settings.cluster_type = NB_CLUSTER_TYPE_K3S;
        if (nb_plan_put(context->sources, plan, NULL) < 0)
                return nb_failure_set_memory(f);
        snprintf(record, sizeof(record), "%s/" NB_RECORD_FILE, settings->certificate_directory);
        snprintf(certificate, sizeof(certificate), "%s/" NB_STORE_CURRENT,
                 settings->certificate_directory);
        for (size_t i = 0; i < n && r >= 0; i++)
                r = give_target(&giving, paths[i], f);
        return r;
}
