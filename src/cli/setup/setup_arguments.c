/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/text.h"
#include "cli/setup/setup_internal.h"
#include "kube_objects/k3s_token.h"
#include "systemd/log.h"

#define PIN_PREFIX "sha256:"
#define PIN_LEN (strlen(PIN_PREFIX) + 2 * NB_PIN_SIZE)
#define PASTED_MAX ((size_t)16384) /* bytes; kubeadm's line has about 200 */
#define BLANKS " \t\r\n"
#define SEPARATORS BLANKS "\"'`\\"

enum kind {
        KIND_SWITCH,  /* target: offset of a bool in struct nb_setup_wanted */
        KIND_INPUT,   /* a value for setup_inputs.c: target is an enum nb_setup_input */
        KIND_TOKEN,   /* target: enum nb_setup_token_kind */
        KIND_SETTING, /* target is an enum nb_setting; lists are separated by commas */
        KIND_REFUSED, /* for a control plane node */
        KIND_IGNORED,
};

/* Options of kubeadm join without a help text are accepted as they are pasted. */
static const struct argument {
        const char *name, *value, *help; /* as in struct nb_option */
        enum kind kind;
        int target;
} arguments[] = {
        { "no-start", NULL, "enable node-bootstrap.service, but do not start it", KIND_SWITCH,
          offsetof(struct nb_setup_wanted, is_start_unwanted) },
        { "force", NULL, "replace settings and credentials that differ", KIND_SWITCH,
          offsetof(struct nb_setup_wanted, is_forced) },
        { "dry-run", NULL, "check and show everything, but change nothing", KIND_SWITCH,
          offsetof(struct nb_setup_wanted, is_rehearsal) },
        { "json", NULL, "print the result as JSON, and everything else to standard error",
          KIND_SWITCH, offsetof(struct nb_setup_wanted, is_json) },
        { "token-file", "FILE", "read the bootstrap token from FILE, - for standard input",
          KIND_INPUT, NB_SETUP_INPUT_TOKEN_FILE },
        { "endpoint", "HOST:PORT", "address of an API server; may be repeated", KIND_SETTING,
          NB_SETTING_ENDPOINTS },
        { "ca-cert-hash", "sha256:HASH", "public key hash of the cluster's CA; may be repeated",
          KIND_SETTING, NB_SETTING_CA_CERT_HASHES },
        { "discovery-file", "FILE", "kubeconfig that describes the cluster; - or an https URL",
          KIND_INPUT, NB_SETUP_INPUT_DISCOVERY_FILE },
        { "bootstrap-kubeconfig", "FILE", "kubeconfig to join with, instead of a token", KIND_INPUT,
          NB_SETUP_INPUT_KUBECONFIG },
        { "config", "FILE", "settings, or a JoinConfiguration of kubeadm", KIND_INPUT,
          NB_SETUP_INPUT_CONFIG },
        { "node-name", "NAME", "name of the node; default: the host name", KIND_SETTING,
          NB_SETTING_NODE_NAME },
        { "cri-socket", "PATH", "socket of the container runtime", KIND_SETTING,
          NB_SETTING_CRI_SOCKET },
        { "kubelet-config-from", "SOURCE", "cluster: kubelet's configuration is copied from there",
          KIND_SETTING, NB_SETTING_CONFIG_FROM },
        { "wait-timeout", "DURATION", "how long to watch the service, or infinity; default: 5m",
          KIND_INPUT, NB_SETUP_INPUT_TIMEOUT },
        { "wait", "none|certificate|kubelet|node", "what to wait for; default: kubelet", KIND_INPUT,
          NB_SETUP_INPUT_WAIT },
        { "root", "DIR", "write into an image; enable and start nothing", KIND_INPUT,
          NB_SETUP_INPUT_ROOT },
        { "token", "TOKEN", "as for kubeadm join; --token-file hides it from other users",
          KIND_TOKEN, NB_SETUP_TOKEN_COMMON },
        { "discovery-token", "TOKEN", NULL, KIND_TOKEN, NB_SETUP_TOKEN_DISCOVERY },
        { "tls-bootstrap-token", "TOKEN", NULL, KIND_TOKEN, NB_SETUP_TOKEN_TLS },
        { "discovery-token-ca-cert-hash", "sha256:HASH", NULL, KIND_SETTING,
          NB_SETTING_CA_CERT_HASHES },
        { "discovery-token-unsafe-skip-ca-verification", NULL, NULL, KIND_SETTING,
          NB_SETTING_UNSAFE_SKIP_CA_VERIFICATION },
        { "control-plane", NULL, NULL, KIND_REFUSED },
        { "experimental-control-plane", NULL, NULL, KIND_REFUSED },
        { "certificate-key", "KEY", NULL, KIND_REFUSED },
        { "apiserver-advertise-address", "ADDRESS", NULL, KIND_REFUSED },
        { "apiserver-bind-port", "PORT", NULL, KIND_REFUSED },
        { "ignore-preflight-errors", "CHECKS", NULL, KIND_IGNORED },
        { "skip-phases", "PHASES", NULL, KIND_IGNORED },
        { "patches", "DIR", NULL, KIND_IGNORED },
        { "experimental-patches", "DIR", NULL, KIND_IGNORED },
        { "v", "LEVEL", NULL, KIND_IGNORED },
};

/* Overwrites the token, to hide it from the list of processes. */
static int take_token(struct nb_setup_line *line, const struct argument *argument,
                      struct nb_failure *f) {
        char *word = line->options->argv[line->options->next - 1],
             *text = word + (line->options->value - word);
        struct nb_setup_token *token = &line->tokens[argument->target];
        size_t len = strlen(text);
        int r = nb_secret_copy(&token->value, text, len);

        token->option = argument->name;
        explicit_bzero(text, len);
        return r < 0 ? nb_failure_set_memory(f) : 0;
}

static int take_option(struct nb_setup_line *line, const struct argument *argument,
                       struct nb_failure *f) {
        const char *value = line->options->value;
        bool is_repeated = (argument->kind == KIND_INPUT && line->values[argument->target]) ||
                           (argument->kind == KIND_TOKEN &&
                            line->tokens[argument->target].option) ||
                           (argument->kind == KIND_SETTING && argument->value &&
                            nb_setting_rows[argument->target].max == 0 &&
                            nb_setting_is_set(&line->wanted->settings, argument->target));
        char option[64];

        snprintf(option, sizeof(option), argument->kind == KIND_IGNORED ? "--%s" : "'--%s'",
                 argument->name);
        line->is_token_seen |= argument->kind == KIND_TOKEN && line->options->at >= line->n_pasted;
        if (!value[0] && argument->kind != KIND_IGNORED)
                return nb_failure_set(f, NB_USAGE, 0, "%s is empty", option);
        if (is_repeated)
                return nb_failure_set(f, NB_USAGE, 0, "%s may be used only once", option);
        switch (argument->kind) {
        case KIND_SWITCH:
                *(bool *)((char *)line->wanted + argument->target) = !strcmp(value, "true");
                return 0;
        case KIND_INPUT:
                line->values[argument->target] = value;
                return 0;
        case KIND_TOKEN:
                return take_token(line, argument, f);
        case KIND_SETTING:
                return nb_setup_store(&line->wanted->settings, argument->target, option, value, f);
        case KIND_REFUSED:
                if (!argument->value && !strcmp(value, "false"))
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

/* --- A pasted line --- */

/* Replaces what chats, web pages and word processors make of blanks, quotation marks and dashes. No
 * replacement is longer. Returns the new length. */
static size_t clean_text(char *text) {
        size_t len = strlen(text), used = 0, n;
        uint32_t c = 0;

        for (size_t i = 0; i < len; i += n) {
                bool is_new_word = used == 0 || strchr(SEPARATORS, text[used - 1]);

                n = nb_utf8_decode(text + i, len - i, &c);
                if (c >= 0x2018 && c <= 0x201f && n > 1)
                        c = '"';
                if (n == 0) {
                        n = 1;
                        text[used++] = text[i];
                } else if (c < 0x80) {
                        /* --token="abc" is one word. */
                        if (!strchr("\"'", (int)c) || used == 0 || text[used - 1] != '=')
                                text[used++] = (char)c;
                } else if (c >= 0x2010 && c <= 0x2015) { /* dashes; of an option, two became one */
                        if (is_new_word)
                                text[used++] = '-';
                        text[used++] = '-';
                } else if (c == 0x85 || c == 0xa0 || c == 0xad || (c >= 0x2000 && c <= 0x200f) ||
                           c == 0x202f || c == 0x205f || c == 0x2060 || c == 0x3000 ||
                           c == 0xfeff) {
                        text[used++] = ' '; /* also those without a width */
                } else {
                        memmove(text + used, text + i, n);
                        used += n;
                }
        }
        text[used] = '\0';
        return used;
}

static bool begins_with(const char *word, const char *expected) {
        return strncmp(word, expected, strlen(expected)) == 0;
}

/* Whether the pasted words look like all that a worker needs: an API server, a token, and a hash or
 * what replaces it. */
static bool is_complete(const struct nb_setup_line *line) {
        bool has_server = false, has_token = false, has_pin = false, is_value = false;
        char flaw[NB_TOKEN_FLAW_SIZE];

        for (int i = 0; i < line->n_pasted; i++) {
                const char *word = line->words[i], *equals = strchr(word, '=');
                bool is_option = word[0] == '-',
                     is_document = begins_with(word, "--discovery-file"),
                     is_unsafe = begins_with(word, "--discovery-token-unsafe-skip-ca-verification");
                const char *value = is_option && equals ? equals + 1 : word;
                size_t len = strlen(value);

                has_server |= is_document || (!is_option && !is_value);
                has_token |= nb_any_token_verify(value, len, flaw) >= 0;
                has_pin |= is_document || nb_k3s_token_looks_like(value, len) || is_unsafe ||
                           (begins_with(value, PIN_PREFIX) && len >= PIN_LEN);
                /* The next word may be its value. */
                is_value = is_option && !equals && !is_unsafe;
        }
        return has_server && has_token && has_pin;
}

/* Adds the words of one line. Splits it at blanks, quotation marks and the line continuation, and
 * drops all words up to `kubeadm join` (a prompt, a warning of kubeadm, `sudo`), the "> " of a
 * shell after a line continuation, and the lines after a complete one (a prompt, a warning). */
static int take_pasted_line(struct nb_setup_line *line, char *text, struct nb_failure *f) {
        struct nb_options *options = line->options;
        size_t len = clean_text(text);
        bool is_continued, is_after;
        char *rest, *word;

        while (len > 0 && strchr(BLANKS, text[len - 1]))
                len--;
        is_continued = len > 0 && text[len - 1] == '\\';
        word = strtok_r(text, SEPARATORS, &rest);
        is_after = line->is_complete && (line->n_after > 0 || (word && word[0] != '-'));
        for (; word; word = strtok_r(NULL, SEPARATORS, &rest)) {
                bool is_join = line->previous && !strcmp(word, "join") &&
                               !strcmp(basename(line->previous), "kubeadm");

                line->previous = word;
                while (begins_with(word, "---"))
                        word++;
                if (is_join) {
                        line->n_pasted = line->n_after = 0;
                        is_after = false;
                        options->n_skipped = 2;
                } else if (is_after)
                        line->n_after++;
                else if (line->n_pasted + options->argc - options->next >= NB_SETUP_WORDS_MAX)
                        return nb_failure_set(f, NB_USAGE, E2BIG,
                                              "the pasted line and the arguments after it have "
                                              "more than %d words",
                                              NB_SETUP_WORDS_MAX);
                else if (strcmp(word, ">") != 0)
                        line->words[line->n_pasted++] = word;
        }
        line->is_complete = is_after || (!is_continued && is_complete(line));
        return 0;
}

/* Puts the words of the pasted line in front of the remaining arguments. */
static int end_pasted(struct nb_setup_line *line, struct nb_failure *f) {
        struct nb_options *options = line->options;
        int n = line->n_pasted;

        if (n == 0)
                return nb_failure_set(f, NB_USAGE, ENODATA,
                                      "the pasted line is empty; expected `kubeadm join ...`");
        if (line->n_after > 0)
                nb_log(LOG_NOTICE, NB_NONE, "ignored the text after the join command: %d word%s",
                       line->n_after, line->n_after == 1 ? "" : "s");
        options->n_pasted = n;
        options->n_typed = options->next;
        while (options->next < options->argc)
                line->words[n++] = options->argv[options->next++];
        options->argv = line->words;
        options->argc = n;
        options->next = 0;
        return 0;
}

static int take_pasted_lines(struct nb_setup_line *line, struct nb_failure *f) {
        struct nb_secret *pasted = &line->wanted->pasted;
        char *rest, *text;
        int r = 0;

        if (memchr(pasted->data, '\0', pasted->len))
                return nb_failure_set(f, NB_USAGE, EINVAL, "the pasted line contains a zero byte");
        for (text = strtok_r(pasted->data, "\n", &rest); text && r >= 0;
             text = strtok_r(NULL, "\n", &rest))
                r = take_pasted_line(line, text, f);
        return r;
}

/* Stops after the line that completes the command, or at an empty one after it. */
static int read_terminal(struct nb_setup_line *line, struct nb_failure *f) {
        struct nb_secret *pasted = &line->wanted->pasted;
        bool is_end = false;
        int r = nb_secret_init(pasted, PASTED_MAX);

        if (r < 0)
                return nb_failure_set_memory(f);
        line->stdin_reader = "-";
        fprintf(stderr, "Paste the join command, then press Enter:\n");
        while (r >= 0 && !is_end) {
                char *text = pasted->data + pasted->len;

                r = nb_setup_read_terminal(pasted, f);
                is_end = text[strspn(text, BLANKS)] == '\0';
                if (r >= 0)
                        r = take_pasted_line(line, text, f);
                is_end |= line->is_complete;
        }
        /* A shell must not run what was pasted after the line. */
        (void)tcflush(STDIN_FILENO, TCIFLUSH);
        return r;
}

/* `word` is "-" for standard input, or a whole line that was quoted as one argument. That is
 * overwritten, since it may contain a token. */
static int take_pasted(struct nb_setup_line *line, char *word, struct nb_failure *f) {
        struct nb_secret *pasted = &line->wanted->pasted;
        bool is_quoted = strcmp(word, "-") != 0;
        int r;

        if (is_quoted) {
                r = nb_secret_copy(pasted, word, strlen(word));
                explicit_bzero(word, strlen(word));
                r = r < 0 ? nb_failure_set_memory(f) : take_pasted_lines(line, f);
        } else if (isatty(STDIN_FILENO) && !line->stdin_reader) {
                r = read_terminal(line, f);
        } else {
                r = nb_setup_read_input(line, "-", "-", PASTED_MAX, NULL, pasted, f);
                r = r < 0 ? r : take_pasted_lines(line, f);
        }
        r = r < 0 ? r : end_pasted(line, f);
        if (is_quoted)
                line->n_pasted = 0;
        return r;
}

/* "<token>" and "$MASTER" in a pasted line. A password of k3s may have such characters. */
static int refuse_placeholder(const struct nb_setup_line *line, int option, struct nb_failure *f) {
        const char *value = line->options->value;
        char place[NB_OPTIONS_PLACE_SIZE];

        if (line->options->at >= line->options->n_pasted || !strpbrk(value, "<$") ||
            nb_k3s_token_looks_like(value, strlen(value)))
                return 0;
        if (option == NB_OPTIONS_WORD)
                return nb_failure_set(f, NB_USAGE, 0,
                                      "%s is a placeholder; replace it by the real value",
                                      nb_options_place(line->options, place));
        return nb_failure_set(f, NB_USAGE, 0,
                              "'--%s' has a placeholder; replace it by the real value",
                              arguments[option].name);
}

/* The word may be the rest of a token before it. */
static int refuse_word(const struct nb_setup_line *line, const char *expected,
                       struct nb_failure *f) {
        char place[NB_OPTIONS_PLACE_SIZE], flaw[NB_TOKEN_FLAW_SIZE];
        int r = nb_failure_set(f, NB_USAGE, 0, "unexpected: %s; expected %s",
                               nb_options_place(line->options, place), expected);

        for (size_t i = 0; i < _NB_SETUP_TOKEN_N; i++) {
                const struct nb_setup_token *token = &line->tokens[i];

                if (token->option &&
                    nb_any_token_verify(token->value.data, token->value.len, flaw) < 0)
                        nb_failure_add(f, "; '--%s' before it is no whole token: %s", token->option,
                                       flaw);
        }
        return r;
}

/* [[sudo] kubeadm join] HOST:PORT. A name without a dot, a port or a digit is more often a word of
 * a misspelt command; --endpoint accepts it. */
static int take_word(struct nb_setup_line *line, struct nb_failure *f) {
        const char *word = line->options->value;

        /* No other word has a blank or a character beyond ASCII; in a pasted line, blanks may be
         * such. */
        if (!line->wanted->pasted.data &&
            (!strcmp(word, "-") || word[strcspn(word, BLANKS "\xc2\xe2\xe3\xef")]))
                return take_pasted(line, line->options->argv[line->options->at], f);
        if (line->n_words == 0 &&
            (!strcmp(word, "join") ||
             (!line->is_join_due && (!strcmp(word, "sudo") || !strcmp(word, "kubeadm"))))) {
                line->is_join_due = !strcmp(word, "kubeadm");
                return 0;
        }
        if (line->is_join_due || (line->n_words == 0 && !strpbrk(word, ".:" NB_DIGITS)))
                return refuse_word(line, "`kubeadm join HOST:PORT ...`", f);
        if (line->n_words++ > 0)
                return refuse_word(line, "one HOST:PORT; use --endpoint for more", f);
        return nb_setup_store(&line->wanted->settings, NB_SETTING_ENDPOINTS, NB_SETUP_API_SERVER,
                              word, f);
}

static int read_words(struct nb_setup_line *line, struct nb_failure *f) {
        for (;;) {
                int option = nb_options_next(line->options, f), r;

                if (option == NB_OPTIONS_END)
                        return 0;
                if (option < 0)
                        return option;
                r = refuse_placeholder(line, option, f);
                if (r < 0)
                        return r;
                r = option == NB_OPTIONS_WORD ? take_word(line, f)
                                              : take_option(line, &arguments[option], f);
                if (r < 0)
                        return r;
        }
}

int nb_setup_read(struct nb_options *options, struct nb_setup_wanted *ret_wanted,
                  struct nb_failure *f) {
        struct nb_setup_line line = { .options = options, .wanted = ret_wanted };
        struct nb_option rows[N_ELEMENTS(arguments) + 1] = { 0 };
        int r;

        for (size_t i = 0; i < N_ELEMENTS(arguments); i++)
                rows[i] = (struct nb_option){ arguments[i].name, arguments[i].value,
                                              arguments[i].help };
        *ret_wanted = (struct nb_setup_wanted){ .wait = NB_SETUP_WAIT_KUBELET };
        nb_settings_init(&ret_wanted->settings);
        options->rows = rows;
        r = read_words(&line, f);
        options->rows = NULL;
        /* Warn even if the line is refused: other users may have seen the token. */
        if (line.is_token_seen)
                nb_log(LOG_WARNING, NB_TOKEN_ON_COMMAND_LINE,
                       "a token on the command line is visible to every user of this machine, and "
                       "stays in the shell's history: use `node-bootstrap setup -`, which reads "
                       "the join command from standard input, or --token-file");
        if (line.ignored[0])
                nb_log(LOG_NOTICE, NB_NONE, "ignored, since node-bootstrap has no such phases: %s",
                       line.ignored);
        ret_wanted->config_directory = options->config_directory;
        ret_wanted->root = line.values[NB_SETUP_INPUT_ROOT];
        if (r >= 0)
                r = nb_setup_take_inputs(&line, f);
        for (int i = 0; i < _NB_SETUP_TOKEN_N; i++)
                nb_secret_done(&line.tokens[i].value);
        return r;
}

void nb_setup_wanted_done(struct nb_setup_wanted *wanted) {
        for (int i = 0; i < _NB_SETUP_SECRET_N; i++)
                nb_secret_done(&wanted->secrets[i]);
        nb_secret_done(&wanted->pasted);
}
