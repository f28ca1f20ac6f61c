/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sysexits.h>

#include "base/file.h"
#include "base/macro.h"
#include "cli/commands.h"
#include "join/main.h"
#include "system/log.h"

static const char usage[] =
        "node-bootstrap [OPTION...] COMMAND\n\n"
        "Joins this machine to a Kubernetes cluster before kubelet starts.\n"
        "To start the service: systemctl start node-bootstrap.service\n\n"
        "  setup    configure this machine and start the service; takes a `kubeadm join` line\n"
        "  status   show the node's certificate and the last join\n"
        "  check    show the configuration, and whether a join would succeed\n"
        "  explain  explain a failure code, such as `token-unknown`\n"
        "  reset    remove what the join wrote\n"
        "  refresh  look for a new CA or server; run by node-bootstrap-refresh.service\n"
        "  join     join the cluster; run by node-bootstrap.service\n";

static const struct command {
        const char *name;
        const char *usage; /* for its --help */
        int (*run)(struct nb_options *options, struct nb_failure *f);
} commands[] = {
        { "join",
          "node-bootstrap join [OPTION...]\n\n"
          "Joins the cluster, and writes what the installer needs to $STATE_DIRECTORY. Run by "
          "node-bootstrap.service.\n",
          nb_command_join },
        { "setup",
          "node-bootstrap setup [OPTION...] [-] [kubeadm join] [HOST:PORT]\n\n"
          "Writes settings and credentials, and starts node-bootstrap.service.\n"
          "Accepts the output of `kubeadm token create --print-join-command`, with - from "
          "standard\n"
          "input, and all options of `kubeadm join` for a worker.\n",
          nb_command_setup },
        { "check",
          "node-bootstrap check [OPTION...]\n\n"
          "Runs the steps of a join except the request, and checks this machine. Changes nothing.\n"
          "Exit status 1: it found a failure.\n",
          nb_command_check },
        { "refresh",
          "node-bootstrap refresh [OPTION...]\n\n"
          "Checks whether the cluster's CA or server has changed, and writes the result to "
          "$STATE_DIRECTORY.\n"
          "Run by node-bootstrap-refresh.service: systemctl start "
          "node-bootstrap-refresh.service.\n",
          nb_command_refresh },
        { "reset",
          "node-bootstrap reset [OPTION...]\n\n"
          "Removes what the join wrote, and prints what it leaves in place.\n",
          nb_command_reset },
        { "status",
          "node-bootstrap status [OPTION...]\n\n"
          "Shows the certificate and record of this node, and how long each stage of the last join "
          "took.\n"
          "The exit status says whether this machine works: 0 if it does; the man page lists the "
          "others.\n",
          nb_command_status },
        { "explain",
          "node-bootstrap explain [OPTION...] [CODE...]\n\n"
          "Explains a failure code: what happened, what was not changed, and what to do. CODE is "
          "a\n"
          "NODE_BOOTSTRAP_ERROR or MESSAGE_ID from the journal. Without a CODE, lists all of "
          "them.\n",
          nb_command_explain },
};

static int run_command(struct nb_options *options, const char **ret_name, struct nb_failure *f) {
        char quoted[NB_WORD_QUOTED_SIZE];
        int r = nb_options_next(options, f);

        if (r < 0)
                return r;
        if (r == NB_OPTIONS_END)
                return nb_failure_set(f, NB_USAGE, 0, "a command is required");
        for (size_t i = 0; i < N_ELEMENTS(commands); i++)
                if (!strcmp(options->value, commands[i].name)) {
                        *ret_name = commands[i].name;
                        options->usage = commands[i].usage;
                        return commands[i].run(options, f);
                }
        return nb_failure_set(f, NB_USAGE, 0, "unknown command %s",
                              nb_word_quote(options->value, quoted));
}

/* Whoever reads the output must learn that a part of it is missing. Not through the log, which
 * check mutes. */
static int end_output(int status) {
        if (nb_stream_flush(stdout) >= 0)
                return status;
        fputs("node-bootstrap: cannot write to standard output: the output is incomplete\n",
              stderr);
        return status > 0 ? status : EX_CANTCREAT;
}

int main(int argc, char **argv) {
        struct nb_options options = NB_OPTIONS_INIT(usage, argc, argv);
        const char *name = NULL;
        struct nb_failure f = { 0 };
        int r;

        /* Tokens and keys pass through this process: no core dumps, and no debugger of the same
         * user. */
        if (prctl(PR_SET_DUMPABLE, 0) < 0)
                return nb_failure_info(NB_INTERNAL)->exit_status;
        (void)umask(0022);
        nb_log_init("node-bootstrap");
        r = run_command(&options, &name, &f);
        if (r >= 0 || f.code == NB_NONE)
                return end_output(r < 0 ? 0 : r);
        fflush(stdout);
        if (f.code == NB_USAGE)
                nb_failure_add(&f, "; see `node-bootstrap %s%s--help`", name ? name : "",
                               name ? " " : "");
        nb_log_failure(LOG_ERR, &f);
        return nb_failure_info(f.code)->exit_status;
}
