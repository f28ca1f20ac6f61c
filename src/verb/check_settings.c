/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/macro.h"
#include "format/settings_text.h"
#include "verb/check_internal.h"

int nb_check_print_setting(const struct nb_check *check, const struct nb_settings *settings, enum nb_setting setting, const char *instead) {
        _cleanup_(nb_buffer_done) struct nb_buffer value = NB_BUFFER_INIT(NB_SETTINGS_TEXT_MAX);
        const char *origin = settings->origin[setting];

        if (nb_setting_format(settings, setting, &value) < 0)
                return -ENOMEM;
        if (instead)
                nb_check_row(check, NB_CHECK_NOTE, "%s: %s (%s), which does not count: %s is stronger", nb_setting_key(setting), value.data, origin, instead);
        else
                nb_check_row(check, NB_CHECK_NOTE, "%s: %s (%s)", nb_setting_key(setting), value.data, origin);
        return 0;
}

static int print_settings(const struct nb_check *check) {
        int r = 0;

        for (unsigned i = 0; i < _NB_SETTING_N && r >= 0; i++)
                if (check->shows_all || nb_setting_is_set(&check->settings, (enum nb_setting)i))
                        r = nb_check_print_setting(check, &check->settings, (enum nb_setting)i, NULL);
        return r;
}

static bool is_any_set(const struct nb_settings *settings) {
        for (unsigned i = 0; i < _NB_SETTING_N; i++)
                if (nb_setting_is_set(settings, (enum nb_setting)i))
                        return true;
        return false;
}

int nb_check_settings(struct nb_check *check, struct nb_failure *f) {
        struct nb_settings *settings = &check->settings;
        int r;

        r = nb_check_folder(check, f);
        if (r >= 0)
                r = nb_load_settings(check->config_directory, &check->tokens, settings, f);
        nb_check_print_unread_settings(check);
        if (r < 0)
                return r;
        check->has_settings = true;
        if (!is_any_set(settings))
                nb_check_row(check, NB_CHECK_NOTE, "none: no document in %s or among the credentials has one", check->config_directory);
        r = print_settings(check);
        if (r < 0)
                return nb_failure_set_memory(f);
        if (settings->ignored[0])
                nb_check_row(check, NB_CHECK_NOTE, "ignored, being for other phases of kubeadm join: %s", settings->ignored);
        r = nb_settings_verify(settings, f);
        if (r >= 0)
                r = nb_check_reach(check, f);
        if (r >= 0)
                nb_check_row(check, NB_CHECK_GOOD, "in order");
        return r;
}
