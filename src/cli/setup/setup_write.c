/* SPDX-License-Identifier: Apache-2.0 */
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
        bool is_removal = change->action == NB_SETUP_ACTION_REMOVE;
        _cleanup_(nb_closep) int fd = -1;
        int r = is_removal ? nb_folder_open_below(root, change->folder, &fd)
                           : nb_folder_make(root, change->folder,
                                            change->mode == 0600 ? 0700 : 0755, &fd);

        if (r >= 0) {
                /* An empty directory cannot be replaced. */
                (void)unlinkat(fd, change->name, AT_REMOVEDIR);
                r = is_removal ? nb_file_remove(fd, change->name)
                               : nb_file_write(fd, change->name, change->mode, change->data,
                                               change->len);
        }
        return r < 0 ? nb_failure_set(f, NB_SETUP_UNWRITABLE, r, "cannot write '%s%s/%s': %m",
                                      root ? root : "", change->folder, change->name)
                     : 0;
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
        if (!wanted->is_rehearsal)
                printf("%-8s %s\n", verb->past, target);
        else if (change->action == NB_SETUP_ACTION_WRITE)
                printf("would %-8s %s (mode %04o, owner %u)\n", verb->name, target, change->mode,
                       wanted->root ? (unsigned)geteuid() : 0);
        else
                printf("would %-8s %s\n", verb->name, target);
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
