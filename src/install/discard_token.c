/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/macro.h"
#include "install/discard_token.h"
#include "join_method/settings_documents.h"
#include "os/sources.h"
#include "state_files/platform_note.h"
#include "systemd/log.h"

#define REMOVED_MAX 1024

#define TOKENS \
        { NB_CREDENTIAL_TOKEN_NAME, NB_CREDENTIAL_TLS_BOOTSTRAP_TOKEN_NAME }

/* An encrypted token is removed as well: if the TPM, the host key or the machine ID changes,
 * systemd can no longer decrypt it, and does not start the service. */
static const struct copy {
        const char *folder;
        const char *names[4]; /* up to a NULL */
} copies[] = {
        { "/etc/credstore", TOKENS },
        { "/run/credstore", TOKENS },
        { "/etc/credstore.encrypted", TOKENS },
        { "/run/credstore.encrypted", TOKENS },
        { NB_PLATFORM_DIRECTORY, { "token", "user-data", "meta-data" } },
};

/* The recorded token.discard of metadata applies only while this machine wants metadata and its own
 * settings do not set token.discard. */
static bool is_wanted(const struct nb_context *context) {
        const struct nb_settings *settings = &context->settings;
        _cleanup_(nb_record_done) struct nb_record record = { 0 };

        if (!nb_setting_is_from(settings, NB_SETTING_TOKEN_DISCARD, NB_SETTINGS_DEFAULT_ORIGIN))
                return settings->token_discard;
        return context->is_metadata_wanted && nb_context_read_record(context, &record) > 0 &&
               record.is_discard_from_metadata;
}

/* Refuses symbolic links and files with several hard links: unlinking one name would leave the
 * token on the disk, but report it as removed. */
static int remove_file(int folder_fd, const char *name) {
        struct stat st;

        if (fstatat(folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode) || st.st_nlink > 1)
                return -EBADF;
        return nb_file_remove(folder_fd, name);
}

static void warn_not_removed(const char *folder, const char *name, int r) {
        struct nb_failure f = { 0 };

        (void)nb_failure_set(
                &f, NB_TOKEN_NOT_DISCARDED, r,
                r == -EBADF ? "'%s/%s' is not a regular file with one hard link; not removed"
                            : "'%s/%s' cannot be removed: %m",
                folder, name);
        nb_log_failure(LOG_WARNING, &f);
}

void nb_discard_token(const struct nb_context *context) {
        _cleanup_(nb_buffer_done) struct nb_buffer removed = NB_BUFFER_INIT(REMOVED_MAX);

        if (!is_wanted(context))
                return;
        for (size_t i = 0; i < N_ELEMENTS(copies); i++) {
                const char *folder = copies[i].folder;
                _cleanup_(nb_closep) int folder_fd = nb_path_open(context->root_fd, folder,
                                                                  O_RDONLY | O_DIRECTORY);

                for (const char *const *name = copies[i].names; *name; name++) {
                        int r = folder_fd < 0 ? folder_fd : remove_file(folder_fd, *name);

                        if (r >= 0)
                                nb_buffer_printf(&removed, "%s%s/%s", removed.len > 0 ? ", " : "",
                                                 folder, *name);
                        else if (r != -ENOENT)
                                warn_not_removed(folder, *name, r);
                }
        }
        if (removed.len > 0)
                nb_log(LOG_NOTICE, NB_TOKEN_DISCARDED,
                       "this machine has joined; the token was removed: %s", removed.data);
}
