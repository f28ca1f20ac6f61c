/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>

#include "base/file.h"
#include "base/macro.h"
#include "install/discard.h"
#include "method/documents.h"
#include "state/handoff.h"

void nb_discard_format(const char *metadata, struct nb_buffer *ret) {
        nb_buffer_printf(ret, "%s\n", metadata[0] ? metadata : "none");
}

static int write_mark(const struct nb_context *context, const char *metadata) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(64);
        _cleanup_(nb_closep) int fd = -1;
        int r;

        nb_discard_format(metadata, &text);
        r = text.error;
        if (r < 0)
                return r;
        r = nb_path_make_folder(context->root_fd, NB_KUBELET_DIRECTORY, 0750, &fd);
        return r < 0 ? r : nb_file_write(fd, NB_DISCARD_FILE, 0644, text.data, text.len);
}

int nb_discard_forget(const struct nb_context *context, struct nb_failure *f) {
        _cleanup_(nb_closep) int fd = nb_path_open(context->root_fd, NB_KUBELET_DIRECTORY,
                                                   O_RDONLY | O_DIRECTORY);
        int r = fd < 0 ? fd : nb_file_remove(fd, NB_DISCARD_FILE);

        if (r >= 0 || r == -ENOENT)
                return 0;
        return nb_failure_set(f, NB_TARGET_UNWRITABLE, -r,
                              "'" NB_KUBELET_DIRECTORY "/" NB_DISCARD_FILE
                              "' of an earlier start cannot be removed: %m");
}

/* The recorded token.discard of metadata applies only while this machine wants metadata and its own
 * settings do not set token.discard. */
static bool is_wanted(const struct nb_context *context, const struct nb_record *record) {
        const struct nb_settings *settings = &context->settings;

        if (!nb_setting_is_from(settings, NB_SETTING_TOKEN_DISCARD, NB_SETTINGS_DEFAULT_ORIGIN))
                return settings->token_discard;
        return context->is_metadata_wanted && record->is_discard_from_metadata;
}

int nb_discard_mark(const struct nb_context *context, struct nb_failure *f) {
        struct nb_record record = { 0 };
        int r;

        r = nb_context_read_record(context, &record);
        if (r >= 0 && is_wanted(context, &record))
                r = write_mark(context, record.metadata);
        if (r >= 0)
                return 0;
        return nb_failure_set(f, NB_TARGET_UNWRITABLE, -r,
                              "'" NB_KUBELET_DIRECTORY "/" NB_DISCARD_FILE
                              "' cannot be written: %m");
}
