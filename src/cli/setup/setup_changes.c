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
#include "base/text.h"
#include "cli/setup/setup_internal.h"
#include "os/process.h"
#include "systemd/unit.h"

void nb_setup_add_change(struct nb_setup_plan *plan, const struct nb_setup_change *change) {
        assert(plan->n_changes < NB_SETUP_CHANGES_MAX);
        plan->changes[plan->n_changes++] = *change;
}

/* --- The order --- */

static void add_removal(struct nb_setup_plan *plan, const char *folder, const char *name) {
        nb_setup_add_change(plan,
                            &(struct nb_setup_change){ NB_SETUP_ACTION_REMOVE, folder, name });
}

/* The plain and the encrypted form. */
static void add_secret_removal(struct nb_setup_plan *plan, enum nb_credential secret) {
        add_removal(plan, NB_SETUP_STORE, nb_credential_names[secret]);
        add_removal(plan, NB_SETUP_STORE_ENCRYPTED, nb_credential_names[secret]);
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

/*
 * After a crash, the token of one cluster must not be present with the settings of another, which
 * would receive the token. So the old credentials are removed before the settings change, and the
 * new ones are written afterwards. In between, `join` fails because there is no token. With the
 * settings unchanged, a credential is removed only once the new one is written. Which of the plain
 * and the encrypted form takes precedence depends on the version of systemd, so only one of them is
 * left.
 */
void nb_setup_order(const struct nb_setup_wanted *wanted, struct nb_setup_plan *plan) {
        const enum nb_setup_step *steps = plan->steps;

        for (unsigned i = 0; i < _NB_SETUP_SECRET_N && plan->is_document_new; i++)
                if (steps[i] != NB_SETUP_KEEP)
                        add_secret_removal(plan, i);
        if (plan->is_document_new)
                add_document(wanted, plan);
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N; i++) {
                const struct nb_secret *secret = plan->secrets[i];
                const char *name = nb_credential_names[i];

                if (steps[i] != NB_SETUP_WRITE)
                        continue;
                nb_setup_add_change(plan, &(struct nb_setup_change){ NB_SETUP_ACTION_WRITE,
                                                                     NB_SETUP_STORE, name, 0600,
                                                                     secret->data, secret->len });
                if (!plan->is_document_new)
                        add_removal(plan, NB_SETUP_STORE_ENCRYPTED, name);
        }
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N && !plan->is_document_new; i++)
                if (steps[i] == NB_SETUP_REMOVE)
                        add_secret_removal(plan, i);
}

/* --- What can be written --- */

/* A mode of 0 makes no folder. */
static int open_folder(const char *root, const struct nb_setup_change *change, mode_t mode,
                       int *ret_fd) {
        return change->action == NB_SETUP_ACTION_REMOVE
                       ? nb_folder_open_below(root, change->folder, ret_fd)
                       : nb_folder_make(root, change->folder, mode, ret_fd);
}

static int refuse_change(const char *root, const struct nb_setup_change *change, int r,
                         struct nb_failure *f) {
        return nb_failure_set(f, NB_SETUP_UNWRITABLE, r, "cannot write '%s%s/%s': %m",
                              root ? root : "", change->folder, change->name);
}

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
        int r = open_folder(root, change, 0, &fd);

        if (r >= 0 && ((is_removal && faccessat(fd, change->name, F_OK, AT_SYMLINK_NOFOLLOW) < 0) ||
                       faccessat(fd, ".", W_OK, 0) < 0))
                r = -errno;
        if (r == -ENOENT)
                return is_removal ? 0 : 1;
        if (r >= 0)
                r = verify_name(root ? root : "", change, fd, f);
        return r < 0 ? refuse_change(root, change, r, f) : 1;
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

/* --- Changes --- */

/* The unit cannot create these folders. A boot does it, with the owners and modes of tmpfiles.d. */
static int make_folder(const char *path, struct nb_failure *f) {
        static const char *const argv[] = { "systemd-tmpfiles", "--create", "node-bootstrap.conf",
                                            NULL };
        struct nb_process_result result = { .error = "" };
        int r;

        if (access(path, F_OK) == 0)
                return 0;
        r = nb_process_run(
                &(struct nb_process){ .argv = argv, .timeout_ms = NB_PROCESS_TIMEOUT_MS }, &result);
        if (access(path, F_OK) == 0)
                return 0;
        return nb_failure_set(f, NB_DIRECTORY_MISSING, r,
                              "systemd-tmpfiles does not create '%s': %s", path,
                              r < 0 ? strerror(-r) : result.error);
}

/* Makes the folder accessible to other users only if they may read the file. */
static int change_file(const char *root, const struct nb_setup_change *change,
                       struct nb_failure *f) {
        _cleanup_(nb_closep) int fd = -1;
        int r = open_folder(root, change, change->mode == 0600 ? 0700 : 0755, &fd);

        if (r >= 0) {
                /* An empty directory cannot be replaced. */
                (void)unlinkat(fd, change->name, AT_REMOVEDIR);
                r = change->action == NB_SETUP_ACTION_REMOVE
                            ? nb_file_remove(fd, change->name)
                            : nb_file_write(fd, change->name, change->mode, change->data,
                                            change->len);
        }
        return r < 0 ? refuse_change(root, change, r, f) : 0;
}

static const struct verb {
        const char *name, *past; /* `past` NULL: the watch shows it */
        const char *method;      /* of a job */
} verbs[_NB_SETUP_ACTION_N] = {
        [NB_SETUP_ACTION_CREATE] = { "create", "created", NULL },
        [NB_SETUP_ACTION_WRITE] = { "write", "wrote", NULL },
        [NB_SETUP_ACTION_REMOVE] = { "remove", "removed", NULL },
        [NB_SETUP_ACTION_ENABLE] = { "enable", "enabled", NULL },
        [NB_SETUP_ACTION_START] = { "start", NULL, "StartUnit" },
        [NB_SETUP_ACTION_RESTART] = { "restart", NULL, "RestartUnit" },
        [NB_SETUP_ACTION_RELOAD] = { "reload", NULL, "ReloadUnit" },
};

static int make_change(const char *root, const struct nb_setup_change *change,
                       struct nb_failure *f) {
        int r;

        if (change->action == NB_SETUP_ACTION_CREATE)
                return make_folder(change->folder, f);
        if (change->folder)
                return change_file(root, change, f);
        if (verbs[change->action].method) {
                nb_unit_reset_limit(change->name);
                return nb_unit_queue(verbs[change->action].method, change->name, f);
        }
        r = nb_unit_enable(change->name, true, f);
        return r < 0 ? r : nb_systemd_reload(f);
}

static void format_target(const char *root, const struct nb_setup_change *change,
                          char ret[static NB_SETUP_PATH_SIZE]) {
        if (!change->folder)
                snprintf(ret, NB_SETUP_PATH_SIZE, "%s", change->name);
        else
                snprintf(ret, NB_SETUP_PATH_SIZE, "%s%s%s%s", root ? root : "", change->folder,
                         change->name ? "/" : "", change->name ? change->name : "");
}

static void print_change(const struct nb_setup_wanted *wanted,
                         const struct nb_setup_change *change) {
        const struct verb *verb = &verbs[change->action];
        char target[NB_SETUP_PATH_SIZE];

        if (change->is_already_so || (!wanted->is_rehearsal && !verb->past))
                return;
        format_target(wanted->root, change, target);
        printf("%s%-8s %s", wanted->is_rehearsal ? "would " : "",
               wanted->is_rehearsal ? verb->name : verb->past, target);
        if (wanted->is_rehearsal && change->action == NB_SETUP_ACTION_WRITE)
                printf(" (mode %04o, owner %u)", change->mode,
                       wanted->root ? (unsigned)geteuid() : 0);
        putchar('\n');
}

bool nb_setup_put_changes(const struct nb_setup_wanted *wanted, const struct nb_setup_plan *plan,
                          struct nb_json_writer *writer) {
        char target[NB_SETUP_PATH_SIZE], line[NB_SETUP_PATH_SIZE];
        bool is_any = false;

        nb_json_open(writer, "changes", '[');
        for (unsigned i = 0; i < plan->n_done; i++) {
                const struct nb_setup_change *change = &plan->changes[i];

                if (change->is_already_so)
                        continue;
                is_any = true;
                format_target(wanted->root, change, target);
                /* --root may have any bytes. */
                NB_TEXT_COPY_LINE(line, target);
                nb_json_open(writer, NULL, '{');
                nb_json_put_string(writer, "action", verbs[change->action].name);
                nb_json_put_string(writer, change->folder ? "path" : "unit", line);
                nb_json_close(writer);
        }
        nb_json_close(writer);
        return is_any;
}

int nb_setup_apply(const struct nb_setup_wanted *wanted, struct nb_setup_plan *plan,
                   enum nb_setup_action last, struct nb_failure *f) {
        for (; plan->n_done < plan->n_changes; plan->n_done++) {
                const struct nb_setup_change *change = &plan->changes[plan->n_done];
                int r;

                if (change->action > last)
                        break;
                r = wanted->is_rehearsal ? 0 : make_change(wanted->root, change, f);
                if (r < 0)
                        return r;
                print_change(wanted, change);
        }
        return 0;
}
