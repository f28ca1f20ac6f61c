/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/process.h"
#include "metadata/user_data.h"
#include "platform/guestinfo.h"

#define REQUEST_SIZE 512
#define PATIENCE_S "10"
#define STATUS_LATE 124   /* of timeout(1) */
#define STATUS_KILLED 137 /* the same, where it had to use SIGKILL */
#define NO_VALUE "No value found"
#define CLEARED "---"
#define SPACE " \t\r\n"

const struct nb_guestinfo_tool nb_guestinfo_tools[] = {
        { "/usr/bin/vmware-rpctool", NULL },
        { "/usr/bin/vmtoolsd", "--cmd" },
        { NULL, NULL },
};

static const struct nb_guestinfo_tool *find_tool(const struct nb_guestinfo_tool *tools) {
        for (; tools->path; tools++)
                if (access(tools->path, X_OK) == 0)
                        return tools;
        return NULL;
}

bool nb_guestinfo_is_there(const struct nb_guestinfo_tool *tools) {
        return find_tool(tools) != NULL;
}

static bool is_cleared(const struct nb_secret *value) {
        const char *text = value->data + strspn(value->data, SPACE);

        if (strncmp(text, CLEARED, strlen(CLEARED)) == 0)
                text += strlen(CLEARED);
        return text + strspn(text, SPACE) == value->data + value->len;
}

/* The tools have one exit status for all failures, and vmtoolsd writes the message to standard
 * output. */
static bool has_no_value(const struct nb_process_result *result, const struct nb_secret *output) {
        return strstr(result->error, NO_VALUE) || strstr(output->data, NO_VALUE);
}

int nb_guestinfo_get(const struct nb_guestinfo_tool *tools, const char *key,
                     struct nb_secret *ret_value, struct nb_failure *f) {
        const struct nb_guestinfo_tool *tool = find_tool(tools);
        _cleanup_(nb_secret_done) struct nb_secret value = NB_SECRET_INIT;
        struct nb_process_result result = { 0 };
        char request[REQUEST_SIZE];
        int r;

        if (!tool)
                return nb_failure_set(f, NB_PLATFORM_UNREADABLE, ENOENT,
                                      "%s: neither vmware-rpctool nor vmtoolsd is installed", key);
        if (nb_secret_init(&value, NB_USER_DATA_MAX + 1) < 0)
                return nb_failure_set_memory(f);
        snprintf(request, sizeof(request), "info-get %s", key);
        r = nb_process_run((const char *const[]){ "timeout", "--kill-after=1", PATIENCE_S,
                                                  tool->path, tool->option ? tool->option : request,
                                                  tool->option ? request : NULL, NULL },
                           NULL, 0, &value, &result);
        if (r == -E2BIG)
                return nb_failure_set(f, NB_PLATFORM_UNREADABLE, E2BIG, "%s has more than %d bytes",
                                      key, NB_USER_DATA_MAX);
        if (r < 0)
                return nb_failure_set(f, NB_PLATFORM_UNREADABLE, r, "%s: '%s' cannot be run: %m",
                                      key, tool->path);
        if (result.status == STATUS_LATE || result.status == STATUS_KILLED)
                return nb_failure_set(f, NB_PLATFORM_UNREADABLE, ETIMEDOUT,
                                      "%s: '%s' did not answer within " PATIENCE_S " s", key,
                                      tool->path);
        if (result.status != 0 && has_no_value(&result, &value))
                return 0;
        if (result.status != 0)
                return nb_failure_set(f, NB_PLATFORM_UNREADABLE, EIO,
                                      "%s: '%s' ended with exit status %d: '%s'", key, tool->path,
                                      result.status, result.error);
        /* The tool ends the value with a newline of its own. */
        if (value.len > 0 && value.data[value.len - 1] == '\n')
                value.data[--value.len] = '\0';
        if (is_cleared(&value))
                return 0;
        *ret_value = value;
        value = (struct nb_secret)NB_SECRET_INIT;
        return 0;
}
