/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/macro.h"
#include "cli/setup/setup_internal.h"
#include "node_state/context.h"
#include "os/process.h"
#include "os/stop.h"
#include "state_files/lock.h"
#include "systemd/unit.h"

#define REFRESH_UNIT "node-bootstrap-refresh.service"
#define STATE_DIRECTORY "/var/lib/node-bootstrap"
#define LOOK_MS 100

/* Waits until the job has ended, as `systemctl stop` does. */
static int stop_unit(const char *unit, struct nb_failure *f) {
        struct nb_unit_state state;
        int r;

        printf("stopping %s\n", unit);
        fflush(stdout);
        r = nb_unit_queue("StopUnit", unit, f);
        while (r >= 0) {
                r = nb_unit_show(unit, &state, f);
                if (r < 0 || nb_unit_is_at_rest(&state))
                        break;
                r = nb_stop_wait(LOOK_MS);
        }
        if (r < 0)
                return r;
        if (nb_unit_is(&state, "active"))
                return nb_failure_set(f, NB_SETUP_COMMAND_FAILED, 0,
                                      "%s is active again: another job replaced its stop", unit);
        printf("stopped  %s\n", unit);
        return 0;
}

/* Also stops a kubelet that systemd is about to restart, or that is queued behind a join: once the
 * service is stopped, an old certificate could let it start. */
static int stop_units(bool is_forced, struct nb_failure *f) {
        static const char *const units[] = { NB_KUBELET_UNIT, NB_SERVICE_UNIT, "node-joined.target",
                                             REFRESH_UNIT };
        struct nb_unit_state state;

        for (size_t i = 0; i < N_ELEMENTS(units); i++) {
                int r = nb_unit_show(units[i], &state, f);

                if (r < 0)
                        return r;
                if (i == 0 && nb_unit_is(&state, "active") && !is_forced)
                        return nb_failure_set(
                                f, NB_KUBELET_ACTIVE, 0,
                                NB_KUBELET_UNIT
                                " is active (%s); stop it first, or use --stop-kubelet",
                                state.sub);
                if (!state.has_job &&
                    (nb_unit_is(&state, "inactive") || nb_unit_is(&state, "failed")))
                        continue;
                r = stop_unit(units[i], f);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* The installer would fail with the same record, but only after kubelet is stopped. */
static int verify_record(const char *config_directory, struct nb_failure *f) {
        _cleanup_(nb_context_done) struct nb_context context = { 0 };
        _cleanup_(nb_sources_done) struct nb_sources sources = { 0 };
        _cleanup_(nb_record_done) struct nb_record record = { 0 };

        nb_sources_init(&sources, config_directory);
        return nb_context_find_join(&context, -1, &sources, &record, f);
}

/* Only the installer writes and removes kubelet's files. */
static int run_installer(const char *config_directory, int *ret_status, struct nb_failure *f) {
        const char *const argv[] = { NB_INSTALLER, "--reset", "--config-directory",
                                     config_directory, NULL };
        struct nb_process_result result;
        int r;

        /* As systemd does for the installer. */
        if (access(STATE_DIRECTORY, F_OK) == 0 && setenv("STATE_DIRECTORY", STATE_DIRECTORY, 1) < 0)
                return nb_failure_set_memory(f);
        fflush(stdout);
        r = nb_process_run(&(struct nb_process){ .argv = argv,
                                                 .environment = (const char *const *)environ,
                                                 .is_interactive = true },
                           &result);
        *ret_status = result.status;
        return r < 0 ? nb_failure_set(f, NB_INTERNAL, r, "cannot run '" NB_INSTALLER "': %m") : 0;
}

static int remove_setup(const char *config_directory, struct nb_failure *f) {
        const struct nb_setup_wanted wanted = { .config_directory = config_directory,
                                                .is_start_unwanted = true };
        _cleanup_(nb_setup_plan_done) struct nb_setup_plan plan = { .is_document_new = true };
        _cleanup_(nb_closep) int lock_fd = -1;
        int r;

        r = nb_unit_enable(NB_SERVICE_UNIT, false, f);
        if (r < 0)
                return r;
        r = nb_lock_take(NULL, &lock_fd, f);
        if (r < 0)
                return r;
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N; i++)
                plan.steps[i] = NB_SETUP_REMOVE;
        r = nb_setup_plan_files(&wanted, &plan, f);
        if (r >= 0)
                r = nb_setup_apply(&wanted, &plan, NB_SETUP_ACTION_REMOVE, f);
        return r < 0 ? r : nb_systemd_reload(f);
}

int nb_command_reset(struct nb_options *options, struct nb_failure *f) {
        bool is_forced = false, is_setup_removed = false;
        const struct nb_option rows[] = {
                { "stop-kubelet", NULL, "stop kubelet if it is running", .ret_switch = &is_forced },
                { "all", NULL, "also disable the service, and remove the files that setup writes",
                  .ret_switch = &is_setup_removed },
                { NULL },
        };
        int status = 0, r;

        r = nb_options_read(options, rows, f);
        if (r < 0)
                return r;
        if (geteuid() != 0)
                return nb_failure_set(f, NB_SETUP_NOT_ROOT, 0, "must be run as root");
        r = verify_record(options->config_directory, f);
        if (r >= 0 && nb_systemd_is_running())
                r = stop_units(is_forced, f);
        if (r < 0)
                return r;
        /* The installer has already printed the reason of a failure. */
        r = run_installer(options->config_directory, &status, f);
        if (r < 0 || status != 0)
                return r < 0 ? r : status;
        if (is_setup_removed)
                return remove_setup(options->config_directory, f);
        printf("left     settings and credentials: if " NB_SERVICE_UNIT
               " is enabled, it joins again at the next boot; `node-bootstrap reset --all` "
               "removes what setup wrote\n");
        return 0;
}
