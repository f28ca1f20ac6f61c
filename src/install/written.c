/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/macro.h"
#include "format/kubelet_env.h"
#include "install/flags.h"
#include "install/written.h"

int nb_written_read(struct nb_written *written, int store_fd) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        _cleanup_(nb_freep) struct nb_record *record = calloc(1, sizeof(*record));
        struct nb_failure ignored = { 0 };
        int r;

        if (!record)
                return -ENOMEM;
        r = nb_file_read(store_fd, NB_RECORD_FILE, &text, NULL);
        if (r >= 0)
                r = nb_record_parse(text.data ? text.data : "", text.len, record, &ignored);
        if (r >= 0)
                written->previous = TAKE(record);
        return r == -ENOMEM ? r : 0;
}

/* `words` are separated by a blank each. */
static bool has_word(const char *words, const char *word, size_t len) {
        for (size_t n; *words; words += n + (words[n] == ' ')) {
                n = strcspn(words, " ");
                if (n == len && !memcmp(words, word, len))
                        return true;
        }
        return false;
}

static int take_words(struct nb_written *written, const char *before, const char *after) {
        const char *previous = written->previous ? written->previous->arguments : "";
        int r = 0;

        for (size_t n; *after && r >= 0; after += n + (after[n] == ' ')) {
                n = strcspn(after, " ");
                if (!has_word(before, after, n) || has_word(previous, after, n))
                        r = nb_buffer_printf(&written->arguments, "%s%.*s", written->arguments.len > 0 ? " " : "", (int)n, after);
        }
        return r;
}

int nb_written_arguments(struct nb_written *written, const char *before, size_t before_len, const char *after, size_t after_len) {
        _cleanup_(nb_buffer_done) struct nb_buffer old = NB_BUFFER_INIT(NB_FLAGS_MAX), new = NB_BUFFER_INIT(NB_FLAGS_MAX);
        int r = 0;

        if (written->previous && !written->previous->has_arguments)
                return 0;
        if (before)
                r = nb_kubeadm_flags_words(before, before_len, &old);
        if (r >= 0 && after)
                r = nb_kubeadm_flags_words(after, after_len, &new);
        if (r >= 0)
                r = take_words(written, old.data ? old.data : "", new.data ? new.data : "");
        written->is_known = r >= 0;
        return r == -ENOMEM ? r : 0;
}

static bool has_same_ca(const struct nb_record *a, const struct nb_record *b) {
        return a->n_ca_hashes == b->n_ca_hashes && !memcmp(a->ca_hashes, b->ca_hashes, a->n_ca_hashes * sizeof(a->ca_hashes[0]));
}

void nb_written_record(const struct nb_written *written, bool is_ca_there, struct nb_record *record) {
        const struct nb_record *previous = written->previous;

        record->is_ca_found = is_ca_there && !(previous && !previous->is_ca_found && has_same_ca(previous, record));
        record->has_arguments = written->is_known;
        if (written->is_known && written->arguments.data)
                memcpy(record->arguments, written->arguments.data, written->arguments.len + 1);
}

void nb_written_done(struct nb_written *written) {
        free(written->previous);
        nb_buffer_done(&written->arguments);
}
