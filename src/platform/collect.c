/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/macro.h"
#include "format/kernel_line.h"
#include "platform/collect.h"
#include "platform/volume.h"

#define DMI_MAX 128
#define DIRECTORY_LEN (sizeof(NB_PLATFORM_DIRECTORY "/") - 1)
#define NAME(path) ((path) + DIRECTORY_LEN)

const struct nb_places nb_places = { NB_KERNEL_LINE_PATH, "/sys/class/dmi/id", NB_VOLUME_BY_LABEL, nb_guestinfo_tools };

static int unwritable(const char *name, int r, struct nb_failure *f) {
        errno = -r;
        return nb_failure_set(f, NB_PLATFORM_UNREADABLE, -r, "'%s' in the runtime directory cannot be written: %m", name);
}

static int clear(int folder_fd, struct nb_failure *f) {
        static const char *const paths[] = { NB_PLATFORM_NOTE, NB_PLATFORM_USER_DATA, NB_PLATFORM_META_DATA, NB_PLATFORM_TOKEN };

        for (size_t i = 0; i < N_ELEMENTS(paths); i++) {
                int r = nb_file_remove(folder_fd, NAME(paths[i]));

                if (r < 0)
                        return unwritable(NAME(paths[i]), r, f);
        }
        return 0;
}

static int leave(int folder_fd, const char *path, const struct nb_secret *data, struct nb_failure *f) {
        int r;

        if (data->len == 0)
                return 0;
        r = nb_file_write(folder_fd, NAME(path), 0600, data->data, data->len);
        return r < 0 ? unwritable(NAME(path), r, f) : 0;
}

/* A whole file of a kernel file system, where what `path` is a link or has one in it is nobody's choice but the kernel's. */
static int read_kernel(const char *path, struct nb_buffer *ret) {
        _cleanup_(nb_closep) int folder_fd = -1;
        char folder[NAME_MAX + 1];
        const char *name;
        int r;

        r = nb_path_split(path, folder, sizeof(folder), &name);
        if (r >= 0)
                r = nb_folder_open(folder, &folder_fd);
        return r < 0 ? r : nb_file_read(folder_fd, name, ret, NULL);
}

static int take_kernel_line(const struct nb_places *places, struct nb_platform *platform, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer line = NB_BUFFER_INIT(NB_KERNEL_LINE_MAX);
        int r = read_kernel(places->kernel_line, &line);

        if (r < 0) {
                errno = -r;
                return nb_failure_set(f, NB_PLATFORM_UNREADABLE, -r, "the kernel command line, '%s', cannot be read: %m", places->kernel_line);
        }
        nb_kernel_line_parse(line.data, line.len, platform);
        return 0;
}

static int take_volume(const struct nb_places *places, int folder_fd, struct nb_platform *platform, struct nb_failure *f) {
        _cleanup_(nb_volume_done) struct nb_volume volume = NB_VOLUME_INIT;
        enum nb_volume_kind first = strncmp(platform->data_source, "nocloud", strlen("nocloud")) == 0 ? NB_VOLUME_NOCLOUD : NB_VOLUME_CONFIG_DRIVE;
        int r;

        r = nb_volume_read(places->by_label, first, &volume, f);
        if (r < 0 || !volume.label)
                return r;
        r = leave(folder_fd, NB_PLATFORM_USER_DATA, &volume.user_data, f);
        if (r >= 0)
                r = leave(folder_fd, NB_PLATFORM_META_DATA, &volume.meta_data, f);
        if (r < 0)
                return r;
        (void)snprintf(platform->volume, sizeof(platform->volume), "%s", volume.label);
        nb_log(LOG_INFO, NB_NONE, "volume '%s': %zu bytes of user data, %zu bytes of metadata", volume.label, volume.user_data.len, volume.meta_data.len);
        return 0;
}

/* The tool is there on machines of other platforms as well, and says then that it cannot reach VMware. */
static bool is_vmware(const struct nb_places *places, const struct nb_platform *platform) {
        static const char *const names[] = { "sys_vendor", "product_name" };

        if (strcmp(platform->platform_id, "vmware") == 0)
                return true;
        for (size_t i = 0; i < N_ELEMENTS(names); i++) {
                _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(DMI_MAX);
                char path[NAME_MAX + 1];

                (void)snprintf(path, sizeof(path), "%s/%s", places->dmi, names[i]);
                if (read_kernel(path, &text) >= 0 && text.len >= 3 && (strncmp(text.data, "VMware", 6) == 0 || strncmp(text.data, "VMW", 3) == 0))
                        return true;
        }
        return false;
}

static int take_guestinfo(const struct nb_places *places, int folder_fd, struct nb_platform *platform, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret user_data = NB_SECRET_INIT;
        _cleanup_(nb_secret_done) struct nb_secret token = NB_SECRET_INIT;
        int r;

        if (!is_vmware(places, platform))
                return 0;
        if (!nb_guestinfo_is_there(places->tools)) {
                nb_log(LOG_INFO, NB_NONE, "this is a VMware machine without vmware-rpctool and vmtoolsd: its guestinfo cannot be read");
                return 0;
        }
        r = nb_guestinfo_get(places->tools, NB_GUESTINFO_TOKEN, &token, f);
        if (r >= 0)
                r = nb_guestinfo_get(places->tools, NB_GUESTINFO_USER_DATA, &user_data, f);
        if (r >= 0)
                r = leave(folder_fd, NB_PLATFORM_TOKEN, &token, f);
        /* A volume was attached for this; what is beside it counts for less. */
        if (r >= 0 && !platform->volume[0])
                r = leave(folder_fd, NB_PLATFORM_USER_DATA, &user_data, f);
        if (r < 0)
                return r;
        platform->has_guestinfo = true;
        nb_log(LOG_INFO, NB_NONE, "VMware's guestinfo: %zu bytes of user data, %s", user_data.len, token.len > 0 ? "a token" : "no token");
        return 0;
}

static int write_note(const struct nb_platform *platform, int folder_fd, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer note = NB_BUFFER_INIT(NB_PLATFORM_NOTE_MAX);
        int r = nb_platform_format(platform, &note);

        if (r >= 0)
                r = nb_file_write(folder_fd, NAME(NB_PLATFORM_NOTE), 0600, note.data, note.len);
        return r < 0 ? unwritable(NAME(NB_PLATFORM_NOTE), r, f) : 0;
}

int nb_collect(const struct nb_places *places, int folder_fd, struct nb_failure *f) {
        struct nb_platform platform = { 0 };
        int result, r;

        r = clear(folder_fd, f);
        if (r < 0)
                return r;
        /* A failure that is set is left alone by those after it. */
        result = take_kernel_line(places, &platform, f);
        r = take_volume(places, folder_fd, &platform, f);
        result = result < 0 ? result : r;
        r = take_guestinfo(places, folder_fd, &platform, f);
        result = result < 0 ? result : r;
        r = write_note(&platform, folder_fd, f);
        return result < 0 ? result : r;
}
