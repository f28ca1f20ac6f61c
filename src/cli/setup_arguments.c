/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macro.h"
#include "base/text.h"
#include "cli/setup_internal.h"
#include "kube/k3s_token.h"
#include "kube/token.h"
#include "settings/types.h"

#define IGNORED_SIZE 256
#define PASTED_MAX ((size_t)16384) /* bytes; kubeadm's line has about 200 */
#define WORDS_MAX 128              /* of a pasted line */
#define ENTRY_MAX 1023             /* bytes of an entry in a list */
#define BLANKS " \t\r\n"
#define QUOTES "\"'`"

enum kind {
        KIND_INPUT,   /* a value for setup_inputs.c: row.target is an enum nb_setup_input */
        KIND_TOKEN,   /* the same; the value is a secret */
        KIND_SETTING, /* row.target is an enum nb_setting; lists are separated by commas */
        KIND_REFUSED, /* for a control plane node */
        KIND_IGNORED,
};

/* Options of kubeadm join without a help text are accepted as they are pasted. */
static const struct nb_option common_rows[] = {
        { "token-file", "FILE", "read the bootstrap token from FILE, - for standard input",
          .kind = KIND_INPUT, .target = NB_SETUP_INPUT_TOKEN },
        { "endpoint", "HOST:PORT", "address of an API server; may be repeated",
          .kind = KIND_SETTING, .target = NB_SETTING_ENDPOINTS },
        { "ca-cert-hash", "sha256:HASH", "public key hash of the cluster's CA; may be repeated",
          .kind = KIND_SETTING, .target = NB_SETTING_CA_CERT_HASHES },
        { "discovery-file", "FILE", "kubeconfig that describes the cluster; - or an https URL",
          .kind = KIND_INPUT, .target = NB_SETUP_INPUT_DISCOVERY_FILE },
        { "bootstrap-kubeconfig", "FILE", "kubeconfig to join with, instead of a token",
          .kind = KIND_INPUT, .target = NB_SETUP_INPUT_KUBECONFIG },
        { "config", "FILE", "settings, or a JoinConfiguration of kubeadm", .kind = KIND_INPUT,
          .target = NB_SETUP_INPUT_CONFIG },
        { "node-name", "NAME", "name of the node; default: the host name", .kind = KIND_SETTING,
          .target = NB_SETTING_NODE_NAME },
        { "cri-socket", "PATH", "socket of the container runtime", .kind = KIND_SETTING,
          .target = NB_SETTING_CRI_SOCKET },
        { "timeout", "DURATION", "how long to watch the service, or infinity; default: 5m",
          .kind = KIND_INPUT, .target = NB_SETUP_INPUT_TIMEOUT },
        { "root", "DIR", "write into an image; enable and start nothing", .kind = KIND_INPUT,
          .target = NB_SETUP_INPUT_ROOT },
        { "token", "TOKEN", "as for kubeadm join; --token-file hides it from other users",
          .kind = KIND_TOKEN, .target = NB_SETUP_INPUT_TOKEN },
        { "discovery-token", "TOKEN", .kind = KIND_TOKEN,
          .target = NB_SETUP_INPUT_DISCOVERY_TOKEN },
        { "tls-bootstrap-token", "TOKEN", .kind = KIND_TOKEN,
          .target = NB_SETUP_INPUT_TLS_BOOTSTRAP_TOKEN },
        { "discovery-token-ca-cert-hash", "sha256:HASH", .kind = KIND_SETTING,
          .target = NB_SETTING_CA_CERT_HASHES },
        { "discovery-token-unsafe-skip-ca-verification", .kind = KIND_SETTING,
          .target = NB_SETTING_UNSAFE_SKIP_CA_VERIFICATION },
        { "control-plane", .kind = KIND_REFUSED },
        { "certificate-key", "KEY", .kind = KIND_REFUSED },
        { "apiserver-advertise-address", "ADDRESS", .kind = KIND_REFUSED },
        { "apiserver-bind-port", "PORT", .kind = KIND_REFUSED },
        { "ignore-preflight-errors", "CHECKS", .kind = KIND_IGNORED },
        { "skip-phases", "PHASES", .kind = KIND_IGNORED },
        { "patches", "DIR", .kind = KIND_IGNORED },
        { "experimental-patches", "DIR", .kind = KIND_IGNORED },
        { "v", "LEVEL", .letter = 'v', .kind = KIND_IGNORED },
};

#define SWITCHES 3

/* The command line as it was typed. */
struct line {
        struct nb_options *options;
        struct nb_setup *setup;
        struct nb_setup_line inputs;
        char ignored[IGNORED_SIZE];
        bool is_pasted;     /* the words are from standard input, not from the command line */
        int n_words;        /* after `kubeadm join` */
        bool is_kubeadm;    /* the words so far are `kubeadm` or `kubeadm join` */
        bool is_token_seen; /* a token was on the command line */
};

static int read_words(struct line *line, struct nb_failure *f);

static int take_input(struct line *line, const struct nb_option *row, struct nb_failure *f) {
        struct nb_setup_input *input = &line->inputs.inputs[row->target];

        if (input->option == row->name)
                return nb_failure_set(f, NB_USAGE, 0, "'--%s' may be used only once", row->name);
        if (input->option)
                return nb_failure_set(f, NB_USAGE, 0, "'--%s' and '--%s' cannot be combined",
                                      input->option, row->name);
        if (!line->options->value[0])
                return nb_failure_set(f, NB_USAGE, 0, "'--%s' is empty", row->name);
        input->option = row->name;
        input->text = line->options->value;
        return 0;
}

/* Overwrites the token, to hide it from the list of processes. */
static int take_token(struct line *line, const struct nb_option *row, struct nb_failure *f) {
        char *word = line->options->argv[line->options->next - 1],
             *text = word + (line->options->value - word);
        struct nb_secret *token = &line->inputs.inputs[row->target].token;
        size_t len = strlen(text);
        int r = take_input(line, row, f);

        line->is_token_seen = line->is_token_seen || !line->is_pasted;
        if (r >= 0)
                r = nb_secret_init(token, len) < 0 ? nb_failure_set_memory(f)
                                                   : nb_secret_append(token, text, len);
        explicit_bzero(text, len);
        return r;
}

/* kubeadm accepts a value twice, and so do we. */
static bool is_last_repeated(const struct nb_settings *settings, enum nb_setting setting) {
        unsigned last = settings->n_endpoints - 1;

        if (setting == NB_SETTING_ENDPOINTS) {
                for (unsigned i = 0; i < last; i++)
                        if (nb_url_is_equal(&settings->endpoints[i], &settings->endpoints[last]))
                                return true;
                return false;
        }
        last = settings->n_pins - 1;
        for (unsigned i = 0; i < last; i++)
                if (!memcmp(settings->pins[i], settings->pins[last], NB_PIN_SIZE))
                        return true;
        return false;
}

static int store_value(struct nb_settings *settings, enum nb_setting setting, const char *option,
                       const char *text, struct nb_failure *f) {
        const struct nb_setting_row *row = &nb_setting_rows[setting];
        char quoted[NB_TEXT_QUOTED_SIZE], buffer[NB_SETTING_HINT_SIZE];
        size_t len = strlen(text);
        const char *hint;
        int r;

        /* A token has the form of a host name, and would end up in a file that everybody can read.
         */
        if (nb_text_contains_token(text) || nb_k3s_token_looks_like(text, len))
                return nb_failure_set(f, NB_USAGE, EINVAL,
                                      "%s: expected %s, found a token; use --token-file for it",
                                      option, row->type->expected);
        r = nb_setting_parse(settings, setting, text, len);
        if (r == -E2BIG)
                return nb_failure_set(f, NB_USAGE, E2BIG, "%s: more than %u values", option,
                                      row->max);
        if (r < 0) {
                hint = row->type->hint ? row->type->hint(text, buffer) : NULL;
                return nb_failure_set(f, NB_USAGE, EINVAL, "%s: expected %s, found %s%s", option,
                                      row->type->expected,
                                      strchr(text, '@') ? "a value with an '@' in it"
                                                        : nb_text_quote(text, len, quoted),
                                      hint ? hint : "");
        }
        if (row->max > 0 && is_last_repeated(settings, setting))
                *(setting == NB_SETTING_ENDPOINTS ? &settings->n_endpoints
                                                  : &settings->n_pins) -= 1;
        strcpy(settings->origin[setting], NB_SETUP_ORIGIN);
        return 0;
}

static int take_setting(struct line *line, enum nb_setting setting, const char *option,
                        struct nb_failure *f) {
        struct nb_settings *settings = &line->setup->settings;
        const struct nb_setting_row *row = &nb_setting_rows[setting];
        const char *text = line->options->value;
        char entry[ENTRY_MAX + 1];

        if (row->max == 0 && row->type != &nb_setting_type_boolean &&
            nb_setting_is_set(settings, setting))
                return nb_failure_set(f, NB_USAGE, 0, "%s may be used only once", option);
        if (!text[0])
                return nb_failure_set(f, NB_USAGE, 0, "%s is empty", option);
        if (row->max == 0)
                return store_value(settings, setting, option, text, f);
        for (;; text++) {
                size_t len = strcspn(text, ",");
                int r;

                snprintf(entry, sizeof(entry), "%.*s", (int)len, text);
                r = store_value(settings, setting, option, entry, f);
                text += len;
                if (r < 0 || !*text)
                        return r;
        }
}

static int take_option(struct line *line, const struct nb_option *row, struct nb_failure *f) {
        const char *value = line->options->value;
        char option[64];

        if (row->ret_switch) {
                *row->ret_switch = !strcmp(value, "true");
                return 0;
        }
        snprintf(option, sizeof(option), row->kind == KIND_IGNORED ? "--%s" : "'--%s'", row->name);
        switch ((enum kind)row->kind) {
        case KIND_INPUT:
                return take_input(line, row, f);
        case KIND_TOKEN:
                return take_token(line, row, f);
        case KIND_SETTING:
                return take_setting(line, (enum nb_setting)row->target, option, f);
        case KIND_REFUSED:
                if (!row->value && strcmp(value, "true") != 0)
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

/* Finds the start of `kubeadm join`, after a prompt, sudo or a warning of kubeadm. NULL if there is
 * none. */
static char *find_join(char *text) {
        for (char *at = text; (at = strstr(at, "kubeadm")); at++) {
                const char *next = at + strlen("kubeadm");
                size_t n = strspn(next, BLANKS);

                if (n > 0 && !strncmp(next + n, "join", 4) && strchr(BLANKS QUOTES, next[n + 4]) &&
                    (at == text || strchr(BLANKS QUOTES "/", at[-1])))
                        return at;
        }
        return NULL;
}

/* Replaces everything around the line with blanks. */
static void blank_out_rest(char *text) {
        char *join = find_join(text), *first = text + strspn(text, BLANKS), *last;

        if (join && join > text && strchr(QUOTES, join[-1]))
                first = join - 1;
        if (*first && strchr(QUOTES, *first)) {
                last = strrchr(first + 1, *first);
                if (last)
                        memset(last, ' ', strlen(last));
                *first = ' ';
        }
        if (join)
                memset(text, ' ', (size_t)(join - text));
}

/* Options, or an endpoint and options. */
static bool is_accepted(char *const argv[], int argc) {
        struct nb_url url;

        if (argv[1][0] == '-' ||
            (!strcmp(argv[1], "kubeadm") && argc > 2 && !strcmp(argv[2], "join")))
                return true;
        return nb_endpoint_parse(argv[1], strlen(argv[1]), &url) >= 0 &&
               (argc == 2 || argv[2][0] == '-');
}

/* Splits the line as a shell would: at blanks and newlines, and a backslash before a newline
 * continues the line. */
static int split_pasted(struct nb_secret *pasted, char *argv[static WORDS_MAX], int *ret_argc,
                        struct nb_failure *f) {
        char *rest;

        if (memchr(pasted->data, '\0', pasted->len))
                return nb_failure_set(f, NB_USAGE, EINVAL, "the pasted line contains a zero byte");
        for (char *at = pasted->data; (at = strchr(at, '\\')); at++)
                if (at[1] == '\n' || strncmp(at + 1, "\r\n", 2) == 0)
                        *at = ' ';
        blank_out_rest(pasted->data);
        *ret_argc = 1;
        argv[0] = pasted->data;
        for (char *word = strtok_r(pasted->data, BLANKS, &rest); word;
             word = strtok_r(NULL, BLANKS, &rest)) {
                if (*ret_argc == WORDS_MAX)
                        return nb_failure_set(f, NB_USAGE, E2BIG,
                                              "the pasted line has more than %d words",
                                              WORDS_MAX - 1);
                argv[(*ret_argc)++] = word;
        }
        return 0;
}

/* Reads kubeadm's line in place of single words. */
static int take_pasted(struct line *line, bool is_pasted, struct nb_failure *f) {
        struct nb_options *outer = line->options,
                          inner = { .command = outer->command, .rows = outer->rows };
        char *argv[WORDS_MAX];
        int r;

        r = split_pasted(&line->setup->pasted, argv, &inner.argc, f);
        if (r < 0)
                return r;
        if (inner.argc == 1)
                return nb_failure_set(f, NB_USAGE, ENODATA,
                                      "the pasted line is empty; expected `kubeadm join ...`");
        if (!is_accepted(argv, inner.argc))
                return nb_failure_set(f, NB_USAGE, EINVAL,
                                      "expected the line \"kubeadm join HOST:PORT --token ...\", "
                                      "as `kubeadm token create --print-join-command` prints it");
        inner.argv = argv;
        line->options = &inner;
        line->is_pasted = is_pasted;
        r = read_words(line, f);
        line->options = outer;
        line->is_pasted = false;
        outer->status = inner.status;
        if (r >= 0 && inner.has_config_directory)
                return nb_failure_set(f, NB_USAGE, 0,
                                      "'--config-directory' cannot be part of a pasted line");
        return r;
}

static int read_stdin(struct line *line, struct nb_failure *f) {
        int r;

        line->inputs.is_stdin_read = true;
        if (isatty(STDIN_FILENO))
                fprintf(stderr, "Paste the `kubeadm join` line, then press Enter and Ctrl-D:\n");
        r = nb_setup_read_secret("-", PASTED_MAX, &line->setup->pasted, f);
        return r < 0 ? r : take_pasted(line, true, f);
}

/* The whole line as one argument; overwritten, since it may contain a token. */
static int take_quoted(struct line *line, struct nb_failure *f) {
        char *word = line->options->argv[line->options->at];
        size_t len = strlen(word);
        int r = nb_secret_init(&line->setup->pasted, len) < 0
                        ? nb_failure_set_memory(f)
                        : nb_secret_append(&line->setup->pasted, word, len);

        explicit_bzero(word, len);
        return r < 0 ? r : take_pasted(line, false, f);
}

/* [[sudo] kubeadm join] HOST:PORT */
static int take_word(struct line *line, struct nb_failure *f) {
        const char *word = line->options->value;
        char quoted[NB_WORD_QUOTED_SIZE];

        if (!line->setup->pasted.data && strpbrk(word, BLANKS))
                return take_quoted(line, f);
        if (!line->setup->pasted.data && !strcmp(word, "-"))
                return read_stdin(line, f);
        if (line->n_words == 0 && !line->is_kubeadm &&
            (!strcmp(word, "kubeadm") || !strcmp(word, "sudo"))) {
                line->is_kubeadm = !strcmp(word, "kubeadm");
                return 0;
        }
        if (line->n_words == 0 && line->is_kubeadm && !strcmp(word, "join"))
                return 0;
        if (line->n_words++ > 0)
                return nb_failure_set(
                        f, NB_USAGE, 0,
                        "unexpected argument %s: expected one HOST:PORT; use --endpoint for more",
                        nb_word_quote(word, quoted));
        return take_setting(line, NB_SETTING_ENDPOINTS, "the API server", f);
}

static int read_words(struct line *line, struct nb_failure *f) {
        for (;;) {
                int option = nb_options_next(line->options), r;

                if (option == NB_OPTIONS_END)
                        return 0;
                if (option == NB_OPTIONS_STOP)
                        return -ECANCELED;
                r = option == NB_OPTIONS_WORD ? take_word(line, f)
                                              : take_option(line, &line->options->rows[option], f);
                if (r < 0)
                        return r;
        }
}

int nb_setup_read(struct nb_options *options, struct nb_setup *ret_setup, struct nb_failure *f) {
        struct line line = { .options = options, .setup = ret_setup };
        bool is_start_unwanted = false;
        const struct nb_option switches[SWITCHES] = {
                { "no-start", NULL, "enable node-bootstrap.service, but do not start it",
                  .ret_switch = &is_start_unwanted },
                { "force", NULL, "replace settings and credentials that differ",
                  .ret_switch = &ret_setup->is_forced },
                { "dry-run", NULL, "check and show everything, but change nothing",
                  .ret_switch = &ret_setup->is_rehearsal },
        };
        struct nb_option rows[SWITCHES + N_ELEMENTS(common_rows) + 1] = { 0 };
        int r;

        *ret_setup = (struct nb_setup){ .watch_sec = NB_SETUP_WATCH_SEC };
        nb_settings_init(&ret_setup->settings);
        memcpy(rows, switches, sizeof(switches));
        memcpy(rows + SWITCHES, common_rows, sizeof(common_rows));
        options->rows = rows;
        r = read_words(&line, f);
        options->rows = NULL;
        /* A warning even if the line is refused: the token has been visible. */
        if (line.is_token_seen)
                nb_log(LOG_WARNING, NB_TOKEN_ON_COMMAND_LINE,
                       "a token on the command line is visible to every user of this machine, and "
                       "stays in the shell's history: use `node-bootstrap setup -`, which reads "
                       "the line from standard input, or --token-file");
        if (line.ignored[0])
                nb_log(LOG_NOTICE, NB_NONE, "ignored, since node-bootstrap has no such phases: %s",
                       line.ignored);
        ret_setup->is_start_wanted = !is_start_unwanted;
        ret_setup->config_directory = options->config_directory;
        ret_setup->root = line.inputs.inputs[NB_SETUP_INPUT_ROOT].text;
        if (r >= 0)
                r = nb_setup_take_inputs(&line.inputs, ret_setup, f);
        for (int i = 0; i < _NB_SETUP_INPUT_N; i++)
                nb_secret_done(&line.inputs.inputs[i].token);
        return r;
}

void nb_setup_done(struct nb_setup *setup) {
        for (int i = 0; i < _NB_SETUP_SECRET_N; i++)
                nb_secret_done(&setup->secrets[i]);
        nb_secret_done(&setup->pasted);
}
