/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/file.h"
#include "base/macro.h"
#include "cli/check/check_internal.h"
#include "files/platform_note.h"
#include "metadata/user_data.h"
#include "settings/kubelet_env.h"
#include "system/privilege.h"
#include "system/unit.h"

void nb_check_print_setting(struct nb_check *check, const struct nb_settings *settings,
                            enum nb_setting setting, const char *overridden_by) {
        _cleanup_(nb_buffer_done) struct nb_buffer value = NB_BUFFER_INIT(NB_SETTINGS_TEXT_MAX);

        nb_setting_format(settings, setting, &value);
        if (value.error < 0) {
                check->output.r = -ENOMEM;
                return;
        }
        nb_check_row(check, NB_CHECK_NOTE, "%s: %s (%s)%s%s", nb_setting_key(setting), value.data,
                     settings->origin[setting], overridden_by ? "; overridden by " : "",
                     overridden_by ? overridden_by : "");
}

/* Prints the settings that are set, or all with --all. Returns how many are set. */
static unsigned print_settings(struct nb_check *check, const struct nb_settings *settings) {
        unsigned n = 0;

        for (unsigned i = 0; i < _NB_SETTING_N; i++) {
                bool is_set = nb_setting_is_set(settings, (enum nb_setting)i);

                if (is_set || check->shows_all)
                        nb_check_print_setting(check, settings, (enum nb_setting)i, NULL);
                n += is_set;
        }
        return n;
}

/* --- Files that only root can read --- */

/* Reads files that only root can read, for use after the capability is dropped. */
static void read_for_later(struct nb_check *check) {
        static const char *const paths[] = { NB_PLATFORM_NOTE, NB_PLATFORM_USER_DATA,
                                             NB_PLATFORM_META_DATA, NB_PLATFORM_TOKEN,
                                             NB_NODE_PASSWORD_FILE };
        const char *state = getenv("STATE_DIRECTORY");
        _cleanup_(nb_closep) int fd = -1;
        char path[NB_SETTINGS_PATH_MAX + 64];
        struct nb_kubelet_paths of_join;
        struct stat st;

        for (size_t i = 0; i < N_ELEMENTS(paths); i++) {
                _cleanup_(nb_secret_done) struct nb_secret ignored = NB_SECRET_INIT;

                (void)nb_sources_read(&check->sources, paths[i], NB_USER_DATA_MAX, &ignored, NULL);
        }
        check->pending_r = nb_folder_open(state ? state : NB_CHECK_STATE, &fd);
        if (check->pending_r >= 0)
                check->pending_r = nb_file_read_secret(fd, NB_PENDING_KEY_FILE, NB_PENDING_KEY_MAX,
                                                       &check->pending_key, NULL);
        if (!check->has_settings)
                return;
        /* Once this machine has joined, its paths are fixed. */
        if (nb_kubelet_env_read_paths(-1, &of_join) > 0)
                nb_kubelet_paths_set(&of_join, &check->load.settings);
        snprintf(path, sizeof(path), "%s/" NB_RECORD_FILE,
                 check->load.settings.certificate_directory);
        check->is_joined = stat(path, &st) == 0;
        /* No other step needs the key. */
        check->sources.is_keeping = false;
        nb_node_client_read(&check->sources, check->load.settings.kubeconfig, &check->client);
        check->sources.is_keeping = true;
        if (check->is_joined)
                check->client.is_missing = false;
        if (check->is_local)
                nb_identity_done(&check->client.identity);
}

int nb_check_drop(struct nb_check *check, struct nb_failure *f) {
        if (check->is_dropped)
                return 0;
        if (!check->user_data)
                read_for_later(check);
        check->is_dropped = true;
        return nb_privilege_drop(f);
}

/* --- Whether the service can read them, by mode and owner --- */

/*
 * The installer is uid 0 and gid 0 in a user namespace (PrivateUsers=yes) that has no other user
 * than root and the service's own: its capability applies only to files of root.
 */
bool nb_check_is_readable_to_installer(const struct stat *st) {
        if (st->st_uid == 0)
                return (st->st_mode & S_IRUSR) || st->st_gid == 0;
        return st->st_mode & (st->st_gid == 0 ? S_IRGRP : S_IROTH);
}

static int check_file(struct nb_check *check, const char *path, enum nb_code code,
                      struct nb_failure *f) {
        const struct nb_unit *service = &check->units.service;
        bool has_all_users = !strcmp(service->state.load, "loaded") && !service->has_private_users;
        struct stat st;

        /* With an access control list, owner and mode do not decide. */
        if (has_all_users || stat(path, &st) < 0 || nb_check_is_readable_to_installer(&st) ||
            getxattr(path, "system.posix_acl_access", NULL, 0) > 0)
                return 0;
        return nb_failure_set(f, code, EACCES,
                              "'%s' has mode %04o, owner %u and group %u: node-bootstrap.service "
                              "has no access to files of users other than root; expected owner 0 "
                              "(root)",
                              path, st.st_mode & 07777, (unsigned)st.st_uid, (unsigned)st.st_gid);
}

/* The origin of a credential is not a path. */
static int check_document(void *userdata, const struct nb_config_document *document,
                          struct nb_failure *f) {
        return document->origin[0] == '/'
                       ? check_file(userdata, document->origin, NB_SETTINGS_UNREADABLE, f)
                       : 0;
}

static int check_access(struct nb_check *check, struct nb_failure *f) {
        const struct nb_settings *settings = &check->load.settings;
        int r;

        /* The service reads no other folder. */
        if (strcmp(check->sources.config_directory, NB_CONFIG_DIRECTORY) != 0)
                return 0;
        r = nb_sources_config(&check->sources, check_document, check, f);
        if (r >= 0 && settings->discovery_file[0] == '/')
                r = check_file(check, settings->discovery_file, NB_DISCOVERY_FILE_UNREADABLE, f);
        if (r >= 0 && settings->bootstrap_kubeconfig[0] == '/')
                r = check_file(check, settings->bootstrap_kubeconfig,
                               NB_BOOTSTRAP_KUBECONFIG_UNREADABLE, f);
        return r;
}

/* --- The step --- */

int nb_check_settings(struct nb_check *check, struct nb_failure *f) {
        const char *folder = check->sources.config_directory;
        const struct nb_settings *settings = &check->load.settings;
        struct stat st;
        unsigned n;
        int r;

        if (check->is_folder_given && stat(folder, &st) < 0)
                return nb_failure_set(f, NB_SETTINGS_UNREADABLE, errno,
                                      "--config-directory: '%s' cannot be read: %m", folder);
        r = nb_load_settings(&check->load, &check->sources, f);
        if (r < 0)
                return r;
        check->has_settings = true;
        n = print_settings(check, settings);
        if (check->sealed & 1U << NB_CREDENTIAL_CONFIG)
                nb_check_row(check, NB_CHECK_NOTE,
                             "settings in credential '" NB_CREDENTIAL_CONFIG_NAME
                             "' are not checked: only the service can read them");
        else if (n == 0)
                nb_check_row(check, NB_CHECK_NOTE, "none in %s or in a credential", folder);
        if (settings->ignored[0])
                nb_check_row(check, NB_CHECK_NOTE, "ignored, for other phases of kubeadm join: %s",
                             settings->ignored);
        r = nb_settings_verify(settings, f);
        if (r < 0)
                return r;
        r = check_access(check, f);
        if (r < 0)
                return r;
        nb_check_row(check, NB_CHECK_GOOD, "valid");
        return 0;
}
