/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "cli/setup/setup_internal.h"

void nb_setup_add_change(struct nb_setup_plan *plan, const struct nb_setup_change *change) {
        assert(plan->n_changes < NB_SETUP_CHANGES_MAX);
        plan->changes[plan->n_changes++] = *change;
}

/* --- The order --- */

static void add_removal(struct nb_setup_plan *plan, const char *folder, const char *name) {
        nb_setup_add_change(plan,
                            &(struct nb_setup_change){ NB_SETUP_ACTION_REMOVE, folder, name });
}

static void add_document(const struct nb_setup_wanted *wanted, struct nb_setup_plan *plan) {
        const struct nb_buffer *document = &plan->document;

        snprintf(plan->document_folder, sizeof(plan->document_folder), "%s/config.yaml.d",
                 wanted->config_directory);
        if (document->len == 0)
                add_removal(plan, plan->document_folder, NB_SETUP_DOCUMENT);
        else
                nb_setup_add_change(
                        plan, &(struct nb_setup_change){ NB_SETUP_ACTION_WRITE,
                                                         plan->document_folder, NB_SETUP_DOCUMENT,
                                                         0644, document->data, document->len });
}

static void add_secret(struct nb_setup_plan *plan, enum nb_credential secret,
                       enum nb_setup_step step) {
        const struct nb_secret *data = plan->secrets[secret];
        const char *name = nb_credential_names[secret];

        if (step == NB_SETUP_WRITE)
                nb_setup_add_change(plan, &(struct nb_setup_change){ NB_SETUP_ACTION_WRITE,
                                                                     NB_SETUP_STORE, name, 0600,
                                                                     data->data, data->len });
        if (step == NB_SETUP_REMOVE)
                add_removal(plan, NB_SETUP_STORE, name);
        /* Which of the plain and the encrypted form takes precedence depends on the version of
         * systemd, so only one of them is left. */
        if (step == NB_SETUP_REMOVE || (step == NB_SETUP_WRITE && !plan->is_document_new))
                add_removal(plan, NB_SETUP_STORE_ENCRYPTED, name);
}

/*
 * After a crash, the token of one cluster must not be present with the settings of another, which
 * would receive the token. So the old credentials are removed before the settings change, and the
 * new ones are written afterwards. In between, `join` fails because there is no token. With the
 * settings unchanged, a credential is removed only once the new one is written.
 */
void nb_setup_order(const struct nb_setup_wanted *wanted, struct nb_setup_plan *plan) {
        const enum nb_setup_step *steps = plan->steps;

        for (unsigned i = 0; i < _NB_SETUP_SECRET_N && plan->is_document_new; i++)
                if (steps[i] != NB_SETUP_KEEP)
                        add_secret(plan, i, NB_SETUP_REMOVE);
        if (plan->is_document_new)
                add_document(wanted, plan);
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N; i++)
                if (steps[i] == NB_SETUP_WRITE)
                        add_secret(plan, i, NB_SETUP_WRITE);
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N && !plan->is_document_new; i++)
                if (steps[i] != NB_SETUP_WRITE)
                        add_secret(plan, i, steps[i]);
}

/* --- What can be written --- */

/* A directory with files is left to the administrator. */
static int verify_name(const char *root, const struct nb_setup_change *change, int folder_fd,
                       struct nb_failure *f) {
        _cleanup_(nb_closep) int fd = openat(folder_fd, change->name,
                                             O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        _cleanup_(nb_folder_closep) DIR *folder = fd < 0 ? NULL : nb_folder_list(fd);
        const struct dirent *entry;

        while (folder && (entry = readdir(folder)))
                if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                        return nb_failure_set(f, NB_SETUP_UNWRITABLE, EISDIR,
                                              "'%s%s/%s' is a directory with files in it: move "
                                              "it away, and run the same command again",
                                              root, change->folder, change->name);
        return 0;
}

/* 1: to be made; 0: a file that is missing needs no removal. In an image, a link may be in the
 * place of the folder. */
static int verify_change(const char *root, const struct nb_setup_change *change,
                         struct nb_failure *f) {
        bool is_removal = change->action == NB_SETUP_ACTION_REMOVE;
        _cleanup_(nb_closep) int fd = -1;
        int r = is_removal ? nb_folder_open_below(root, change->folder, &fd)
                           : nb_folder_make(root, change->folder, 0, &fd);

        if (r >= 0 && ((is_removal && faccessat(fd, change->name, F_OK, AT_SYMLINK_NOFOLLOW) < 0) ||
                       faccessat(fd, ".", W_OK, 0) < 0))
                r = -errno;
        if (r == -ENOENT)
                return is_removal ? 0 : 1;
        root = root ? root : "";
        if (r < 0)
                return nb_failure_set(f, NB_SETUP_UNWRITABLE, r, "cannot write '%s%s/%s': %m", root,
                                      change->folder, change->name);
        r = verify_name(root, change, fd, f);
        return r < 0 ? r : 1;
}

int nb_setup_plan_files(const struct nb_setup_wanted *wanted, struct nb_setup_plan *plan,
                        struct nb_failure *f) {
        unsigned n;

        for (size_t i = 0; i < NB_SETTINGS_FOLDERS_N; i++)
                if (!wanted->root && !wanted->is_start_unwanted &&
                    access(nb_settings_folders[i], F_OK) < 0)
                        nb_setup_add_change(plan,
                                            &(struct nb_setup_change){ NB_SETUP_ACTION_CREATE,
                                                                       nb_settings_folders[i] });
        n = plan->n_changes;
        nb_setup_order(wanted, plan);
        for (unsigned i = n; i < plan->n_changes; i++) {
                int r = verify_change(wanted->root, &plan->changes[i], f);

                if (r < 0)
                        return r;
                if (r > 0)
                        plan->changes[n++] = plan->changes[i];
        }
        plan->n_changes = n;
        return 0;
}
