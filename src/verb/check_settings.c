/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/macro.h"
#include "format/settings_text.h"
#include "verb/check_internal.h"

int nb_check_print_settings(const struct nb_check *check, const struct nb_settings *settings, const char *origin) {
        for (unsigned i = 0; i < _NB_SETTING_N; i++) {
                _cleanup_(nb_buffer_done) struct nb_buffer value = NB_BUFFER_INIT(NB_SETTINGS_TEXT_MAX);
                enum nb_setting setting = (enum nb_setting)i;

                if (origin ? strcmp(settings->origin[i], origin) != 0 : !check->shows_all && !nb_setting_is_set(settings, setting))
                        continue;
                if (nb_setting_format(settings, setting, &value) < 0)
                        return -ENOMEM;
                nb_check_row(check, NB_CHECK_NOTE, "%s: %s (%s)", nb_setting_key(setting), value.data, settings->origin[i]);
        }
        return 0;
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

        r = nb_load_settings(check->config_directory, &check->tokens, settings, f);
        if (r < 0)
                return r;
        check->has_settings = true;
        if (!is_any_set(settings))
                nb_check_row(check, NB_CHECK_NOTE, "none: no document in %s or among the credentials has one", check->config_directory);
        r = nb_check_print_settings(check, settings, NULL);
        if (r < 0)
                return nb_failure_set_memory(f);
        if (settings->ignored[0])
                nb_check_row(check, NB_CHECK_NOTE, "ignored, being for other phases of kubeadm join: %s", settings->ignored);
        r = nb_settings_verify(settings, f);
        if (r >= 0)
                nb_check_row(check, NB_CHECK_GOOD, "in order");
        return r;
}
