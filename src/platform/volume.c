/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "metadata/user_data.h"
#include "platform/volume.h"

#define PATH_SIZE 256
_Static_assert(NB_USER_DATA_MAX >> 20 == 1, "a message says \"1 MiB\"");

static const struct layout {
        const char *labels[2];  /* lower case first */
        const char *folders[2]; /* none: the root of the volume */
        const char *user_data, *meta_data;
} layouts[_NB_VOLUME_N] = {
        [NB_VOLUME_CONFIG_DRIVE] = { { "config-2", "CONFIG-2" },
                                     { "openstack", "latest" },
                                     "user_data",
                                     "meta_data.json" },
        [NB_VOLUME_NOCLOUD] = { { "cidata", "CIDATA" }, { NULL }, "user-data", "meta-data" },
};

/* --- Mounting --- */

static long configure_mount(int context_fd, unsigned command, const char *key, const char *value) {
        return syscall(SYS_fsconfig, context_fd, command, key, value, 0);
}

/* glibc has these calls since 2.36. "uid=0" makes root the owner of all files: reading files of
 * other users would need one more capability. */
static int mount_as(const char *type, const char *device, int *ret_fd) {
        _cleanup_(nb_closep) int context_fd = (int)syscall(SYS_fsopen, type, FSOPEN_CLOEXEC);
        int fd;

        if (context_fd < 0 ||
            configure_mount(context_fd, FSCONFIG_SET_STRING, "source", device) < 0 ||
            configure_mount(context_fd, FSCONFIG_SET_STRING, "uid", "0") < 0 ||
            configure_mount(context_fd, FSCONFIG_SET_FLAG, "ro", NULL) < 0 ||
            configure_mount(context_fd, FSCONFIG_CMD_CREATE, NULL, NULL) < 0)
                return -errno;
        fd = (int)syscall(SYS_fsmount, context_fd, FSMOUNT_CLOEXEC,
                          MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                  MOUNT_ATTR_NOEXEC);
        if (fd < 0)
                return -errno;
        *ret_fd = fd;
        return 0;
}

static int mount_volume(const char *device, int *ret_fd, struct nb_failure *f) {
        int iso9660 = mount_as("iso9660", device, ret_fd),
            vfat = iso9660 < 0 ? mount_as("vfat", device, ret_fd) : 0;

        if (vfat >= 0)
                return 0;
        return nb_failure_set(f, NB_PLATFORM_UNREADABLE, vfat,
                              "volume '%s' cannot be mounted as iso9660: %s; nor as vfat: %m",
                              device, strerrordesc_np(-iso9660));
}

/* --- Reading --- */

/* openat2() would be simpler, but it fails with ENOSYS under RestrictSUIDSGID=. */
static int open_folder(int root_fd, const struct layout *layout, int *ret_fd) {
        int fd = fcntl(root_fd, F_DUPFD_CLOEXEC, 0);

        for (size_t i = 0; fd >= 0 && i < N_ELEMENTS(layout->folders) && layout->folders[i]; i++) {
                _cleanup_(nb_closep) int parent_fd = fd;

                fd = openat(parent_fd, layout->folders[i],
                            O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        }
        if (fd < 0)
                return -errno;
        *ret_fd = fd;
        return 0;
}

static int refuse_file(const struct layout *layout, const char *name, int r, struct nb_failure *f) {
        return nb_failure_set(f, NB_PLATFORM_UNREADABLE, r == -EBADF ? -EINVAL : r,
                              "%s on volume '%s' cannot be read: %m; expected a regular file of at "
                              "most 1 MiB, and no symbolic links",
                              name, layout->labels[0]);
}

int nb_volume_read_files(int root_fd, enum nb_volume_kind kind, struct nb_volume *volume,
                         struct nb_failure *f) {
        const struct layout *layout = &layouts[kind];
        const struct {
                const char *name;
                struct nb_secret *ret;
        } files[] = { { layout->user_data, &volume->user_data },
                      { layout->meta_data, &volume->meta_data } };
        _cleanup_(nb_closep) int folder_fd = -1;
        int r;

        r = open_folder(root_fd, layout, &folder_fd);
        if (r < 0 && r != -ENOENT)
                return refuse_file(layout, "the directory of the files", r, f);
        for (size_t i = 0; r >= 0 && i < N_ELEMENTS(files); i++) {
                r = nb_file_read_secret(folder_fd, files[i].name, NB_USER_DATA_MAX, files[i].ret,
                                        NULL);
                if (r < 0 && r != -ENOENT)
                        return refuse_file(layout, files[i].name, r, f);
                r = 0;
        }
        volume->label = layout->labels[0];
        return 0;
}

/* --- Finding --- */

static bool find_device(const char *by_label, const struct layout *layout,
                        char ret[static PATH_SIZE]) {
        struct stat st;

        for (size_t i = 0; i < N_ELEMENTS(layout->labels); i++) {
                snprintf(ret, PATH_SIZE, "%s/%s", by_label, layout->labels[i]);
                if (lstat(ret, &st) == 0)
                        return true;
        }
        return false;
}

int nb_volume_read(const char *by_label, enum nb_volume_kind first, struct nb_volume *volume,
                   struct nb_failure *f) {
        for (unsigned i = 0; i < _NB_VOLUME_N; i++) {
                enum nb_volume_kind kind = (enum nb_volume_kind)((first + i) % _NB_VOLUME_N);
                _cleanup_(nb_closep) int root_fd = -1;
                char device[PATH_SIZE];
                int r;

                if (!find_device(by_label, &layouts[kind], device))
                        continue;
                r = mount_volume(device, &root_fd, f);
                return r < 0 ? r : nb_volume_read_files(root_fd, kind, volume, f);
        }
        return 0;
}

void nb_volume_done(struct nb_volume *volume) {
        nb_secret_done(&volume->user_data);
        nb_secret_done(&volume->meta_data);
        *volume = (struct nb_volume)NB_VOLUME_INIT;
}
