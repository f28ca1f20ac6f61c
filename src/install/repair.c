/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "install/join_files.h"
#include "install/repair.h"
#include "install/runtime.h"
#include "node_state/flags.h"
#include "node_state/machine_facts.h"
#include "state_files/refresh_settings.h"
#include "systemd/log.h"

static void report(const struct nb_join_files *files) {
        bool are_new = strcmp(files->record.arguments, files->previous->arguments) != 0;

        for (unsigned i = NB_FILE_MARK; i < _NB_FILE_N; i++)
                if (files->files[i].is_wanted && i == NB_FILE_FLAGS && are_new)
                        nb_log(LOG_NOTICE, NB_NONE,
                               "'%s' was written again, since the settings have changed: kubelet "
                               "uses it from its next start on",
                               files->files[i].path);
                else if (files->files[i].is_wanted)
                        nb_log(LOG_NOTICE, NB_FILE_RESTORED,
                               "'%s' was written again, as recorded by the join",
                               files->files[i].path);
}

/* The settings may have changed since the join. kubelet's program is examined only then: reading it
 * takes long. */
static int renew_arguments(const struct nb_context *context, struct nb_record *record) {
        _cleanup_(nb_buffer_done) struct nb_buffer words = NB_BUFFER_INIT(
                sizeof(record->arguments) - 1);
        struct nb_runtime runtime = { .is_remote_needed = nb_flags_are_remote(record->arguments) };
        int r;

        if (!record->arguments[0] ||
            !nb_flags_renew(&context->settings, record, runtime.is_remote_needed, &words))
                return words.error;
        r = nb_runtime_find(context, &runtime);
        if (r < 0)
                return r;
        words.len = 0;
        (void)nb_flags_renew(&context->settings, record, runtime.is_remote_needed, &words);
        if (words.error >= 0)
                NB_TEXT_COPY(record->arguments, words.data);
        return words.error;
}

int nb_repair(const struct nb_context *context, const struct nb_node *node, struct nb_failure *f) {
        const struct nb_present *present = &node->present;
        const char *socket = context->settings.cri_socket;
        _cleanup_(nb_join_files_freep) struct nb_join_files *files = nb_join_files_new(
                context, NB_PASS_REPAIR, present->has_record ? &present->record : NULL);
        int r;

        if (!nb_inspection_is_kept(&node->inspection) &&
            !(node->inspection.state == NB_NODE_STATE_WITHOUT_KUBECONFIG && present->has_record))
                return 0;
        if (!files)
                return nb_failure_set_memory(f);
        files->node = node;
        files->is_env_only = !present->has_record ||
                             nb_node_state_has_fallback(node->inspection.state);
        (void)nb_facts_complete(&node->facts, &files->record.facts);
        if (socket[0])
                NB_TEXT_COPY(files->record.runtime_endpoint, socket);
        if (nb_refresh_settings_keep(&context->settings, &files->record) < 0 ||
            (!files->is_env_only && !context->is_recalled &&
             renew_arguments(context, &files->record) < 0))
                return nb_failure_set_memory(f);
        r = nb_join_files_write(files, f);
        if (r >= 0)
                report(files);
        return r;
}
