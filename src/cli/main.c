/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/failure.h"
#include "base/log.h"
#include "base/macro.h"
#include "cli/options.h"

#define SUMMARY_SIZE 2048

static const struct {
        const char *name;
        const char *help;
        int (*run)(int argc, char **argv);
} commands[] = {
        { "join", "join the cluster; run by node-bootstrap.service", nb_command_join },
        { "setup", "configure this machine and start the service; takes a `kubeadm join` line",
          nb_command_setup },
        { "check", "show the configuration, and whether a join would succeed", nb_command_check },
        { "refresh", "update the cluster's CA and server; run by node-bootstrap-refresh.service",
          nb_command_refresh },
        { "reset", "remove what the join wrote", nb_command_reset },
        { "status", "show the node's certificate and the last join", nb_command_status },
        { "explain", "explain a failure code, such as `token-unknown`", nb_command_explain },
};

static void write_summary(char ret[static SUMMARY_SIZE]) {
        int n = snprintf(ret, SUMMARY_SIZE,
                         "Joins this machine to a Kubernetes cluster before kubelet starts.\n"
                         "To start the service: systemctl start node-bootstrap.service\n");

        for (size_t i = 0; i < N_ELEMENTS(commands); i++)
                n += snprintf(ret + n, SUMMARY_SIZE - (size_t)n, "\n  %-8s %s", commands[i].name,
                              commands[i].help);
}

static int run_command(struct nb_options *options) {
        char **argv = options->argv, *name = argv[options->at];
        char quoted[NB_WORD_QUOTED_SIZE];

        for (size_t i = 0; i < N_ELEMENTS(commands); i++) {
                if (strcmp(name, commands[i].name) != 0)
                        continue;
                /* Options before the command are moved behind it, where it reads all of them. */
                memmove(argv + 2, argv + 1, (size_t)(options->at - 1) * sizeof(*argv));
                argv[1] = name;
                return commands[i].run(options->argc - 1, argv + 1);
        }
        (void)nb_options_fail(options, "unknown command %s", nb_word_quote(name, quoted));
        return options->status;
}

int main(int argc, char **argv) {
        char summary[SUMMARY_SIZE];
        struct nb_options options = {
                .words = "COMMAND", .summary = summary, .argc = argc, .argv = argv
        };
        int r;

        /* Tokens and keys pass through this process: no core dumps, and no debugger of the same
         * user. */
        if (prctl(PR_SET_DUMPABLE, 0) < 0)
                return nb_failure_info(NB_INTERNAL)->exit_status;
        (void)umask(0022);
        nb_log_init("node-bootstrap");
        write_summary(summary);
        r = nb_options_next(&options);
        if (r == NB_OPTIONS_WORD)
                return run_command(&options);
        if (r == NB_OPTIONS_END)
                (void)nb_options_fail(&options, "a command is required");
        return options.status;
}
