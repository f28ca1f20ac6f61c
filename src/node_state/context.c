/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "join_method/settings_documents.h"
#include "node_state/context.h"
#include "os/sources.h"
#include "settings/kubelet_env.h"

#define UPPER_CASE "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* Whether only root can have written the file, if it exists. */
static bool is_own(int folder_fd, const char *name) {
        struct stat st;

        if (fstatat(folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT;
        return st.st_uid == geteuid();
}

/*
 * systemd 252 delivers credentials as files of the service's user and protects them with a
 * read-only mount. If it cannot mount (in some containers), `join` could replace settings, CAs and
 * hashes that root relies on.
 */
static int verify_credentials(const struct nb_sources *sources, struct nb_failure *f) {
        const char *path = sources->credentials_directory;
        _cleanup_(nb_closep) int fd = -1;
        struct statvfs mount;
        struct stat st;

        if (!path || nb_folder_open(path, &fd) < 0)
                return 0;
        if (fstatvfs(fd, &mount) == 0 && (mount.f_flag & ST_RDONLY))
                return 0;
        for (size_t i = 0; i < _NB_CREDENTIAL_N; i++)
                if (fstat(fd, &st) < 0 || st.st_uid != geteuid() ||
                    !is_own(fd, nb_credential_names[i]))
                        return nb_failure_set(f, NB_SETTINGS_UNREADABLE, EPERM,
                                              "credential '%s' can be changed by the network side; "
                                              "expected a read-only mount, or root as its owner",
                                              nb_credential_names[i]);
        return 0;
}

int nb_context_choose_name(struct nb_context *context, const char *fixed, struct nb_failure *f) {
        const char *configured = context->settings.node_name;
        int r = nb_sources_host_name(context->host_name, f);

        if (r < 0)
                return r;
        snprintf(context->fixed_name, sizeof(context->fixed_name), "%s", fixed);
        context->is_name_lowered = configured[0] ? context->settings.is_node_name_lowered
                                                 : !fixed[0] && strpbrk(context->host_name,
                                                                        UPPER_CASE) != NULL;
        if (!configured[0] && !fixed[0] &&
            !nb_host_name_is_set(context->root_fd, context->host_name)) {
                context->node_name[0] = '\0';
                return 0;
        }
        return nb_node_name_choose(configured[0] ? configured : fixed, context->host_name,
                                   context->node_name, &context->is_override_needed, f);
}

int nb_context_read_record(const struct nb_context *context, struct nb_record *ret_record) {
        struct nb_failure ignored = { 0 };
        int r = nb_record_read(context->root_fd, context->settings.certificate_directory,
                               ret_record, &ignored);

        return r < 0 && r != -ENOMEM ? 0 : r;
}

/* Needs the tokens in the settings: a k3s token has the CA hash of its cluster, and without any
 * token metadata is wanted. */
static int load_bootstrap(struct nb_context *context, struct nb_failure *f) {
        int r;

        context->settings.tokens = &context->tokens;
        r = nb_bootstrap_load(context->sources, &context->settings, &context->bootstrap,
                              &context->bootstrap_failure);
        context->settings.tokens = NULL;
        context->is_metadata_wanted = r >= 0 && nb_bootstrap_wants_metadata(&context->settings,
                                                                            &context->bootstrap);
        r = nb_cluster_identity_init(&context->identity, r < 0 ? NULL : &context->bootstrap,
                                     &context->settings);
        return r < 0 ? nb_failure_set_memory(f) : 0;
}

int nb_context_load(struct nb_context *context, int root_fd, struct nb_sources *sources,
                    struct nb_failure *f) {
        const bool is_keeping = sources->is_keeping;
        int r;

        *context = (struct nb_context){ .root_fd = root_fd, .now = time(NULL), .sources = sources };
        r = verify_credentials(sources, f);
        if (r < 0)
                return r;
        /* `join` gets the settled settings instead of the documents. */
        sources->is_keeping = false;
        r = nb_documents_merge(sources, &context->tokens, &context->settings, f);
        sources->is_keeping = is_keeping;
        context->settings.tokens = NULL;
        if (r >= 0)
                r = load_bootstrap(context, f);
        nb_kubelet_paths_get(&context->settings, &context->wanted_paths);
        return r;
}

int nb_context_find_join(struct nb_context *context, int root_fd, struct nb_sources *sources,
                         struct nb_record *ret_record, struct nb_failure *f) {
        struct nb_settings *settings = &context->settings;
        struct nb_kubelet_paths paths;
        int r;

        *context = (struct nb_context){ .root_fd = root_fd, .now = time(NULL), .sources = sources };
        /* A join that a crash has interrupted may not have written the file yet. */
        nb_documents_merge_readable(sources, settings, &context->unread);
        if (nb_kubelet_env_read_paths(root_fd, &paths) > 0) {
                nb_kubelet_paths_set(&paths, settings);
                nb_failure_clear(&context->unread);
        }
        r = nb_record_read(root_fd, settings->certificate_directory, ret_record, f);
        return r == 0 ? nb_context_verify_join(context, f) : r;
}

int nb_context_verify_join(const struct nb_context *context, struct nb_failure *f) {
        if (context->unread.code == NB_NONE)
                return 0;
        return nb_failure_set(f, NB_RESET_UNFINISHED, context->unread.errnum,
                              "the settings may name other files of a join: %s",
                              context->unread.detail);
}

/* The origin is not what the child says: it would not tell its settings from those of root. */
static int parse_metadata(const struct nb_found *found, struct nb_settings *ret,
                          struct nb_failure *f) {
        char origin[64];
        const struct nb_settings_source source = { .origin = origin, .is_metadata = true };

        snprintf(origin, sizeof(origin), "the metadata of %s", nb_provider_titles[found->provider]);
        nb_settings_init(ret);
        return found->document.len == 0 ? 0
                                        : nb_settings_merge(ret, &source, found->document.data,
                                                            found->document.len, f);
}

int nb_context_settle(const struct nb_context *own, struct nb_found *found,
                      struct nb_context *settled, struct nb_failure *f) {
        struct nb_settings *settings = &settled->settings, metadata;
        struct nb_kubelet_paths paths;
        int r;

        *settled = (struct nb_context){ .root_fd = own->root_fd,
                                        .now = own->now,
                                        .sources = own->sources,
                                        .metadata = found->provider,
                                        .tokens = found->tokens };
        found->tokens = (struct nb_settings_tokens)NB_SETTINGS_TOKENS_INIT;
        r = parse_metadata(found, &metadata, f);
        if (r < 0)
                return r;
        nb_settings_settle(own->sources, &own->settings, &metadata, &settled->tokens, settings);
        r = load_bootstrap(settled, f);
        if (r < 0)
                return r;
        settled->is_metadata_wanted = true;
        settled->is_discard_from_metadata = settings->token_discard &&
                                            !nb_setting_is_set(&own->settings,
                                                               NB_SETTING_TOKEN_DISCARD);
        /* This timeout limits the join, and must not limit each refresh as well. */
        memcpy(settings->origin[NB_SETTING_TIMEOUT], own->settings.origin[NB_SETTING_TIMEOUT],
               sizeof(settings->origin[0]));
        nb_kubelet_paths_get(&own->settings, &paths);
        nb_kubelet_paths_set(&paths, settings);
        r = nb_settings_verify(settings, f);
        if (r >= 0)
                r = nb_context_verify_bootstrap(settled, f);
        return r < 0 ? r : nb_bootstrap_verify(&settled->bootstrap, settings, f);
}

int nb_context_verify_bootstrap(const struct nb_context *context, struct nb_failure *f) {
        if (context->bootstrap_failure.code == NB_NONE)
                return 0;
        *f = context->bootstrap_failure;
        return f->errnum > 0 ? -f->errnum : -EPROTO;
}

void nb_context_forget_secrets(struct nb_context *context) {
        struct nb_bootstrap *bootstrap = &context->bootstrap;

        nb_settings_tokens_done(&context->tokens);
        nb_secret_done(&bootstrap->token.secret);
        nb_secret_done(&bootstrap->identity.secret);
        nb_identity_done(&bootstrap->previous);
        nb_secret_done(&bootstrap->node_password);
}

void nb_context_done(struct nb_context *context) {
        nb_settings_tokens_done(&context->tokens);
        nb_bootstrap_done(&context->bootstrap);
}

bool nb_config_exists(int root_fd) {
        _cleanup_(nb_closep) int fd = nb_path_open(root_fd, NB_KUBELET_CONFIG_PATH,
                                                   O_PATH | O_NOFOLLOW);

        return fd != -ENOENT;
}

bool nb_config_is_wanted(const struct nb_context *context) {
        return context->settings.is_config_from_cluster && !nb_config_exists(context->root_fd);
}
