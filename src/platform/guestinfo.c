/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/macro.h"
#include "metadata/user_data.h"
#include "os/process.h"
#include "platform/guestinfo.h"

#define REQUEST_SIZE 512
#define TIMEOUT_MS 10000
/* The answer of the host to info-get; DataSourceVMware.py of cloud-init searches for it, too. The
 * tools have one exit status for all failures, and vmtoolsd writes this to standard output. */
#define NO_VALUE "No value found"
#define CLEARED "---"
#define SPACE " \t\r\n"

const struct nb_guestinfo_tool nb_guestinfo_tools[] = {
        { "/usr/bin/vmware-rpctool", NULL },
        { "/usr/bin/vmtoolsd", "--cmd" },
        { NULL, NULL },
};

const struct nb_guestinfo_tool *nb_guestinfo_find(const struct nb_guestinfo_tool *tools) {
        while (tools->path && access(tools->path, X_OK) < 0)
                tools++;
        return tools->path ? tools : NULL;
}

static bool is_cleared(const struct nb_secret *value) {
        const char *text = value->data + strspn(value->data, SPACE);

        if (strncmp(text, CLEARED, strlen(CLEARED)) == 0)
                text += strlen(CLEARED);
        return text + strspn(text, SPACE) == value->data + value->len;
}

int nb_guestinfo_get(const struct nb_guestinfo_tool *tool, const char *key,
                     struct nb_secret *ret_value, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret value = NB_SECRET_INIT;
        struct nb_process_result result = { 0 };
        const char *why = result.error;
        char request[REQUEST_SIZE];
        int r;

        if (nb_secret_init(&value, NB_USER_DATA_MAX) < 0)
                return nb_failure_set_memory(f);
        snprintf(request, sizeof(request), "info-get %s", key);
        r = nb_process_run(
                &(struct nb_process){
                        .argv = (const char *const[]){ tool->path,
                                                       tool->option ? tool->option : request,
                                                       tool->option ? request : NULL, NULL },
                        .output = &value,
                        .timeout_ms = TIMEOUT_MS,
                },
                &result);
        if (r < 0 && r != -E2BIG)
                return nb_failure_set(f, NB_PLATFORM_UNREADABLE, r, "'%s' cannot be run: %m",
                                      tool->path);
        if (r >= 0 && result.status != 0 &&
            (strstr(result.error, NO_VALUE) || strstr(value.data, NO_VALUE)))
                return 0;
        if (r == -E2BIG)
                why = "it is larger than 1 MiB";
        if (r < 0 || result.status != 0)
                return nb_failure_set(f, NB_PLATFORM_UNREADABLE, EIO,
                                      "'%s' cannot read %s (exit status %d): %s", tool->path, key,
                                      result.status, why);
        /* The tool appends a newline to the value. */
        if (value.len > 0 && value.data[value.len - 1] == '\n')
                value.data[--value.len] = '\0';
        if (!is_cleared(&value))
                *ret_value = TAKE(value);
        return 0;
}
