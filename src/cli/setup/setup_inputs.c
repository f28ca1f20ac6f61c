/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "cli/setup/setup_internal.h"
#include "kube_objects/kubeconfig.h"
#include "kube_objects/token.h"
#include "os/clock.h"
#include "os/stop.h"
#include "settings/store.h"
#include "systemd/log.h"

#define TOKEN_MAX ((size_t)4096)
#define ENTRY_MAX 1023 /* bytes of an entry in a list */

int nb_setup_store(struct nb_settings *settings, enum nb_setting setting, const char *option,
                   const char *text, struct nb_failure *f) {
        static const struct nb_settings_source source = { .origin = NB_SETUP_ORIGIN };
        const struct nb_settings_merge merge = { settings, &source, f };
        const struct nb_setting_row *row = &nb_setting_rows[setting];
        char entry[ENTRY_MAX + 1];

        for (;; text++) {
                size_t len = row->max > 0 ? strcspn(text, ",") : strlen(text);

                snprintf(entry, sizeof(entry), "%.*s", (int)len, text);
                if ((!strcmp(option, NB_SETUP_API_SERVER) &&
                     nb_settings_refuse_bare_ipv6(&merge, 0, option, entry) < 0) ||
                    nb_settings_store_text(&merge, setting, 0, option, entry) < 0) {
                        f->code = NB_USAGE;
                        return -EINVAL;
                }
                text += len;
                if (!*text)
                        return 0;
        }
}

/* --- Files --- */

int nb_setup_read_input(struct nb_setup_line *line, const char *reader, const char *path,
                        size_t max, bool *ret_is_exposed, struct nb_secret *ret,
                        struct nb_failure *f) {
        bool is_stdin = !strcmp(path, "-"), is_exposed;
        const char *name = is_stdin ? "standard input" : nb_text_shown(path);
        char file[NB_SETTINGS_PATH_MAX] = "";
        _cleanup_(nb_closep) int fd = -1;
        struct stat st;

        if (is_stdin && line->stdin_reader)
                return nb_failure_set(f, NB_USAGE, 0,
                                      "'%s' and '%s' cannot both read standard input",
                                      line->stdin_reader, reader);
        if (is_stdin)
                line->stdin_reader = reader;
        fd = is_stdin ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                      : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0 || fstat(fd, &st) < 0)
                return nb_failure_set(f, NB_SETTINGS_UNREADABLE, errno, "cannot read '%s': %m",
                                      name);
        is_exposed = nb_file_is_exposed(fd, &st);
        if (is_exposed && !ret_is_exposed) {
                if (is_stdin)
                        (void)!readlink("/proc/self/fd/0", file, sizeof(file) - 1);
                return nb_failure_set(f, NB_TOKEN_EXPOSED, EPERM,
                                      "%s'%s' has mode %04o; expected no access for others",
                                      is_stdin ? "standard input is a file: " : "",
                                      file[0] ? nb_text_shown(file) : name, st.st_mode & 07777);
        }
        if (ret_is_exposed)
                *ret_is_exposed = is_exposed;
        return nb_sources_read_stream(fd, name, max, ret, f);
}

int nb_setup_read_terminal(struct nb_secret *text, struct nb_failure *f) {
        struct pollfd polls[] = { { 0 }, { .fd = STDIN_FILENO, .events = POLLIN } };
        ssize_t n = 0;
        int r = 0;

        while (r >= 0 && !polls[1].revents)
                r = nb_stop_poll(polls, N_ELEMENTS(polls), NB_TIME_INFINITE);
        if (r == -ECANCELED)
                return r;
        if (r >= 0)
                n = read(STDIN_FILENO, text->data + text->len, text->size - text->len);
        if (r < 0 || n < 0)
                return nb_failure_set(f, NB_SETTINGS_UNREADABLE, r < 0 ? r : errno,
                                      "cannot read the terminal: %m");
        text->len += (size_t)n;
        text->data[text->len] = '\0';
        return 0;
}

/* --- Kubeconfigs: copied into credentials, since the unit cannot read every folder --- */

/* Reads a file that a kubeconfig names. `userdata` gets the first path that the unit hides from the
 * service: ProtectHome=, PrivateTmp=. */
static int read_named(void *userdata, const char *path, struct nb_secret *ret) {
        static const char *const folders[] = { "/home/", "/root/", "/run/user/", "/tmp/",
                                               "/var/tmp/" };
        char *hidden = userdata;
        struct nb_sources here = { 0 };

        for (size_t i = 0; i < N_ELEMENTS(folders); i++)
                if (!hidden[0] && !strncmp(path, folders[i], strlen(folders[i])))
                        snprintf(hidden, NB_SETTINGS_PATH_MAX, "%s", path);
        return nb_sources_read(&here, path, NB_SETUP_SECRET_MAX, ret, NULL);
}

static const struct document {
        enum nb_setup_input input;
        const char *reader;
        enum nb_credential secret;
        const struct nb_kubeconfig_policy *policy;
} documents[] = {
        { NB_SETUP_INPUT_DISCOVERY_FILE, "--discovery-file=-", NB_CREDENTIAL_CLUSTER_INFO,
          &nb_kubeconfig_discovery_file },
        { NB_SETUP_INPUT_KUBECONFIG, "--bootstrap-kubeconfig=-", NB_CREDENTIAL_KUBECONFIG,
          &nb_kubeconfig_bootstrap },
};

/* Parses the document as `join` will: as a credential, which is not in a folder. */
static int read_document(struct nb_setup_line *line, const struct document *document,
                         struct nb_failure *f) {
        _cleanup_(nb_identity_done) struct nb_identity identity = NB_IDENTITY_INIT;
        _cleanup_(nb_cluster_done) struct nb_cluster cluster = { 0 };
        struct nb_secret *text = &line->wanted->secrets[document->secret];
        char hidden[NB_SETTINGS_PATH_MAX] = "";
        const char *path = line->values[document->input];
        struct nb_kubeconfig_input input = { .read = read_named, .userdata = hidden };
        bool is_public = document->secret == NB_CREDENTIAL_CLUSTER_INFO, is_exposed;
        int r;

        if (!path)
                return 0;
        if (is_public && strstr(path, "://"))
                return nb_setup_store(&line->wanted->settings, NB_SETTING_DISCOVERY_FILE,
                                      "'--discovery-file'", path, f);
        r = nb_setup_read_input(line, document->reader, path, NB_SETUP_SECRET_MAX,
                                is_public ? &is_exposed : NULL, text, f);
        if (r < 0)
                return r;
        input.origin = nb_text_shown(path);
        input.text = text->data;
        input.len = text->len;
        r = nb_kubeconfig_parse(document->policy, &input, &cluster, &identity, f);
        if (r >= 0 && hidden[0])
                return nb_failure_set(
                        f, document->policy->unreadable, EACCES,
                        "%s names '%s', which is hidden from " NB_SERVICE_UNIT
                        "; expected a path outside of /home, /root, /run/user, /tmp and /var/tmp",
                        input.origin, nb_text_shown(hidden));
        return r;
}

/* --- Settings --- */

/* A token in the file becomes a credential: everybody can read the document that setup writes. */
static int take_file_token(struct nb_setup_line *line, enum nb_setup_token_kind kind,
                           struct nb_secret *value, struct nb_failure *f) {
        struct nb_setup_token *token = &line->tokens[kind];
        const char *option = token->option ? token->option
                                           : line->tokens[NB_SETUP_TOKEN_COMMON].option;

        if (!value->data)
                return 0;
        if (option)
                return nb_failure_set(f, NB_USAGE, 0,
                                      "'--%s' cannot be combined with the token in '%s'", option,
                                      nb_text_shown(line->values[NB_SETUP_INPUT_CONFIG]));
        token->option = "config";
        token->value = TAKE(*value);
        return 0;
}

/* Adds the settings of the file to those of the command line; no key may be in both. */
static int read_config(struct nb_setup_line *line, struct nb_failure *f) {
        _cleanup_(
                nb_settings_tokens_done) struct nb_settings_tokens tokens = NB_SETTINGS_TOKENS_INIT;
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        const char *path = line->values[NB_SETUP_INPUT_CONFIG];
        struct nb_settings_source source = { 0 };
        struct nb_settings *settings = &line->wanted->settings, typed = *settings;
        int r;

        if (!path)
                return 0;
        source.origin = nb_text_shown(path);
        r = nb_setup_read_input(line, "--config=-", path, NB_CONFIG_MAX, &source.is_exposed, &text,
                                f);
        if (r < 0)
                return r;
        line->wanted->is_document = true;
        settings->tokens = &tokens;
        r = nb_settings_merge(settings, &source, text.data, text.len, f);
        if (r < 0)
                return r;
        for (unsigned i = 0; i < _NB_SETTING_N; i++)
                if (nb_setting_is_set(&typed, i) &&
                    strcmp(settings->origin[i], NB_SETUP_ORIGIN) != 0)
                        return nb_failure_set(f, NB_USAGE, 0,
                                              "%s is set on the command line and in '%s'",
                                              nb_setting_key(i), source.origin);
        r = take_file_token(line, NB_SETUP_TOKEN_DISCOVERY, &tokens.discovery, f);
        if (r < 0)
                return r;
        r = take_file_token(line, NB_SETUP_TOKEN_TLS, &tokens.tls_bootstrap, f);
        if (r < 0)
                return r;
        if (settings->ignored[0])
                nb_log(LOG_NOTICE, NB_KEYS_IGNORED,
                       "ignored in '%s', since node-bootstrap has no such phases: %s",
                       source.origin, settings->ignored);
        nb_settings_forget_tokens(settings);
        return 0;
}

/* --- Tokens --- */

static int read_typed_token(struct nb_secret *ret, struct nb_failure *f) {
        int r;

        if (nb_secret_init(ret, TOKEN_MAX) < 0)
                return nb_failure_set_memory(f);
        fprintf(stderr, "Paste the token, then press Enter:\n");
        r = nb_setup_read_terminal(ret, f);
        /* A shell must not run what was pasted after the token. */
        (void)tcflush(STDIN_FILENO, TCIFLUSH);
        return r;
}

static int read_token_file(struct nb_setup_line *line, struct nb_failure *f) {
        const char *path = line->values[NB_SETUP_INPUT_TOKEN_FILE];
        struct nb_setup_token *token = &line->tokens[NB_SETUP_TOKEN_COMMON];
        struct nb_secret *value = &token->value;
        int r;

        if (!path)
                return 0;
        if (token->option)
                return nb_failure_set(f, NB_USAGE, 0,
                                      "'--token' and '--token-file' cannot be combined");
        token->option = "token-file";
        if (!strcmp(path, "-") && isatty(STDIN_FILENO) && !line->stdin_reader) {
                line->stdin_reader = "--token-file=-";
                r = read_typed_token(value, f);
        } else {
                r = nb_setup_read_input(line, "--token-file=-", path, TOKEN_MAX, NULL, value, f);
        }
        if (r < 0)
                return r;
        value->len = nb_token_trim(value->data, value->len);
        value->data[value->len] = '\0';
        return 0;
}

/* As with kubeadm, --token is used for discovery and TLS bootstrap, except where one of them has
 * its own token. The same holds for the credential node-bootstrap.token. */
static int assign_tokens(struct nb_setup_line *line, struct nb_failure *f) {
        unsigned n = 0;

        for (unsigned i = 0; i < _NB_SETUP_TOKEN_N; i++) {
                struct nb_setup_token *token = &line->tokens[i];

                if (!token->option)
                        continue;
                if (n > NB_CREDENTIAL_TLS_BOOTSTRAP_TOKEN)
                        return nb_failure_set(f, NB_USAGE, 0,
                                              "'--%s' cannot be combined with both "
                                              "'--discovery-token' and '--tls-bootstrap-token'",
                                              line->tokens[NB_SETUP_TOKEN_COMMON].option);
                line->wanted->secrets[n++] = TAKE(token->value);
        }
        return 0;
}

static int read_timeout(const char *text, uint64_t *ret_ms, struct nb_failure *f) {
        if (!strcmp(text, "0") || !strcmp(text, "infinity"))
                *ret_ms = NB_TIME_INFINITE;
        else if (nb_setting_duration_parse(text, false, ret_ms) < 0)
                return nb_failure_set(f, NB_USAGE, EINVAL,
                                      "'--wait-timeout': expected infinity, or a duration such as "
                                      "90s, 5m or 1h30m");
        return 0;
}

int nb_setup_take_inputs(struct nb_setup_line *line, struct nb_failure *f) {
        static const char *const waits[_NB_SETUP_WAIT_N] = { "kubelet", "none", "certificate",
                                                             "node" };
        const char *timeout = line->values[NB_SETUP_INPUT_TIMEOUT],
                   *wait = line->values[NB_SETUP_INPUT_WAIT];
        unsigned i = 0;
        int r;

        while (wait && i < N_ELEMENTS(waits) && strcmp(wait, waits[i]) != 0)
                i++;
        if (i == N_ELEMENTS(waits))
                return nb_failure_set(f, NB_USAGE, EINVAL,
                                      "'--wait': expected none, certificate, kubelet or node");
        line->wanted->wait = i;
        r = read_timeout(timeout ? timeout : "5m", &line->wanted->watch_ms, f);
        if (r < 0)
                return r;
        r = read_token_file(line, f);
        if (r < 0)
                return r;
        for (i = 0; i < N_ELEMENTS(documents); i++) {
                r = read_document(line, &documents[i], f);
                if (r < 0)
                        return r;
        }
        r = read_config(line, f);
        if (r < 0)
                return r;
        for (i = 0; i < _NB_SETTING_N; i++)
                line->wanted->has_settings |= nb_setting_is_set(&line->wanted->settings, i);
        return assign_tokens(line, f);
}
