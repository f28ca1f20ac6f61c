/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/macro.h"
#include "verb/options.h"
#include "verb/verb.h"

#define SUMMARY_SIZE 2048

static const struct {
        const char *name;
        const char *help;
        int (*run)(int argc, char **argv);
} verbs[] = {
        { "join", "join the cluster; run by node-bootstrap.service", nb_verb_join },
        { "setup", "prepare this machine and start the service; takes a `kubeadm join` command", nb_verb_setup },
        { "check", "what a join would begin with, and where it comes from", nb_verb_check },
        { "refresh", "ask for a new CA or server; run by node-bootstrap-refresh.service", nb_verb_refresh },
        { "reset", "take back what the join wrote", nb_verb_reset },
        { "status", "what was installed on this machine", nb_verb_status },
        { "explain", "what a failure or event means, and what to do; by its code, as `token-unknown`", nb_verb_explain },
};

static void write_summary(char ret[static SUMMARY_SIZE]) {
        int n = snprintf(ret, SUMMARY_SIZE, "Joins this machine to a Kubernetes cluster before kubelet starts.\n"
                                            "As a service: systemctl start node-bootstrap.service.\n");

        for (size_t i = 0; i < N_ELEMENTS(verbs); i++)
                n += snprintf(ret + n, SUMMARY_SIZE - (size_t)n, "\n  %-8s %s", verbs[i].name, verbs[i].help);
}

/* The verb comes to the front, and the options before it behind it: each verb reads all of them. */
static int run_verb(struct nb_options *options) {
        char **argv = options->argv, *verb = argv[options->at];
        char quoted[NB_WORD_QUOTED_SIZE], names[256];
        int n = 0;

        for (size_t i = 0; i < N_ELEMENTS(verbs); i++) {
                if (strcmp(verb, verbs[i].name) != 0)
                        continue;
                memmove(argv + 2, argv + 1, (size_t)(options->at - 1) * sizeof(*argv));
                argv[1] = verb;
                return verbs[i].run(options->argc - 1, argv + 1);
        }
        for (size_t i = 0; i < N_ELEMENTS(verbs); i++)
                n += snprintf(names + n, sizeof(names) - (size_t)n, "%s%s", i > 0 ? ", " : "", verbs[i].name);
        (void)nb_options_fail(options, "the verb %s is not known, expected one of %s", nb_word_quote(verb, quoted), names);
        return options->status;
}

int main(int argc, char **argv) {
        char summary[SUMMARY_SIZE];
        struct nb_options options = { .words = "VERB", .summary = summary, .argc = argc, .argv = argv };

        (void)umask(0022);
        nb_log_init("node-bootstrap");
        write_summary(summary);
        switch (nb_options_next(&options)) {
        case NB_OPTIONS_WORD:
                return run_verb(&options);
        case NB_OPTIONS_END:
                (void)nb_options_fail(&options, "there is no verb, expected one such as setup, check or status");
                return options.status;
        default:
                return options.status;
        }
}
