/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <libgen.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/text.h"
#include "cli/check/check_internal.h"
#include "cli/kubelet.h"
#include "cli/machine_state.h"
#include "system/unit.h"

#define UNIT "node-bootstrap.service"

/* --- State --- */

/* Why the last join failed is a failure here, too. */
int nb_check_state(struct nb_check *check, struct nb_failure *f) {
        static const enum nb_check_mark marks[_NB_MACHINE_KIND_N] = {
                [NB_MACHINE_JOINED] = NB_CHECK_GOOD,
                [NB_MACHINE_KUBELET_UNPREPARED] = NB_CHECK_DOUBT, /* the step "kubelet" fails */
                [NB_MACHINE_KUBELET_UNKNOWN] = NB_CHECK_NOTE,
                [NB_MACHINE_NOT_JOINED] = NB_CHECK_NOTE,
                [NB_MACHINE_HIDDEN] = NB_CHECK_DOUBT,
                [NB_MACHINE_QUEUED] = NB_CHECK_DOUBT,
                [NB_MACHINE_NOT_YET_VALID] = NB_CHECK_DOUBT, /* kubelet starts nevertheless */
        };
        struct nb_machine_state state;
        bool is_join, has_obstacle;
        int r = nb_machine_judge(&check->sources, &check->units, &state);

        if (r < 0)
                return r;
        nb_machine_apply_settings(&state, &check->sources);
        snprintf(check->fixed_name, sizeof(check->fixed_name), "%s",
                 nb_node_fixed_name(&state.node));
        check->needs_no_join = state.node.inspection.state == NB_NODE_STATE_USABLE;
        memcpy(check->valid_until, state.node.inspection.not_after, sizeof(check->valid_until));
        has_obstacle = state.obstacle.code != NB_NONE;
        is_join = state.kind == NB_MACHINE_WAITING || state.kind == NB_MACHINE_FAILED;
        /* The later steps say more of what a join waits for, unless only the service can read the
         * token. */
        if (state.why.code == NB_NODE_RENAMED) {
                nb_machine_adopt_fields(&state);
                nb_check_row(check, NB_CHECK_DOUBT, "%s", state.why.detail);
        } else if (!has_obstacle &&
                   (state.why.code == NB_NONE || marks[state.kind] == NB_CHECK_DOUBT ||
                    (state.kind == NB_MACHINE_WAITING && !(check->sealed & NB_CHECK_IDENTITIES)))) {
                nb_check_row(check, is_join ? NB_CHECK_DOUBT : marks[state.kind], "%s",
                             state.why.detail);
        } else {
                nb_machine_adopt_fields(&state);
                *f = state.why;
                if (has_obstacle)
                        f->code = state.obstacle.code;
                r = -EPROTO;
        }
        nb_machine_state_done(&state);
        return r;
}

/* --- Files and folders --- */

/* A path that the installer writes to. */
struct target {
        const char *what;
        char path[NB_SETTINGS_PATH_MAX];  /* a folder */
        char where[NB_SETTINGS_PATH_MAX]; /* the part of `path` that exists */
        enum nb_code code;
};

/* A join writes about 15 files, and keeps the previous ones until all are written. They have 50 KiB
 * in total, and each at most 512 KiB (NB_HANDOFF_MAX). */
#define FREE_BYTES_MIN (1024 * 1024)
#define FREE_FILES_MIN 32

/* btrfs reports no number of files. */
static bool is_full(const struct statvfs *file_system) {
        return (uint64_t)file_system->f_bavail * file_system->f_frsize < FREE_BYTES_MIN ||
               (file_system->f_files > 0 && file_system->f_favail < FREE_FILES_MIN);
}

/* 1: cannot be determined as this user. */
static int try_to_write(struct nb_check *check, struct target *target) {
        const char *folder = nb_settings_folder_of(target->path);
        struct statvfs file_system;
        struct stat st;

        memcpy(target->where, target->path, sizeof(target->where));
        while (stat(target->where, &st) < 0) {
                if (errno == EACCES && !check->is_root)
                        return 1;
                if (errno != ENOENT || !strcmp(target->where, "/"))
                        return -errno;
                (void)dirname(target->where);
        }
        if (!S_ISDIR(st.st_mode))
                return -ENOTDIR;
        if (folder && strlen(target->where) < strlen(folder)) {
                NB_TEXT_COPY(target->where, folder);
                target->code = NB_DIRECTORY_MISSING;
                return -ENOENT;
        }
        if (statvfs(target->where, &file_system) == 0) {
                if (file_system.f_flag & ST_RDONLY)
                        return -EROFS;
                if (is_full(&file_system))
                        return -ENOSPC;
        }
        /* The installer runs as root; this process no longer does. */
        return check->is_root || access(target->where, W_OK | X_OK) == 0 ? 0 : 1;
}

static int check_target(struct nb_check *check, struct target *target, struct nb_failure *f) {
        int r = try_to_write(check, target);

        if (r < 0)
                return nb_failure_set(f, target->code, r, "%s, '%s': '%s': %m", target->what,
                                      target->path, target->where);
        if (r > 0)
                nb_check_row(check, NB_CHECK_DOUBT,
                             "%s: cannot determine whether '%s' is writable: run as root",
                             target->what, target->path);
        else
                nb_check_row(check, NB_CHECK_GOOD, "%s: '%s' can be %s", target->what, target->path,
                             strcmp(target->path, target->where) == 0 ? "written" : "created");
        return 0;
}

int nb_check_files(struct nb_check *check, struct nb_failure *f) {
        const struct nb_settings *settings = &check->load.settings;
        const char *state = getenv("STATE_DIRECTORY");
        const struct {
                const char *what, *path;
                bool is_file;
        } targets[] = {
                { "kubeconfig", settings->kubeconfig, true },
                { "CA", settings->ca_file, true },
                { "state", state ? state : NB_CHECK_STATE, false },
                { "certificate", settings->certificate_directory, false },
        };
        struct target target;
        struct statfs file_system;

        for (size_t i = 0; i < N_ELEMENTS(targets); i++) {
                target = (struct target){ .what = targets[i].what,
                                          .code = i == 2 ? NB_STATE_UNWRITABLE
                                                         : NB_TARGET_UNWRITABLE };
                snprintf(target.path, sizeof(target.path), "%s", targets[i].path);
                if (targets[i].is_file)
                        (void)dirname(target.path);
                if (check_target(check, &target, f) < 0)
                        return -EROFS;
        }
        /* A node without persistent storage joins at each boot, when its token may have expired. */
        if (statfs(target.where, &file_system) == 0 &&
            (file_system.f_type == TMPFS_MAGIC || file_system.f_type == RAMFS_MAGIC))
                nb_check_row(check, NB_CHECK_DOUBT,
                             "certificate: '%s' is on a memory file system: this machine joins "
                             "again at each boot",
                             target.path);
        return 0;
}

/* --- kubelet --- */

static bool is_in_list(const struct nb_unit *unit, enum nb_unit_list list, const char *path) {
        const struct nb_buffer *strings = &unit->lists[list];

        return strings->len > 0 && memmem(strings->data, strings->len, path, strlen(path));
}

static void print_order(struct nb_check *check, const struct nb_unit *unit) {
        const char *kubeconfig = check->load.settings.kubeconfig;
        bool waits = nb_unit_has(unit, NB_UNIT_AFTER, UNIT),
             requires = nb_unit_has(unit, NB_UNIT_REQUIRES, NB_GATE_UNIT),
             is_masked = !strcmp(check->units.gate.load, "masked");

        nb_check_row(check, waits ? NB_CHECK_GOOD : NB_CHECK_DOUBT, "kubelet: %s",
                     waits ? "starts after " UNIT
                           : "not ordered after " UNIT ", so it does not wait for the join: "
                             "`systemctl enable " UNIT "`");
        nb_check_row(check, requires && !is_masked ? NB_CHECK_GOOD : NB_CHECK_DOUBT, "kubelet: %s",
                     is_masked  ? NB_GATE_UNIT " is masked, so kubelet may start before this "
                                               "machine has joined, or not at all: `systemctl "
                                               "unmask " NB_GATE_UNIT "`"
                     : requires ? "does not start before this machine has joined"
                                : "does not require " NB_GATE_UNIT
                                  ", so it starts even if the join failed: "
                                  "`systemctl enable " UNIT "`");
        if (is_in_list(unit, NB_UNIT_COMMAND, kubeconfig) ||
            is_in_list(unit, NB_UNIT_ENVIRONMENT, kubeconfig))
                nb_check_row(check, NB_CHECK_GOOD, "kubelet: reads '%s'", kubeconfig);
        else
                nb_check_row(check, NB_CHECK_DOUBT,
                             "kubelet: neither the command line nor the environment in its unit "
                             "contains '%s' (kubelet.kubeconfig)",
                             kubeconfig);
}

/* A kubelet that cannot start does not prevent a join. The first cause becomes the failure; the
 * others are printed as rows. */
int nb_check_kubelet(struct nb_check *check, struct nb_failure *f) {
        static const enum nb_check_mark marks[] = { NB_CHECK_GOOD, NB_CHECK_DOUBT, NB_CHECK_BAD };
        const struct nb_unit *unit = &check->units.kubelet;
        struct nb_kubelet_findings found;
        struct nb_last last;

        if (!unit->state.active[0]) {
                if (nb_systemd_is_running())
                        nb_check_row(check, NB_CHECK_DOUBT,
                                     "kubelet: cannot read the properties of " NB_KUBELET_UNIT);
                else
                        nb_check_row(check, NB_CHECK_NOTE,
                                     "kubelet: not checked: systemd is not running");
                return 0;
        }
        nb_last_read(-1, &check->units.service.state, &last);
        if (nb_kubelet_check(&check->sources, unit, &check->load.settings, &last, &found) < 0)
                return nb_failure_set_memory(f);
        for (unsigned i = 0; i < found.n; i++) {
                const struct nb_kubelet_finding *finding = &found.findings[i];

                if (finding->state == NB_KUBELET_BAD && f->code == NB_NONE)
                        (void)nb_failure_set(f, finding->code, 0, "%s", finding->text);
                else
                        nb_check_row(check, marks[finding->state], "%s", finding->text);
        }
        if (f->code != NB_NONE && f->code == nb_failure_find(last.code))
                nb_last_adopt_fields(&last);
        if (!strcmp(unit->state.load, "loaded"))
                print_order(check, unit);
        if (!strcmp(unit->state.active, "active"))
                memcpy(check->health, found.health, sizeof(found.health));
        return f->code == NB_NONE ? 0 : -EPROTO;
}
