/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "install/aside.h"

static int format_old_name(const char *name, unsigned number, char ret[static NAME_MAX + 1]) {
        int n = number == 1 ? snprintf(ret, NAME_MAX + 1, "%s" NB_ASIDE_SUFFIX, name)
                            : snprintf(ret, NAME_MAX + 1, "%s" NB_ASIDE_SUFFIX ".%u", name, number);

        return n > NAME_MAX ? -ENAMETOOLONG : 0;
}

int nb_aside_move(struct nb_aside *aside, int folder_fd, const char *name) {
        char old_name[NAME_MAX + 1];
        int r = -EEXIST;

        *aside = (struct nb_aside){ .folder_fd = folder_fd };
        if (snprintf(aside->name, sizeof(aside->name), "%s", name) >= (int)sizeof(aside->name))
                return -ENAMETOOLONG;
        if (faccessat(folder_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : -errno;
        for (unsigned i = 1; r == -EEXIST && i <= NB_ASIDE_MAX; i++) {
                r = format_old_name(name, i, old_name);
                if (r >= 0)
                        r = nb_file_rename_new(folder_fd, name, old_name);
        }
        if (r < 0)
                return r;
        memcpy(aside->old_name, old_name, sizeof(old_name));
        return fsync(folder_fd) < 0 ? -errno : 0;
}

int nb_aside_undo(struct nb_aside *aside) {
        int r;

        if (!aside->old_name[0])
                return 0;
        r = nb_file_rename_new(aside->folder_fd, aside->old_name, aside->name);
        if (r < 0)
                return r;
        aside->old_name[0] = '\0';
        return fsync(aside->folder_fd) < 0 ? -errno : 0;
}
