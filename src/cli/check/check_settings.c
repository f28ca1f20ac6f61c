/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "base/macro.h"
#include "cli/check/check_internal.h"
#include "metadata/user_data.h"
#include "os/privilege.h"
#include "settings/kubelet_env.h"
#include "state_files/platform_note.h"

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
                bool is_set = nb_setting_is_set(settings, i);

                if (is_set || check->shows_all)
                        nb_check_print_setting(check, settings, i, NULL);
                n += is_set;
        }
        return n;
}

/* --- Files that only root can read --- */

/* The serving certificate that a join with k3s has written. */
static void read_serving(struct nb_check *check) {
        _cleanup_(nb_secret_done) struct nb_secret pem = NB_SECRET_INIT;
        char path[NB_SETTINGS_PATH_MAX + sizeof(NB_STORE_SERVING) + 1];

        snprintf(path, sizeof(path), "%s/" NB_STORE_SERVING,
                 check->load.settings.certificate_directory);
        if (nb_sources_read(&check->sources, path, NB_HANDOFF_MAX, &pem, NULL) >= 0)
                (void)nb_certificates_parse(pem.data, pem.len, true, &check->serving);
}

/* Reads files that only root can read, for use after the capability is dropped. */
static void read_for_later(struct nb_check *check) {
        static const char *const paths[] = { NB_PLATFORM_NOTE, NB_PLATFORM_USER_DATA,
                                             NB_PLATFORM_META_DATA, NB_PLATFORM_TOKEN,
                                             NB_NODE_PASSWORD_FILE };
        struct nb_kubelet_paths of_join;

        for (size_t i = 0; i < N_ELEMENTS(paths); i++) {
                _cleanup_(nb_secret_done) struct nb_secret ignored = NB_SECRET_INIT;

                (void)nb_sources_read(&check->sources, paths[i], NB_USER_DATA_MAX, &ignored, NULL);
        }
        if (!check->has_settings || check->part == NB_CHECK_OF_SERVICE)
                return;
        /* Once this machine has joined, its paths are fixed. */
        if (nb_kubelet_env_read_paths(-1, &of_join) > 0)
                nb_kubelet_paths_set(&of_join, &check->load.settings);
        /* No other step needs the key. */
        check->sources.is_keeping = false;
        nb_node_client_read(&check->sources, check->load.settings.kubeconfig, &check->client);
        read_serving(check);
        check->sources.is_keeping = true;
        if (check->has_traces)
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
        return check->part == NB_CHECK_OF_SERVICE
                       ? nb_privilege_switch(check->user, check->group, 0, f)
                       : nb_privilege_drop(f);
}

/* --- The step --- */

int nb_check_settings(struct nb_check *check, struct nb_failure *f) {
        const char *folder = check->sources.config_directory;
        const struct nb_settings *settings = &check->load.settings;
        unsigned n;
        int r;

        /* With --user-data. */
        if (!folder && check->unread.code == NB_NONE)
                return 0;
        r = nb_load_settings(&check->load, &check->sources, f);
        if (r >= 0 && check->unread.code != NB_NONE) {
                *f = check->unread;
                r = -f->errnum;
        }
        if (r < 0)
                return r;
        check->has_settings = true;
        n = print_settings(check, settings);
        if (n == 0)
                nb_check_row(check, NB_CHECK_NOTE, "no settings in %s or a credential", folder);
        if (settings->ignored[0])
                nb_check_row(check, NB_CHECK_NOTE, "ignored, for other phases of kubeadm join: %s",
                             settings->ignored);
        r = nb_settings_verify(settings, f);
        if (r < 0)
                return r;
        if (n > 0)
                nb_check_row(check, NB_CHECK_GOOD, "valid");
        return 0;
}
