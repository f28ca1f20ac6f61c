/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "admin/commands/admin_commands.h"
#include "admin/controller/controller.h"
#include "system/log.h"

static const char usage[] =
        "node-bootstrap-admin [OPTION...] COMMAND\n\n"
        "Prepares a Kubernetes cluster for nodes that join with node-bootstrap or kubeadm.\n\n"
        "  token         generate, create, list and revoke bootstrap tokens\n"
        "  cluster-info  publish, show and verify what joining nodes need from the cluster\n"
        "  approve       show the pending requests of nodes, and approve some\n"
        "  enroll        record a node with its public key, so that it needs a proof\n"
        "  controller    approve, sign and clean up; run by node-bootstrap-controller.service\n";

static const char enroll_usage[] =
        "node-bootstrap-admin enroll [OPTION...] [NODE]\n\n"
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
        "  LoadCredentialEncrypted=node-bootstrap.attestation-key:"
        "/etc/credstore.encrypted/node-bootstrap.attestation-key\n";

static const struct nb_admin_command commands[] = {
        { "token", "node-bootstrap-admin token generate|create|list|revoke [OPTION...]\n",
          nb_admin_command_token },
        { "cluster-info", "node-bootstrap-admin cluster-info publish|show|verify [OPTION...]\n",
          nb_admin_command_cluster_info },
        { "approve", "node-bootstrap-admin approve [OPTION...] [NAME...]\n",
          nb_admin_command_approve },
        { "enroll", enroll_usage, nb_admin_command_enroll },
        { "controller", "node-bootstrap-admin controller [OPTION...]\n",
          nb_admin_command_controller },
        { NULL },
};

/* The length of the command at the beginning of a usage text: "node-bootstrap-admin token list". */
static size_t measure_command(const char *usage_text) {
        const char *end = usage_text;

        while (*end && *end != '\n' && strncmp(end, " [", 2) != 0 && strncmp(end, " -", 2) != 0)
                end++;
        return (size_t)(end - usage_text);
}

int main(int argc, char **argv) {
        struct nb_options options = NB_OPTIONS_INIT(usage, argc, argv);
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
        r = nb_admin_run_command(&options, commands,
                                 "token, cluster-info, approve, enroll or controller", &f);
        if (r >= 0 || f.code == NB_NONE)
                return r < 0 ? 0 : r;
        fflush(stdout);
        /* The remedy of NB_ANSWER_MALFORMED is for a machine that joins. */
        if (f.code == NB_ANSWER_MALFORMED)
                f.code = NB_ADMIN_ANSWER_MALFORMED;
        if (f.code == NB_USAGE)
                nb_failure_add(&f, "; see `%.*s --help`", (int)measure_command(options.usage),
                               options.usage);
        nb_log_failure(LOG_ERR, &f);
        return nb_failure_info(f.code)->exit_status;
}
