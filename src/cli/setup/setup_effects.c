/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "cli/setup/setup_internal.h"
#include "node_state/flags.h"
#include "settings/kubelet_env.h"

#define PATH NB_KUBELET_DIRECTORY "/" NB_FLAGS_FILE
#define ENTRIES_MAX 256

/* --- kubeadm-flags.env --- */

/* The arguments of both lists. */
static void find_common(const char *a, const char *b, struct nb_buffer *ret) {
        _cleanup_(nb_buffer_done) struct nb_buffer missing = NB_BUFFER_INIT(NB_FLAGS_MAX);

        nb_flags_find_missing(a, b, true, &missing);
        nb_flags_find_missing(missing.data ? missing.data : "", b, true, ret);
}

static void explain_edit(const struct nb_record *record, const char *arguments, const char *file,
                         struct nb_buffer *ret) {
        _cleanup_(nb_buffer_done) struct nb_buffer add = NB_BUFFER_INIT(NB_FLAGS_MAX),
                                                   gone = NB_BUFFER_INIT(NB_FLAGS_MAX),
                                                   remove = NB_BUFFER_INIT(NB_FLAGS_MAX);

        nb_flags_find_missing(file, arguments, false, &add);
        nb_flags_find_missing(arguments, record->arguments, true, &gone);
        find_common(file, gone.data ? gone.data : "", &remove);
        if (add.len + remove.len == 0)
                return;
        nb_buffer_printf(ret,
                         "'" PATH "' has been changed since the join, so it stays as it is: %s%s%s"
                         "%s%s in KUBELET_KUBEADM_ARGS, and run `systemctl restart " NB_KUBELET_UNIT
                         "`\n",
                         add.len > 0 ? "add " : "", add.len > 0 ? add.data : "",
                         add.len > 0 && remove.len > 0 ? ", and " : "",
                         remove.len > 0 ? "remove " : "", remove.len > 0 ? remove.data : "");
}

static bool explain_arguments(const struct nb_record *record, const char *file,
                              const struct nb_settings *settings, struct nb_buffer *ret) {
        _cleanup_(nb_buffer_done) struct nb_buffer arguments = NB_BUFFER_INIT(NB_FLAGS_MAX);
        bool is_ours = nb_flags_file_is(file, record->arguments) || nb_flags_file_is(file, "");
        /* `kubeadm upgrade` has removed this one for a newer kubelet. */
        bool is_remote = nb_flags_are_remote(is_ours ? record->arguments : file);

        if (!record->arguments[0] || !nb_flags_renew(settings, record, is_remote, &arguments))
                return false;
        if (!is_ours) {
                explain_edit(record, arguments.data, file, ret);
                return false;
        }
        nb_buffer_append_string(ret, NB_SETUP_UNIT " writes '" PATH
                                                   "' again; a running kubelet uses it after "
                                                   "`systemctl restart " NB_KUBELET_UNIT "`\n");
        return true;
}

/* --- The Node --- */

/* Taints, or labels: "key=value:effect", "key=value". */
struct entries {
        struct {
                const char *text;
                size_t len, key_len, value_len; /* `value_len`: up to the effect */
        } all[ENTRIES_MAX];
        unsigned n;
};

static void add_entries(struct entries *entries, const char *text) {
        for (size_t len; *text && entries->n < ENTRIES_MAX; text += len + (text[len] == ',')) {
                const char *effect;

                len = strcspn(text, ",");
                effect = memrchr(text, ':', len);
                entries->all[entries->n].text = text;
                entries->all[entries->n].len = len;
                entries->all[entries->n].key_len = strcspn(text, "=:,");
                entries->all[entries->n++].value_len = effect ? (size_t)(effect - text) : len;
        }
}

static void find_taints(const struct nb_settings *settings, struct entries *ret) {
        for (unsigned i = 0; i < settings->n_taints; i++)
                add_entries(ret, settings->taints[i]);
}

static void find_labels(const struct nb_settings *settings, struct entries *ret) {
        static const char option[] = "node-labels=";

        for (unsigned i = 0; i < settings->n_extra_args; i++)
                if (strncmp(settings->extra_args[i], option, strlen(option)) == 0)
                        add_entries(ret, settings->extra_args[i] + strlen(option));
}

/* With the same value, or with any value: the same key and effect. */
static bool has_entry(const struct entries *entries, const struct entries *others, unsigned i,
                      bool is_any_value) {
        const char *text = others->all[i].text;
        size_t len = others->all[i].len, key_len = others->all[i].key_len,
               value_len = others->all[i].value_len;

        for (unsigned j = 0; j < entries->n; j++) {
                const char *other = entries->all[j].text;
                size_t at = entries->all[j].value_len;

                if (is_any_value
                            ? entries->all[j].key_len == key_len && !memcmp(other, text, key_len) &&
                                      entries->all[j].len - at == len - value_len &&
                                      !memcmp(other + at, text + value_len, len - value_len)
                            : entries->all[j].len == len && !memcmp(other, text, len))
                        return true;
        }
        return false;
}

static void explain_entries(const char *what, const char *command, const char *node,
                            const struct entries *before, const struct entries *after,
                            struct nb_buffer *ret) {
        _cleanup_(nb_buffer_done) struct nb_buffer words = NB_BUFFER_INIT(NB_FLAGS_MAX);

        for (unsigned i = 0; i < after->n; i++)
                if (!has_entry(before, after, i, false))
                        nb_buffer_printf(&words, " %.*s", (int)after->all[i].len,
                                         after->all[i].text);
        for (unsigned i = 0; i < before->n; i++)
                if (!has_entry(after, before, i, true))
                        nb_buffer_printf(&words, " %.*s%.*s-", (int)before->all[i].key_len,
                                         before->all[i].text,
                                         (int)(before->all[i].len - before->all[i].value_len),
                                         before->all[i].text + before->all[i].value_len);
        if (words.len > 0)
                nb_buffer_printf(ret,
                                 "%s of kubelet count only when it creates the Node; if the Node "
                                 "exists: `kubectl %s --overwrite nodes %s%s`\n",
                                 what, command, node, words.data);
}

static void explain_node(const char *node, const struct nb_settings *before,
                         const struct nb_settings *after, struct nb_buffer *ret) {
        struct entries taints[2] = { 0 }, labels[2] = { 0 };

        find_taints(before, &taints[0]);
        find_taints(after, &taints[1]);
        find_labels(before, &labels[0]);
        find_labels(after, &labels[1]);
        explain_entries("taints", "taint", node, &taints[0], &taints[1], ret);
        explain_entries("labels", "label", node, &labels[0], &labels[1], ret);
        if (strcmp(before->provider_id, after->provider_id) != 0)
                nb_buffer_append_string(ret, "the provider ID counts only when kubelet creates the "
                                             "Node; that of an existing Node cannot be changed\n");
}

bool nb_setup_explain(const struct nb_record *record, const char *file,
                      const struct nb_settings *before, const struct nb_settings *after,
                      struct nb_buffer *ret) {
        bool is_written = explain_arguments(record, file, after, ret);

        explain_node(record->node, before, after, ret);
        return is_written;
}
