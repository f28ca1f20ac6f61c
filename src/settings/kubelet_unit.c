/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "settings/kubelet_unit.h"
#include "system/unit.h"

int nb_kubelet_show(struct nb_unit *ret_unit) {
        struct nb_failure ignored = { 0 };

        if (!nb_systemd_is_running())
                return -ENODATA;
        return nb_unit_read(NB_KUBELET_UNIT, ret_unit, &ignored);
}

static void add_list(const struct nb_unit *unit, enum nb_unit_list list, struct nb_buffer *ret) {
        for (const char *value = NULL; (value = nb_unit_next(unit, list, value));)
                nb_buffer_printf(ret, "%s ", value);
        nb_buffer_append_string(ret, "\n");
}

void nb_kubelet_read_arguments(struct nb_sources *sources, const struct nb_unit *unit,
                               struct nb_buffer *ret) {
        const char *path = NULL;

        add_list(unit, NB_UNIT_COMMAND, ret);
        add_list(unit, NB_UNIT_ENVIRONMENT, ret);
        while ((path = nb_unit_next(unit, NB_UNIT_ENVIRONMENT_FILES, path))) {
                _cleanup_(nb_secret_done) struct nb_secret file = NB_SECRET_INIT;

                if (nb_sources_read(sources, path, NB_KUBELET_ARGUMENTS_MAX, &file, NULL) >= 0)
                        nb_buffer_printf(ret, "%s\n", file.data);
        }
}

bool nb_kubelet_find_argument(const char *arguments, const char *name, char *ret, size_t size) {
        const char *text = arguments ? arguments : "";
        bool is_found = false;

        for (const char *at = text; (at = strstr(at, name)); at += strlen(name)) {
                const char *value = at + strlen(name);

                if ((*value != '=' && *value != ' ') ||
                    (at > text && isalnum((unsigned char)at[-1])))
                        continue;
                value += 1 + strspn(value + 1, "\"'");
                snprintf(ret, size, "%.*s", (int)strcspn(value, " \t\n\"'"), value);
                is_found = true;
        }
        return is_found;
}
