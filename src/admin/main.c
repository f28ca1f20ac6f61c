/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "admin/commands/admin_commands.h"
#include "admin/parts/parts.h"
#include "base/file.h"
#include "base/macro.h"
#include "systemd/log.h"

static const char usage[] =
        "node-bootstrap-admin COMMAND [OPTION...]\n\n"
        "Prepares a Kubernetes cluster for nodes that join with node-bootstrap or kubeadm.\n\n"
        "  token create          create a bootstrap token, and print what a machine needs\n"
        "  token list            list the bootstrap tokens\n"
        "  token revoke          delete bootstrap tokens\n"
        "  cluster-info publish  create or repair what joining nodes need from the cluster\n"
        "  cluster-info show     show the server, the CAs and the signatures of cluster-info\n"
        "  cluster-info verify   report what keeps machines from joining\n"
        "  requests list         list the pending requests of nodes, with a verdict on each\n"
        "  requests approve      approve requests\n"
        "  requests deny         deny requests\n"
        "  enroll add            record nodes with a public key, so that they need a proof\n"
        "  enroll list           list the enrolled nodes\n"
        "  enroll show           show enrolled nodes with their keys\n"
        "  enroll remove         remove enrolled nodes\n"
        "  controller            approve, sign and clean up; run by "
        "node-bootstrap-controller.service\n";

static const char enroll_usage[] =
        "node-bootstrap-admin enroll add [OPTION...] NODE\n"
        "node-bootstrap-admin enroll add [OPTION...] --from=FILE\n\n"
        "Records the node with its public key in the cluster, so that its requests need a proof.\n"
        "On the machine, these commands create the key, print the public key, and seal "
        "the\nprivate key:\n\n"
        "  umask 077; key=/run/attestation-key\n"
        "  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out $key\n"
        "  openssl pkey -in $key -pubout\n"
        "  systemd-creds encrypt --name=node-bootstrap.attestation-key $key \\\n"
        "          /etc/credstore.encrypted/node-bootstrap.attestation-key\n"
        "  rm $key\n\n"
        "With systemd before 254, node-bootstrap.service also needs a drop-in:\n\n"
        "  [Service]\n"
        "  LoadCredentialEncrypted=node-bootstrap.attestation-key\n";

static const char approve_usage[] =
        "node-bootstrap-admin requests approve [OPTION...] NAME...\n"
        "node-bootstrap-admin requests approve [OPTION...] --token=ID --expect=NUMBER\n\n"
        "Approves requests: all that are named or selected, or none.\n";

static const char revoke_usage[] =
        "node-bootstrap-admin token revoke [OPTION...] ID...\n"
        "node-bootstrap-admin token revoke [OPTION...] --node=NAME\n\n"
        "Deletes bootstrap tokens by ID, or the bound ones of a node. A whole token is accepted\n"
        "as well.\n";

/* One of `run` and `report` is set. */
static const struct command {
        const char *name, *usage;
        int (*run)(struct nb_options *options, struct nb_failure *f);
        int (*report)(struct nb_admin *admin, struct nb_failure *f); /* has no other options */
} commands[] = {
        { "token create",
          "node-bootstrap-admin token create [OPTION...] [TOKEN]\n\n"
          "Creates a bootstrap token and prints it. With --node or --enrolled, prints everything\n"
          "that the machine needs.\n",
          nb_token_create },
        { "token list",
          "node-bootstrap-admin token list [OPTION...]\n\n"
          "Lists the bootstrap tokens of the cluster. Secrets are masked.\n",
          .report = nb_token_list },
        { "token revoke", revoke_usage, nb_token_revoke },
        { "cluster-info publish",
          "node-bootstrap-admin cluster-info publish [OPTION...]\n\n"
          "Creates or repairs what joining nodes need: cluster-info and the permissions of\n"
          "bootstrap tokens.\n",
          nb_publication_publish },
        { "cluster-info show",
          "node-bootstrap-admin cluster-info show [OPTION...]\n\n"
          "Prints the server, the CAs and the signatures of cluster-info.\n",
          .report = nb_publication_show },
        { "cluster-info verify",
          "node-bootstrap-admin cluster-info verify [OPTION...]\n\n"
          "Reports what keeps machines from joining, and changes nothing. Exit status 1: something "
          "does.\n",
          .report = nb_publication_verify },
        { "requests list",
          "node-bootstrap-admin requests list [OPTION...]\n\n"
          "Counts the pending requests of nodes, and lists the oldest ones with a verdict.\n",
          nb_requests_list },
        { "requests approve", approve_usage, nb_requests_approve },
        { "requests deny",
          "node-bootstrap-admin requests deny [OPTION...] NAME...\n"
          "node-bootstrap-admin requests deny [OPTION...] --token=ID --expect=NUMBER\n\n"
          "Denies requests, which is final.\n",
          nb_requests_deny },
        { "enroll add", enroll_usage, nb_enroll_add },
        { "enroll list",
          "node-bootstrap-admin enroll list [OPTION...]\n\n"
          "Lists the enrolled nodes with the SHA-256 of their keys, their addresses and names.\n",
          .report = nb_enroll_list },
        { "enroll show",
          "node-bootstrap-admin enroll show [OPTION...] NODE...\n\n"
          "Shows enrolled nodes with their keys.\n",
          nb_enroll_show },
        { "enroll remove",
          "node-bootstrap-admin enroll remove [OPTION...] NODE...\n\n"
          "Removes enrolled nodes. Their earlier requests stay refused.\n",
          nb_enroll_remove },
        { "controller", "node-bootstrap-admin controller [OPTION...]\n",
          nb_admin_command_controller },
};

/* Finds the command of one or two words. An option instead of a word is explained. */
static int find_command(struct nb_options *options, const struct command **ret_command,
                        struct nb_failure *f) {
        char name[32] = "", place[NB_OPTIONS_PLACE_SIZE];
        const char *word = NULL;
        int r;

        while ((r = nb_options_next(options, f)) == NB_OPTIONS_WORD) {
                const size_t len = strlen(name);

                word = options->value;
                snprintf(name + len, sizeof(name) - len, "%s%s", len > 0 ? " " : "", word);
                for (size_t i = 0; i < N_ELEMENTS(commands); i++)
                        if (!strcmp(commands[i].name, name)) {
                                *ret_command = &commands[i];
                                return 0;
                        }
                if (len > 0)
                        break;
        }
        if (r < 0 && f->code == NB_USAGE)
                nb_failure_add(f, " before the command; options follow the command");
        if (r < 0)
                return r;
        return nb_failure_set(f, NB_USAGE, 0,
                              "expected a command such as `token create`; found %s%s",
                              word ? nb_options_place(options, place) : "nothing",
                              word && r != NB_OPTIONS_WORD ? " alone" : "");
}

static int run_command(const struct command *command, struct nb_options *options,
                       struct nb_failure *f) {
        _cleanup_(nb_admin_done) struct nb_admin admin = { 0 };
        const struct nb_option rows[] = { NB_ADMIN_PLACE_OPTIONS(admin.place), { NULL } };
        int r;

        options->usage = command->usage;
        if (command->run)
                return command->run(options, f);
        r = nb_options_read(options, rows, f);
        if (r >= 0)
                r = nb_admin_connect(&admin.place, &admin, f);
        return r < 0 ? r : command->report(&admin, f);
}

int main(int argc, char **argv) {
        struct nb_options options = NB_OPTIONS_INIT(usage, argc, argv);
        const struct command *command = NULL;
        struct nb_failure f = { 0 };
        int r;

        options.config_directory = NULL;
        options.page = "node-bootstrap-admin";
        /* Tokens and keys pass through this process: no core dumps, and no debugger of the same
         * user. */
        if (prctl(PR_SET_DUMPABLE, 0) < 0)
                return nb_failure_info(NB_INTERNAL)->exit_status;
        (void)umask(0022);
        nb_log_init("node-bootstrap-admin");
        r = find_command(&options, &command, &f);
        if (command)
                r = run_command(command, &options, &f);
        if (r >= 0 || (r == -ECANCELED && f.code == NB_NONE)) {
                int written = nb_stream_flush(stdout);

                if (written >= 0)
                        return r < 0 ? 0 : r;
                r = nb_failure_set(&f, NB_ADMIN_OUTPUT_UNWRITABLE, written,
                                   "cannot write to standard output: %m");
        }
        if (f.code == NB_NONE)
                (void)nb_failure_set(&f, NB_INTERNAL, r, "%s: %m", command ? command->name : "");
        fflush(stdout);
        /* The remedies of these failures are for a machine that joins. */
        if (f.code == NB_ANSWER_MALFORMED)
                f.code = NB_ADMIN_ANSWER_MALFORMED;
        else if (f.code == NB_DISK_FULL)
                f.code = NB_ADMIN_OUTPUT_UNWRITABLE;
        if (f.code == NB_USAGE)
                nb_failure_add(&f, "; see `node-bootstrap-admin%s%s --help`", command ? " " : "",
                               command ? command->name : "");
        nb_log_failure(LOG_ERR, &f);
        return nb_failure_info(f.code)->exit_status;
}
