/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "metadata/kernel_line.h"
#include "platform/collect.h"
#include "platform/volume.h"
#include "systemd/log.h"

const struct nb_places nb_places = { NB_KERNEL_LINE_PATH, "/sys/class/dmi/id", NB_VOLUME_BY_LABEL,
                                     nb_guestinfo_tools };

struct found {
        struct nb_platform platform;
        struct nb_volume volume; /* has the user data of guestinfo if there is no volume */
        struct nb_secret token;  /* of guestinfo */
};

#define FOUND_INIT \
        { .volume = NB_VOLUME_INIT, .token = NB_SECRET_INIT }

static void found_done(struct found *found) {
        nb_volume_done(&found->volume);
        nb_secret_done(&found->token);
}

/* Files of /proc and /sys have no size, so one read(2) gets all of the file. */
static ssize_t read_kernel(const char *path, char *ret, size_t size) {
        _cleanup_(nb_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        ssize_t n = fd < 0 ? -1 : read(fd, ret, size);

        return n < 0 ? -errno : n;
}

static int take_kernel_line(const struct nb_places *places, struct found *found,
                            struct nb_failure *f) {
        char line[NB_KERNEL_LINE_MAX];
        ssize_t n = read_kernel(places->kernel_line, line, sizeof(line));

        if (n < 0)
                return nb_failure_set(f, NB_PLATFORM_UNREADABLE, (int)n,
                                      "the kernel command line '%s' cannot be read: %m",
                                      places->kernel_line);
        nb_kernel_line_parse(line, (size_t)n, &found->platform);
        return 0;
}

static int take_volume(const struct nb_places *places, struct found *found, struct nb_failure *f) {
        const char *data_source = found->platform.data_source;
        bool is_nocloud = strncmp(data_source, "nocloud", strlen("nocloud")) == 0;
        int r;

        r = nb_volume_read(places->by_label,
                           is_nocloud ? NB_VOLUME_NOCLOUD : NB_VOLUME_CONFIG_DRIVE, &found->volume,
                           f);
        if (r < 0)
                nb_volume_done(&found->volume);
        if (!found->volume.label)
                return r;
        snprintf(found->platform.volume, sizeof(found->platform.volume), "%s", found->volume.label);
        nb_log(LOG_INFO, NB_NONE, "volume '%s': %zu bytes of user data, %zu bytes of metadata",
               found->volume.label, found->volume.user_data.len, found->volume.meta_data.len);
        return 0;
}

/* Checked first: the tools may be installed on other platforms, where they fail. */
static bool is_vmware(const struct nb_places *places, const struct nb_platform *platform) {
        static const char *const names[] = { "sys_vendor", "product_name" };

        if (strcmp(platform->platform_id, "vmware") == 0)
                return true;
        for (size_t i = 0; i < N_ELEMENTS(names); i++) {
                char path[NAME_MAX + 1], text[3];

                snprintf(path, sizeof(path), "%s/%s", places->dmi, names[i]);
                if (read_kernel(path, text, sizeof(text)) == sizeof(text) &&
                    strncasecmp(text, "VMW", sizeof(text)) == 0)
                        return true;
        }
        return false;
}

static int take_guestinfo(const struct nb_places *places, struct found *found,
                          struct nb_failure *f) {
        const struct nb_guestinfo_tool *tool = nb_guestinfo_find(places->tools);
        int r;

        if (!is_vmware(places, &found->platform))
                return 0;
        if (!tool) {
                nb_log(LOG_INFO, NB_NONE,
                       "guestinfo is not read: neither vmware-rpctool nor vmtoolsd is installed");
                return 0;
        }
        r = nb_guestinfo_get(tool, NB_GUESTINFO_TOKEN, &found->token, f);
        /* A volume was attached on purpose, so it takes precedence over guestinfo.userdata. */
        if (r >= 0 && !found->volume.label)
                r = nb_guestinfo_get(tool, NB_GUESTINFO_USER_DATA, &found->volume.user_data, f);
        if (r < 0)
                return r;
        found->platform.has_guestinfo = true;
        nb_log(LOG_INFO, NB_NONE, "VMware's guestinfo: %zu bytes of user data, %s",
               found->volume.label ? 0 : found->volume.user_data.len,
               found->token.len > 0 ? "a token" : "no token");
        return 0;
}

/* Removes a file whose value is empty, so that no value of an earlier run remains. */
static int write_all(const struct found *found, int folder_fd, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer note = NB_BUFFER_INIT(NB_PLATFORM_NOTE_MAX);
        int r = nb_state_file_format(&nb_platform_file, &found->platform, &note);
        const struct {
                const char *path, *data;
                size_t len;
        } files[] = {
                { NB_PLATFORM_USER_DATA, found->volume.user_data.data,
                  found->volume.user_data.len },
                { NB_PLATFORM_META_DATA, found->volume.meta_data.data,
                  found->volume.meta_data.len },
                { NB_PLATFORM_TOKEN, found->token.data, found->token.len },
                { NB_PLATFORM_NOTE, note.data, note.len },
        };

        for (size_t i = 0; i < N_ELEMENTS(files) && r >= 0; i++) {
                const char *name = files[i].path + sizeof(NB_PLATFORM_DIRECTORY);

                r = files[i].len > 0
                            ? nb_file_write(folder_fd, name, 0600, files[i].data, files[i].len)
                            : nb_file_remove(folder_fd, name);
                if (r < 0)
                        return nb_failure_set(f, NB_PLATFORM_UNREADABLE, r,
                                              "'%s' cannot be written: %m", files[i].path);
        }
        return r < 0 ? nb_failure_set_memory(f) : 0;
}

int nb_collect(const struct nb_places *places, int folder_fd, struct nb_failure *f) {
        static int (*const take[])(const struct nb_places *, struct found *,
                                   struct nb_failure *) = { take_kernel_line, take_volume,
                                                            take_guestinfo };
        _cleanup_(found_done) struct found found = FOUND_INIT;
        int result = 0, r;

        for (size_t i = 0; i < N_ELEMENTS(take); i++) {
                r = take[i](places, &found, f);
                result = result < 0 ? result : r;
        }
        r = write_all(&found, folder_fd, f);
        return result < 0 ? result : r;
}
