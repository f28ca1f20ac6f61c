/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macro.h"
#include "format/json.h"
#include "format/k3s_token.h"
#include "format/kubeconfig.h"
#include "format/settings_text.h"
#include "format/token.h"
#include "verb/input.h"
#include "verb/setup_internal.h"

#define TOKEN_MAX ((size_t)4096)

/* --- Files --- */

static bool is_stdin(const char *path) {
        return !strcmp(path, "-");
}

/* A file, a pipe that a shell has made of a command, or standard input. `ret_is_exposed`: others can read the file. */
static int read_input(const char *path, size_t max, bool *ret_is_exposed, struct nb_secret *ret, struct nb_failure *f) {
        _cleanup_(nb_closep) int opened = -1;
        const char *name = is_stdin(path) ? "standard input" : path;
        int fd = STDIN_FILENO;
        struct stat st;

        if (!is_stdin(path)) {
                opened = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
                if (opened < 0)
                        return nb_failure_set(f, NB_SETTINGS_UNREADABLE, errno, "'%s' cannot be read: %m", name);
                fd = opened;
        }
        if (fstat(fd, &st) < 0 || S_ISDIR(st.st_mode))
                return nb_failure_set(f, NB_SETTINGS_UNREADABLE, EISDIR, "'%s' is no file", name);
        *ret_is_exposed = S_ISREG(st.st_mode) && (st.st_mode & 0007);
        return nb_input_read(fd, name, max, ret, f);
}

static int read_secret(const char *path, size_t max, struct nb_secret *ret, struct nb_failure *f) {
        bool is_exposed = false;
        int r;

        if (!path)
                return 0;
        r = read_input(path, max, &is_exposed, ret, f);
        if (r >= 0 && is_exposed)
                return nb_failure_set(f, NB_TOKEN_EXPOSED, EPERM, "'%s' can be read by others; expected mode 0600", path);
        return r;
}

/* There is one standard input. */
static int check_stdin(const struct nb_setup_line *line, struct nb_failure *f) {
        static const enum nb_setup_value readers[] = { NB_SETUP_VALUE_TOKEN, NB_SETUP_VALUE_DISCOVERY_FILE, NB_SETUP_VALUE_KUBECONFIG, NB_SETUP_VALUE_CONFIG };
        const char *reader = NULL;

        for (size_t i = 0; i < N_ELEMENTS(readers); i++) {
                if (!line->texts[readers[i]] || !is_stdin(line->texts[readers[i]]))
                        continue;
                if (reader)
                        return nb_failure_set(f, NB_USAGE, 0, "'--%s=-' and '--%s=-' both read standard input; expected one of them", reader,
                                              line->given_by[readers[i]]);
                reader = line->given_by[readers[i]];
        }
        return 0;
}

/* What the unit hides from the service: ProtectHome=, PrivateTmp=. */
static bool is_hidden(const char *path) {
        static const char *const folders[] = { "/home/", "/root/", "/run/user/", "/tmp/", "/var/tmp/" };

        for (size_t i = 0; i < N_ELEMENTS(folders); i++)
                if (!strncmp(path, folders[i], strlen(folders[i])))
                        return true;
        return false;
}

/* What a kubeconfig names must be there now, under the same path as when the service starts. `userdata`: the first one that
 * will not be. */
static int read_named(void *userdata, const char *path, struct nb_secret *ret) {
        char *hidden = userdata;

        if (!hidden[0] && is_hidden(path))
                (void)snprintf(hidden, NB_SETTINGS_PATH_MAX, "%s", path);
        return nb_sources_read(path, NB_SETUP_SECRET_MAX, ret, NULL);
}

/* As `join` will read it: a credential, which is in no folder. */
static int check_kubeconfig(const char *path, const struct nb_secret *text, bool wants_user, struct nb_failure *f) {
        _cleanup_(nb_identity_done) struct nb_identity identity = NB_IDENTITY_INIT;
        _cleanup_(nb_cluster_done) struct nb_cluster cluster = { 0 };

        const char *name = is_stdin(path) ? "standard input" : path;
        char hidden[NB_SETTINGS_PATH_MAX] = "";
        int r;

        r = nb_kubeconfig_parse_given(name, NULL, text->data, text->len, wants_user, read_named, hidden,
                                      wants_user ? NB_BOOTSTRAP_KUBECONFIG_UNACCEPTABLE : NB_DISCOVERY_FILE_UNACCEPTABLE, &cluster,
                                      wants_user ? &identity : NULL, f);
        if (r >= 0 && hidden[0])
                return nb_failure_set(f, wants_user ? NB_BOOTSTRAP_KUBECONFIG_UNREADABLE : NB_DISCOVERY_FILE_UNREADABLE, EACCES,
                                      "%s names '%s', which is hidden from " NB_SETUP_UNIT "; expected a path outside of /home, /root, /run/user, /tmp and /var/tmp", name, hidden);
        return r;
}

static bool is_url(const char *text) {
        return strstr(text, "://") != NULL;
}

/* Copies, since the unit cannot read every folder (/root, /tmp), nor standard input. */
static int read_kubeconfigs(const struct nb_setup_line *line, struct nb_setup *setup, struct nb_failure *f) {
        const char *discovery = line->texts[NB_SETUP_VALUE_DISCOVERY_FILE], *kubeconfig = line->texts[NB_SETUP_VALUE_KUBECONFIG];
        bool is_exposed;
        int r = 0;

        if (discovery && !is_url(discovery)) {
                r = read_input(discovery, NB_SETUP_SECRET_MAX, &is_exposed, &setup->secrets[NB_SETUP_CLUSTER_INFO], f);
                if (r >= 0)
                        r = check_kubeconfig(discovery, &setup->secrets[NB_SETUP_CLUSTER_INFO], false, f);
        }
        if (r >= 0 && kubeconfig) {
                r = read_secret(kubeconfig, NB_SETUP_SECRET_MAX, &setup->secrets[NB_SETUP_KUBECONFIG], f);
                if (r >= 0)
                        r = check_kubeconfig(kubeconfig, &setup->secrets[NB_SETUP_KUBECONFIG], true, f);
        }
        return r;
}

/* --- Settings --- */

static int add_line(struct nb_buffer *document, const char *before, const char *value) {
        int r = 0;

        if (!value)
                return 0;
        r = nb_buffer_append_string(document, before);
        if (r >= 0)
                r = nb_json_quote(value, strlen(value), document);
        return r < 0 ? r : nb_buffer_append_string(document, "\n");
}

/* It holds no token, those have their own way. */
static const struct nb_settings_source given_source = { .origin = NB_SETUP_ORIGIN, .is_exposed = true };

/* By way of a document, so that each value is checked as in any other. */
static int merge_texts(const struct nb_setup_line *line, struct nb_settings *settings, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer document = NB_BUFFER_INIT(NB_SETTINGS_TEXT_MAX);
        const char *discovery = line->texts[NB_SETUP_VALUE_DISCOVERY_FILE];
        int r;

        r = nb_buffer_append_string(&document, "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n");
        if (r >= 0)
                r = add_line(&document, "discovery:\n  file: ", discovery && is_url(discovery) ? discovery : NULL);
        if (r >= 0)
                r = add_line(&document, "node:\n  name: ", line->texts[NB_SETUP_VALUE_NODE_NAME]);
        if (r >= 0)
                r = add_line(&document, "kubelet:\n  criSocket: ", line->texts[NB_SETUP_VALUE_CRI_SOCKET]);
        if (r >= 0)
                r = add_line(&document, "timeout: ", line->texts[NB_SETUP_VALUE_TIMEOUT]);
        if (r == -EINVAL || r == -E2BIG)
                return nb_failure_set(f, NB_USAGE, EINVAL, "a value on the command line is no text, or too long");
        if (r < 0)
                return nb_failure_set_memory(f);
        return nb_settings_merge(settings, &given_source, document.data, document.len, f);
}

/* The file's settings, and over them those of the command line, none of which may be in both. */
static int merge_over(struct nb_settings *settings, const char *path, struct nb_settings *given, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer document = NB_BUFFER_INIT(NB_SETTINGS_TEXT_MAX);

        for (unsigned i = 0; i < _NB_SETTING_N; i++)
                if (nb_setting_is_set(settings, (enum nb_setting)i) && nb_setting_is_set(given, (enum nb_setting)i))
                        return nb_failure_set(f, NB_USAGE, 0, "the command line and '%s' both give %s; expected one of them", path, nb_setting_key((enum nb_setting)i));
        if (nb_settings_format(given, &document) < 0)
                return nb_failure_set_memory(f);
        return nb_settings_merge(settings, &given_source, document.data, document.len, f);
}

/* A token in the file becomes a credential: the document that is written is for everybody to read. */
static int take_token(const struct nb_setup_line *line, enum nb_setup_value value, const char *path, struct nb_secret *token, struct nb_secret *ret,
                      struct nb_failure *f) {
        const char *given_by = line->given_by[value] ? line->given_by[value] : line->given_by[NB_SETUP_VALUE_TOKEN];

        if (!token->data)
                return 0;
        if (given_by)
                return nb_failure_set(f, NB_USAGE, 0, "'--%s' and '%s' both give the token; expected one of them", given_by, path);
        *ret = *token;
        *token = (struct nb_secret)NB_SECRET_INIT;
        return 0;
}

static int merge_config(const struct nb_setup_line *line, struct nb_setup *setup, struct nb_failure *f) {
        _cleanup_(nb_settings_tokens_done) struct nb_settings_tokens tokens = NB_SETTINGS_TOKENS_INIT;
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        const char *path = line->texts[NB_SETUP_VALUE_CONFIG];
        struct nb_settings settings;
        bool is_exposed = false;
        int r;

        if (!path)
                return 0;
        r = read_input(path, NB_CONFIG_MAX, &is_exposed, &text, f);
        if (r < 0)
                return r;
        nb_settings_init(&settings);
        settings.tokens = &tokens;
        r = nb_settings_merge(&settings, &(const struct nb_settings_source){ .origin = path, .is_exposed = is_exposed }, text.data, text.len, f);
        if (r >= 0)
                r = merge_over(&settings, path, &setup->settings, f);
        if (r >= 0)
                r = take_token(line, NB_SETUP_VALUE_DISCOVERY_TOKEN, path, &tokens.discovery, &setup->secrets[NB_SETUP_TOKEN], f);
        if (r >= 0)
                r = take_token(line, NB_SETUP_VALUE_TLS_BOOTSTRAP_TOKEN, path, &tokens.tls_bootstrap,
                               &setup->secrets[setup->secrets[NB_SETUP_TOKEN].data ? NB_SETUP_TLS_BOOTSTRAP_TOKEN : NB_SETUP_TOKEN], f);
        if (r < 0)
                return r;
        if (settings.ignored[0])
                nb_log(LOG_NOTICE, NB_KEYS_IGNORED, "ignored in '%s', since this program has no such phases: %s", path, settings.ignored);
        nb_settings_forget_tokens(&settings);
        setup->settings = settings;
        return 0;
}

/* --- Tokens --- */

static int check_token(const struct nb_secret *token, const char *option, struct nb_failure *f) {
        _cleanup_(nb_token_done) struct nb_token bootstrap = { .value = NB_SECRET_INIT };
        _cleanup_(nb_k3s_token_done) struct nb_k3s_token k3s = { .identity = NB_IDENTITY_INIT };
        bool is_k3s = nb_k3s_token_is_meant(token->data, token->len);
        char flaw[NB_TOKEN_FLAW_SIZE];
        int r = is_k3s ? nb_k3s_token_parse(token->data, token->len, option, &k3s) : nb_token_parse(token->data, token->len, &bootstrap);

        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r >= 0)
                return 0;
        nb_any_token_find_flaw(token->data, token->len, flaw);
        return nb_failure_set(f, NB_TOKEN_MALFORMED, -r, "what '--%s' gives (%zu bytes) is not of the form %s: %s", option, token->len,
                              is_k3s ? "K10<hash>::<id>.<secret> or K10<hash>::<user>:<password>" : "xxxxxx.yyyyyyyyyyyyyyyy with a-z and 0-9", flaw);
}

static int move_token(struct nb_setup_line *line, enum nb_setup_value value, struct nb_secret *ret, struct nb_failure *f) {
        struct nb_secret *token = &line->tokens[value];
        int r;

        if (!line->given_by[value])
                return 0;
        while (token->len > 0 && (token->data[token->len - 1] == '\n' || token->data[token->len - 1] == '\r'))
                token->data[--token->len] = '\0';
        r = check_token(token, line->given_by[value], f);
        if (r < 0)
                return r;
        *ret = *token;
        *token = (struct nb_secret)NB_SECRET_INIT;
        return 0;
}

/* As kubeadm: --token is for whichever of discovery and TLS bootstrap has no token of its own. The credential
 * node-bootstrap.token is for both, unless there is one for TLS bootstrap beside it. */
static int sort_tokens(struct nb_setup_line *line, struct nb_setup *setup, struct nb_failure *f) {
        const char *token = line->given_by[NB_SETUP_VALUE_TOKEN], *discovery = line->given_by[NB_SETUP_VALUE_DISCOVERY_TOKEN];
        bool is_tls_given = line->given_by[NB_SETUP_VALUE_TLS_BOOTSTRAP_TOKEN];
        struct nb_secret *first = &setup->secrets[NB_SETUP_TOKEN], *second = &setup->secrets[NB_SETUP_TLS_BOOTSTRAP_TOKEN];
        int r;

        if (token && discovery && is_tls_given)
                return nb_failure_set(f, NB_USAGE, 0, "'--%s' has nothing to do beside '--discovery-token' and '--tls-bootstrap-token'", token);
        r = move_token(line, NB_SETUP_VALUE_DISCOVERY_TOKEN, first, f);
        if (r >= 0)
                r = move_token(line, NB_SETUP_VALUE_TOKEN, discovery ? second : first, f);
        if (r >= 0)
                r = move_token(line, NB_SETUP_VALUE_TLS_BOOTSTRAP_TOKEN, first->data ? second : first, f);
        return r;
}

int nb_setup_take(struct nb_setup_line *line, struct nb_setup *setup, struct nb_failure *f) {
        int r;

        r = check_stdin(line, f);
        if (r >= 0)
                r = read_secret(line->texts[NB_SETUP_VALUE_TOKEN], TOKEN_MAX, &line->tokens[NB_SETUP_VALUE_TOKEN], f);
        if (r >= 0)
                r = read_kubeconfigs(line, setup, f);
        if (r >= 0)
                r = merge_texts(line, &setup->settings, f);
        if (r >= 0)
                r = merge_config(line, setup, f);
        return r < 0 ? r : sort_tokens(line, setup, f);
}
