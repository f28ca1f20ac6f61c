/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macro.h"
#include "cli/setup_internal.h"
#include "kube/k3s_token.h"
#include "kube/kubeconfig.h"
#include "kube/token.h"
#include "settings/types.h"

#define TOKEN_MAX ((size_t)4096)

/* --- Files --- */

static bool is_stdin(const char *path) {
        return !strcmp(path, "-");
}

static const char *name_input(const char *path) {
        return is_stdin(path) ? "standard input" : path;
}

/* Reads a file, a pipe that a shell made of a command, or standard input. `ret_is_exposed`: others
 * can read the file. */
static int read_input(const char *path, size_t max, bool *ret_is_exposed, struct nb_secret *ret,
                      struct nb_failure *f) {
        _cleanup_(nb_closep) int opened = -1;
        int fd = STDIN_FILENO;
        struct stat st;

        if (!is_stdin(path)) {
                opened = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
                if (opened < 0)
                        return nb_failure_set(f, NB_SETTINGS_UNREADABLE, errno,
                                              "cannot read '%s': %m", path);
                fd = opened;
        }
        if (fstat(fd, &st) < 0 || S_ISDIR(st.st_mode))
                return nb_failure_set(f, NB_SETTINGS_UNREADABLE, EISDIR, "cannot read '%s': %m",
                                      name_input(path));
        *ret_is_exposed = S_ISREG(st.st_mode) && (st.st_mode & 0007);
        return nb_sources_read_stream(fd, name_input(path), max, ret, f);
}

int nb_setup_read_secret(const char *path, size_t max, struct nb_secret *ret,
                         struct nb_failure *f) {
        bool is_exposed = false;
        int r = read_input(path, max, &is_exposed, ret, f);

        if (r >= 0 && is_exposed)
                return nb_failure_set(f, NB_TOKEN_EXPOSED, EPERM,
                                      "'%s' can be read by others; expected mode 0600", path);
        return r;
}

static int verify_stdin(const struct nb_setup_line *line, struct nb_failure *f) {
        const char *reader = line->is_stdin_read ? "" : NULL;

        for (unsigned i = 0; i <= NB_SETUP_INPUT_CONFIG; i++) {
                const struct nb_setup_input *input = &line->inputs[i];

                if (!input->text || input->token.data || !is_stdin(input->text))
                        continue;
                if (reader)
                        return nb_failure_set(
                                f, NB_USAGE, 0,
                                "'%s%s%s' and '--%s=-' cannot both read standard input",
                                reader[0] ? "--" : "", reader, reader[0] ? "=-" : "-",
                                input->option);
                reader = input->option;
        }
        return 0;
}

/* --- Kubeconfigs: copied into credentials, since the unit cannot read every folder --- */

/* What the unit hides from the service: ProtectHome=, PrivateTmp=. */
static bool is_hidden(const char *path) {
        static const char *const folders[] = { "/home/", "/root/", "/run/user/", "/tmp/",
                                               "/var/tmp/" };

        for (size_t i = 0; i < N_ELEMENTS(folders); i++)
                if (!strncmp(path, folders[i], strlen(folders[i])))
                        return true;
        return false;
}

/* Reads a file that a kubeconfig names. `userdata` gets the first path that the service will not
 * see. */
static int read_named(void *userdata, const char *path, struct nb_secret *ret) {
        char *hidden = userdata;
        struct nb_sources here = { 0 };

        if (!hidden[0] && is_hidden(path))
                snprintf(hidden, NB_SETTINGS_PATH_MAX, "%s", path);
        return nb_sources_read(&here, path, NB_SETUP_SECRET_MAX, ret, NULL);
}

/* As `join` will read it: a credential, which is in no folder. */
static int verify_kubeconfig(const char *path, const struct nb_secret *text,
                             const struct nb_kubeconfig_policy *policy, struct nb_failure *f) {
        _cleanup_(nb_identity_done) struct nb_identity identity = NB_IDENTITY_INIT;
        _cleanup_(nb_cluster_done) struct nb_cluster cluster = { 0 };
        char hidden[NB_SETTINGS_PATH_MAX] = "";
        const struct nb_kubeconfig_input input = { .origin = name_input(path),
                                                   .text = text->data,
                                                   .len = text->len,
                                                   .read = read_named,
                                                   .userdata = hidden };
        int r = nb_kubeconfig_parse(policy, &input, &cluster, &identity, f);

        if (r >= 0 && hidden[0])
                return nb_failure_set(
                        f, policy->unreadable, EACCES,
                        "%s names '%s', which is hidden from " NB_SETUP_UNIT
                        "; expected a path outside of /home, /root, /run/user, /tmp and /var/tmp",
                        input.origin, hidden);
        return r;
}

static int read_bootstrap_kubeconfig(const char *path, struct nb_secret *ret,
                                     struct nb_failure *f) {
        int r = nb_setup_read_secret(path, NB_SETUP_SECRET_MAX, ret, f);

        return r < 0 ? r : verify_kubeconfig(path, ret, &nb_kubeconfig_bootstrap, f);
}

/* A URL becomes a setting, a file a credential. */
static int read_discovery_file(const char *path, struct nb_setup *setup, struct nb_failure *f) {
        struct nb_settings *settings = &setup->settings;
        struct nb_secret *text = &setup->secrets[NB_SETUP_CLUSTER_INFO];
        bool is_exposed;
        int r;

        if (strstr(path, "://")) {
                if (nb_setting_parse(settings, NB_SETTING_DISCOVERY_FILE, path, strlen(path)) < 0)
                        return nb_failure_set(f, NB_USAGE, EINVAL,
                                              "'--discovery-file': expected a file or "
                                              "https://HOST[:PORT]/PATH");
                strcpy(settings->origin[NB_SETTING_DISCOVERY_FILE], NB_SETUP_ORIGIN);
                return 0;
        }
        r = read_input(path, NB_SETUP_SECRET_MAX, &is_exposed, text, f);
        return r < 0 ? r : verify_kubeconfig(path, text, &nb_kubeconfig_discovery_file, f);
}

/* --- Settings --- */

/* Merges the settings of the command line over those of the file; no key may be in both. */
static int merge_over(struct nb_settings *settings, const char *path,
                      const struct nb_settings *typed, struct nb_failure *f) {
        static const struct nb_settings_source source = { .origin = NB_SETUP_ORIGIN,
                                                          .is_exposed = true };
        _cleanup_(nb_buffer_done) struct nb_buffer document = NB_BUFFER_INIT(NB_SETTINGS_TEXT_MAX);

        for (unsigned i = 0; i < _NB_SETTING_N; i++)
                if (nb_setting_is_set(settings, (enum nb_setting)i) &&
                    nb_setting_is_set(typed, (enum nb_setting)i))
                        return nb_failure_set(f, NB_USAGE, 0,
                                              "%s is set on the command line and in '%s'",
                                              nb_setting_key((enum nb_setting)i), path);
        if (nb_settings_format(typed, &document) < 0)
                return nb_failure_set_memory(f);
        return nb_settings_merge(settings, &source, document.data, document.len, f);
}

/* A token in the file becomes a credential: everybody can read the document that setup writes. */
static int move_file_token(const struct nb_setup_line *line, enum nb_setup_input_kind kind,
                           struct nb_secret *token, struct nb_secret *ret, struct nb_failure *f) {
        const char *option = line->inputs[kind].option ? line->inputs[kind].option
                                                       : line->inputs[NB_SETUP_INPUT_TOKEN].option;

        if (!token->data)
                return 0;
        if (option)
                return nb_failure_set(f, NB_USAGE, 0,
                                      "'--%s' cannot be combined with the token in '%s'", option,
                                      line->inputs[NB_SETUP_INPUT_CONFIG].text);
        *ret = *token;
        *token = (struct nb_secret)NB_SECRET_INIT;
        return 0;
}

static int read_config(const struct nb_setup_line *line, struct nb_setup *setup,
                       struct nb_failure *f) {
        _cleanup_(
                nb_settings_tokens_done) struct nb_settings_tokens tokens = NB_SETTINGS_TOKENS_INIT;
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        struct nb_settings_source source = {
                .origin = line->inputs[NB_SETUP_INPUT_CONFIG].text,
        };
        struct nb_secret *first = &setup->secrets[NB_SETUP_TOKEN],
                         *second = &setup->secrets[NB_SETUP_TLS_BOOTSTRAP_TOKEN];
        struct nb_settings settings;
        int r;

        if (!source.origin)
                return 0;
        r = read_input(source.origin, NB_CONFIG_MAX, &source.is_exposed, &text, f);
        if (r < 0)
                return r;
        nb_settings_init(&settings);
        settings.tokens = &tokens;
        r = nb_settings_merge(&settings, &source, text.data, text.len, f);
        if (r < 0)
                return r;
        r = merge_over(&settings, source.origin, &setup->settings, f);
        if (r < 0)
                return r;
        r = move_file_token(line, NB_SETUP_INPUT_DISCOVERY_TOKEN, &tokens.discovery, first, f);
        if (r < 0)
                return r;
        r = move_file_token(line, NB_SETUP_INPUT_TLS_BOOTSTRAP_TOKEN, &tokens.tls_bootstrap,
                            first->data ? second : first, f);
        if (r < 0)
                return r;
        if (settings.ignored[0])
                nb_log(LOG_NOTICE, NB_KEYS_IGNORED,
                       "ignored in '%s', since node-bootstrap has no such phases: %s",
                       source.origin, settings.ignored);
        nb_settings_forget_tokens(&settings);
        setup->settings = settings;
        return 0;
}

/* --- Tokens --- */

static int verify_token(const struct nb_secret *token, const char *option, struct nb_failure *f) {
        _cleanup_(nb_token_done) struct nb_token bootstrap = { .value = NB_SECRET_INIT };
        _cleanup_(nb_k3s_token_done) struct nb_k3s_token k3s = { .identity = NB_IDENTITY_INIT };
        bool is_k3s = nb_k3s_token_looks_like(token->data, token->len);
        char flaw[NB_TOKEN_FLAW_SIZE];
        int r = is_k3s ? nb_k3s_token_parse(token->data, token->len, option, &k3s)
                       : nb_token_parse(token->data, token->len, &bootstrap);

        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r >= 0)
                return 0;
        nb_any_token_find_flaw(token->data, token->len, flaw);
        return nb_failure_set(f, NB_TOKEN_MALFORMED, r, "'--%s': expected %s, found %zu bytes: %s",
                              option,
                              is_k3s ? "K10<hash>::<id>.<secret> or K10<hash>::<user>:<password>"
                                     : "xxxxxx.yyyyyyyyyyyyyyyy with a-z and 0-9",
                              token->len, flaw);
}

static int move_token(struct nb_setup_input *input, struct nb_secret *ret, struct nb_failure *f) {
        struct nb_secret *token = &input->token;
        int r;

        if (!input->option)
                return 0;
        while (token->len > 0 && strchr("\r\n", token->data[token->len - 1]))
                token->data[--token->len] = '\0';
        r = verify_token(token, input->option, f);
        if (r < 0)
                return r;
        *ret = *token;
        *token = (struct nb_secret)NB_SECRET_INIT;
        return 0;
}

/* As kubeadm does: --token serves discovery and TLS bootstrap, unless one of them has a token of
 * its own. So does the credential node-bootstrap.token. */
static int assign_tokens(struct nb_setup_line *line, struct nb_setup *setup, struct nb_failure *f) {
        struct nb_setup_input *common = &line->inputs[NB_SETUP_INPUT_TOKEN],
                              *discovery = &line->inputs[NB_SETUP_INPUT_DISCOVERY_TOKEN],
                              *tls = &line->inputs[NB_SETUP_INPUT_TLS_BOOTSTRAP_TOKEN];
        struct nb_secret *first = &setup->secrets[NB_SETUP_TOKEN],
                         *second = &setup->secrets[NB_SETUP_TLS_BOOTSTRAP_TOKEN];
        int r;

        if (common->option && discovery->option && tls->option)
                return nb_failure_set(f, NB_USAGE, 0,
                                      "'--%s' cannot be combined with both '--discovery-token' and "
                                      "'--tls-bootstrap-token'",
                                      common->option);
        r = move_token(discovery, first, f);
        if (r < 0)
                return r;
        r = move_token(common, discovery->option ? second : first, f);
        if (r < 0)
                return r;
        return move_token(tls, first->data ? second : first, f);
}

static int read_timeout(const char *text, uint64_t *ret_sec, struct nb_failure *f) {
        if (!strcmp(text, "0") || !strcmp(text, "infinity"))
                *ret_sec = NB_SETUP_WATCH_INFINITE;
        else if (nb_setting_duration_parse(text, ret_sec) < 0)
                return nb_failure_set(
                        f, NB_USAGE, EINVAL,
                        "'--timeout': expected infinity, or a duration such as 90s, 5m or 1h30m");
        return 0;
}

int nb_setup_take_inputs(struct nb_setup_line *line, struct nb_setup *setup, struct nb_failure *f) {
        struct nb_setup_input *inputs = line->inputs, *token = &inputs[NB_SETUP_INPUT_TOKEN];
        int r;

        r = verify_stdin(line, f);
        if (r >= 0 && inputs[NB_SETUP_INPUT_TIMEOUT].text)
                r = read_timeout(inputs[NB_SETUP_INPUT_TIMEOUT].text, &setup->watch_sec, f);
        if (r >= 0 && token->option && !token->token.data)
                r = nb_setup_read_secret(token->text, TOKEN_MAX, &token->token, f);
        if (r >= 0 && inputs[NB_SETUP_INPUT_DISCOVERY_FILE].text)
                r = read_discovery_file(inputs[NB_SETUP_INPUT_DISCOVERY_FILE].text, setup, f);
        if (r >= 0 && inputs[NB_SETUP_INPUT_KUBECONFIG].text)
                r = read_bootstrap_kubeconfig(inputs[NB_SETUP_INPUT_KUBECONFIG].text,
                                              &setup->secrets[NB_SETUP_KUBECONFIG], f);
        if (r >= 0)
                r = read_config(line, setup, f);
        return r < 0 ? r : assign_tokens(line, setup, f);
}
