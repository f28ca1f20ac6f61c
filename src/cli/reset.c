/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/macro.h"
#include "base/process.h"
#include "base/unit.h"
#include "cli/kubelet.h"
#include "cli/setup_internal.h"

#define REFRESH_UNIT "node-bootstrap-refresh.service"
#define STATE_DIRECTORY "/var/lib/node-bootstrap"

struct reset {
        const char *config_directory;
        bool is_forced;
        bool is_setup_removed;
};

/* Also a kubelet that systemd is about to restart. If kubelet requires the service, it is stopped
 * with it. */
static int stop_units(const struct reset *reset, struct nb_failure *f) {
        static const char *const units[] = { NB_KUBELET_UNIT, NB_SETUP_UNIT, REFRESH_UNIT };
        const char *words[N_ELEMENTS(units) + 2] = { "stop" };
        struct nb_unit_state state;
        int n = 1, r;

        for (size_t i = 0; i < N_ELEMENTS(units); i++) {
                r = nb_unit_show(units[i], &state, f);
                if (r < 0)
                        return r;
                if (i == 0 && !strcmp(state.active, "active") && !reset->is_forced)
                        return nb_failure_set(f, NB_KUBELET_ACTIVE, 0,
                                              NB_KUBELET_UNIT
                                              " is active (%s); stop it first, or use --force",
                                              state.sub);
                if (strcmp(state.active, "inactive") != 0 && strcmp(state.active, "failed") != 0)
                        words[n++] = units[i];
        }
        if (n == 1)
                return 0;
        r = nb_systemctl(words, f);
        for (int i = 1; i < n && r >= 0; i++)
                printf("stopped  %s\n", words[i]);
        return r;
}

/* Only the installer writes and removes kubelet's files. */
static int run_installer(const struct reset *reset, int *ret_status, struct nb_failure *f) {
        _cleanup_(nb_freep) char *directory = NULL;
        const char *argv[] = { NB_INSTALLER, "--reset", NULL, NULL };
        int r;

        /* The environment of the installer, which systemd sets otherwise. */
        if (asprintf(&directory, "--config-directory=%s", reset->config_directory) < 0 ||
            (access(STATE_DIRECTORY, F_OK) == 0 &&
             setenv("STATE_DIRECTORY", STATE_DIRECTORY, 1) < 0))
                return nb_failure_set_memory(f);
        argv[2] = directory;
        fflush(stdout);
        r = nb_process_pass(argv, ret_status);
        return r < 0 ? nb_failure_set(f, NB_INTERNAL, r, "cannot run '" NB_INSTALLER "': %m") : 0;
}

static int remove_setup(const struct reset *reset, struct nb_failure *f) {
        static const char *const disable[] = { "--quiet", "disable", NB_SETUP_UNIT, NULL };
        static const char *const reload[] = { "daemon-reload", NULL };
        struct nb_setup setup = { .config_directory = reset->config_directory,
                                  .is_document_new = true };
        _cleanup_(nb_closep) int lock_fd = -1;
        int r;

        r = nb_systemctl(disable, f);
        if (r < 0)
                return r;
        r = nb_lock_take(NULL, &lock_fd, f);
        if (r < 0)
                return r;
        for (; setup.n_steps < _NB_SETUP_SECRET_N; setup.n_steps++)
                setup.steps[setup.n_steps] = NB_SETUP_REMOVE;
        r = nb_setup_write(&setup, f);
        return r < 0 || !nb_systemd_is_running() ? r : nb_systemctl(reload, f);
}

/* *ret_status is that of the installer, which has printed why. */
static int reset_machine(const struct reset *reset, int *ret_status, struct nb_failure *f) {
        int r;

        if (geteuid() != 0)
                return nb_failure_set(f, NB_SETUP_NOT_ROOT, 0, "must be run as root");
        r = nb_systemd_is_running() ? stop_units(reset, f) : 0;
        if (r < 0)
                return r;
        r = run_installer(reset, ret_status, f);
        if (r < 0 || *ret_status != 0)
                return r;
        if (reset->is_setup_removed)
                return remove_setup(reset, f);
        printf("left     settings and credentials: if " NB_SETUP_UNIT
               " is enabled, it joins again at the next boot; `node-bootstrap reset --setup` "
               "removes what setup wrote\n");
        return 0;
}

int nb_command_reset(struct nb_options *options, struct nb_failure *f) {
        struct reset reset = { .is_forced = false };
        const struct nb_option rows[] = {
                { "force", NULL, "stop kubelet if it is running", .ret_switch = &reset.is_forced },
                { "setup", NULL, "also disable the service, and remove the files that setup writes",
                  .ret_switch = &reset.is_setup_removed },
                { NULL },
        };
        int status = 0, r;

        r = nb_options_read(options, rows, f);
        if (r < 0)
                return r;
        reset.config_directory = options->config_directory;
        r = reset_machine(&reset, &status, f);
        return r < 0 ? r : status;
}
