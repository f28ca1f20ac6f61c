/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "install/swap.h"
#include "state_files/state_file.h"

#define ASIDE_MAX 10000

int nb_swap_fail(const char *path, int r, struct nb_failure *f) {
        return nb_failure_set(f, NB_TARGET_UNWRITABLE, r, "cannot write '%s': %m", path);
}

int nb_swap_fail_folder(int root_fd, const char *path, int r, struct nb_failure *f) {
        const char *folder = r == -EROFS ? nb_settings_folder_of(path) : NULL;
        _cleanup_(nb_closep) int fd = folder ? nb_path_open(root_fd, folder, O_PATH) : -1;

        if (folder && fd == -ENOENT)
                return nb_failure_set(f, NB_DIRECTORY_MISSING, ENOENT,
                                      "cannot write '%s': '%s' does not exist", path, folder);
        return nb_swap_fail(path, r, f);
}

static int check_written(const struct nb_swap *swap, int r, struct nb_failure *f) {
        return r < 0 ? nb_swap_fail(swap->path, r, f) : 0;
}

void nb_swap_init(struct nb_swap *swap, const char *folder, const char *name, mode_t mode) {
        *swap = (struct nb_swap){
                .mode = mode, .text = NB_BUFFER_INIT(NB_HANDOFF_MAX), .folder_fd = -1, .fd = -1
        };
        snprintf(swap->path, sizeof(swap->path), "%s%s", folder, name);
}

int nb_swap_open(struct nb_swap *swap, int root_fd, struct nb_failure *f) {
        char folder[NB_SWAP_PATH_SIZE], temporary[NAME_MAX + 1];
        int r;

        r = nb_path_split(swap->path, folder, sizeof(folder), &swap->name);
        if (r >= 0 && swap->is_wanted)
                r = nb_path_make_folder(root_fd, folder, 0755, &swap->folder_fd);
        else if (r >= 0)
                swap->folder_fd = nb_path_open(root_fd, folder, O_RDONLY | O_DIRECTORY);
        if (r < 0)
                return nb_swap_fail_folder(root_fd, swap->path, r, f);
        snprintf(temporary, sizeof(temporary), ".%s.tmp", swap->name);
        if (swap->folder_fd >= 0)
                r = nb_file_remove(swap->folder_fd, temporary);
        return swap->is_wanted ? check_written(swap, r, f) : 0;
}

bool nb_swap_is_at(const struct nb_swap *swap, mode_t type) {
        struct stat st;

        return fstatat(swap->folder_fd, swap->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
               (st.st_mode & S_IFMT) == type;
}

static int stage_link(struct nb_swap *swap) {
        snprintf(swap->temporary, sizeof(swap->temporary), ".%s.tmp", swap->name);
        return symlinkat(swap->text.data, swap->folder_fd, swap->temporary) < 0 ? -errno : 0;
}

static int stage_file(struct nb_swap *swap, struct nb_failure *f) {
        const struct nb_secret *secret = swap->secret;
        int r;

        if (!swap->is_wanted)
                return 0;
        if (nb_swap_is_at(swap, S_IFDIR))
                r = -EISDIR;
        else if (S_ISLNK(swap->mode))
                r = stage_link(swap);
        else
                r = nb_file_stage(swap->folder_fd, swap->name, swap->mode,
                                  secret ? secret->data : swap->text.data,
                                  secret ? secret->len : swap->text.len, swap->temporary,
                                  &swap->fd);
        if (r >= 0)
                swap->step = NB_SWAP_STAGED;
        /* Most file systems can then make all files durable with the first fsync(2). */
        if (swap->fd >= 0)
                (void)sync_file_range(swap->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
        return check_written(swap, r, f);
}

static int sync_file(struct nb_swap *swap, struct nb_failure *f) {
        int r = swap->fd >= 0 && fsync(swap->fd) < 0 ? -errno : 0;

        nb_closep(&swap->fd);
        swap->fd = -1;
        return check_written(swap, r, f);
}

int nb_swap_stage(struct nb_swap *swaps, unsigned n, struct nb_failure *f) {
        int r = 0;

        for (unsigned i = 0; i < n && r >= 0; i++)
                r = stage_file(&swaps[i], f);
        for (unsigned i = 0; i < n && r >= 0; i++)
                r = sync_file(&swaps[i], f);
        return r;
}

static int exchange_file(struct nb_swap *swap) {
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

int nb_swap_publish(struct nb_swap *swap, struct nb_failure *f) {
        int r;

        if (swap->step != NB_SWAP_STAGED)
                return 0;
        r = exchange_file(swap);
        if (r >= 0 && fsync(swap->folder_fd) < 0)
                r = -errno;
        return check_written(swap, r, f);
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

int nb_swap_set_aside(struct nb_swap *swap, struct nb_failure *f) {
        char old_name[NAME_MAX + 1];
        int n = snprintf(old_name, sizeof(old_name), "%s" NB_ASIDE_SUFFIX, swap->name);
        int r = -EEXIST;

        for (unsigned i = 2; r == -EEXIST && i <= ASIDE_MAX; i++) {
                r = n > NAME_MAX ? -ENAMETOOLONG
                                 : nb_file_rename_new(swap->folder_fd, swap->name, old_name);
                if (r >= 0)
                        NB_TEXT_COPY(swap->old_name, old_name);
                n = snprintf(old_name, sizeof(old_name), "%s" NB_ASIDE_SUFFIX ".%u", swap->name, i);
        }
        if (r >= 0 && fsync(swap->folder_fd) < 0)
                r = -errno;
        return check_written(swap, r == -ENOENT ? 0 : r, f);
}

int nb_swap_put_back(struct nb_swap *swap) {
        int r;

        if (!swap->old_name[0])
                return 0;
        r = nb_file_rename_new(swap->folder_fd, swap->old_name, swap->name);
        if (r < 0)
                return r;
        swap->old_name[0] = '\0';
        return fsync(swap->folder_fd) < 0 ? -errno : 0;
}

void nb_swap_done(struct nb_swap *swap) {
        nb_closep(&swap->fd);
        nb_closep(&swap->folder_fd);
        nb_buffer_done(&swap->text);
}
