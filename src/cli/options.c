/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/macro.h"
#include "base/sources.h"
#include "cli/options.h"

#define WORD_QUOTED_MAX 22 /* a bootstrap token has 23 */

static const struct nb_command {
        const char *name;
        const char *words;   /* other words, for the usage line */
        const char *help;    /* in the list of commands */
        const char *summary; /* for its --help */
        int (*run)(struct nb_options *options, struct nb_failure *f);
} commands[] = {
        { "join", "", "join the cluster; run by node-bootstrap.service",
          "Joins the cluster, and leaves what the installer needs in $STATE_DIRECTORY. Run by "
          "node-bootstrap.service.",
          nb_command_join },
        { "setup", " [-] [kubeadm join] [HOST:PORT]",
          "configure this machine and start the service; takes a `kubeadm join` line",
          "Writes settings and credentials, and starts node-bootstrap.service.\n"
          "Accepts the output of `kubeadm token create --print-join-command`, with - from "
          "standard\n"
          "input, and all options of `kubeadm join` for a worker.",
          nb_command_setup },
        { "check", "", "show the configuration, and whether a join would succeed",
          "Runs the steps of a join except the request, and checks this machine. Changes nothing.\n"
          "Exit status 1: something prevents a join.",
          nb_command_check },
        { "refresh", "", "look for a new CA or server; run by node-bootstrap-refresh.service",
          "Checks whether the cluster's CA or server has changed, and leaves the result in "
          "$STATE_DIRECTORY.\n"
          "Run by node-bootstrap-refresh.service: systemctl start "
          "node-bootstrap-refresh.service.",
          nb_command_refresh },
        { "reset", "", "remove what the join wrote",
          "Removes what the join wrote, and lists what it leaves in place.", nb_command_reset },
        { "status", "", "show the node's certificate and the last join",
          "Shows the certificate and record of this node, and how long each stage of the last "
          "join took.\n"
          "Exit status 1: not joined by node-bootstrap; 2: the certificate has expired or is not "
          "valid yet;\n"
          "3: with --check, it expires within PERIOD.",
          nb_command_status },
        { "explain", " [CODE...]", "explain a failure code, such as `token-unknown`",
          "Explains a failure code: what happened, what was not changed, and what to do. CODE is "
          "a\n"
          "NODE_BOOTSTRAP_ERROR or MESSAGE_ID from the journal. Without a CODE, lists all of them.",
          nb_command_explain },
};

enum { COMMON_CONFIG_DIRECTORY, COMMON_HELP, COMMON_VERSION };

static const struct nb_option common[] = {
        [COMMON_CONFIG_DIRECTORY] = { "config-directory", "DIR",
                                      "use the settings in DIR instead of " NB_CONFIG_DIRECTORY },
        [COMMON_HELP] = { "help", NULL, "show this help", .letter = 'h' },
        [COMMON_VERSION] = { "version", NULL, "show the version" },
        { NULL },
};

const char *nb_word_quote(const char *word, char ret[static NB_WORD_QUOTED_SIZE]) {
        size_t len = strlen(word);

        if (len <= WORD_QUOTED_MAX && !strpbrk(word, ".:"))
                snprintf(ret, NB_WORD_QUOTED_SIZE, "'%s'", word);
        else
                snprintf(ret, NB_WORD_QUOTED_SIZE, "of %zu bytes", len);
        return ret;
}

static void print_rows(const struct nb_option *rows) {
        for (const struct nb_option *row = rows; row && row->name; row++) {
                char text[64];

                if (!row->help)
                        continue;
                snprintf(text, sizeof(text), "--%s%s%s%s", row->name,
                         row->by_default ? "[="
                         : row->value    ? "="
                                         : "",
                         row->value ? row->value : "", row->by_default ? "]" : "");
                printf("  %c%c%c %-32s %s\n", row->letter ? '-' : ' ',
                       row->letter ? row->letter : ' ', row->letter ? ',' : ' ', text, row->help);
        }
}

static void show_help(const struct nb_options *options) {
        const struct nb_command *command = options->command;

        if (command) {
                printf("node-bootstrap %s [OPTION...]%s\n\n%s\n\n", command->name, command->words,
                       command->summary);
        } else {
                printf("node-bootstrap [OPTION...] COMMAND\n\n"
                       "Joins this machine to a Kubernetes cluster before kubelet starts.\n"
                       "To start the service: systemctl start node-bootstrap.service\n\n");
                for (size_t i = 0; i < N_ELEMENTS(commands); i++)
                        printf("  %-8s %s\n", commands[i].name, commands[i].help);
                printf("\n");
        }
        print_rows(options->rows);
        print_rows(common);
        printf("\nSee the node-bootstrap(8) man page for details.\n");
}

static const struct nb_option *find_row(const struct nb_option *rows, const char *name, size_t len,
                                        char letter) {
        for (; rows && rows->name; rows++)
                if (letter ? rows->letter == letter
                           : strlen(rows->name) == len && !strncmp(rows->name, name, len))
                        return rows;
        return NULL;
}

static int take_common(struct nb_options *options, const struct nb_option *row,
                       struct nb_failure *f) {
        if (row == &common[COMMON_CONFIG_DIRECTORY]) {
                if (!options->value || !options->value[0])
                        return nb_failure_set(f, NB_USAGE, 0, "'--config-directory' is empty");
                options->config_directory = options->value;
                options->has_config_directory = true;
                return nb_options_next(options, f);
        }
        if (row == &common[COMMON_HELP])
                show_help(options);
        else
                printf("node-bootstrap " NB_VERSION "\n");
        return -ECANCELED;
}

/* The first `name_len` bytes of the word name the option; `value` follows them in the same word, or
 * is NULL. */
static int take_value(struct nb_options *options, const struct nb_option *row, int name_len,
                      const char *value, struct nb_failure *f) {
        const char *word = options->argv[options->at];

        if (!row->value) {
                if (value && strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
                        return nb_failure_set(f, NB_USAGE, 0, "'%.*s' accepts only true or false",
                                              name_len, word);
                value = value ? value : "true";
        } else if (!value && row->by_default) {
                value = row->by_default;
        } else if (!value) {
                if (options->next >= options->argc ||
                    !strncmp(options->argv[options->next], "--", 2))
                        return nb_failure_set(f, NB_USAGE, 0, "'%.*s' requires %s", name_len, word,
                                              row->value);
                value = options->argv[options->next++];
        }
        options->value = value;
        return 0;
}

static int take_option(struct nb_options *options, const char *word, struct nb_failure *f) {
        const char *equals = strchr(word, '='), *value = equals ? equals + 1 : NULL;
        size_t name_len = equals ? (size_t)(equals - word) : strlen(word);
        const struct nb_option *row, *own;
        char letter = '\0';
        int r;

        if (word[1] != '-') {
                letter = word[1];
                name_len = 2;
                value = word[2] ? word + 2 + (word[2] == '=') : NULL;
        }
        own = find_row(options->rows, word + 2, name_len - 2, letter);
        row = own ? own : find_row(common, word + 2, name_len - 2, letter);
        if (!row)
                return nb_failure_set(f, NB_USAGE, 0, "unknown option '%.*s'",
                                      name_len > 64 ? 64 : (int)name_len, word);
        r = take_value(options, row, (int)name_len, value, f);
        if (r < 0)
                return r;
        return own ? (int)(own - options->rows) : take_common(options, row, f);
}

int nb_options_next(struct nb_options *options, struct nb_failure *f) {
        const char *word;

        if (options->next >= options->argc)
                return NB_OPTIONS_END;
        options->at = options->next++;
        word = options->argv[options->at];
        if (!options->is_words_only && !strcmp(word, "--")) {
                options->is_words_only = true;
                return nb_options_next(options, f);
        }
        if (!options->is_words_only && word[0] == '-' && word[1] != '\0')
                return take_option(options, word, f);
        options->value = word;
        return NB_OPTIONS_WORD;
}

int nb_options_read(struct nb_options *options, const struct nb_option *rows,
                    struct nb_failure *f) {
        char quoted[NB_WORD_QUOTED_SIZE];
        int row;

        options->rows = rows;
        while ((row = nb_options_next(options, f)) >= 0 && row < NB_OPTIONS_END) {
                const struct nb_option *option = &rows[row];

                if (option->ret_switch)
                        *option->ret_switch = !strcmp(options->value, "true");
                else
                        *option->ret_value = options->value;
        }
        options->rows = NULL;
        if (row == NB_OPTIONS_WORD)
                return nb_failure_set(f, NB_USAGE, 0, "unexpected argument %s",
                                      nb_word_quote(options->value, quoted));
        return row < 0 ? row : 0;
}

static int run_command(struct nb_options *options, struct nb_failure *f) {
        char quoted[NB_WORD_QUOTED_SIZE];
        const char *name;
        int r = nb_options_next(options, f);

        if (r < 0)
                return r;
        if (r == NB_OPTIONS_END)
                return nb_failure_set(f, NB_USAGE, 0, "a command is required");
        name = options->argv[options->at];
        for (size_t i = 0; i < N_ELEMENTS(commands); i++)
                if (!strcmp(name, commands[i].name)) {
                        options->command = &commands[i];
                        return commands[i].run(options, f);
                }
        return nb_failure_set(f, NB_USAGE, 0, "unknown command %s", nb_word_quote(name, quoted));
}

int nb_run(int argc, char **argv) {
        struct nb_options options = {
                .config_directory = NB_CONFIG_DIRECTORY, .argc = argc, .argv = argv, .next = 1
        };
        struct nb_failure f = { 0 };
        int r = run_command(&options, &f);

        if (r >= 0 || f.code == NB_NONE)
                return r < 0 ? 0 : r;
        fflush(stdout);
        if (f.code == NB_USAGE)
                nb_failure_add(&f, "; see `node-bootstrap %s%s--help`",
                               options.command ? options.command->name : "",
                               options.command ? " " : "");
        nb_log_failure(LOG_ERR, &f);
        return nb_failure_info(f.code)->exit_status;
}
