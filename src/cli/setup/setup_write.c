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
#include "cli/service.h"
#include "cli/setup/setup_internal.h"
#include "system/process.h"
#include "system/sources.h"
#include "system/unit.h"

#define STORE "/etc/credstore"
#define STORE_ENCRYPTED "/etc/credstore.encrypted"

/* --- Reading --- */

static int read_from(const struct nb_setup *setup, const char *folder, const char *name,
                     struct nb_secret *ret, struct nb_failure *f) {
        _cleanup_(nb_closep) int fd = -1;
        int r = nb_folder_open_below(setup->root, folder, &fd);

        if (r >= 0)
                r = nb_file_read_secret(fd, name, NB_SETUP_SECRET_MAX, ret, NULL);
        if (r < 0 && r != -ENOENT)
                return nb_failure_set(f, NB_SETTINGS_UNREADABLE, r, "cannot read '%s/%s': %m",
                                      folder, name);
        return r;
}

int nb_setup_read_stored(const struct nb_setup *setup, const char *name, struct nb_secret *ret,
                         struct nb_failure *f) {
        _cleanup_(nb_closep) int fd = -1;
        int r;

        r = read_from(setup, STORE, name, ret, f);
        if (r != -ENOENT)
                return r;
        r = nb_folder_open_below(setup->root, STORE_ENCRYPTED, &fd);
        return r >= 0 && faccessat(fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ? -EKEYREJECTED
                                                                             : -ENOENT;
}

/* --- Plan --- */

void nb_setup_add_change(struct nb_setup *setup, const struct nb_setup_change *change) {
        assert(setup->n_planned < NB_SETUP_CHANGES_MAX);
        setup->changes[setup->n_planned++] = *change;
}

static int fail_change(const struct nb_setup *setup, const struct nb_setup_change *change, int r,
                       struct nb_failure *f) {
        return nb_failure_set(f, NB_SETUP_UNWRITABLE, r, "cannot write '%s%s/%s': %m",
                              setup->root ? setup->root : "", change->folder, change->name);
}

/* A directory with files is left to the administrator. */
static int verify_file(const struct nb_setup *setup, const struct nb_setup_change *change,
                       int folder_fd, struct nb_failure *f) {
        _cleanup_(nb_closep) int fd = openat(folder_fd, change->name,
                                             O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        _cleanup_(nb_folder_closep) DIR *folder = fd < 0 ? NULL : nb_folder_list(fd);
        const struct dirent *entry;

        while (folder && (entry = readdir(folder)))
                if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                        return nb_failure_set(f, NB_SETUP_UNWRITABLE, EISDIR,
                                              "'%s%s/%s' is a directory with files in it: move "
                                              "it away, and run the same command again",
                                              setup->root ? setup->root : "", change->folder,
                                              change->name);
        return 0;
}

/* A file that is missing needs no removal. What cannot be written is refused before anything
 * changes: in an image, a link may be in the place of the folder. */
static int plan_file(struct nb_setup *setup, const struct nb_setup_change *change,
                     struct nb_failure *f) {
        bool is_removal = change->action == NB_SETUP_ACTION_REMOVE;
        _cleanup_(nb_closep) int fd = -1;
        int r;

        r = is_removal ? nb_folder_open_below(setup->root, change->folder, &fd)
                       : nb_folder_make(setup->root, change->folder, 0, &fd);
        if (r >= 0 && ((is_removal && faccessat(fd, change->name, F_OK, AT_SYMLINK_NOFOLLOW) < 0) ||
                       faccessat(fd, ".", W_OK, 0) < 0))
                r = -errno;
        if (is_removal && r == -ENOENT)
                return 0;
        if (r < 0 && r != -ENOENT)
                return fail_change(setup, change, r, f);
        r = r < 0 ? 0 : verify_file(setup, change, fd, f);
        if (r < 0)
                return r;
        nb_setup_add_change(setup, change);
        return 0;
}

static int plan_removal(struct nb_setup *setup, const char *folder, const char *name,
                        struct nb_failure *f) {
        return plan_file(setup, &(struct nb_setup_change){ NB_SETUP_ACTION_REMOVE, folder, name },
                         f);
}

static int plan_secret_removal(struct nb_setup *setup, enum nb_credential secret,
                               struct nb_failure *f) {
        int r = plan_removal(setup, STORE, nb_credential_names[secret], f);

        return r < 0 ? r : plan_removal(setup, STORE_ENCRYPTED, nb_credential_names[secret], f);
}

static void plan_folders(struct nb_setup *setup) {
        for (size_t i = 0; i < NB_SETTINGS_FOLDERS_N; i++)
                if (access(nb_settings_folders[i], F_OK) < 0)
                        nb_setup_add_change(setup,
                                            &(struct nb_setup_change){ NB_SETUP_ACTION_CREATE,
                                                                       nb_settings_folders[i] });
}

/* Which of the plain and the encrypted form takes precedence depends on the version of systemd, so
 * only one of them is left. */
static int plan_secret(struct nb_setup *setup, enum nb_credential secret, struct nb_failure *f) {
        const struct nb_secret *data = &setup->secrets[secret];
        const char *name = nb_credential_names[secret];
        int r;

        r = plan_file(setup,
                      &(struct nb_setup_change){ NB_SETUP_ACTION_WRITE, STORE, name, 0600,
                                                 data->data, data->len },
                      f);
        if (r < 0 || setup->is_document_new)
                return r;
        return plan_removal(setup, STORE_ENCRYPTED, name, f);
}

static int plan_document(struct nb_setup *setup, struct nb_failure *f) {
        const struct nb_buffer *document = &setup->document;

        snprintf(setup->document_folder, sizeof(setup->document_folder), "%s/config.yaml.d",
                 setup->config_directory);
        if (document->len == 0)
                return plan_removal(setup, setup->document_folder, NB_SETUP_DOCUMENT, f);
        return plan_file(setup,
                         &(struct nb_setup_change){ NB_SETUP_ACTION_WRITE, setup->document_folder,
                                                    NB_SETUP_DOCUMENT, 0644, document->data,
                                                    document->len },
                         f);
}

/*
 * After a crash, the token of one cluster must not be present with the settings of another, which
 * would receive the token. So the old credentials are removed before the settings change, and the
 * new ones are written afterwards. In between, `join` fails because there is no token. With the
 * settings unchanged, a credential is removed only once the new one is written.
 */
int nb_setup_plan_files(struct nb_setup *setup, struct nb_failure *f) {
        int r = 0;

        if (!setup->root && !setup->is_start_unwanted)
                plan_folders(setup);
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N && setup->is_document_new && r >= 0; i++)
                if (setup->steps[i] != NB_SETUP_KEEP)
                        r = plan_secret_removal(setup, i, f);
        if (r >= 0 && setup->is_document_new)
                r = plan_document(setup, f);
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N && r >= 0; i++)
                if (setup->steps[i] == NB_SETUP_WRITE)
                        r = plan_secret(setup, i, f);
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N && !setup->is_document_new && r >= 0; i++)
                if (setup->steps[i] == NB_SETUP_REMOVE)
                        r = plan_secret_removal(setup, i, f);
        return r;
}

int nb_setup_plan_repair(struct nb_setup *setup, struct nb_failure *f) {
        static const enum nb_credential tokens[] = { NB_CREDENTIAL_TOKEN,
                                                     NB_CREDENTIAL_TLS_BOOTSTRAP_TOKEN };
        _cleanup_(nb_closep) int fd = -1;
        int r = 0;

        if (setup->state.obstacle.code != NB_SERVICE_CREDENTIAL)
                return 0;
        (void)nb_folder_open(STORE, &fd);
        for (size_t i = 0; i < N_ELEMENTS(tokens) && r >= 0; i++) {
                const char *name = nb_credential_names[tokens[i]];

                if (fd >= 0 && nb_service_find_fault(fd, name))
                        r = plan_removal(setup, STORE, name, f);
                if (r >= 0)
                        r = plan_removal(setup, STORE_ENCRYPTED, name, f);
        }
        return r;
}

/* --- Execution --- */

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
static int change_file(const struct nb_setup *setup, const struct nb_setup_change *change,
                       struct nb_failure *f) {
        bool is_removal = change->action == NB_SETUP_ACTION_REMOVE;
        _cleanup_(nb_closep) int fd = -1;
        int r = is_removal ? nb_folder_open_below(setup->root, change->folder, &fd)
                           : nb_folder_make(setup->root, change->folder,
                                            change->mode == 0600 ? 0700 : 0755, &fd);

        if (r < 0)
                return fail_change(setup, change, r, f);
        /* An empty directory cannot be replaced. */
        (void)unlinkat(fd, change->name, AT_REMOVEDIR);
        r = is_removal ? nb_file_remove(fd, change->name)
                       : nb_file_write(fd, change->name, change->mode, change->data, change->len);
        return r < 0 ? fail_change(setup, change, r, f) : 0;
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

static int make_change(const struct nb_setup *setup, const struct nb_setup_change *change,
                       struct nb_failure *f) {
        int r;

        if (change->action == NB_SETUP_ACTION_CREATE)
                return make_folder(change->folder, f);
        if (change->folder)
                return change_file(setup, change, f);
        if (verbs[change->action].method) {
                nb_unit_reset_limit(change->name);
                return nb_unit_queue(verbs[change->action].method, change->name, f);
        }
        r = nb_unit_enable(change->name, true, f);
        return r < 0 ? r : nb_systemd_reload(f);
}

static void format_target(const struct nb_setup *setup, const struct nb_setup_change *change,
                          char ret[static NB_SETUP_PATH_SIZE]) {
        if (!change->folder)
                snprintf(ret, NB_SETUP_PATH_SIZE, "%s", change->name);
        else
                snprintf(ret, NB_SETUP_PATH_SIZE, "%s%s%s%s", setup->root ? setup->root : "",
                         change->folder, change->name ? "/" : "", change->name ? change->name : "");
}

static void print_change(const struct nb_setup *setup, const struct nb_setup_change *change) {
        const struct verb *verb = &verbs[change->action];
        char target[NB_SETUP_PATH_SIZE];

        if (change->is_already_so || (!setup->is_rehearsal && !verb->past))
                return;
        format_target(setup, change, target);
        if (!setup->is_rehearsal)
                printf("%-8s %s\n", verb->past, target);
        else if (change->action == NB_SETUP_ACTION_WRITE)
                printf("would %-8s %s (mode %04o, owner %u)\n", verb->name, target, change->mode,
                       setup->root ? (unsigned)geteuid() : 0);
        else
                printf("would %-8s %s\n", verb->name, target);
}

bool nb_setup_put_changes(struct nb_setup *setup) {
        struct nb_json_writer *writer = &setup->writer;
        char target[NB_SETUP_PATH_SIZE], line[NB_SETUP_PATH_SIZE];
        bool is_any = false;

        nb_json_open(writer, "changes", '[');
        for (unsigned i = 0; i < setup->n_done; i++) {
                const struct nb_setup_change *change = &setup->changes[i];

                if (change->is_already_so)
                        continue;
                is_any = true;
                format_target(setup, change, target);
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

int nb_setup_apply(struct nb_setup *setup, enum nb_setup_action last, struct nb_failure *f) {
        for (; setup->n_done < setup->n_planned; setup->n_done++) {
                const struct nb_setup_change *change = &setup->changes[setup->n_done];
                int r;

                if (change->action > last)
                        break;
                r = setup->is_rehearsal ? 0 : make_change(setup, change, f);
                if (r < 0)
                        return r;
                print_change(setup, change);
        }
        return 0;
}
