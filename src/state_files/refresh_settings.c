/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "state_files/refresh_settings.h"

static bool is_kept(enum nb_setting setting) {
        return setting == NB_SETTING_ENDPOINTS || setting == NB_SETTING_EXTRA_ARGS ||
               setting == NB_SETTING_RESTART_KUBELET || setting == NB_SETTING_TIMEOUT;
}

/* 0, also if the document is damaged; -ENOMEM. */
static int merge_document(const struct nb_record *record, struct nb_settings *settings) {
        const struct nb_settings_source source = { .origin = NB_RECORD_FILE };
        struct nb_failure ignored = { 0 };

        return nb_settings_merge(settings, &source, record->settings, strlen(record->settings),
                                 &ignored) == -ENOMEM
                       ? -ENOMEM
                       : 0;
}

/* What metadata can have set: no later start reads it again. */
static int recall_metadata(const struct nb_record *record, struct nb_settings *settings) {
        int r = merge_document(record, settings);

        NB_TEXT_COPY(settings->origin[NB_SETTING_RESTART_KUBELET], NB_SETTINGS_DEFAULT_ORIGIN);
        NB_TEXT_COPY(settings->origin[NB_SETTING_TIMEOUT], NB_SETTINGS_DEFAULT_ORIGIN);
        return r;
}

int nb_refresh_settings_keep(const struct nb_settings *settings, struct nb_record *record) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(sizeof(record->settings) -
                                                                         1);
        struct nb_settings kept, chosen = *settings;
        int r = 0;

        nb_settings_init(&kept);
        if (record->metadata[0] && record->settings[0] &&
            !nb_setting_is_set(settings, NB_SETTING_ENDPOINTS))
                r = recall_metadata(record, &kept);
        if (r < 0)
                return r;
        for (unsigned i = 0; i < _NB_SETTING_N; i++)
                if (!is_kept(i))
                        NB_TEXT_COPY(chosen.origin[i], NB_SETTINGS_DEFAULT_ORIGIN);
        nb_settings_overlay(&kept, &chosen);
        nb_settings_format(&kept, &text);
        if (text.error < 0)
                return text.error;
        if (!strcmp(text.data, record->settings))
                return 0;
        memcpy(record->settings, text.data, text.len + 1);
        return 1;
}

void nb_refresh_settings_recall(const struct nb_record *record, struct nb_settings *settings) {
        (void)merge_document(record, settings);
}

time_t nb_refresh_mark_time(int root_fd) {
        _cleanup_(nb_closep) int fd = nb_path_open(
                root_fd, NB_KUBELET_DIRECTORY "/" NB_REFRESH_MARK, O_PATH | O_NOFOLLOW);
        struct stat st;

        return fd >= 0 && fstat(fd, &st) == 0 ? st.st_mtime : 0;
}
