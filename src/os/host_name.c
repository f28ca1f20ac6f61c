/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "os/sources.h"

#define OS_RELEASE_MAX ((size_t)64 * 1024)

int nb_sources_host_name(char ret[static HOST_NAME_MAX + 1], struct nb_failure *f) {
        ret[HOST_NAME_MAX] = '\0';
        if (gethostname(ret, HOST_NAME_MAX + 1) < 0)
                return nb_failure_set(f, NB_INTERNAL, errno, "the host name cannot be read: %m");
        return 0;
}

bool nb_host_name_is_localhost(const char *name) {
        static const char localhost[] = "localhost";
        size_t len = sizeof(localhost) - 1;

        return !strncasecmp(name, localhost, len) && (!name[len] || name[len] == '.');
}

/* Whether os-release has DEFAULT_HOSTNAME=NAME, quoted or not. */
static bool is_default(int root_fd, const char *name) {
        static const char *const files[] = { "/etc/os-release", "/usr/lib/os-release" };
        static const char key[] = "DEFAULT_HOSTNAME=";
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        const char *value;
        size_t len;
        int r = -ENOENT;

        for (size_t i = 0; i < N_ELEMENTS(files) && r < 0; i++)
                r = nb_path_read(root_fd, files[i], OS_RELEASE_MAX, &text);
        value = r < 0 ? NULL : strstr(text.data, key);
        while (value && value > text.data && value[-1] != '\n')
                value = strstr(value + 1, key);
        if (!value)
                return false;
        value += sizeof(key) - 1;
        value += strspn(value, "\"'");
        len = strcspn(value, "\"'\n");
        return len == strlen(name) && !strncasecmp(value, name, len);
}

bool nb_host_name_is_set(int root_fd, const char *name) {
        /* "(none)" is the kernel's. */
        return name[0] && strcmp(name, "(none)") != 0 && !nb_host_name_is_localhost(name) &&
               !is_default(root_fd, name);
}
