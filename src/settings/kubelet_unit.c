/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "settings/kubelet_unit.h"
#include "system/unit.h"

int nb_kubelet_show(struct nb_secret *ret_text) {
        struct nb_failure ignored = { 0 };

        if (!nb_systemd_is_running())
                return -ENODATA;
        return nb_unit_read(NB_KUBELET_UNIT, ret_text, &ignored);
}

static void add_property(const char *text, const char *property, struct nb_buffer *ret) {
        size_t len = 0;
        const char *value = nb_unit_find_property(text, property, &len);

        nb_buffer_printf(ret, "%.*s\n", (int)len, value ? value : "");
}

void nb_kubelet_read_arguments(struct nb_sources *sources, const char *text,
                               struct nb_buffer *ret) {
        const char *line = text, *value;
        size_t len = 0;

        add_property(text, "ExecStart", ret);
        add_property(text, "Environment", ret);
        /* "EnvironmentFiles=/etc/default/kubelet yes", one line for each. */
        while ((value = nb_unit_find_property(line, "EnvironmentFiles", &len))) {
                _cleanup_(nb_secret_done) struct nb_secret file = NB_SECRET_INIT;
                char path[PATH_MAX];

                snprintf(path, sizeof(path), "%.*s", (int)strcspn(value, " \n"), value);
                line = value + len;
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
