/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/text.h"
#include "cli/check/check_internal.h"
#include "cli/commands.h"
#include "http/http.h"
#include "os/privilege.h"
#include "os/stop.h"
#include "os/terminal.h"

#define EXIT_NOT_GOOD 1

#define REQUEST (NB_CHECK_UNPRIVILEGED | NB_CHECK_ONLINE | NB_CHECK_CSR)

const struct nb_check_step nb_check_steps[NB_CHECK_STEPS_N] = {
        { "service", "Service", NULL, NULL, 0 },
        { "settings", "Settings", NULL, nb_check_settings, 0 },
        { "credentials", "Credentials and tokens", NULL, nb_check_credentials, NB_CHECK_MACHINE },
        { "state", "This machine", "state", nb_check_state, NB_CHECK_MACHINE | NB_CHECK_APART },
        { "proof", "Proof", NULL, nb_check_proof, NB_CHECK_MACHINE | NB_CHECK_CSR },
        { "files", "This machine", "files and directories", nb_check_files,
          NB_CHECK_MACHINE | NB_CHECK_SERVICE | NB_CHECK_APART },
        { "user-data", "User data", NULL, nb_check_user_data, NB_CHECK_USER_DATA },
        { "kubelet", "This machine", "kubelet", nb_check_kubelet,
          NB_CHECK_MACHINE | NB_CHECK_SERVICE | NB_CHECK_APART },
        { "node-access", "This machine", "certificate", nb_check_node_access,
          NB_CHECK_UNPRIVILEGED | NB_CHECK_MACHINE | NB_CHECK_SERVICE | NB_CHECK_APART },
        { "health", "This machine", "kubelet", nb_check_health,
          NB_CHECK_UNPRIVILEGED | NB_CHECK_MACHINE | NB_CHECK_SERVICE | NB_CHECK_APART },
        { "metadata", "Metadata", NULL, nb_check_metadata,
          NB_CHECK_UNPRIVILEGED | NB_CHECK_MACHINE },
        { "join", "Join", NULL, nb_check_join, NB_CHECK_UNPRIVILEGED },
        { "discovery", "Cluster", "discovery", nb_check_discover,
          NB_CHECK_UNPRIVILEGED | NB_CHECK_ONLINE },
        { "api-server", "Cluster", "API server", nb_check_api_server,
          NB_CHECK_UNPRIVILEGED | NB_CHECK_ONLINE },
        { "identity", "Request", "identity", nb_check_identity,
          NB_CHECK_UNPRIVILEGED | NB_CHECK_ONLINE },
        { "node-name", "Request", "node name", nb_check_node_name, REQUEST | NB_CHECK_MACHINE },
        { "request", "Request", "request", nb_check_request, REQUEST | NB_CHECK_MACHINE },
};

/* Whether it is a step of this process, and of this join as far as it is known by now. */
static bool is_of_this_join(const struct nb_check *check, const struct nb_check_step *step) {
        const bool is_apart = step->when & NB_CHECK_APART;
        unsigned never = check->user_data ? NB_CHECK_MACHINE : NB_CHECK_USER_DATA;

        if (check->is_local || !check->has_settings)
                never |= NB_CHECK_SERVICE;
        if (check->is_local || check->is_undecided)
                never |= NB_CHECK_ONLINE;
        if (check->load.bootstrap.issuer != NB_ISSUER_CSR)
                never |= NB_CHECK_CSR;
        return !(step->when & never) &&
               check->part != (is_apart ? NB_CHECK_OF_SERVICE : NB_CHECK_OF_MACHINE);
}

/* -ECANCELED if stopping was requested. */
static int run_steps(struct nb_check *check, struct nb_failure *f) {
        bool is_blocked = false;

        for (size_t i = 1; i < N_ELEMENTS(nb_check_steps); i++) {
                const struct nb_check_step *step = &nb_check_steps[i];
                struct nb_failure why = { 0 };
                int r;

                if ((step->when & NB_CHECK_UNPRIVILEGED) && nb_check_drop(check, f) < 0)
                        return -EPERM;
                if (!is_of_this_join(check, step))
                        continue;
                if (is_blocked && (step->when & NB_CHECK_UNPRIVILEGED) &&
                    !(step->when & NB_CHECK_APART)) {
                        nb_check_skip_step(check, step);
                        continue;
                }
                nb_check_begin_step(check, step);
                r = step->run(check, &why);
                if (check->is_verified)
                        r = nb_join_map_clock_skew(&check->join, r, &why);
                if (r == -ECANCELED && why.code == NB_NONE)
                        return r;
                if (r < 0 && why.code == NB_NONE)
                        (void)nb_failure_set_memory(&why);
                if (why.code == NB_NONE)
                        continue;
                nb_check_fail(check, &why);
                is_blocked |= !(step->when & NB_CHECK_APART);
        }
        return 0;
}

static int init_stop(struct nb_failure *f) {
        int r = nb_stop_init();

        return r < 0 ? nb_failure_set(f, NB_INTERNAL, r, "cannot wait for signals: %m") : 0;
}

/* --- In the rehearsal --- */

/* Whatever goes wrong becomes a row of the first step, so that the command need not guess. */
static int run_rehearsal(struct nb_check *check, struct nb_failure *f) {
        const uint32_t back = UINT32_C(1) << CAP_SETUID | UINT32_C(1) << CAP_SETGID |
                              UINT32_C(1) << CAP_DAC_OVERRIDE;
        _cleanup_(nb_closep) int fd = -1;
        struct nb_machine_state state;
        struct stat st;
        int r = init_stop(f);

        if (r >= 0)
                r = nb_sources_folder("RUNTIME_DIRECTORY", &fd, f);
        if (r < 0)
                return r;
        if (fstat(fd, &st) < 0 || st.st_uid == 0)
                return nb_failure_set(f, NB_INTERNAL, EPERM,
                                      "the user of node-bootstrap.service is root; expected "
                                      "another user, as with DynamicUser=");
        check->user = st.st_uid;
        check->group = st.st_gid;
        /* The process that makes connections is never root, and is born without a secret. */
        r = nb_privilege_switch(check->user, check->group, back, f);
        if (r >= 0)
                r = nb_http_begin(false, f);
        if (r >= 0)
                r = nb_privilege_switch(0, 0, back, f);
        if (r < 0)
                return r;
        check->sources.is_keeping = true;
        r = nb_check_look(check, &state);
        if (r < 0)
                return nb_failure_set_memory(f);
        nb_machine_state_done(&state);
        return run_steps(check, f);
}

static int rehearse_service(struct nb_check *check) {
        struct nb_failure why = { 0 };
        int r;

        nb_log_mute();
        check->output.frames_fd = STDOUT_FILENO;
        check->output.step = &nb_check_steps[0];
        if (!check->sources.credentials_directory)
                check->sources.credentials_directory = ""; /* systemd has delivered none */
        r = run_rehearsal(check, &why);
        if (r == -ECANCELED)
                return NB_EXIT_STOPPED;
        if (r < 0)
                nb_check_fail(check, &why);
        return 0;
}

/* --- In the command --- */

/* With --user-data the machine does not exist yet, so checks of this machine and of the network
 * would be misleading. */
static int read_options(struct nb_options *options, struct nb_check *check, struct nb_failure *f) {
        const char *local = NULL;
        bool is_rehearsal = false;
        const struct nb_option rows[] = {
                { "all", NULL, "also show settings with their default, and missing credentials",
                  .ret_switch = &check->shows_all },
                { "json", NULL, "print JSON", .ret_switch = &check->output.is_json },
                { "local", NULL, "check settings, credentials and metadata; contact no API server",
                  .ret_value = &local },
                { "user-data", "FILE", "check user data for a new machine; implies --local",
                  .ret_value = &check->user_data },
                /* The command passes them to the rehearsal. */
                { "rehearsal", NULL, .ret_switch = &is_rehearsal },
                { "unknown", "REASON", .ret_value = &check->unknown },
                { "platform-unread", NULL, .ret_switch = &check->is_platform_unread },
                { NULL },
        };
        int r;

        r = nb_options_read(options, rows, f);
        if (r < 0)
                return r;
        nb_sources_init(&check->sources, options->config_directory);
        check->is_folder_given = options->has_config_directory;
        if (check->is_folder_given && access(options->config_directory, F_OK) < 0)
                return nb_failure_set(f, NB_USAGE, errno, "'--config-directory=%s': %m",
                                      nb_text_shown(options->config_directory));
        check->part = is_rehearsal ? NB_CHECK_OF_SERVICE : NB_CHECK_ALL;
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
static int run_check(struct nb_check *check, struct nb_failure *f) {
        struct nb_failure ignored = { 0 };
        int r = init_stop(f);

        if (r >= 0)
                r = nb_privilege_reduce(f);
        if (r < 0)
                return r;
        nb_log_mute();
        r = nb_http_begin(false, f);
        if (r < 0)
                return r;
        check->sources.is_keeping = true;
        if (!check->user_data && !check->sources.credentials_directory)
                nb_sources_find_stores(&check->sources);
        /* Its rows are those of the rehearsal. */
        if (check->part == NB_CHECK_OF_MACHINE)
                check->has_settings = nb_load_settings(&check->load, &check->sources, &ignored) >=
                                      0;
        return run_steps(check, f);
}

static void check_done(struct nb_check *check) {
        nb_http_end();
        nb_join_done(&check->join);
        nb_sources_done(&check->sources);
        nb_machine_units_done(&check->units);
        nb_node_client_done(&check->client);
        nb_certificates_free(check->serving);
        nb_load_done(&check->load);
        nb_buffer_done(&check->output.json);
}

int nb_command_check(struct nb_options *options, struct nb_failure *f) {
        _cleanup_(check_done) struct nb_check check = { .client.identity = NB_IDENTITY_INIT,
                                                        .load = NB_LOAD_INIT,
                                                        .output.json = NB_BUFFER_INIT(
                                                                NB_CHECK_JSON_MAX),
                                                        .output.frames_fd = -1 };
        struct nb_failure why = { 0 };
        int status = 0, r;

        r = read_options(options, &check, f);
        if (r < 0)
                return r;
        check.is_root = geteuid() == 0;
        if (check.part == NB_CHECK_OF_SERVICE)
                return rehearse_service(&check);
        check.output.is_coloured = !check.output.is_json &&
                                   nb_terminal_takes_escapes(STDOUT_FILENO);
        check.output.is_ascii = nb_terminal_is_ascii();
        nb_check_begin_output(&check.output);
        /* Without a message bus, systemd answers only root. */
        if (!check.user_data) {
                nb_machine_units_read(&check.units);
                r = nb_check_rehearse(&check);
        }
        if (r > 0) {
                check.part = NB_CHECK_OF_MACHINE;
                check.units.is_rehearsed = true;
        }
        if (r >= 0)
                r = nb_privilege_split(&status, &why);
        if (r > 0)
                return status;
        if (r >= 0)
                r = run_check(&check, &why);
        if (r == -ECANCELED)
                return NB_EXIT_STOPPED;
        if (r < 0) {
                fprintf(stderr, "node-bootstrap: %s\n", why.detail);
                return nb_failure_info(why.code)->exit_status;
        }
        r = nb_check_end_output(&check.output);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "cannot print the result: %m");
        return check.output.first.code == NB_NONE ? 0 : EXIT_NOT_GOOD;
}
