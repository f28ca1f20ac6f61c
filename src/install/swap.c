/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "install/swap.h"

/* Refuses a folder, which an exchange would move away as well. */
static int init_swap(struct nb_swap *swap, int folder_fd, const char *name) {
        size_t len = strlen(name);
        struct stat st;

        if (fstatat(folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
                return -EISDIR;
        if (len >= sizeof(swap->name))
                return -ENAMETOOLONG;
        *swap = (struct nb_swap){ .folder_fd = folder_fd };
        memcpy(swap->name, name, len + 1);
        return 0;
}

int nb_swap_file(struct nb_swap *swap, int folder_fd, const char *name, mode_t mode,
                 const void *data, size_t len) {
        int r;

        r = init_swap(swap, folder_fd, name);
        if (r < 0)
                return r;
        r = nb_file_stage(folder_fd, name, mode, data, len, swap->temporary);
        if (r < 0)
                return r;
        swap->step = NB_SWAP_STAGED;
        return 0;
}

int nb_swap_link(struct nb_swap *swap, int folder_fd, const char *name, const char *temporary,
                 const char *target) {
        int r;

        r = init_swap(swap, folder_fd, name);
        if (r < 0)
                return r;
        if (snprintf(swap->temporary, sizeof(swap->temporary), "%s", temporary) >=
            (int)sizeof(swap->temporary))
                return -ENAMETOOLONG;
        if (unlinkat(folder_fd, temporary, 0) < 0 && errno != ENOENT)
                return -errno;
        if (symlinkat(target, folder_fd, temporary) < 0)
                return -errno;
        swap->step = NB_SWAP_STAGED;
        return 0;
}

static int exchange(struct nb_swap *swap) {
        int error;

        if (renameat2(swap->folder_fd, swap->temporary, swap->folder_fd, swap->name,
                      RENAME_EXCHANGE) == 0) {
                swap->step = NB_SWAP_EXCHANGED;
                return 0;
        }
        error = errno;
        if (error != ENOENT && error != EINVAL)
                return -error;
        if (renameat(swap->folder_fd, swap->temporary, swap->folder_fd, swap->name) < 0)
                return -errno;
        swap->step = error == ENOENT ? NB_SWAP_NEW : NB_SWAP_REPLACED;
        return 0;
}

int nb_swap_publish(struct nb_swap *swap) {
        int r;

        if (swap->step != NB_SWAP_STAGED)
                return 0;
        r = exchange(swap);
        if (r < 0)
                return r;
        return fsync(swap->folder_fd) < 0 ? -errno : 0;
}

int nb_swap_undo(struct nb_swap *swap) {
        enum nb_swap_step step = swap->step;
        int r = 0;

        if (step == NB_SWAP_NONE)
                return 0;
        swap->step = NB_SWAP_NONE;
        if (step == NB_SWAP_REPLACED)
                return -ENOTRECOVERABLE;
        if (step == NB_SWAP_EXCHANGED)
                r = renameat(swap->folder_fd, swap->temporary, swap->folder_fd, swap->name);
        else
                r = unlinkat(swap->folder_fd, step == NB_SWAP_NEW ? swap->name : swap->temporary,
                             0);
        return r < 0 || fsync(swap->folder_fd) < 0 ? -errno : 0;
}

/* If removing fails, the next staging removes it. */
void nb_swap_keep(struct nb_swap *swap) {
        if (swap->step == NB_SWAP_EXCHANGED)
                (void)nb_file_remove(swap->folder_fd, swap->temporary);
        swap->step = NB_SWAP_NONE;
}
