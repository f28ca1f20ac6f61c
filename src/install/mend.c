/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "files/record.h"
#include "files/refresh_settings.h"
#include "install/flags.h"
#include "install/mend.h"
#include "install/runtime.h"
#include "method/cluster_identity.h"
#include "node/machine_facts.h"
#include "settings/kubelet_env.h"
#include "system/log.h"

struct file {
        const char *folder, *name;
        bool is_wanted;
        struct nb_buffer text;
};

struct mend {
        const struct nb_context *context;
        const struct nb_node *node;
        struct nb_record record;
        bool has_instance; /* instance-config.yaml exists, and does not have the empty endpoint that
                              kubeadm 1.36 writes without this file */
        struct file flags, instance, record_file;
};

static void mend_freep(struct mend **mend) {
        if (*mend) {
                nb_buffer_done(&(*mend)->flags.text);
                nb_buffer_done(&(*mend)->instance.text);
                nb_buffer_done(&(*mend)->record_file.text);
        }
        free(*mend);
}

static struct mend *mend_new(const struct nb_context *context, const struct nb_node *node) {
        const char *store = context->settings.certificate_directory;
        struct mend *mend = calloc(1, sizeof(*mend));

        if (!mend)
                return NULL;
        mend->context = context;
        mend->node = node;
        mend->flags = (struct file){ NB_KUBELET_DIRECTORY, NB_FLAGS_FILE, false,
                                     NB_BUFFER_INIT(NB_FLAGS_MAX) };
        mend->instance = (struct file){ NB_KUBELET_DIRECTORY, NB_INSTANCE_FILE, false,
                                        NB_BUFFER_INIT(NB_INSTANCE_MAX) };
        mend->record_file = (struct file){ store, NB_RECORD_FILE, false,
                                           NB_BUFFER_INIT(NB_HANDOFF_MAX) };
        return mend;
}

/* Sets a member of the record. */
static void update_record(struct mend *mend, char *member, size_t size, const char *value) {
        if (strcmp(member, value) == 0 || strlen(value) >= size)
                return;
        nb_text_copy(member, size, value);
        mend->record_file.is_wanted = true;
}

/* An error other than -ENOENT means that the file is not ours. */
static int prepare_flags(struct mend *mend) {
        _cleanup_(nb_buffer_done) struct nb_buffer words = NB_BUFFER_INIT(NB_FLAGS_MAX);
        _cleanup_(nb_secret_done) struct nb_secret old = NB_SECRET_INIT;
        struct nb_record *record = &mend->record;
        int r = nb_path_read(mend->context->root_fd, NB_KUBELET_DIRECTORY "/" NB_FLAGS_FILE,
                             NB_FLAGS_MAX, &old);
        const char *text = old.data ? old.data : "";

        if (r < 0 && r != -ENOENT)
                return r == -ENOMEM ? r : 0;
        nb_flags_add_node_name(record->arguments, record->node, &words);
        if (words.error < 0)
                return words.error;
        if (!nb_flags_file_is(text, words.data)) {
                if (!nb_flags_file_is(text, "") && !nb_flags_file_is(text, record->arguments))
                        return 0;
                mend->flags.is_wanted = true;
                nb_flags_file_format(words.data, &mend->flags.text);
        }
        update_record(mend, record->arguments, sizeof(record->arguments), words.data);
        return mend->flags.text.error;
}

static int prepare_instance(struct mend *mend) {
        _cleanup_(nb_secret_done) struct nb_secret old = NB_SECRET_INIT;
        const char *wanted = mend->context->settings.cri_socket;
        struct nb_record *record = &mend->record;
        int r = nb_path_read(mend->context->root_fd, NB_KUBELET_DIRECTORY "/" NB_INSTANCE_FILE,
                             NB_INSTANCE_MAX, &old);
        const char *text = old.data ? old.data : "";
        struct nb_runtime runtime;

        mend->has_instance = r != -ENOENT && !nb_instance_is(text, "");
        if (mend->has_instance && (r < 0 || !wanted[0]))
                return r == -ENOMEM ? r : 0;
        if (mend->has_instance && !nb_instance_is(text, wanted) &&
            !nb_instance_is(text, record->runtime_endpoint))
                return 0;
        if (!mend->has_instance) {
                r = nb_runtime_find(mend->context, &runtime);
                if (r < 0)
                        return r;
                wanted = runtime.endpoint;
        }
        mend->instance.is_wanted = !nb_instance_is(text, wanted);
        nb_instance_format(wanted, &mend->instance.text);
        update_record(mend, record->runtime_endpoint, sizeof(record->runtime_endpoint), wanted);
        return mend->instance.text.error;
}

static int prepare_files(struct mend *mend) {
        int r;

        if (!mend->node->present.has_record)
                return 0;
        mend->record = mend->node->present.record;
        mend->record_file.is_wanted = nb_facts_complete(&mend->node->facts, &mend->record.facts);
        r = nb_refresh_settings_keep(&mend->context->settings, &mend->record);
        mend->record_file.is_wanted |= r > 0;
        if (r >= 0)
                r = prepare_flags(mend);
        if (r >= 0)
                r = prepare_instance(mend);
        if (r >= 0 && mend->record_file.is_wanted)
                r = nb_state_file_format(&nb_record_file, &mend->record, &mend->record_file.text);
        return r;
}

static int write_file(const struct mend *mend, const struct file *file) {
        _cleanup_(nb_closep) int fd = -1;

        if (!file->is_wanted)
                return 0;
        fd = nb_path_open(mend->context->root_fd, file->folder, O_RDONLY | O_DIRECTORY);
        return fd < 0 ? fd : nb_file_write(fd, file->name, 0644, file->text.data, file->text.len);
}

/*
 * A file is ours if it matches the record, or what would be written now. So a file that replaces
 * another one comes before the record. An endpoint that was found might not be found again: if the
 * file with it is new, it comes after the record.
 */
static int write_files(const struct mend *mend) {
        const struct file *instance = &mend->instance;
        int r = write_file(mend, &mend->flags);

        if (r >= 0 && mend->has_instance)
                r = write_file(mend, instance);
        if (r >= 0)
                r = write_file(mend, &mend->record_file);
        if (r >= 0 && !mend->has_instance)
                r = write_file(mend, instance);
        return r;
}

static int write_env(const struct nb_node *node) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        _cleanup_(nb_secret_done) struct nb_secret old = NB_SECRET_INIT;
        _cleanup_(nb_closep) int fd = -1;

        nb_kubelet_env_format(node->inspection.node, &node->paths, &text);
        if (text.error < 0)
                return text.error;
        if (nb_path_read(node->root_fd, NB_KUBELET_ENV_PATH, NB_HANDOFF_MAX, &old) >= 0 &&
            old.len == text.len && !memcmp(old.data, text.data, text.len))
                return 0;
        fd = nb_path_open(node->root_fd, NB_KUBELET_DIRECTORY, O_RDONLY | O_DIRECTORY);
        return fd < 0 ? fd : nb_file_write(fd, NB_KUBELET_ENV_FILE, 0644, text.data, text.len);
}

int nb_mend_env(const struct nb_node *node, struct nb_failure *f) {
        struct nb_kubelet_paths defaults;
        int r = write_env(node);

        if (r >= 0)
                return 0;
        (void)nb_kubelet_env_find_paths("", 0, &defaults);
        if (!node->is_env_current && !nb_kubelet_paths_are_equal(&node->paths, &defaults))
                return nb_failure_set(
                        f, NB_TARGET_UNWRITABLE, r,
                        "cannot write '" NB_KUBELET_ENV_PATH
                        "', without which the gate does not find the certificate: %m");
        nb_log(LOG_WARNING, NB_NONE, "cannot write '" NB_KUBELET_ENV_PATH "': %s", strerror(-r));
        return 0;
}

void nb_mend(const struct nb_context *context, const struct nb_node *node) {
        _cleanup_(mend_freep) struct mend *mend = mend_new(context, node);
        int r = mend ? prepare_files(mend) : -ENOMEM;

        if (r >= 0)
                r = write_files(mend);
        if (r < 0)
                nb_log(LOG_WARNING, NB_NONE,
                       "cannot write '" NB_KUBELET_DIRECTORY "/" NB_FLAGS_FILE
                       "' or '" NB_KUBELET_DIRECTORY "/" NB_INSTANCE_FILE
                       "', without which `kubeadm upgrade node` fails: %s",
                       strerror(-r));
        else if (mend->flags.is_wanted || mend->instance.is_wanted)
                nb_log(LOG_INFO, NB_NONE,
                       "wrote '" NB_KUBELET_DIRECTORY "/" NB_FLAGS_FILE
                       "' and '" NB_KUBELET_DIRECTORY "/" NB_INSTANCE_FILE
                       "' for `kubeadm upgrade node`");
}
