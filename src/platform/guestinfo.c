/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/process.h"
#include "format/user_data.h"
#include "platform/guestinfo.h"

#define REQUEST_SIZE 512
#define PATIENCE_S "10"
#define STATUS_LATE 124   /* of timeout(1) */
#define STATUS_KILLED 137 /* the same, where SIGTERM did not do */
#define NO_VALUE "No value found"
#define CLEARED "---"

const struct nb_guestinfo_tool nb_guestinfo_tools[] = {
        { "/usr/bin/vmware-rpctool", NULL },
        { "/usr/bin/vmtoolsd", "--cmd" },
        { NULL, NULL },
};

static const struct nb_guestinfo_tool *find(const struct nb_guestinfo_tool *tools) {
        for (; tools->path; tools++)
                if (access(tools->path, X_OK) == 0)
                        return tools;
        return NULL;
}

bool nb_guestinfo_is_there(const struct nb_guestinfo_tool *tools) {
        return find(tools) != NULL;
}

/* One value is a line: the tool ends it with a newline of its own. */
static int ask(const struct nb_guestinfo_tool *tools, const char *key, const char *request, struct nb_secret *output,
               struct nb_process_result *ret_result, struct nb_failure *f) {
        const struct nb_guestinfo_tool *tool = find(tools);
        const char *argv[8];
        size_t n = 0;
        int r;

        if (!tool)
                return nb_failure_set(f, NB_PLATFORM_UNREADABLE, ENOENT, "%s: there is no vmware-rpctool and no vmtoolsd", key);
        argv[n++] = "timeout";
        argv[n++] = "--kill-after=1";
        argv[n++] = PATIENCE_S;
        argv[n++] = tool->path;
        if (tool->option)
                argv[n++] = tool->option;
        argv[n++] = request;
        argv[n] = NULL;
        r = nb_process_run(argv, NULL, 0, output, ret_result);
        if (r == -E2BIG)
                return nb_failure_set(f, NB_PLATFORM_UNREADABLE, E2BIG, "%s has more than %d bytes", key, NB_USER_DATA_MAX);
        if (r < 0) {
                errno = -r;
                return nb_failure_set(f, NB_PLATFORM_UNREADABLE, -r, "%s: '%s' cannot be run: %m", key, tool->path);
        }
        if (ret_result->status == STATUS_LATE || ret_result->status == STATUS_KILLED)
                return nb_failure_set(f, NB_PLATFORM_UNREADABLE, ETIMEDOUT, "%s: '%s' did not answer within " PATIENCE_S " s", key, tool->path);
        return 0;
}

static int refused(const char *key, const struct nb_process_result *result, struct nb_failure *f) {
        return nb_failure_set(f, NB_PLATFORM_UNREADABLE, EIO, "%s: VMware's tool ended with exit status %d: '%s'", key, result->status, result->error);
}

static bool is_cleared(const struct nb_secret *value) {
        size_t begin = 0, end = value->len;

        while (begin < end && strchr(" \t\r\n", value->data[begin]))
                begin++;
        while (end > begin && strchr(" \t\r\n", value->data[end - 1]))
                end--;
        return begin == end || (end - begin == strlen(CLEARED) && memcmp(value->data + begin, CLEARED, strlen(CLEARED)) == 0);
}

int nb_guestinfo_get(const struct nb_guestinfo_tool *tools, const char *key, struct nb_secret *ret_value, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret value = NB_SECRET_INIT;
        struct nb_process_result result = { 0 };
        char request[REQUEST_SIZE];
        int r;

        if (nb_secret_init(&value, NB_USER_DATA_MAX + 1) < 0)
                return nb_failure_set_memory(f);
        (void)snprintf(request, sizeof(request), "info-get %s", key);
        r = ask(tools, key, request, &value, &result, f);
        if (r < 0)
                return r;
        /* One exit status for everything; and vmtoolsd says it on standard output. */
        if (result.status != 0)
                return strstr(result.error, NO_VALUE) || (value.len > 0 && strstr(value.data, NO_VALUE)) ? 0 : refused(key, &result, f);
        if (value.len > 0 && value.data[value.len - 1] == '\n')
                value.data[--value.len] = '\0';
        if (is_cleared(&value))
                return 0;
        *ret_value = value;
        value = (struct nb_secret)NB_SECRET_INIT;
        return 0;
}

int nb_guestinfo_set(const struct nb_guestinfo_tool *tools, const char *key, const char *value, struct nb_failure *f) {
        struct nb_process_result result = { 0 };
        char request[REQUEST_SIZE];
        int r;

        (void)snprintf(request, sizeof(request), "info-set %s %s", key, value);
        r = ask(tools, key, request, NULL, &result, f);
        if (r < 0)
                return r;
        return result.status != 0 ? refused(key, &result, f) : 0;
}
