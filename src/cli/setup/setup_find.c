/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "cli/setup/setup_internal.h"
#include "join_method/settings_documents.h"
#include "node_state/flags.h"

/* 0; -ENOENT; -EKEYREJECTED if it is encrypted; -errno. */
static int read_stored(const char *root, const char *name, struct nb_secret *ret) {
        _cleanup_(nb_closep) int fd = -1, encrypted_fd = -1;
        int r = nb_folder_open_below(root, NB_SETUP_STORE, &fd);

        if (r >= 0)
                r = nb_file_read_secret(fd, name, NB_SETUP_SECRET_MAX, ret, NULL);
        if (r != -ENOENT)
                return r;
        r = nb_folder_open_below(root, NB_SETUP_STORE_ENCRYPTED, &encrypted_fd);
        return r >= 0 && faccessat(encrypted_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0
                       ? -EKEYREJECTED
                       : -ENOENT;
}

/* setup never writes the credential with settings, which takes precedence over files. On this
 * machine, it is read where systemd finds it, and kept; links in the stores are followed. */
static int find_config(const char *root, struct nb_sources *sources, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret config = NB_SECRET_INIT;
        int r;

        sources->credentials_directory = NULL;
        if (!root) {
                nb_sources_find_stores(sources);
                return 0;
        }
        r = read_stored(root, NB_CREDENTIAL_CONFIG_NAME, &config);
        if (r < 0 && r != -ENOENT && r != -EKEYREJECTED)
                return nb_failure_set(f, NB_SETTINGS_UNREADABLE, r,
                                      "cannot read '" NB_SETUP_STORE "/" NB_CREDENTIAL_CONFIG_NAME
                                      "': %m");
        return nb_sources_put(sources, NB_SOURCE_CREDENTIAL, NB_CREDENTIAL_CONFIG_NAME, 0400,
                              r < 0 ? NULL : &config) < 0
                       ? nb_failure_set_memory(f)
                       : 0;
}

static void find_credential(const char *root, enum nb_credential secret,
                            struct nb_setup_credential *ret) {
        char path[NB_SETUP_PATH_SIZE];

        snprintf(path, sizeof(path), NB_SETUP_DELIVERED "/%s", nb_credential_names[secret]);
        ret->is_delivered = !root &&
                            nb_path_read(-1, path, NB_SETUP_SECRET_MAX, &ret->delivered) != -ENOENT;
        ret->r = read_stored(root, nb_credential_names[secret], &ret->stored);
}

/* That of an earlier setup. */
static bool is_document_damaged(const struct nb_setup_found *found) {
        const struct nb_secret *text = &found->document;
        const struct nb_settings_source source = { .origin = found->path };
        struct nb_failure ignored = { 0 };
        struct nb_settings settings;

        nb_settings_init(&settings);
        return text->data &&
               nb_settings_merge(&settings, &source, text->data, text->len, &ignored) < 0;
}

int nb_setup_find(const struct nb_setup_wanted *wanted, struct nb_setup_found *ret_found,
                  struct nb_failure *f) {
        const struct nb_node *node = &ret_found->state.node;
        struct nb_sources *sources = &ret_found->sources;
        struct nb_failure ignored;
        int r;

        *ret_found = (struct nb_setup_found){ .has_never_joined = false };
        snprintf(ret_found->directory, sizeof(ret_found->directory), "%s%s",
                 wanted->root ? wanted->root : "", wanted->config_directory);
        snprintf(ret_found->path, sizeof(ret_found->path), "%s/config.yaml.d/" NB_SETUP_DOCUMENT,
                 ret_found->directory);
        nb_sources_init(sources, ret_found->directory);
        sources->is_keeping = true;
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N; i++)
                find_credential(wanted->root, i, &ret_found->credentials[i]);
        r = find_config(wanted->root, sources, f);
        if (r < 0)
                return r;
        r = nb_documents_merge(sources, NULL, &ret_found->settings, f);
        /* Their file system does not answer. */
        if (r < 0 && !sources->config_directory)
                return r;
        (void)nb_sources_read(sources, ret_found->path, NB_CONFIG_MAX, &ret_found->document, NULL);
        if (r < 0 && !wanted->is_forced) {
                if (is_document_damaged(ret_found))
                        nb_failure_add(f, "; use --force to replace '%s'", ret_found->path);
                return r;
        }
        /* A damaged document of ours can be replaced, and its keys vanish; others are refused with
         * the new one. */
        if (r < 0)
                nb_documents_merge_readable(sources, &ret_found->settings, &ignored);
        ret_found->are_settings_refused = r < 0;
        nb_failure_clear(f);
        if (wanted->root)
                return 0;
        if (nb_machine_look(sources, true, &ret_found->state) < 0)
                return nb_failure_set_memory(f);
        if (ret_found->state.kind == NB_MACHINE_HIDDEN)
                return nb_failure_set(f, NB_SETUP_UNWRITABLE, 0, "%s", ret_found->state.why.detail);
        ret_found->is_joined = !nb_machine_is_joining(&ret_found->state);
        (void)nb_path_read(-1, NB_KUBELET_DIRECTORY "/" NB_FLAGS_FILE, NB_FLAGS_MAX,
                           &ret_found->flags);
        /* Without kubelet's files, the record still says that this machine has joined. */
        ret_found->has_never_joined = node->inspection.state == NB_NODE_STATE_ABSENT &&
                                      !node->present.has_record &&
                                      node->present.record_why.code == NB_NONE;
        return 0;
}

void nb_setup_found_done(struct nb_setup_found *found) {
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N; i++) {
                nb_secret_done(&found->credentials[i].stored);
                nb_secret_done(&found->credentials[i].delivered);
        }
        nb_secret_done(&found->document);
        nb_secret_done(&found->flags);
        nb_sources_done(&found->sources);
        nb_machine_state_done(&found->state);
}
