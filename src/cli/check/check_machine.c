/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/check/check_internal.h"
#include "systemd/unit.h"

/* --- State --- */

int nb_check_look(struct nb_check *check, struct nb_machine_state *ret_state) {
        const struct nb_inspection *inspection = &ret_state->node.inspection;
        const bool had_directory = check->sources.config_directory;
        int r = nb_machine_judge(&check->sources, &check->units, ret_state);

        if (r < 0)
                return r;
        if (had_directory && !check->sources.config_directory)
                check->unread = ret_state->settings_failure;
        nb_machine_apply_settings(ret_state, &check->sources);
        check->last = ret_state->last;
        NB_TEXT_COPY(check->fixed_name, nb_node_fixed_name(&ret_state->node));
        /* Without a network, the next start writes a lost file again. */
        check->needs_no_join = nb_node_state_is_joined(inspection->state) ||
                               ret_state->kind == NB_MACHINE_WITHOUT_KUBECONFIG;
        check->has_traces = inspection->state != NB_NODE_STATE_ABSENT;
        check->is_joined = check->needs_no_join || nb_inspection_is_kept(inspection);
        memcpy(check->valid_until, inspection->not_after, sizeof(check->valid_until));
        return 0;
}

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
                [NB_MACHINE_WAITING] = NB_CHECK_DOUBT, /* other steps say more of what it awaits */
        };
        struct nb_machine_state state;
        bool has_obstacle;
        int r = nb_check_look(check, &state);

        if (r < 0)
                return r;
        /* Other steps would wait for these files, and no signal but SIGKILL would end them. */
        if (state.why.errnum == ETIMEDOUT)
                check->has_settings = false;
        if (!strcmp(state.service.file, "disabled"))
                nb_check_row(check, NB_CHECK_DOUBT,
                             NB_SERVICE_UNIT
                             " is disabled, so the next boot does not start it: `systemctl "
                             "enable " NB_SERVICE_UNIT "`");
        has_obstacle = state.obstacle.code != NB_NONE;
        if (state.why.code == NB_NODE_RENAMED) {
                nb_machine_adopt_fields(&state);
                nb_check_row(check, NB_CHECK_DOUBT, "%s", state.why.detail);
        } else if (!has_obstacle &&
                   (state.why.code == NB_NONE || marks[state.kind] == NB_CHECK_DOUBT)) {
                nb_check_row(check, marks[state.kind], "%s", state.why.detail);
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

/* A join writes about 15 files, and keeps the previous ones until all are written. They have 50 KiB
 * in total, and each at most 512 KiB (NB_HANDOFF_MAX). btrfs reports no number of files. */
#define FREE_BYTES_MIN (1024 * 1024)
#define FREE_FILES_MIN 32

static bool is_full(const struct statvfs *file_system) {
        return (uint64_t)file_system->f_bavail * file_system->f_frsize < FREE_BYTES_MIN ||
               (file_system->f_files > 0 && file_system->f_favail < FREE_FILES_MIN);
}

/* `where` is `path`, and becomes the part of it that exists. 1: cannot be determined as this user;
 * -ENODEV: `where` is a folder that the installer does not create. */
static int try_to_write(const struct nb_check *check, const char *path, char *where) {
        const char *folder = nb_settings_folder_of(path);
        struct statvfs file_system;
        struct stat st;

        while (stat(where, &st) < 0) {
                if (errno == EACCES && !check->is_root)
                        return 1;
                if (errno != ENOENT || !strcmp(where, "/"))
                        return -errno;
                if (folder && !strcmp(where, folder))
                        return -ENODEV;
                (void)dirname(where);
        }
        if (!S_ISDIR(st.st_mode))
                return -ENOTDIR;
        if (statvfs(where, &file_system) < 0)
                return -errno;
        if (file_system.f_flag & ST_RDONLY)
                return -EROFS;
        if (is_full(&file_system))
                return -ENOSPC;
        /* The installer runs as root; this process no longer does. */
        return check->is_root || access(where, W_OK | X_OK) == 0 ? 0 : 1;
}

static int check_target(struct nb_check *check, const char *what, const char *path, bool is_file,
                        enum nb_code code, struct nb_failure *f) {
        char folder[NB_SETTINGS_PATH_MAX], where[NB_SETTINGS_PATH_MAX];
        int r;

        NB_TEXT_COPY(folder, path);
        if (is_file)
                (void)dirname(folder);
        NB_TEXT_COPY(where, folder);
        r = try_to_write(check, folder, where);
        if (r == -ENODEV)
                return nb_failure_set(f, NB_DIRECTORY_MISSING, ENOENT,
                                      "'%s' does not exist (needed for the %s)", where, what);
        if (r < 0)
                return nb_failure_set(f, code, r, "%s, '%s': '%s': %m", what, folder, where);
        if (r > 0)
                nb_check_row(check, NB_CHECK_DOUBT,
                             "%s: cannot determine whether '%s' is writable: run as root", what,
                             folder);
        else
                nb_check_row(check, NB_CHECK_GOOD, "%s: '%s' can be %s", what, folder,
                             !strcmp(folder, where) ? "written" : "created");
        return 0;
}

int nb_check_files(struct nb_check *check, struct nb_failure *f) {
        const struct nb_settings *settings = &check->load.settings;
        const char *state = getenv("STATE_DIRECTORY");
        int r = check_target(check, "kubeconfig", settings->kubeconfig, true, NB_TARGET_UNWRITABLE,
                             f);

        if (r >= 0)
                r = check_target(check, "CA", settings->ca_file, true, NB_TARGET_UNWRITABLE, f);
        if (r >= 0)
                r = check_target(check, "state", state ? state : NB_CHECK_STATE, false,
                                 NB_STATE_UNWRITABLE, f);
        if (r >= 0)
                r = check_target(check, "certificate", settings->certificate_directory, false,
                                 NB_TARGET_UNWRITABLE, f);
        return r;
}

/* --- kubelet --- */

static bool is_in_list(const struct nb_unit *unit, enum nb_unit_list list, const char *path) {
        const struct nb_buffer *strings = &unit->lists[list];

        return strings->len > 0 && memmem(strings->data, strings->len, path, strlen(path));
}

static void print_order(struct nb_check *check, const struct nb_unit *unit) {
        const char *kubeconfig = check->load.settings.kubeconfig;
        bool is_read = is_in_list(unit, NB_UNIT_COMMAND, kubeconfig) ||
                       is_in_list(unit, NB_UNIT_ENVIRONMENT, kubeconfig);
        const char *late = nb_unit_has(unit, NB_UNIT_AFTER, NB_SERVICE_UNIT)
                                   ? NULL
                                   : "not ordered after " NB_SERVICE_UNIT
                                     ", so it does not wait for the "
                                     "join: `systemctl enable " NB_SERVICE_UNIT "`",
                   *ungated = !strcmp(check->units.gate.load, "masked") ? NB_GATE_UNIT
                                      " is masked, so kubelet may start before this "
                                      "machine has joined, or not at all: `systemctl "
                                      "unmask " NB_GATE_UNIT "`"
                              : nb_unit_has(unit, NB_UNIT_REQUIRES, NB_GATE_UNIT)
                                      ? NULL
                                      : "does not require " NB_GATE_UNIT
                                        ", so it starts even if the join failed: "
                                        "`systemctl enable " NB_SERVICE_UNIT "`";

        nb_check_row(check, late ? NB_CHECK_DOUBT : NB_CHECK_GOOD, "kubelet: %s",
                     late ? late : "starts after " NB_SERVICE_UNIT);
        nb_check_row(check, ungated ? NB_CHECK_DOUBT : NB_CHECK_GOOD, "kubelet: %s",
                     ungated ? ungated : "does not start before this machine has joined");
        nb_check_row(check, is_read ? NB_CHECK_GOOD : NB_CHECK_DOUBT, "kubelet: %s '%s'",
                     is_read ? "reads"
                             : "neither the command line nor the environment in its unit contains "
                               "kubelet.kubeconfig,",
                     kubeconfig);
}

/* A kubelet that cannot start does not prevent a join. The first cause becomes the failure; the
 * others are printed as rows. */
int nb_check_kubelet(struct nb_check *check, struct nb_failure *f) {
        static const enum nb_check_mark marks[] = { NB_CHECK_GOOD, NB_CHECK_DOUBT, NB_CHECK_BAD };
        const struct nb_unit *unit = &check->units.kubelet;
        struct nb_settings settings = check->load.settings;
        struct nb_kubelet_findings found;

        if (check->load.bootstrap.issuer == NB_ISSUER_SUPERVISOR)
                settings.cluster_type = NB_CLUSTER_TYPE_K3S;
        if (!unit->state.active[0]) {
                nb_check_row(check, NB_CHECK_NOTE, "kubelet: not checked: systemd does not answer");
                return 0;
        }
        if (nb_kubelet_check(&check->sources, unit, &settings, false, &check->last, &found) < 0)
                return nb_failure_set_memory(f);
        for (unsigned i = 0; i < found.n; i++) {
                const struct nb_kubelet_finding *finding = &found.findings[i];

                if (finding->state == NB_KUBELET_BAD && f->code == NB_NONE)
                        (void)nb_failure_set(f, finding->code, 0, "%s", finding->text);
                else
                        nb_check_row(check, marks[finding->state], "%s", finding->text);
        }
        if (f->code != NB_NONE && f->code == nb_failure_find(check->last.code))
                nb_last_adopt_fields(&check->last);
        if (!strcmp(unit->state.load, "loaded"))
                print_order(check, unit);
        if (nb_unit_is(&unit->state, "active"))
                memcpy(check->health, found.health, sizeof(found.health));
        return f->code == NB_NONE ? 0 : -EPROTO;
}
