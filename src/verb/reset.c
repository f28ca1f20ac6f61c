/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macro.h"
#include "base/process.h"
#include "base/unit.h"
#include "verb/setup_internal.h"
#include "verb/verb.h"

#define KUBELET_UNIT "kubelet.service"
#define STATE_DIRECTORY "/var/lib/node-bootstrap"
#define ARGUMENT_SIZE 4096

enum { OPTION_FORCE,
       OPTION_SETUP };

static const struct nb_option rows[] = {
        [OPTION_FORCE] = { "force", NULL, "also while kubelet runs: it is stopped", '\0' },
        [OPTION_SETUP] = { "setup", NULL, "also the settings and credentials that `node-bootstrap setup` writes, whoever put them there, and disable the service", '\0' },
        { NULL },
};

struct reset {
        struct nb_options options;
        bool is_forced;
        bool is_setup_removed;
};

static bool is_up(const struct nb_unit_state *state) {
        return strcmp(state->active, "inactive") != 0 && strcmp(state->active, "failed") != 0;
}

/* kubelet requires the service where it waits for it, and is stopped with it. */
static int stop_units(const struct reset *reset, struct nb_failure *f) {
        static const char *const stop[] = { "stop", NB_SETUP_UNIT, KUBELET_UNIT, NULL }, *const stop_one[] = { "stop", NB_SETUP_UNIT, NULL };
        struct nb_unit_state kubelet, unit;
        bool is_kubelet_up;
        int r;

        r = nb_unit_show(KUBELET_UNIT, &kubelet, f);
        if (r >= 0)
                r = nb_unit_show(NB_SETUP_UNIT, &unit, f);
        if (r < 0)
                return r;
        is_kubelet_up = is_up(&kubelet);
        if (!strcmp(kubelet.active, "active") && !reset->is_forced)
                return nb_failure_set(f, NB_KUBELET_ACTIVE, 0, KUBELET_UNIT " is active (%s); expected it to be stopped, or --force", kubelet.sub);
        if (!is_kubelet_up && !is_up(&unit))
                return 0;
        r = nb_systemctl(is_kubelet_up ? stop : stop_one, f);
        if (r >= 0)
                (void)printf("stopped  " NB_SETUP_UNIT "%s\n", is_kubelet_up ? " and " KUBELET_UNIT : "");
        return r;
}

/* Only the installer writes and removes kubelet's files. */
static int run_installer(const struct reset *reset, int *ret_status, struct nb_failure *f) {
        char directory[ARGUMENT_SIZE];
        const char *const argv[] = { NB_INSTALLER, "--reset", directory, NULL };
        int r;

        if (snprintf(directory, sizeof(directory), "--config-directory=%s", reset->options.config_directory) >= (int)sizeof(directory))
                return nb_failure_set(f, NB_USAGE, ENAMETOOLONG, "'--config-directory' is too long");
        if (access(STATE_DIRECTORY, F_OK) == 0 && setenv("STATE_DIRECTORY", STATE_DIRECTORY, 1) < 0)
                return nb_failure_set_memory(f);
        (void)fflush(stdout);
        r = nb_process_pass(argv, ret_status);
        if (r < 0) {
                errno = -r;
                return nb_failure_set(f, NB_INTERNAL, -r, "'" NB_INSTALLER "' cannot be run: %m");
        }
        return 0;
}

static int remove_setup(const struct reset *reset, struct nb_failure *f) {
        static const char *const disable[] = { "--quiet", "disable", NB_SETUP_UNIT, NULL }, *const reload[] = { "daemon-reload", NULL };
        const struct nb_setup setup = { .config_directory = reset->options.config_directory };
        int r;

        r = nb_systemctl(disable, f);
        if (r >= 0)
                r = nb_setup_erase(&setup, f);
        if (r >= 0 && nb_systemd_is_running())
                r = nb_systemctl(reload, f);
        return r;
}

/* 0, or the status of the installer, which has said why. */
static int reset_machine(const struct reset *reset, int *ret_status, struct nb_failure *f) {
        int r = 0;

        if (geteuid() != 0)
                return nb_failure_set(f, NB_SETUP_NOT_ROOT, 0, "reset is run by the user with the number %u; expected root", (unsigned)geteuid());
        if (nb_systemd_is_running())
                r = stop_units(reset, f);
        if (r >= 0)
                r = run_installer(reset, ret_status, f);
        if (r < 0 || *ret_status != 0)
                return r;
        if (reset->is_setup_removed)
                return remove_setup(reset, f);
        (void)printf("left     settings and credentials: " NB_SETUP_UNIT ", if enabled, joins again at the next boot; `node-bootstrap reset --setup` removes those that setup writes\n");
        return 0;
}

int nb_verb_reset(int argc, char **argv) {
        struct reset reset = {
                .options = {
                        .verb = "reset",
                        .summary = "Takes back what the join wrote, and tells what is left to others.",
                        .rows = rows,
                        .argc = argc,
                        .argv = argv,
                },
        };
        char quoted[NB_WORD_QUOTED_SIZE];
        struct nb_failure f = { 0 };
        int option, status = 0;

        while ((option = nb_options_next(&reset.options)) != NB_OPTIONS_END) {
                bool is_on = option >= 0 && !strcmp(reset.options.value, "true");

                if (option == NB_OPTIONS_WORD)
                        (void)nb_options_fail(&reset.options, "%s after 'reset' is one too many", nb_word_quote(reset.options.value, quoted));
                if (option == NB_OPTIONS_WORD || option == NB_OPTIONS_STOP)
                        return reset.options.status;
                *(option == OPTION_FORCE ? &reset.is_forced : &reset.is_setup_removed) = is_on;
        }
        if (reset_machine(&reset, &status, &f) < 0) {
                (void)fflush(stdout);
                nb_log_failure(LOG_ERR, &f);
                return nb_failure_info(f.code)->exit_status;
        }
        return status;
}
