/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "cli/setup/setup_internal.h"
#include "node_state/flags.h"

#define PATH NB_KUBELET_DIRECTORY "/" NB_FLAGS_FILE

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

/* Only the API server knows what the Node has now. */
static void explain_node(const struct nb_record *record, const char *arguments,
                         struct nb_buffer *ret) {
        static const char *const once[] = { "--register-with-taints=", "--node-labels=",
                                            "--provider-id=" };
        _cleanup_(nb_buffer_done) struct nb_buffer changed = NB_BUFFER_INIT(NB_SETUP_EFFECTS_MAX);
        bool is_any = false;

        nb_flags_find_missing(record->arguments, arguments, true, &changed);
        nb_flags_find_missing(arguments, record->arguments, true, &changed);
        for (size_t i = 0; changed.data && i < N_ELEMENTS(once); i++)
                is_any |= strstr(changed.data, once[i]) != NULL;
        if (is_any)
                nb_buffer_append_string(ret,
                                        "taints, labels and provider ID count only when kubelet "
                                        "creates the Node; change those of an existing Node with "
                                        "`kubectl taint` and `kubectl label`; its provider ID "
                                        "cannot be changed\n");
}

bool nb_setup_explain(const struct nb_record *record, const char *file,
                      const struct nb_settings *settings, struct nb_buffer *ret) {
        _cleanup_(nb_buffer_done) struct nb_buffer arguments = NB_BUFFER_INIT(NB_FLAGS_MAX);
        bool is_ours = nb_flags_file_is(file, record->arguments) || nb_flags_file_is(file, "");
        /* `kubeadm upgrade` has removed this one for a newer kubelet. */
        bool is_remote = nb_flags_are_remote(is_ours ? record->arguments : file);

        if (!record->arguments[0] || !nb_flags_renew(settings, record, is_remote, &arguments))
                return false;
        if (is_ours)
                nb_buffer_append_string(ret, NB_SERVICE_UNIT
                                        " writes '" PATH "' again; a running kubelet uses it after "
                                        "`systemctl restart " NB_KUBELET_UNIT "`\n");
        else
                explain_edit(record, arguments.data, file, ret);
        explain_node(record, arguments.data, ret);
        return is_ours;
}
