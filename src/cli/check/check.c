/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/macro.h"
#include "cli/check/check_internal.h"
#include "cli/commands.h"
#include "join/load.h"
#include "net/http.h"
#include "system/log.h"
#include "system/privilege.h"
#include "system/sources.h"
#include "system/stop.h"
#include "system/terminal.h"
#include "system/unit.h"

#define EXIT_NOT_GOOD 1

#define REQUEST (NB_CHECK_UNPRIVILEGED | NB_CHECK_ONLINE | NB_CHECK_CSR)

/* The order is that of a join. */
static const struct nb_check_step steps[] = {
        { "settings", "Settings", NULL, nb_check_settings, 0 },
        { "credentials", "Credentials and tokens", NULL, nb_check_credentials, NB_CHECK_MACHINE },
        { "state", "This machine", "state", nb_check_state, NB_CHECK_MACHINE | NB_CHECK_APART },
        { "files", "This machine", "files and directories", nb_check_files,
          NB_CHECK_MACHINE | NB_CHECK_SERVICE | NB_CHECK_APART },
        { "user-data", "User data", NULL, nb_check_user_data, 0 },
        { "kubelet", "This machine", "kubelet", nb_check_kubelet,
          NB_CHECK_MACHINE | NB_CHECK_SERVICE | NB_CHECK_APART },
        { "node-access", "This machine", "certificate", nb_check_node_access,
          NB_CHECK_UNPRIVILEGED | NB_CHECK_MACHINE | NB_CHECK_SERVICE | NB_CHECK_APART |
                  NB_CHECK_JOINED },
        { "health", "This machine", "kubelet", nb_check_health,
          NB_CHECK_UNPRIVILEGED | NB_CHECK_MACHINE | NB_CHECK_SERVICE | NB_CHECK_APART },
        { "metadata", "Metadata", NULL, nb_check_metadata,
          NB_CHECK_UNPRIVILEGED | NB_CHECK_MACHINE },
        { "join", "Join", NULL, nb_check_join, NB_CHECK_UNPRIVILEGED },
        { "discovery", "Cluster", "discovery", nb_check_discover,
          NB_CHECK_UNPRIVILEGED | NB_CHECK_ONLINE },
        { "api-server", "Cluster", "API server", nb_check_api_server,
          NB_CHECK_UNPRIVILEGED | NB_CHECK_ONLINE },
        { "identity", "Request", "identity", nb_check_identity, REQUEST },
        { "node-name", "Request", "node name", nb_check_node_name, REQUEST | NB_CHECK_MACHINE },
        { "request", "Request", "request", nb_check_request, REQUEST | NB_CHECK_MACHINE },
};

static bool is_of_this_join(const struct nb_check *check, const struct nb_check_step *step) {
        if (step->run == nb_check_settings)
                return check->sources.config_directory;
        if (step->run == nb_check_user_data)
                return check->user_data;
        if ((step->when & NB_CHECK_MACHINE) && check->user_data)
                return false;
        if ((step->when & NB_CHECK_SERVICE) && (check->is_local || !check->has_settings))
                return false;
        if ((step->when & NB_CHECK_ONLINE) && (check->is_local || check->is_undecided))
                return false;
        if (step->run == nb_check_health && !check->health[0])
                return false;
        if ((step->when & NB_CHECK_JOINED) && check->client.is_missing)
                return false;
        return !(step->when & NB_CHECK_CSR) || check->load.bootstrap.issuer == NB_ISSUER_CSR;
}

/* All steps; *ret_first is the first failure. -ECANCELED if stopping was requested. */
static int run_steps(struct nb_check *check, struct nb_failure *ret_first) {
        bool is_blocked = false;

        for (size_t i = 0; i < N_ELEMENTS(steps); i++) {
                const struct nb_check_step *step = &steps[i];
                struct nb_failure f = { 0 };
                int r;

                if ((step->when & NB_CHECK_UNPRIVILEGED) && nb_check_drop(check, ret_first) < 0)
                        return -EPERM;
                if (!is_of_this_join(check, step))
                        continue;
                nb_check_begin_step(check, step);
                if (is_blocked && (step->when & NB_CHECK_UNPRIVILEGED) &&
                    !(step->when & NB_CHECK_APART)) {
                        nb_check_skip_step(check, step);
                        continue;
                }
                r = step->run(check, &f);
                if (r == -ECANCELED && f.code == NB_NONE)
                        return r;
                if (r < 0 && f.code == NB_NONE)
                        (void)nb_failure_set_memory(&f);
                nb_check_end_step(check, &f);
                is_blocked |= f.code != NB_NONE && !(step->when & NB_CHECK_APART);
                if (ret_first->code == NB_NONE)
                        *ret_first = f;
        }
        return 0;
}

/* With --user-data the machine does not exist yet, so checks of this machine and of the network
 * would be misleading. */
static int read_options(struct nb_options *options, struct nb_check *check, struct nb_failure *f) {
        const char *local = NULL;
        const struct nb_option rows[] = {
                { "all", NULL, "also show settings with their default, and missing credentials",
                  .ret_switch = &check->shows_all },
                { "json", NULL, "print JSON", .ret_switch = &check->output.is_json },
                { "local", NULL, "check settings, credentials and metadata; contact no API server",
                  .ret_value = &local },
                { "user-data", "FILE", "check user data for a new machine; implies --local",
                  .ret_value = &check->user_data },
                { NULL },
        };
        int r;

        r = nb_options_read(options, rows, f);
        if (r < 0)
                return r;
        nb_sources_init(&check->sources, options->config_directory);
        check->is_folder_given = options->has_config_directory;
        check->is_local = local ? !strcmp(local, "true") : check->user_data != NULL;
        if (!check->user_data)
                return 0;
        if (!check->user_data[0])
                return nb_failure_set(f, NB_USAGE, 0, "'--user-data' is empty");
        if (!options->has_config_directory)
                check->sources.config_directory = NULL;
        check->sources.credentials_directory = NULL;
        return 0;
}

/* In the child process, if root started it. */
static int run_check(struct nb_check *check, struct nb_failure *ret_first) {
        int r;

        /* Without a message bus, systemd answers only root. */
        if (!check->user_data && nb_systemd_is_running()) {
                nb_machine_units_read(&check->units);
        }
        r = nb_privilege_reduce(ret_first);
        if (r < 0)
                return r;
        nb_log_mute();
        r = nb_http_begin(false, ret_first);
        if (r < 0)
                return r;
        nb_check_begin_output(&check->output);
        check->sources.is_keeping = true;
        if (!check->user_data)
                nb_check_find_stores(check);
        return run_steps(check, ret_first);
}

static void check_done(struct nb_check *check) {
        nb_join_done(&check->join);
        nb_sources_done(&check->sources);
        nb_machine_units_done(&check->units);
        nb_secret_done(&check->pending_key);
        nb_node_client_done(&check->client);
        nb_load_done(&check->load);
        nb_buffer_done(&check->output.json);
}

int nb_command_check(struct nb_options *options, struct nb_failure *f) {
        _cleanup_(check_done) struct nb_check check = { .pending_key = NB_SECRET_INIT,
                                                        .client.identity = NB_IDENTITY_INIT,
                                                        .load = NB_LOAD_INIT,
                                                        .output.json = NB_BUFFER_INIT(
                                                                NB_CHECK_JSON_MAX) };
        struct nb_failure first = { 0 };
        int status = 0, r;

        r = read_options(options, &check, f);
        if (r < 0)
                return r;
        check.is_root = geteuid() == 0;
        check.output.is_coloured = !check.output.is_json &&
                                   nb_terminal_takes_escapes(STDOUT_FILENO);
        r = nb_privilege_split(&status, &first);
        if (r > 0)
                return status;
        if (r >= 0) {
                r = nb_stop_init();
                r = r < 0 ? nb_failure_set(&first, NB_INTERNAL, r, "cannot wait for signals: %m")
                          : run_check(&check, &first);
        }
        nb_http_end();
        if (r == -ECANCELED)
                return NB_EXIT_STOPPED;
        if (r < 0) {
                fprintf(stderr, "node-bootstrap: %s\n", first.detail);
                return nb_failure_info(first.code)->exit_status;
        }
        r = nb_check_end_output(&check.output, &first);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "cannot print the result: %m");
        return first.code == NB_NONE ? 0 : EXIT_NOT_GOOD;
}
