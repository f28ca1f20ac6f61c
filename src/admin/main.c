/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "admin/commands/admin_commands.h"
#include "admin/parts/parts.h"
#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "systemd/log.h"

#define PROGRAM "node-bootstrap-admin "

static const char enroll_usage[] = PROGRAM
        "enroll add [OPTION...] NODE\n"
        "       " PROGRAM "enroll add [OPTION...] --from=FILE\n\n"
        "Records the node with its public key in the cluster, so that its requests need\n"
        "a proof. With a TPM, on the machine, as root, this prints the public key:\n\n"
        "  node-bootstrap proof-key --key=tpm\n\n"
        "Without a TPM, on the machine, as root, these commands create the key, print\n"
        "the public key, and seal the private key:\n\n"
        "  umask 077; key=/run/attestation-key\n"
        "  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out $key\n"
        "  openssl pkey -in $key -pubout\n"
        "  systemd-creds encrypt --name=node-bootstrap.attestation-key $key \\\n"
        "          /etc/credstore.encrypted/node-bootstrap.attestation-key\n"
        "  rm $key\n\n"
        "The machine's settings need this (with a TPM, {key: tpm}). It is written by\n"
        "`token create --enrolled --proof-key=credential --print=cloud-config`:\n\n"
        "  proof: {key: credential}\n\n"
        "With a credential and systemd before 254, node-bootstrap-prover@.service also\n"
        "needs a drop-in:\n\n"
        "  [Service]\n"
        "  LoadCredentialEncrypted=node-bootstrap.attestation-key\n";

static const char create_usage[] = PROGRAM
        "token create [OPTION...] [TOKEN]\n\n"
        "Creates a bootstrap token and prints it. With --node or --nodes, prints\n"
        "everything that the machine needs; with --enrolled, all but the machine's key\n"
        "and the setting proof.key, which needs --proof-key and a form with settings:\n\n"
        "  " PROGRAM "token create --node=worker-1\n"
        "  " PROGRAM "token create --node=worker-1 --print=cloud-config\n"
        "  " PROGRAM "token create --enrolled --proof-key=tpm --print=ignition\n";

static const char approve_usage[] = PROGRAM
        "requests approve [OPTION...] NAME...\n"
        "       " PROGRAM "requests approve [OPTION...] --token=ID --expect=N\n\n"
        "Approves requests: all that are named or selected, or none.\n";

static const char deny_usage[] = PROGRAM "requests deny [OPTION...] NAME...\n"
                                         "       " PROGRAM
                                         "requests deny [OPTION...] --token=ID --expect=N\n\n"
                                         "Denies requests, which is final.\n";

static const char revoke_usage[] = PROGRAM
        "token revoke [OPTION...] ID...\n"
        "       " PROGRAM "token revoke [OPTION...] --node=NAME\n\n"
        "Deletes bootstrap tokens by ID, or the bound ones of a node. A whole token is\n"
        "accepted as well.\n";

static const char controller_usage[] = PROGRAM
        "controller [OPTION...]\n\n"
        "Approves the requests of bound and enrolled tokens, signs cluster-info, and\n"
        "deletes tokens that were used or have expired, until it is stopped. Run by\n"
        "node-bootstrap-controller.service or a Deployment; of several, one acts.\n";

/* One of `run` and `report` is set. */
static const struct command {
        const char *name, *summary, *usage;
        int (*run)(struct nb_options *options, struct nb_failure *f);
        int (*report)(struct nb_admin *admin, struct nb_failure *f); /* has no other options */
} commands[] = {
        { "token create", "create bootstrap tokens, and print what a machine needs", create_usage,
          nb_token_create },
        { "token list", "list the bootstrap tokens",
          PROGRAM "token list [OPTION...]\n\n"
                  "Lists the bootstrap tokens of the cluster. Secrets are masked.\n",
          .report = nb_token_list },
        { "token revoke", "delete bootstrap tokens", revoke_usage, nb_token_revoke },
        { "cluster-info publish", "create or repair what joining nodes need",
          PROGRAM "cluster-info publish [OPTION...]\n\n"
                  "Creates or repairs what joining nodes need from the cluster: cluster-info and\n"
                  "the permissions of bootstrap tokens.\n",
          nb_publication_publish },
        { "cluster-info show", "show the server, CAs and signatures in cluster-info",
          PROGRAM "cluster-info show [OPTION...]\n\n"
                  "Prints the server, the CAs and the signatures of cluster-info.\n",
          .report = nb_publication_show },
        { "cluster-info verify", "report what keeps machines from joining",
          PROGRAM "cluster-info verify [OPTION...]\n\n"
                  "Reports what keeps machines from joining, and changes nothing. Exits with 1 if\n"
                  "something does.\n",
          .report = nb_publication_verify },
        { "requests list", "list the pending requests of nodes, each with a verdict",
          PROGRAM "requests list [OPTION...]\n\n"
                  "Counts the pending requests of nodes, and lists the oldest ones with a "
                  "verdict.\n",
          nb_requests_list },
        { "requests approve", "approve requests", approve_usage, nb_requests_approve },
        { "requests deny", "deny requests", deny_usage, nb_requests_deny },
        { "enroll add", "record nodes with a key, so that they need a proof", enroll_usage,
          nb_enroll_add },
        { "enroll list", "list the enrolled nodes",
          PROGRAM "enroll list [OPTION...]\n\n"
                  "Lists the enrolled nodes with the fingerprints of their keys, their addresses\n"
                  "and names.\n",
          .report = nb_enroll_list },
        { "enroll show", "show enrolled nodes with their keys",
          PROGRAM "enroll show [OPTION...] NODE...\n\n"
                  "Shows enrolled nodes with their keys.\n",
          nb_enroll_show },
        { "enroll remove", "remove enrolled nodes",
          PROGRAM "enroll remove [OPTION...] NODE...\n\n"
                  "Removes enrolled nodes. Their earlier requests stay refused.\n",
          nb_enroll_remove },
        { "controller", "approve, sign and clean up; run by a unit", controller_usage,
          nb_admin_command_controller },
};

/* The help of the program (`word` NULL), or of the commands that begin with this word. False if
 * there are none. */
static bool format_usage(const char *word, char *ret, size_t size) {
        size_t len = (size_t)snprintf(ret, size, PROGRAM "%s%sCOMMAND [OPTION...]\n\n%s",
                                      word ? word : "", word ? " " : "",
                                      word ? ""
                                           : "Prepares a cluster for nodes that "
                                             "join with node-bootstrap or kubeadm.\n\n");
        const size_t head_len = len, word_len = word ? strlen(word) : 0;

        for (size_t i = 0; i < N_ELEMENTS(commands) && len < size; i++)
                if (!word || (strncmp(commands[i].name, word, word_len) == 0 &&
                              commands[i].name[word_len] == ' '))
                        len += (size_t)snprintf(ret + len, size - len, "  %-20s  %s\n",
                                                commands[i].name, commands[i].summary);
        return len > head_len;
}

/* Refuses what is no command. It is not quoted: it may be a part of a token. */
static int refuse_command(const struct nb_options *options, const char *name,
                          struct nb_failure *f) {
        char place[NB_OPTIONS_PLACE_SIZE], known[32], similar[32] = "";
        unsigned least = UINT_MAX;

        for (size_t i = 0; i < N_ELEMENTS(commands); i++) {
                const char *command = commands[i].name;

                /* One word is compared with the first one. */
                snprintf(known, sizeof(known), "%.*s",
                         (int)(strchr(name, ' ') ? strlen(command) : strcspn(command, " ")),
                         command);
                if (nb_options_is_similar(name, strlen(name), known, &least))
                        NB_TEXT_COPY(similar, known);
        }
        (void)nb_failure_set(f, NB_USAGE, 0, "unknown command: %s",
                             nb_options_place(options, place));
        if (similar[0])
                nb_failure_add(f, "; did you mean '%s'?", similar);
        return -EINVAL;
}

/* Finds the command of one or two words. An option instead of a word is explained. */
static int find_command(struct nb_options *options, const struct command **ret_command,
                        struct nb_failure *f) {
        static char usage[2048]; /* for --help, which ends the program */
        char name[64] = "";
        int r;

        (void)format_usage(NULL, usage, sizeof(usage));
        options->usage = usage;
        while ((r = nb_options_next(options, f)) == NB_OPTIONS_WORD) {
                const size_t len = strlen(name);

                snprintf(name + len, sizeof(name) - len, "%s%s", len > 0 ? " " : "",
                         options->value);
                for (size_t i = 0; i < N_ELEMENTS(commands); i++)
                        if (!strcmp(commands[i].name, name)) {
                                *ret_command = &commands[i];
                                return 0;
                        }
                if (len > 0 || !format_usage(name, usage, sizeof(usage)))
                        return refuse_command(options, name, f);
        }
        if (r < 0 && f->code == NB_USAGE)
                nb_failure_add(f, " before the command; options follow the command");
        if (r < 0)
                return r;
        return nb_failure_set(f, NB_USAGE, 0, "a command is required%s%s", name[0] ? " after " : "",
                              name);
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
                r = nb_admin_connect(&admin, f);
        return r < 0 ? r : command->report(&admin, f);
}

int main(int argc, char **argv) {
        struct nb_options options = NB_OPTIONS_INIT(NULL, argc, argv);
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
