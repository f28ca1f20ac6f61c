/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
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
#include "format/user_data.h"
#include "platform/volume.h"

#define PATH_SIZE 256
#define ERROR_SIZE 128

static const struct layout {
        const char *label;
        const char *labels[2];
        const char *folder;     /* for people */
        const char *folders[2]; /* none: the volume's own */
        const char *user_data, *meta_data;
} layouts[_NB_VOLUME_N] = {
        [NB_VOLUME_CONFIG_DRIVE] = { "config-2", { "config-2", "CONFIG-2" }, "openstack/latest", { "openstack", "latest" }, "user_data", "meta_data.json" },
        [NB_VOLUME_NOCLOUD] = { "cidata", { "cidata", "CIDATA" }, "", { NULL }, "user-data", "meta-data" },
};

/* --- Mounting; glibc has these calls since 2.36 --- */

/* "uid": files belong to root, whoever made the volume; without a further capability nobody else's could be read. */
static int set_up(int context_fd, const char *device) {
        static const char *const keys[] = { "source", "uid" };
        const char *const values[] = { device, "0" };

        for (size_t i = 0; i < N_ELEMENTS(keys); i++)
                if (syscall(SYS_fsconfig, context_fd, FSCONFIG_SET_STRING, keys[i], values[i], 0) < 0)
                        return -errno;
        if (syscall(SYS_fsconfig, context_fd, FSCONFIG_SET_FLAG, "ro", NULL, 0) < 0 ||
            syscall(SYS_fsconfig, context_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
                return -errno;
        return 0;
}

static int mount_as(const char *type, const char *device, int *ret_fd) {
        _cleanup_(nb_closep) int context_fd = -1;
        int fd, r;

        context_fd = (int)syscall(SYS_fsopen, type, FSOPEN_CLOEXEC);
        if (context_fd < 0)
                return -errno;
        r = set_up(context_fd, device);
        if (r < 0)
                return r;
        fd = (int)syscall(SYS_fsmount, context_fd, FSMOUNT_CLOEXEC,
                          MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
        if (fd < 0)
                return -errno;
        *ret_fd = fd;
        return 0;
}

static void describe(int r, char ret[static ERROR_SIZE]) {
        errno = -r;
        (void)snprintf(ret, ERROR_SIZE, "%m");
        if (r == -ENODEV)
                (void)snprintf(ret, ERROR_SIZE, "this kernel does not know it");
        if (r == -EINVAL)
                (void)snprintf(ret, ERROR_SIZE, "it is none, or damaged");
}

static int mount_volume(const char *device, int *ret_fd, struct nb_failure *f) {
        static const char *const types[] = { "iso9660", "vfat" };
        char why[N_ELEMENTS(types)][ERROR_SIZE];
        int r = 0;

        for (size_t i = 0; i < N_ELEMENTS(types); i++) {
                r = mount_as(types[i], device, ret_fd);
                if (r >= 0)
                        return 0;
                describe(r, why[i]);
        }
        return nb_failure_set(f, NB_PLATFORM_UNREADABLE, -r, "volume '%s' cannot be mounted; as %s: %s; as %s: %s", device, types[0], why[0], types[1],
                              why[1]);
}

/* --- Reading --- */

/* Not openat2(): RestrictSUIDSGID= has systemd answer that with ENOSYS. */
static int open_component(int parent_fd, const char *name, int *ret_fd) {
        struct stat st;
        int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (fd < 0) {
                int r = -errno;

                return r == -ENOTDIR && fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode) ? -ELOOP : r;
        }
        *ret_fd = fd;
        return 0;
}

/* -ENOENT where the volume has no such folder. */
static int open_folder(int root_fd, const struct layout *layout, int *ret_fd) {
        _cleanup_(nb_closep) int fd = -1;
        int r;

        r = open_component(root_fd, ".", &fd);
        for (size_t i = 0; r >= 0 && i < N_ELEMENTS(layout->folders) && layout->folders[i]; i++) {
                int parent_fd = fd;

                fd = -1;
                r = open_component(parent_fd, layout->folders[i], &fd);
                (void)close(parent_fd);
        }
        if (r < 0)
                return r;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

static int unreadable(const struct layout *layout, const char *name, int r, struct nb_failure *f) {
        const char *folder = layout->folder, *slash = folder[0] && name[0] ? "/" : "";
        char why[ERROR_SIZE];

        errno = -r;
        if (r == -ELOOP)
                (void)snprintf(why, sizeof(why), "is a link, or behind one; none is followed");
        else if (r == -EBADF)
                (void)snprintf(why, sizeof(why), "is no regular file");
        else if (r == -EFBIG)
                (void)snprintf(why, sizeof(why), "has more than %d bytes", NB_USER_DATA_MAX);
        else
                (void)snprintf(why, sizeof(why), "cannot be read: %m");
        return nb_failure_set(f, NB_PLATFORM_UNREADABLE, -r, "'%s%s%s' on volume '%s' %s", folder, slash, name, layout->label, why);
}

static int read_file(int folder_fd, const struct layout *layout, const char *name, struct nb_secret *ret, struct nb_failure *f) {
        int r = nb_file_read_secret(folder_fd, name, NB_USER_DATA_MAX, ret, NULL);

        return r < 0 && r != -ENOENT ? unreadable(layout, name, r, f) : 0;
}

static int read_files(int root_fd, const struct layout *layout, struct nb_volume *volume, struct nb_failure *f) {
        _cleanup_(nb_closep) int folder_fd = -1;
        int r;

        r = open_folder(root_fd, layout, &folder_fd);
        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return unreadable(layout, "", r, f);
        r = read_file(folder_fd, layout, layout->user_data, &volume->user_data, f);
        return r < 0 ? r : read_file(folder_fd, layout, layout->meta_data, &volume->meta_data, f);
}

int nb_volume_read_files(int root_fd, enum nb_volume_kind kind, struct nb_volume *ret_volume, struct nb_failure *f) {
        struct nb_volume volume = NB_VOLUME_INIT;
        int r;

        assert((unsigned)kind < _NB_VOLUME_N);
        volume.label = layouts[kind].label;
        r = read_files(root_fd, &layouts[kind], &volume, f);
        if (r < 0) {
                nb_volume_done(&volume);
                return r;
        }
        *ret_volume = volume;
        return 0;
}

/* --- Finding --- */

/* 1 and the device's path; 0 where no label is there. */
static int find(const char *by_label, const struct layout *layout, char ret[static PATH_SIZE]) {
        struct stat st;

        for (size_t i = 0; i < N_ELEMENTS(layout->labels); i++) {
                (void)snprintf(ret, PATH_SIZE, "%s/%s", by_label, layout->labels[i]);
                if (lstat(ret, &st) == 0)
                        return 1;
        }
        return 0;
}

int nb_volume_read(const char *by_label, enum nb_volume_kind first, struct nb_volume *ret_volume, struct nb_failure *f) {
        for (unsigned i = 0; i < _NB_VOLUME_N; i++) {
                enum nb_volume_kind kind = (enum nb_volume_kind)(((unsigned)first + i) % _NB_VOLUME_N);
                _cleanup_(nb_closep) int root_fd = -1;
                char device[PATH_SIZE];
                int r;

                if (!find(by_label, &layouts[kind], device))
                        continue;
                r = mount_volume(device, &root_fd, f);
                return r < 0 ? r : nb_volume_read_files(root_fd, kind, ret_volume, f);
        }
        *ret_volume = (struct nb_volume)NB_VOLUME_INIT;
        return 0;
}

void nb_volume_done(struct nb_volume *volume) {
        nb_secret_done(&volume->user_data);
        nb_secret_done(&volume->meta_data);
        *volume = (struct nb_volume)NB_VOLUME_INIT;
}
