/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/macro.h"
#include "base/text.h"
#include "format/k3s_token.h"
#include "format/token.h"
#include "verb/setup_internal.h"

#define IGNORED_SIZE 256

static const char *const value_names[_NB_SETUP_VALUE_N] = {
        [NB_SETUP_VALUE_TOKEN] = "the token",
        [NB_SETUP_VALUE_DISCOVERY_TOKEN] = "the discovery token",
        [NB_SETUP_VALUE_TLS_BOOTSTRAP_TOKEN] = "the TLS bootstrap token",
        [NB_SETUP_VALUE_DISCOVERY_FILE] = "the discovery file",
        [NB_SETUP_VALUE_KUBECONFIG] = "the bootstrap kubeconfig",
        [NB_SETUP_VALUE_CONFIG] = "the settings",
        [NB_SETUP_VALUE_NODE_NAME] = "the node name",
        [NB_SETUP_VALUE_CRI_SOCKET] = "the socket of the container runtime",
        [NB_SETUP_VALUE_TIMEOUT] = "the timeout",
        [NB_SETUP_VALUE_ROOT] = "the folder of the image",
};

enum action {
        ACTION_TEXT,
        ACTION_SECRET, /* a token itself: read and overwritten */
        ACTION_ENDPOINT,
        ACTION_PIN,
        ACTION_SWITCH,
        ACTION_REFUSE,
        ACTION_IGNORE,
};

enum {
        OPTION_TOKEN_FILE,
        OPTION_ENDPOINT,
        OPTION_CA_CERT_HASH,
        OPTION_DISCOVERY_FILE,
        OPTION_BOOTSTRAP_KUBECONFIG,
        OPTION_CONFIG,
        OPTION_NODE_NAME,
        OPTION_CRI_SOCKET,
        OPTION_TIMEOUT,
        OPTION_NO_START,
        OPTION_FORCE,
        OPTION_DRY_RUN,
        OPTION_ROOT,
        OPTION_TOKEN,
        OPTION_DISCOVERY_TOKEN,
        OPTION_TLS_BOOTSTRAP_TOKEN,
        OPTION_DISCOVERY_CA_CERT_HASH,
        OPTION_UNSAFE_SKIP,
        OPTION_CONTROL_PLANE,
        OPTION_CERTIFICATE_KEY,
        OPTION_ADVERTISE_ADDRESS,
        OPTION_BIND_PORT,
        OPTION_IGNORE_PREFLIGHT_ERRORS,
        OPTION_SKIP_PHASES,
        OPTION_PATCHES,
        OPTION_EXPERIMENTAL_PATCHES,
        OPTION_VERBOSITY,
        _OPTION_N,
};

/* Those of kubeadm join without a word in the help: taken as they are pasted. */
static const struct nb_option rows[_OPTION_N + 1] = {
        [OPTION_TOKEN_FILE] = { "token-file", "FILE", "the bootstrap token; - for standard input", '\0' },
        [OPTION_ENDPOINT] = { "endpoint", "HOST:PORT", "an API server; may be given several times", '\0' },
        [OPTION_CA_CERT_HASH] = { "ca-cert-hash", "sha256:HASH", "of the cluster's CA; may be given several times", '\0' },
        [OPTION_DISCOVERY_FILE] = { "discovery-file", "FILE", "a kubeconfig that describes the cluster; - or an https URL", '\0' },
        [OPTION_BOOTSTRAP_KUBECONFIG] = { "bootstrap-kubeconfig", "FILE", "a kubeconfig to join with, instead of a token", '\0' },
        [OPTION_CONFIG] = { "config", "FILE", "settings, or a JoinConfiguration of kubeadm", '\0' },
        [OPTION_NODE_NAME] = { "node-name", "NAME", "instead of the host name", '\0' },
        [OPTION_CRI_SOCKET] = { "cri-socket", "PATH", "of the container runtime, for kubelet", '\0' },
        [OPTION_TIMEOUT] = { "timeout", "DURATION", "how long to go on trying; default: for ever", '\0' },
        [OPTION_NO_START] = { "no-start", NULL, "enable node-bootstrap.service for the next boot, do not start it", '\0' },
        [OPTION_FORCE] = { "force", NULL, "change values that are there already", '\0' },
        [OPTION_DRY_RUN] = { "dry-run", NULL, "check and show, change nothing", '\0' },
        [OPTION_ROOT] = { "root", "DIR", "write into an image, touch no unit", '\0' },
        [OPTION_TOKEN] = { "token", "TOKEN", "as kubeadm join; see --token-file", '\0' },
        [OPTION_DISCOVERY_TOKEN] = { "discovery-token", "TOKEN", NULL, '\0' },
        [OPTION_TLS_BOOTSTRAP_TOKEN] = { "tls-bootstrap-token", "TOKEN", NULL, '\0' },
        [OPTION_DISCOVERY_CA_CERT_HASH] = { "discovery-token-ca-cert-hash", "sha256:HASH", NULL, '\0' },
        [OPTION_UNSAFE_SKIP] = { "discovery-token-unsafe-skip-ca-verification", NULL, NULL, '\0' },
        [OPTION_CONTROL_PLANE] = { "control-plane", NULL, NULL, '\0' },
        [OPTION_CERTIFICATE_KEY] = { "certificate-key", "KEY", NULL, '\0' },
        [OPTION_ADVERTISE_ADDRESS] = { "apiserver-advertise-address", "ADDRESS", NULL, '\0' },
        [OPTION_BIND_PORT] = { "apiserver-bind-port", "PORT", NULL, '\0' },
        [OPTION_IGNORE_PREFLIGHT_ERRORS] = { "ignore-preflight-errors", "CHECKS", NULL, '\0' },
        [OPTION_SKIP_PHASES] = { "skip-phases", "PHASES", NULL, '\0' },
        [OPTION_PATCHES] = { "patches", "DIR", NULL, '\0' },
        [OPTION_EXPERIMENTAL_PATCHES] = { "experimental-patches", "DIR", NULL, '\0' },
        [OPTION_VERBOSITY] = { "v", "LEVEL", NULL, 'v' },
};

static const struct {
        enum action action;
        enum nb_setup_value value;
} handling[_OPTION_N] = {
        [OPTION_TOKEN_FILE] = { ACTION_TEXT, NB_SETUP_VALUE_TOKEN },
        [OPTION_ENDPOINT] = { ACTION_ENDPOINT },
        [OPTION_CA_CERT_HASH] = { ACTION_PIN },
        [OPTION_DISCOVERY_FILE] = { ACTION_TEXT, NB_SETUP_VALUE_DISCOVERY_FILE },
        [OPTION_BOOTSTRAP_KUBECONFIG] = { ACTION_TEXT, NB_SETUP_VALUE_KUBECONFIG },
        [OPTION_CONFIG] = { ACTION_TEXT, NB_SETUP_VALUE_CONFIG },
        [OPTION_NODE_NAME] = { ACTION_TEXT, NB_SETUP_VALUE_NODE_NAME },
        [OPTION_CRI_SOCKET] = { ACTION_TEXT, NB_SETUP_VALUE_CRI_SOCKET },
        [OPTION_TIMEOUT] = { ACTION_TEXT, NB_SETUP_VALUE_TIMEOUT },
        [OPTION_NO_START] = { ACTION_SWITCH },
        [OPTION_FORCE] = { ACTION_SWITCH },
        [OPTION_DRY_RUN] = { ACTION_SWITCH },
        [OPTION_ROOT] = { ACTION_TEXT, NB_SETUP_VALUE_ROOT },
        [OPTION_TOKEN] = { ACTION_SECRET, NB_SETUP_VALUE_TOKEN },
        [OPTION_DISCOVERY_TOKEN] = { ACTION_SECRET, NB_SETUP_VALUE_DISCOVERY_TOKEN },
        [OPTION_TLS_BOOTSTRAP_TOKEN] = { ACTION_SECRET, NB_SETUP_VALUE_TLS_BOOTSTRAP_TOKEN },
        [OPTION_DISCOVERY_CA_CERT_HASH] = { ACTION_PIN },
        [OPTION_UNSAFE_SKIP] = { ACTION_SWITCH },
        [OPTION_CONTROL_PLANE] = { ACTION_REFUSE },
        [OPTION_CERTIFICATE_KEY] = { ACTION_REFUSE },
        [OPTION_ADVERTISE_ADDRESS] = { ACTION_REFUSE },
        [OPTION_BIND_PORT] = { ACTION_REFUSE },
        [OPTION_IGNORE_PREFLIGHT_ERRORS] = { ACTION_IGNORE },
        [OPTION_SKIP_PHASES] = { ACTION_IGNORE },
        [OPTION_PATCHES] = { ACTION_IGNORE },
        [OPTION_EXPERIMENTAL_PATCHES] = { ACTION_IGNORE },
        [OPTION_VERBOSITY] = { ACTION_IGNORE },
};

/* The command line as it was typed. */
struct line {
        struct nb_options *options;
        struct nb_setup *setup;
        struct nb_setup_line given;
        char ignored[IGNORED_SIZE];
        int n_words;        /* after `kubeadm join` */
        bool is_kubeadm;    /* the words so far are `kubeadm` or `kubeadm join` */
        bool is_token_seen; /* a token stood on it */
};

static int claim(struct line *line, int option, struct nb_failure *f) {
        enum nb_setup_value value = handling[option].value;
        const char **given_by = &line->given.given_by[value];

        if (*given_by == rows[option].name)
                return nb_failure_set(f, NB_USAGE, 0, "'--%s' is given twice", rows[option].name);
        if (*given_by)
                return nb_failure_set(f, NB_USAGE, 0, "'--%s' and '--%s' both give %s; expected one of them", *given_by, rows[option].name, value_names[value]);
        *given_by = rows[option].name;
        return 0;
}

/* From here on nobody sees the token in the list of processes. */
static int take_secret(struct line *line, int option, struct nb_failure *f) {
        char *word = line->options->argv[line->options->next - 1], *text = word + (line->options->value - word);
        struct nb_secret *token = &line->given.tokens[handling[option].value];
        size_t len = strlen(text);
        int r;

        line->is_token_seen = true;
        r = claim(line, option, f);
        if (r >= 0)
                r = nb_secret_init(token, len) < 0 ? nb_failure_set_memory(f) : nb_secret_append(token, text, len);
        explicit_bzero(text, len);
        return r;
}

/* A token has the form of a host name, and would end up in a file that everybody can read. */
static bool is_token(const char *text, size_t len) {
        _cleanup_(nb_token_done) struct nb_token token = { .value = NB_SECRET_INIT };

        return nb_token_parse(text, len, &token) >= 0;
}

static int add_endpoint(struct nb_settings *settings, const char *text, size_t len, struct nb_failure *f) {
        char quoted[NB_TEXT_QUOTED_SIZE];
        struct nb_url url;

        /* A whole pasted line in quotes has one in it. */
        if (is_token(text, len) || nb_any_token_may_stand_in(text))
                return nb_failure_set(f, NB_USAGE, EINVAL, "expected HOST:PORT of an API server, found a token; --token-file takes one");
        if (nb_endpoint_parse(text, len, &url) < 0)
                return nb_failure_set(f, NB_USAGE, EINVAL, "expected HOST:PORT of an API server, without https://, found %s",
                                      memchr(text, '@', len) ? "one with a user" : nb_text_quote(text, len, quoted));
        for (unsigned i = 0; i < settings->n_endpoints; i++)
                if (nb_url_is_equal(&settings->endpoints[i], &url))
                        return 0;
        if (settings->n_endpoints == NB_SETTINGS_ENDPOINTS_MAX)
                return nb_failure_set(f, NB_USAGE, E2BIG, "there are more than %d endpoints", NB_SETTINGS_ENDPOINTS_MAX);
        settings->endpoints[settings->n_endpoints++] = url;
        (void)strcpy(settings->origin[NB_SETTING_ENDPOINTS], NB_SETUP_ORIGIN);
        return 0;
}

static int add_pin(struct nb_settings *settings, const char *text, size_t len, struct nb_failure *f) {
        char flaw[NB_PIN_FLAW_SIZE];
        uint8_t pin[NB_PIN_SIZE];

        nb_pin_find_flaw(text, len, flaw);
        if (nb_pin_parse(text, len, pin) < 0)
                return nb_failure_set(f, NB_USAGE, EINVAL, "the hash of a CA: expected sha256: and 64 hex digits, found %zu bytes of another form: %s", len, flaw);
        for (unsigned i = 0; i < settings->n_pins; i++)
                if (!memcmp(settings->pins[i], pin, NB_PIN_SIZE))
                        return 0;
        if (settings->n_pins == NB_SETTINGS_PINS_MAX)
                return nb_failure_set(f, NB_USAGE, E2BIG, "there are more than %d hashes of CAs", NB_SETTINGS_PINS_MAX);
        memcpy(settings->pins[settings->n_pins++], pin, NB_PIN_SIZE);
        (void)strcpy(settings->origin[NB_SETTING_CA_CERT_HASHES], NB_SETUP_ORIGIN);
        return 0;
}

static int add_list(struct nb_settings *settings, const char *text, int (*add)(struct nb_settings *, const char *, size_t, struct nb_failure *),
                    struct nb_failure *f) {
        for (;;) {
                size_t len = strcspn(text, ",");
                int r = add(settings, text, len, f);

                if (r < 0 || !text[len])
                        return r;
                text += len + 1;
        }
}

static void set_switch(struct nb_setup *setup, int option, bool is_on) {
        switch (option) {
        case OPTION_NO_START:
                setup->is_start_wanted = !is_on;
                break;
        case OPTION_FORCE:
                setup->is_forced = is_on;
                break;
        case OPTION_DRY_RUN:
                setup->is_rehearsal = is_on;
                break;
        case OPTION_UNSAFE_SKIP:
                setup->settings.unsafe_skip_ca_verification = is_on;
                (void)strcpy(setup->settings.origin[NB_SETTING_UNSAFE_SKIP_CA_VERIFICATION], NB_SETUP_ORIGIN);
                break;
        default:
                break;
        }
}

static void note_ignored(struct line *line, int option) {
        char name[64];

        (void)snprintf(name, sizeof(name), "--%s", rows[option].name);
        if (!strstr(line->ignored, name) && strlen(line->ignored) + strlen(name) + 3 < IGNORED_SIZE)
                (void)sprintf(line->ignored + strlen(line->ignored), "%s%s", line->ignored[0] ? ", " : "", name);
}

static int take_option(struct line *line, int option, struct nb_failure *f) {
        const char *value = line->options->value;
        int r;

        switch (handling[option].action) {
        case ACTION_SECRET:
                return take_secret(line, option, f);
        case ACTION_TEXT:
                r = claim(line, option, f);
                line->given.texts[handling[option].value] = value;
                return r < 0 || value[0] ? r : nb_failure_set(f, NB_USAGE, 0, "'--%s' is empty", rows[option].name);
        case ACTION_ENDPOINT:
                return add_list(&line->setup->settings, value, add_endpoint, f);
        case ACTION_PIN:
                return add_list(&line->setup->settings, value, add_pin, f);
        case ACTION_SWITCH:
                set_switch(line->setup, option, !strcmp(value, "true"));
                return 0;
        case ACTION_REFUSE:
                if (!rows[option].value && strcmp(value, "true") != 0)
                        return 0;
                return nb_failure_set(f, NB_USAGE, 0, "'--%s' is for a control plane node, and this program joins workers; use `kubeadm join` for the others",
                                      rows[option].name);
        case ACTION_IGNORE:
                note_ignored(line, option);
                return 0;
        }
        return 0;
}

/* [[sudo] kubeadm join] HOST:PORT */
static int take_word(struct line *line, struct nb_failure *f) {
        const char *word = line->options->value;
        char quoted[NB_WORD_QUOTED_SIZE];

        if (line->n_words == 0 && !line->is_kubeadm && (!strcmp(word, "kubeadm") || !strcmp(word, "sudo"))) {
                line->is_kubeadm = !strcmp(word, "kubeadm");
                return 0;
        }
        if (line->n_words == 0 && line->is_kubeadm && !strcmp(word, "join"))
                return 0;
        if (line->n_words++ > 0)
                return nb_failure_set(f, NB_USAGE, 0, "%s is one too many: expected one HOST:PORT; more of them go to --endpoint", nb_word_quote(word, quoted));
        return add_endpoint(&line->setup->settings, word, strlen(word), f);
}

static int read_line(struct line *line, struct nb_failure *f) {
        for (;;) {
                int option = nb_options_next(line->options), r;

                if (option == NB_OPTIONS_END)
                        return 0;
                if (option == NB_OPTIONS_STOP)
                        return -ECANCELED;
                r = option == NB_OPTIONS_WORD ? take_word(line, f) : take_option(line, option, f);
                if (r < 0)
                        return r;
        }
}

static void warn(const struct line *line) {
        if (line->is_token_seen)
                nb_log(LOG_WARNING, NB_TOKEN_ON_COMMAND_LINE,
                       "a token on the command line can be seen by every user of this machine, and stays in the shell's history: use --token-file, or "
                       "--token-file=- for standard input");
        if (line->ignored[0])
                nb_log(LOG_NOTICE, NB_NONE, "ignored, since this program has no such phases: %s", line->ignored);
}

int nb_setup_read(struct nb_options *options, struct nb_setup *ret_setup, struct nb_failure *f) {
        struct line line = { .options = options, .setup = ret_setup };
        int r;

        *ret_setup = (struct nb_setup){ .is_start_wanted = true };
        nb_settings_init(&ret_setup->settings);
        options->rows = rows;
        r = read_line(&line, f);
        /* Whatever else is wrong with the line: the token has been seen. */
        warn(&line);
        ret_setup->config_directory = options->config_directory;
        ret_setup->root = line.given.texts[NB_SETUP_VALUE_ROOT];
        if (r >= 0)
                r = nb_setup_take(&line.given, ret_setup, f);
        for (int i = 0; i < _NB_SETUP_VALUE_N; i++)
                nb_secret_done(&line.given.tokens[i]);
        return r;
}

void nb_setup_done(struct nb_setup *setup) {
        for (int i = 0; i < _NB_SETUP_SECRET_N; i++)
                nb_secret_done(&setup->secrets[i]);
}
