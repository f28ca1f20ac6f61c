/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/sources.h"
#include "platform/discard.h"
#include "settings/settings.h"
#include "state/platform.h"

#define REMOVED_MAX 512

static const struct plaintext {
        const char *folder;
        const char *names[4]; /* up to a NULL */
} plaintexts[] = {
        { "/etc/credstore", { NB_CREDENTIAL_TOKEN, NB_CREDENTIAL_TLS_BOOTSTRAP_TOKEN } },
        { "/run/credstore", { NB_CREDENTIAL_TOKEN, NB_CREDENTIAL_TLS_BOOTSTRAP_TOKEN } },
        { NB_PLATFORM_DIRECTORY, { "token", "user-data", "meta-data" } },
};

static int not_removed(const char *folder, const char *name, int r, struct nb_failure *f) {
        return nb_failure_set(f, NB_TOKEN_NOT_DISCARDED, r,
                              r == -EBADF
                                      ? "'%s/%s' is not a regular file with one name; not removed"
                                      : "'%s/%s' cannot be removed: %m",
                              folder, name);
}

/* Refuses symbolic links and files with several hard links: unlinking one name would leave the
 * plaintext on the disk, but report it as removed. */
static int remove_file(int folder_fd, const char *folder, const char *name,
                       struct nb_buffer *removed, struct nb_failure *f) {
        struct stat st;
        int r;

        if (fstatat(folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : not_removed(folder, name, -errno, f);
        if (!S_ISREG(st.st_mode) || st.st_nlink > 1)
                return not_removed(folder, name, -EBADF, f);
        r = nb_file_remove(folder_fd, name);
        if (r < 0)
                return not_removed(folder, name, r, f);
        nb_buffer_printf(removed, "%s%s/%s", removed->len > 0 ? ", " : "", folder, name);
        return 0;
}

static int remove_files(const char *root, const struct plaintext *plaintext,
                        struct nb_buffer *removed, struct nb_failure *f) {
        _cleanup_(nb_closep) int folder_fd = -1;
        int result = 0, r;

        r = nb_folder_open_below(root, plaintext->folder, &folder_fd);
        if (r < 0)
                return r == -ENOENT ? 0 : not_removed(plaintext->folder, "", r, f);
        for (const char *const *name = plaintext->names; *name; name++) {
                r = remove_file(folder_fd, plaintext->folder, *name, removed, f);
                result = result < 0 ? result : r;
        }
        return result;
}

int nb_discard(const char *root, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer removed = NB_BUFFER_INIT(REMOVED_MAX);
        _cleanup_(nb_closep) int folder_fd = -1;
        struct stat st;
        int result = 0, r;

        r = nb_folder_open_below(root, NB_KUBELET_DIRECTORY, &folder_fd);
        if (r >= 0 && fstatat(folder_fd, NB_DISCARD_FILE, &st, AT_SYMLINK_NOFOLLOW) < 0)
                r = -errno;
        if (r >= 0 && (!S_ISREG(st.st_mode) || st.st_uid != geteuid()))
                r = -EPERM;
        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return nb_failure_set(f, NB_TOKEN_NOT_DISCARDED, r,
                                      "'" NB_KUBELET_DIRECTORY "/" NB_DISCARD_FILE
                                      "' cannot be used: %m");
        for (size_t i = 0; i < N_ELEMENTS(plaintexts); i++) {
                r = remove_files(root, &plaintexts[i], &removed, f);
                result = result < 0 ? result : r;
        }
        if (removed.len > 0)
                nb_log(LOG_NOTICE, NB_TOKEN_DISCARDED,
                       "this machine has joined; the token's plaintext was removed: %s",
                       removed.data);
        if (result < 0)
                return result;
        r = nb_file_remove(folder_fd, NB_DISCARD_FILE);
        return r < 0 ? not_removed(NB_KUBELET_DIRECTORY, NB_DISCARD_FILE, r, f) : 0;
}
