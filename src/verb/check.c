/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macro.h"
#include "base/stop.h"
#include "base/terminal.h"
#include "verb/check_internal.h"
#include "verb/options.h"
#include "verb/verb.h"

#define EXIT_NOT_GOOD 1

/* In the order of a join. What is on the network waits until all before it is in order. */
static const struct nb_check_step steps[] = {
        { "settings", "Settings", NULL, nb_check_settings, nb_check_has_folder, false },
        { "user-data", "User data", NULL, nb_check_user_data, nb_check_has_user_data, false },
        { "credentials", "Credentials and tokens", NULL, nb_check_credentials, nb_check_is_here, false },
        { "metadata", "Metadata", NULL, nb_check_metadata, nb_check_is_here, true },
        { "join", "Join", NULL, nb_check_join, NULL, true },
        { "name-resolution", "Network", "name resolution", nb_check_resolve, nb_check_is_direct, true },
        { "connection", "Network", "connection", nb_check_connect, nb_check_is_direct, true },
        { "tls", "Network", "TLS", nb_check_tls, nb_check_is_shown, true },
        { "clock", "Network", "clock", nb_check_clock, nb_check_is_shown, true },
        { "discovery", "Cluster", "discovery", nb_check_discover, nb_check_is_online, true },
        { "signature", "Cluster", "signature", nb_check_signature, nb_check_has_signature, true },
        { "ca", "Cluster", "CA", nb_check_ca, nb_check_is_online, true },
        { "api-server", "Cluster", "API server", nb_check_api_server, nb_check_is_online, true },
        { "identity", "Request", "identity", nb_check_identity, nb_check_has_request, true },
        { "right", "Request", "right to request", nb_check_right, nb_check_has_request, true },
        { "node-name", "Request", "node name", nb_check_node_name, nb_check_is_requesting, true },
        { "request", "Request", "request", nb_check_request, nb_check_is_requesting, true },
        { "files", "This machine", "files and folders", nb_check_files, nb_check_is_machine, false },
        { "kubelet", "This machine", "kubelet", nb_check_kubelet, nb_check_is_machine, false },
};

/* All steps; *ret_first is the first failure. -ECANCELED when stopping was asked for. */
static int run_steps(struct nb_check *check, struct nb_failure *ret_first) {
        for (size_t i = 0; i < N_ELEMENTS(steps); i++) {
                const struct nb_check_step *step = &steps[i];
                struct nb_failure f = { 0 };
                int r;

                if (step->applies && !step->applies(check))
                        continue;
                nb_check_begin_step(check, step);
                if (step->needs_all_before && ret_first->code != NB_NONE) {
                        nb_check_leave_out(check, step);
                        continue;
                }
                r = step->run(check, &f);
                if (r == -ECANCELED && f.code == NB_NONE)
                        return r;
                if (r < 0 && f.code == NB_NONE)
                        (void)nb_failure_set_memory(&f);
                nb_check_end_step(check, &f);
                if (ret_first->code == NB_NONE)
                        *ret_first = f;
        }
        return 0;
}

enum { OPTION_ALL,
       OPTION_JSON,
       OPTION_LOCAL,
       OPTION_USER_DATA };

static const struct nb_option rows[] = {
        [OPTION_ALL] = { "all", NULL, "also settings that have their default", 'a' },
        [OPTION_JSON] = { "json", NULL, "for programs", '\0' },
        [OPTION_LOCAL] = { "local", NULL, "settings, credentials and metadata alone: no API server is asked", '\0' },
        [OPTION_USER_DATA] = { "user-data", "FILE", "user data, before a machine is made with it; as --local", '\0' },
        { NULL },
};

/* What is on this machine, or asked of a network, says nothing of the one that is to be made. */
static int take_user_data(struct nb_options *options, struct nb_check *check, bool is_local_given) {
        if (!check->user_data)
                return 0;
        if (!check->user_data[0])
                return nb_options_fail(options, "'--user-data' is empty");
        if (!is_local_given)
                check->is_local = true;
        if (!options->has_config_directory)
                check->config_directory = NULL;
        return unsetenv("CREDENTIALS_DIRECTORY");
}

static int read_options(struct nb_options *options, struct nb_check *check) {
        char quoted[NB_WORD_QUOTED_SIZE];
        bool is_local_given = false;
        int option;

        while ((option = nb_options_next(options)) >= 0) {
                bool is_on = !strcmp(options->value, "true");

                if (option == OPTION_ALL)
                        check->shows_all = is_on;
                else if (option == OPTION_JSON)
                        check->output->is_json = is_on;
                else if (option == OPTION_USER_DATA)
                        check->user_data = options->value;
                else {
                        check->is_local = is_on;
                        is_local_given = true;
                }
        }
        if (option == NB_OPTIONS_WORD)
                option = nb_options_fail(options, "%s after 'check' is one too many", nb_word_quote(options->value, quoted));
        check->config_directory = options->config_directory;
        check->is_folder_given = options->has_config_directory;
        if (option != NB_OPTIONS_STOP && take_user_data(options, check, is_local_given) < 0)
                return NB_OPTIONS_STOP;
        return option;
}

static void output_done(struct nb_check_output *output) {
        nb_buffer_done(&output->json);
}

static void check_done(struct nb_check *check) {
        nb_check_network_free(check->network);
        nb_check_forget_stores();
        nb_settings_tokens_done(&check->tokens);
        nb_load_done(&check->load);
}

int nb_verb_check(int argc, char **argv) {
        _cleanup_(output_done) struct nb_check_output output = NB_CHECK_OUTPUT_INIT;
        _cleanup_(check_done) struct nb_check check = { .tokens = NB_SETTINGS_TOKENS_INIT, .load = NB_LOAD_INIT, .output = &output };
        struct nb_options options = {
                .verb = "check",
                .summary = "Goes through the steps of a join, and shows what it would begin with, how far it would come, and what keeps it. Changes nothing, and\n"
                           "requests no certificate. Exit status 1: something would keep it, or does.",
                .rows = rows,
                .argc = argc,
                .argv = argv,
        };
        struct nb_failure first = { 0 };

        if (read_options(&options, &check) == NB_OPTIONS_STOP)
                return options.status;
        /* As for join: secrets are in memory, and waiting ends in order. */
        if (prctl(PR_SET_DUMPABLE, 0) < 0 || nb_stop_init() < 0)
                return nb_failure_info(NB_INTERNAL)->exit_status;
        nb_log_mute();
        output.is_coloured = !output.is_json && nb_terminal_takes_escapes(STDOUT_FILENO);
        if (nb_check_is_here(&check))
                nb_check_find_stores(&check);
        if (run_steps(&check, &first) < 0)
                return NB_EXIT_STOPPED;
        if (nb_check_finish(&check, &first) < 0)
                return nb_failure_info(NB_INTERNAL)->exit_status;
        return first.code == NB_NONE ? 0 : EXIT_NOT_GOOD;
}
