/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "install/state_directory.h"
#include "kube_objects/kubelet_config.h"
#include "os/clock.h"
#include "os/sources.h"
#include "state_files/handoff.h"
#include "systemd/log.h"

#define DEPTH_MAX 32 /* each level needs two descriptors, of the 1024 that the unit permits */

int nb_state_open(struct nb_state *ret_state, struct nb_failure *f) {
        _cleanup_(nb_closep) int fd = -1;
        struct stat st;
        int r;

        r = nb_sources_folder("STATE_DIRECTORY", &fd, f);
        if (r < 0)
                return r;
        if (fstat(fd, &st) < 0)
                return nb_failure_set(f, NB_INTERNAL, errno,
                                      "cannot read the attributes of the state directory: %m");
        *ret_state = (struct nb_state){ .fd = TAKE_FD(fd), .owner = st.st_uid, .group = st.st_gid };
        return 0;
}

int nb_state_read(const struct nb_state *state, const char *name, size_t max, struct nb_secret *ret,
                  struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        struct stat st;
        int r;

        r = nb_file_read_secret(state->fd, name, max, &text, &st);
        if (r == -ENOENT)
                return r;
        if (r == -ELOOP || r == -EBADF || r == -EFBIG)
                return nb_failure_set(
                        f, NB_HANDOFF_MALFORMED, r,
                        "'%s' in the state directory is not a regular file of at most %zu bytes",
                        name, max);
        if (r < 0)
                return nb_failure_set(f, NB_HANDOFF_MALFORMED, r,
                                      "cannot read '%s' in the state directory: %m", name);
        if (st.st_uid != state->owner || st.st_nlink != 1)
                return nb_failure_set(f, NB_HANDOFF_MALFORMED, EPERM,
                                      "'%s' in the state directory belongs to user %u and has %lu "
                                      "hard links; expected user %u and one hard link",
                                      name, (unsigned)st.st_uid, (unsigned long)st.st_nlink,
                                      (unsigned)state->owner);
        *ret = TAKE(text);
        return 0;
}

int nb_state_parse(const struct nb_state *state, const char *name,
                   const struct nb_state_file *format, void *ret, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        int r = nb_state_read(state, name, NB_HANDOFF_MAX, &text, f);

        return r < 0 ? r : nb_state_file_parse(format, text.data, text.len, ret, f);
}

bool nb_state_has(const struct nb_state *state, const char *name) {
        return faccessat(state->fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Remove the handoff first: a key alone means "resume", and a handoff without its key is unusable.
 */
static const char *const names[] = {
        NB_HANDOFF_FILE,        "." NB_HANDOFF_FILE ".tmp",
        NB_PENDING_KEY_FILE,    "." NB_PENDING_KEY_FILE ".tmp",
        NB_KUBELET_CONFIG_FILE, "." NB_KUBELET_CONFIG_FILE ".tmp",
        NB_REFRESH_FILE,        "." NB_REFRESH_FILE ".tmp",
};

int nb_state_clear(const struct nb_state *state) {
        int first = 0;

        for (size_t i = 0; i < N_ELEMENTS(names); i++) {
                int r = nb_file_clear(state->fd, names[i]);

                if (r < 0 && first == 0)
                        first = r;
        }
        return first;
}

void nb_state_discard(const struct nb_state *state) {
        int r = nb_state_clear(state);

        if (r < 0)
                nb_log(LOG_WARNING, NB_NONE, "the state directory could not be emptied: %s",
                       strerror(-r));
}

void nb_state_sweep(const struct nb_state *state) {
        struct stat st;

        for (size_t i = 0; i < N_ELEMENTS(names); i++)
                if (fstatat(state->fd, names[i], &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                    (!S_ISREG(st.st_mode) || st.st_nlink != 1))
                        (void)nb_file_clear(state->fd, names[i]);
}

static bool is_known_file(const struct nb_state *state, const char *name) {
        struct stat st;

        for (size_t i = 0; i < N_ELEMENTS(names); i++)
                if (!strcmp(name, names[i]))
                        return fstatat(state->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                               !S_ISDIR(st.st_mode);
        return false;
}

struct emptying {
        const struct nb_state *state;
        uint64_t deadline_ms;
};

static bool empty_folder(const struct emptying *emptying, int folder_fd, unsigned depth);

static bool remove_entry(const struct emptying *emptying, int folder_fd, const char *name,
                         unsigned depth) {
        const struct nb_state *state = emptying->state;
        _cleanup_(nb_closep) int fd = -1;
        char moved[2 * 8 + 1];
        bool is_any;

        if (!strcmp(name, ".") || !strcmp(name, "..") ||
            (folder_fd == state->fd && is_known_file(state, name)))
                return false;
        if (unlinkat(folder_fd, name, 0) == 0)
                return true;
        if (errno != EISDIR || fchmodat(folder_fd, name, 0700, 0) < 0)
                return false;
        if (depth == 0) {
                snprintf(moved, sizeof(moved), "%08x%08x", nb_random(), nb_random());
                return renameat(folder_fd, name, state->fd, moved) == 0;
        }
        fd = openat(folder_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        is_any = fd >= 0 && empty_folder(emptying, fd, depth - 1);
        return unlinkat(folder_fd, name, AT_REMOVEDIR) == 0 || is_any;
}

/* Removes the entries of a folder. Moves a directory that is nested too deeply to the top of the
 * state directory. Returns whether anything was removed or moved. */
static bool empty_folder(const struct emptying *emptying, int folder_fd, unsigned depth) {
        _cleanup_(nb_folder_closep) DIR *folder = nb_folder_list(folder_fd);
        struct dirent *entry;
        bool is_any = false;

        while (folder && nb_now_ms() < emptying->deadline_ms && (entry = readdir(folder)))
                is_any |= remove_entry(emptying, folder_fd, entry->d_name, depth);
        return is_any;
}

void nb_state_empty(const struct nb_state *state, uint64_t deadline_ms) {
        const struct emptying emptying = { state, deadline_ms };

        (void)fchmod(state->fd, 0700);
        while (empty_folder(&emptying, state->fd, DEPTH_MAX))
                ;
}

void nb_state_done(struct nb_state *state) {
        nb_closep(&state->fd);
        state->fd = -1;
}
