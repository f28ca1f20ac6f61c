/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/text.h"
#include "cli/setup/setup_internal.h"
#include "system/log.h"

#define PASTED_MAX ((size_t)16384) /* bytes; kubeadm's line has about 200 */
#define BLANKS " \t\r\n"
#define SEPARATORS BLANKS "\"'`\\"

enum kind {
        KIND_SWITCH,  /* target: offset of a bool in struct nb_setup */
        KIND_INPUT,   /* a value for setup_inputs.c: target is an enum nb_setup_input */
        KIND_TOKEN,   /* target: enum nb_setup_token_kind */
        KIND_SETTING, /* target is an enum nb_setting; lists are separated by commas */
        KIND_REFUSED, /* for a control plane node */
        KIND_IGNORED,
};

/* Options of kubeadm join without a help text are accepted as they are pasted. */
static const struct argument {
        struct nb_option option;
        enum kind kind;
        int target;
} arguments[] = {
        { { "no-start", NULL, "enable node-bootstrap.service, but do not start it" },
          KIND_SWITCH,
          offsetof(struct nb_setup, is_start_unwanted) },
        { { "force", NULL, "replace settings and credentials that differ" },
          KIND_SWITCH,
          offsetof(struct nb_setup, is_forced) },
        { { "dry-run", NULL, "check and show everything, but change nothing" },
          KIND_SWITCH,
          offsetof(struct nb_setup, is_rehearsal) },
        { { "json", NULL, "print the result as JSON, and everything else to standard error" },
          KIND_SWITCH,
          offsetof(struct nb_setup, is_json) },
        { { "token-file", "FILE", "read the bootstrap token from FILE, - for standard input" },
          KIND_INPUT,
          NB_SETUP_INPUT_TOKEN_FILE },
        { { "endpoint", "HOST:PORT", "address of an API server; may be repeated" },
          KIND_SETTING,
          NB_SETTING_ENDPOINTS },
        { { "ca-cert-hash", "sha256:HASH", "public key hash of the cluster's CA; may be repeated" },
          KIND_SETTING,
          NB_SETTING_CA_CERT_HASHES },
        { { "discovery-file", "FILE", "kubeconfig that describes the cluster; - or an https URL" },
          KIND_INPUT,
          NB_SETUP_INPUT_DISCOVERY_FILE },
        { { "bootstrap-kubeconfig", "FILE", "kubeconfig to join with, instead of a token" },
          KIND_INPUT,
          NB_SETUP_INPUT_KUBECONFIG },
        { { "config", "FILE", "settings, or a JoinConfiguration of kubeadm" },
          KIND_INPUT,
          NB_SETUP_INPUT_CONFIG },
        { { "node-name", "NAME", "name of the node; default: the host name" },
          KIND_SETTING,
          NB_SETTING_NODE_NAME },
        { { "cri-socket", "PATH", "socket of the container runtime" },
          KIND_SETTING,
          NB_SETTING_CRI_SOCKET },
        { { "config-from", "SOURCE", "cluster: kubelet's configuration is copied from there" },
          KIND_SETTING,
          NB_SETTING_CONFIG_FROM },
        { { "timeout", "DURATION", "how long to watch the service, or infinity; default: 5m" },
          KIND_INPUT,
          NB_SETUP_INPUT_TIMEOUT },
        { { "wait", "none|joined|kubelet|node", "what to wait for; default: kubelet" },
          KIND_INPUT,
          NB_SETUP_INPUT_WAIT },
        { { "root", "DIR", "write into an image; enable and start nothing" },
          KIND_INPUT,
          NB_SETUP_INPUT_ROOT },
        { { "token", "TOKEN", "as for kubeadm join; --token-file hides it from other users" },
          KIND_TOKEN,
          NB_SETUP_TOKEN_COMMON },
        { { "discovery-token", "TOKEN" }, KIND_TOKEN, NB_SETUP_TOKEN_DISCOVERY },
        { { "tls-bootstrap-token", "TOKEN" }, KIND_TOKEN, NB_SETUP_TOKEN_TLS },
        { { "discovery-token-ca-cert-hash", "sha256:HASH" },
          KIND_SETTING,
          NB_SETTING_CA_CERT_HASHES },
        { { "discovery-token-unsafe-skip-ca-verification" },
          KIND_SETTING,
          NB_SETTING_UNSAFE_SKIP_CA_VERIFICATION },
        { { "control-plane" }, KIND_REFUSED },
        { { "certificate-key", "KEY" }, KIND_REFUSED },
        { { "apiserver-advertise-address", "ADDRESS" }, KIND_REFUSED },
        { { "apiserver-bind-port", "PORT" }, KIND_REFUSED },
        { { "ignore-preflight-errors", "CHECKS" }, KIND_IGNORED },
        { { "skip-phases", "PHASES" }, KIND_IGNORED },
        { { "patches", "DIR" }, KIND_IGNORED },
        { { "experimental-patches", "DIR" }, KIND_IGNORED },
        { { "v", "LEVEL" }, KIND_IGNORED },
};

/* Overwrites the token, to hide it from the list of processes. */
static int take_token(struct nb_setup_line *line, const struct argument *argument,
                      struct nb_failure *f) {
        char *word = line->options->argv[line->options->next - 1],
             *text = word + (line->options->value - word);
        struct nb_setup_token *token = &line->tokens[argument->target];
        size_t len = strlen(text);
        int r = nb_secret_copy(&token->value, text, len);

        token->option = argument->option.name;
        explicit_bzero(text, len);
        return r < 0 ? nb_failure_set_memory(f) : 0;
}

static int take_option(struct nb_setup_line *line, const struct argument *argument,
                       struct nb_failure *f) {
        const char *value = line->options->value;
        bool is_repeated = (argument->kind == KIND_INPUT && line->values[argument->target]) ||
                           (argument->kind == KIND_TOKEN &&
                            line->tokens[argument->target].option) ||
                           (argument->kind == KIND_SETTING && argument->option.value &&
                            nb_setting_rows[argument->target].max == 0 &&
                            nb_setting_is_set(&line->setup->settings, argument->target));
        char option[64];

        snprintf(option, sizeof(option), argument->kind == KIND_IGNORED ? "--%s" : "'--%s'",
                 argument->option.name);
        line->is_token_seen |= argument->kind == KIND_TOKEN && line->options->at >= line->n_pasted;
        if (!value[0])
                return nb_failure_set(f, NB_USAGE, 0, "%s is empty", option);
        if (is_repeated)
                return nb_failure_set(f, NB_USAGE, 0, "%s may be used only once", option);
        switch (argument->kind) {
        case KIND_SWITCH:
                *(bool *)((char *)line->setup + argument->target) = !strcmp(value, "true");
                return 0;
        case KIND_INPUT:
                line->values[argument->target] = value;
                return 0;
        case KIND_TOKEN:
                return take_token(line, argument, f);
        case KIND_SETTING:
                return nb_setup_store(line->setup, argument->target, option, value, f);
        case KIND_REFUSED:
                if (!argument->option.value && !strcmp(value, "false"))
                        return 0;
                return nb_failure_set(f, NB_USAGE, 0,
                                      "%s is for a control plane node; node-bootstrap joins only "
                                      "workers, use `kubeadm join` instead",
                                      option);
        case KIND_IGNORED:
                nb_text_list_add(line->ignored, sizeof(line->ignored), option);
                return 0;
        }
        return 0;
}

/* Puts the words of kubeadm's line in front of the remaining arguments. Splits the line at blanks,
 * quotation marks and line continuations, and drops all words up to `kubeadm join`: a prompt, a
 * warning of kubeadm, `sudo`. */
static int take_pasted(struct nb_setup_line *line, struct nb_failure *f) {
        struct nb_options *options = line->options;
        struct nb_secret *pasted = &line->setup->pasted;
        const char *previous = "";
        char *rest;
        int n = 0;

        if (memchr(pasted->data, '\0', pasted->len))
                return nb_failure_set(f, NB_USAGE, EINVAL, "the pasted line contains a zero byte");
        for (char *word = strtok_r(pasted->data, SEPARATORS, &rest); word;
             word = strtok_r(NULL, SEPARATORS, &rest)) {
                if (n + options->argc - options->next >= NB_SETUP_WORDS_MAX)
                        return nb_failure_set(f, NB_USAGE, E2BIG,
                                              "the pasted line and the arguments after it have "
                                              "more than %d words",
                                              NB_SETUP_WORDS_MAX);
                line->words[n++] = word;
                if (!strcmp(word, "join") && !strcmp(basename(previous), "kubeadm"))
                        n = 0;
                previous = word;
        }
        if (n == 0)
                return nb_failure_set(f, NB_USAGE, ENODATA,
                                      "the pasted line is empty; expected `kubeadm join ...`");
        line->n_pasted = n;
        while (options->next < options->argc)
                line->words[n++] = options->argv[options->next++];
        options->argv = line->words;
        options->argc = n;
        options->next = 0;
        return 0;
}

static int read_stdin(struct nb_setup_line *line, struct nb_failure *f) {
        int r;

        if (isatty(STDIN_FILENO))
                fprintf(stderr, "Paste the `kubeadm join` line, then press Enter and Ctrl-D:\n");
        r = nb_setup_read_input(line, "-", "-", PASTED_MAX, NULL, &line->setup->pasted, f);
        return r < 0 ? r : take_pasted(line, f);
}

/* Takes a whole line that was quoted as one argument. Overwrites it, since it may contain a
 * token. */
static int take_quoted(struct nb_setup_line *line, struct nb_failure *f) {
        char *word = line->options->argv[line->options->at];
        size_t len = strlen(word);
        int r = nb_secret_copy(&line->setup->pasted, word, len);

        explicit_bzero(word, len);
        r = r < 0 ? nb_failure_set_memory(f) : take_pasted(line, f);
        line->n_pasted = 0;
        return r;
}

/* [[sudo] kubeadm join] HOST:PORT. A name without a dot, a port or a digit is more often a word of
 * a misspelt command; --endpoint accepts it. */
static int take_word(struct nb_setup_line *line, struct nb_failure *f) {
        const char *word = line->options->value;
        char quoted[NB_WORD_QUOTED_SIZE];

        if (!line->setup->pasted.data && strpbrk(word, BLANKS))
                return take_quoted(line, f);
        if (!line->setup->pasted.data && !strcmp(word, "-"))
                return read_stdin(line, f);
        if (line->n_words == 0 &&
            (!strcmp(word, "join") ||
             (!line->is_join_due && (!strcmp(word, "sudo") || !strcmp(word, "kubeadm"))))) {
                line->is_join_due = !strcmp(word, "kubeadm");
                return 0;
        }
        if (line->is_join_due || (line->n_words == 0 && !strpbrk(word, ".:" NB_DIGITS)))
                return nb_failure_set(
                        f, NB_USAGE, 0,
                        "unexpected argument %s: expected `kubeadm join HOST:PORT ...`",
                        nb_word_quote(word, quoted));
        if (line->n_words++ > 0)
                return nb_failure_set(
                        f, NB_USAGE, 0,
                        "unexpected argument %s: expected one HOST:PORT; use --endpoint for more",
                        nb_word_quote(word, quoted));
        return nb_setup_store(line->setup, NB_SETTING_ENDPOINTS, "the API server", word, f);
}

static int read_words(struct nb_setup_line *line, struct nb_failure *f) {
        for (;;) {
                int option = nb_options_next(line->options, f), r;

                if (option == NB_OPTIONS_END)
                        return 0;
                if (option < 0)
                        return option;
                r = option == NB_OPTIONS_WORD ? take_word(line, f)
                                              : take_option(line, &arguments[option], f);
                if (r < 0)
                        return r;
        }
}

int nb_setup_read(struct nb_options *options, struct nb_setup *ret_setup, struct nb_failure *f) {
        struct nb_setup_line line = { .options = options, .setup = ret_setup };
        struct nb_option rows[N_ELEMENTS(arguments) + 1] = { 0 };
        int r;

        for (size_t i = 0; i < N_ELEMENTS(arguments); i++)
                rows[i] = arguments[i].option;
        *ret_setup = (struct nb_setup){ .document = NB_BUFFER_INIT(NB_CONFIG_MAX) };
        nb_settings_init(&ret_setup->settings);
        options->rows = rows;
        r = read_words(&line, f);
        options->rows = NULL;
        /* Warn even if the line is refused: other users may have seen the token. */
        if (line.is_token_seen)
                nb_log(LOG_WARNING, NB_TOKEN_ON_COMMAND_LINE,
                       "a token on the command line is visible to every user of this machine, and "
                       "stays in the shell's history: use `node-bootstrap setup -`, which reads "
                       "the line from standard input, or --token-file");
        if (line.ignored[0])
                nb_log(LOG_NOTICE, NB_NONE, "ignored, since node-bootstrap has no such phases: %s",
                       line.ignored);
        ret_setup->config_directory = options->config_directory;
        ret_setup->root = line.values[NB_SETUP_INPUT_ROOT];
        if (r >= 0)
                r = nb_setup_take_inputs(&line, f);
        for (int i = 0; i < _NB_SETUP_TOKEN_N; i++)
                nb_secret_done(&line.tokens[i].value);
        return r;
}

void nb_setup_done(struct nb_setup *setup) {
        for (int i = 0; i < _NB_SETUP_SECRET_N; i++)
                nb_secret_done(&setup->secrets[i]);
        nb_secret_done(&setup->pasted);
        nb_machine_state_done(&setup->state);
        nb_buffer_done(&setup->document);
}
