/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sysexits.h>

#include "base/file.h"
#include "base/macro.h"
#include "cli/commands.h"
#include "join/main.h"
#include "prover/prover.h"
#include "systemd/log.h"

static const char usage[] =
        "node-bootstrap [OPTION...] COMMAND\n\n"
        "Joins this machine to a Kubernetes cluster before kubelet starts.\n"
        "To start the service: systemctl start node-bootstrap.service\n\n"
        "  setup      configure this machine and join; takes a `kubeadm join` command\n"
        "  status     show the node's certificate and the last join\n"
        "  check      show the configuration, and whether a join would succeed\n"
        "  explain    explain a failure code, such as `token-unknown`\n"
        "  reset      remove what the join wrote\n"
        "  proof-key  print this machine's public proof key, to enroll it\n"
        "  help       show this help, or that of a command\n";

static const struct command {
        const char *name;
        const char *usage; /* for its --help */
        nb_command_run *run;
        const char *instead; /* of a command that a unit runs: the unit, and what people type */
} commands[] = {
        { "setup",
          "node-bootstrap setup [OPTION...] [-] [kubeadm join] [HOST:PORT]\n\n"
          "Writes settings and credentials, and starts node-bootstrap.service. Accepts the\n"
          "output of `kubeadm token create --print-join-command`, with - from standard\n"
          "input, and all options of `kubeadm join` for a worker:\n\n"
          "  node-bootstrap setup -\n"
          "  node-bootstrap setup --config=join.yaml --token-file=-\n",
          nb_command_setup },
        { "status",
          "node-bootstrap status [OPTION...]\n\n"
          "Shows the certificate and record of this node, and how long each stage of the\n"
          "last join took. Exits with 0 if the machine has joined and kubelet is\n"
          "running; the man page lists the other exit statuses.\n",
          nb_command_status },
        { "check",
          "node-bootstrap check [OPTION...]\n\n"
          "Runs the stages of a join except the request, and checks this machine. Changes\n"
          "nothing. Exits with 1 if a check fails.\n",
          nb_command_check },
        { "explain",
          "node-bootstrap explain [OPTION...] [CODE...]\n\n"
          "Explains a failure code: what happened, what was not changed, and what to do.\n"
          "CODE is a NODE_BOOTSTRAP_CODE or MESSAGE_ID from the journal. Without a CODE,\n"
          "lists all of them.\n",
          nb_command_explain },
        { "reset",
          "node-bootstrap reset [OPTION...]\n\n"
          "Removes what the join wrote, and prints what it leaves in place.\n",
          nb_command_reset },
        { "proof-key",
          "node-bootstrap proof-key [OPTION...]\n\n"
          "Prints this machine's public proof key as PEM, and on standard error its\n"
          "fingerprint. To enroll the machine, on this machine, as root:\n\n"
          "  node-bootstrap proof-key --key=tpm >NODE.pem\n\n"
          "Where kubectl works:\n\n"
          "  node-bootstrap-admin enroll add NODE --public-key=NODE.pem\n",
          nb_command_proof_key },
        { "refresh",
          "node-bootstrap refresh [OPTION...]\n\n"
          "Checks whether the cluster's CA or server has changed, and writes the result to\n"
          "$STATE_DIRECTORY. Run by node-bootstrap-refresh.service.\n",
          nb_command_refresh,
          "node-bootstrap-refresh.service runs this command: use `systemctl start "
          "node-bootstrap-refresh.service`" },
        { "join",
          "node-bootstrap join [OPTION...]\n\n"
          "Joins the cluster, and writes what the installer needs to $STATE_DIRECTORY. Run\n"
          "by node-bootstrap.service.\n",
          nb_command_join,
          "node-bootstrap.service runs this command: use `node-bootstrap setup -`, or, if this "
          "machine has settings, `systemctl start node-bootstrap.service`" },
        { "prover",
          "node-bootstrap prover [OPTION...]\n\n"
          "Proves that requests for a certificate are from this machine. Run by\n"
          "node-bootstrap-prover.socket.\n",
          nb_command_prover,
          "node-bootstrap-prover@.service runs this command: use `systemctl start "
          "node-bootstrap.service`" },
};

static const struct command *find_command(const char *name, const char **ret_similar) {
        unsigned least = UINT_MAX;

        *ret_similar = NULL;
        for (size_t i = 0; i < N_ELEMENTS(commands); i++) {
                if (!strcmp(name, commands[i].name))
                        return &commands[i];
                if (nb_options_is_similar(name, strlen(name), commands[i].name, &least))
                        *ret_similar = commands[i].name;
        }
        return NULL;
}

static int run_command(struct nb_options *options, const struct command **ret_command,
                       struct nb_failure *f) {
        char place[NB_OPTIONS_PLACE_SIZE];
        const char *similar;
        int r = nb_options_next(options, f);

        if (r < 0)
                return r;
        if (r == NB_OPTIONS_END)
                return nb_failure_set(f, NB_USAGE, 0, "a command is required");
        *ret_command = find_command(options->value, &similar);
        if (!*ret_command) {
                r = nb_failure_set(f, NB_USAGE, 0, "unknown command: %s",
                                   nb_options_place(options, place));
                if (similar)
                        nb_failure_add(f, "; did you mean '%s'?", similar);
                return r;
        }
        options->usage = (*ret_command)->usage;
        return (*ret_command)->run(options, f);
}

/* `help` is --help, and `help COMMAND` is `COMMAND --help`. */
static void replace_help(int argc, char **argv) {
        static char option[] = "--help";

        if (argc < 2 || strcmp(argv[1], "help") != 0)
                return;
        argv[1] = argc > 2 ? argv[2] : option;
        if (argc > 2)
                argv[2] = option;
}

/* Whoever types a command that a unit runs wants what the unit does. */
static void say_what_to_type(const struct command *command, struct nb_failure *f) {
        if (command && command->instead)
                nb_failure_add(f, "; %s", command->instead);
        else
                nb_failure_add(f, "; see `node-bootstrap %s%s--help`", command ? command->name : "",
                               command ? " " : "");
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
        const struct command *command = NULL;
        struct nb_failure f = { 0 };
        int r;

        /* Tokens and keys pass through this process: no core dumps, and no debugger of the same
         * user. */
        if (prctl(PR_SET_DUMPABLE, 0) < 0)
                return nb_failure_info(NB_INTERNAL)->exit_status;
        (void)umask(0022);
        nb_log_init("node-bootstrap");
        replace_help(argc, argv);
        r = run_command(&options, &command, &f);
        if (r >= 0 || f.code == NB_NONE)
                return end_output(r < 0 ? 0 : r);
        fflush(stdout);
        if (f.code == NB_USAGE)
                say_what_to_type(command, &f);
        nb_log_failure(LOG_ERR, &f);
        return nb_failure_info(f.code)->exit_status;
}
