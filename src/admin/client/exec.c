/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin/client/client.h"
#include "admin/client/exec.h"
#include "admin/policy/rfc3339.h"
#include "base/encoding.h"
#include "base/macro.h"
#include "base/text.h"
#include "codec/json.h"
#include "os/clock.h"
#include "os/process.h"

#define INFO_MAX (NB_KUBECONFIG_MAX * 2)
#define WORDS_MAX 16383 /* a pod has 7 variables for each Service */
#define VERSION "client.authentication.k8s.io/v1"

struct plugin {
        const char *what;
        const struct nb_yaml_node *exec;
        bool is_interactive;
        struct nb_failure *f;
};

static int refuse(const struct plugin *plugin, const char *key, const char *expected) {
        return nb_failure_set(plugin->f, NB_ADMIN_KUBECONFIG_UNUSABLE, 0,
                              "%s: %s: expected %s, found %s", plugin->what, key, expected,
                              nb_yaml_get(plugin->exec, key) ? "something else" : "nothing");
}

/* --- Command line and environment --- */

struct words {
        char *list[WORDS_MAX + 1]; /* ends with NULL */
        size_t n;
};

static void words_done(struct words *words) {
        for (size_t i = 0; i < words->n; i++)
                free(words->list[i]);
}

/* Adds VALUE, or a variable NAME=VALUE instead of the one with this name, or FOLDER/VALUE. */
static int add_word(struct words *words, const char *before, const char *separator,
                    const char *value) {
        size_t len = strlen(before), i = separator[0] == '=' ? 0 : words->n;
        char *text;

        while (i < words->n &&
               (strncmp(words->list[i], before, len) != 0 || words->list[i][len] != '='))
                i++;
        if (i == WORDS_MAX)
                return -E2BIG;
        if (asprintf(&text, "%s%s%s", before, separator, value) < 0)
                return -ENOMEM;
        free(words->list[i]);
        words->list[i] = text;
        words->n += i == words->n;
        return 0;
}

/* As in a kubeconfig that kubectl reads: "plugin" is searched in $PATH, "./plugin" and "bin/plugin"
 * are relative to the file. */
static int add_arguments(const struct plugin *plugin, const char *folder, struct words *words) {
        const struct nb_yaml_node *args = nb_yaml_get(plugin->exec, "args");
        const char *command = nb_yaml_text(plugin->exec, "command");
        int r;

        if (!command)
                return refuse(plugin, "command", "a program");
        r = command[0] != '/' && strchr(command, '/') ? add_word(words, folder, "/", command)
                                                      : add_word(words, "", "", command);
        for (const struct nb_yaml_node *arg = args ? args->first : NULL; arg && r >= 0;
             arg = arg->next) {
                if (arg->type != NB_YAML_SCALAR)
                        return refuse(plugin, "args", "a list of strings");
                r = add_word(words, "", "", arg->value);
        }
        return r;
}

/* For KUBERNETES_EXEC_INFO see client-go pkg/apis/clientauthentication. */
static int add_environment(const struct plugin *plugin, const struct nb_cluster *cluster,
                           struct words *words) {
        _cleanup_(nb_buffer_done) struct nb_buffer info = NB_BUFFER_INIT(INFO_MAX);
        _cleanup_(nb_buffer_done) struct nb_buffer ca = NB_BUFFER_INIT(INFO_MAX);
        const struct nb_yaml_node *env = nb_yaml_get(plugin->exec, "env");
        const char *version = nb_yaml_text(plugin->exec, "apiVersion"),
                   *provides = nb_yaml_text(plugin->exec, "provideClusterInfo");
        char server[NB_URL_MAX];
        int r;

        if (!version || strncmp(version, VERSION, strlen(VERSION)) != 0)
                return refuse(plugin, "apiVersion", VERSION " or " VERSION "beta1");
        nb_json_format(&info, "{'kind':'ExecCredential','apiVersion':%s,'spec':{", version);
        if (provides && strcmp(provides, "true") == 0) {
                nb_url_format(&cluster->server, server);
                nb_base64_encode(cluster->ca, cluster->ca_len, &ca);
                nb_json_format(&info,
                               "'cluster':{'server':%s,'tls-server-name':%s,'proxy-url':%s,"
                               "'certificate-authority-data':%s},",
                               server, cluster->tls_server_name, cluster->proxy_url, ca.data);
        }
        nb_buffer_append_string(&info, plugin->is_interactive ? "\"interactive\":true}}"
                                                              : "\"interactive\":false}}");
        r = ca.error < 0 ? ca.error : info.error;
        for (char **variable = environ; *variable && r >= 0; variable++)
                r = add_word(words, "", "", *variable);
        for (const struct nb_yaml_node *entry = env ? env->first : NULL; entry && r >= 0;
             entry = entry->next) {
                const char *name = nb_yaml_text(entry, "name"),
                           *value = nb_yaml_text(entry, "value");

                if (!name || strchr(name, '='))
                        return refuse(plugin, "env", "a list of names and values");
                r = add_word(words, name, "=", value ? value : "");
        }
        return r < 0 ? r : add_word(words, "KUBERNETES_EXEC_INFO", "=", info.data);
}

/* --- What it wrote --- */

int nb_exec_credential_parse(const char *text, size_t len, const char *what, const char *version,
                             struct nb_identity *ret_identity, time_t *ret_expires,
                             struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = nb_json_parse(text, len, what,
                                                                    NB_ADMIN_EXEC_FAILED, f);
        _cleanup_(nb_identity_done) struct nb_identity identity = NB_IDENTITY_INIT;
        const char *token = nb_json_string(&json, "status.token"),
                   *certificate = nb_json_string(&json, "status.clientCertificateData"),
                   *key = nb_json_string(&json, "status.clientKeyData"),
                   *expiration = nb_json_string(&json, "status.expirationTimestamp");
        time_t expires = 0;
        int r = 0;

        nb_json_expect(&json, "kind", "ExecCredential");
        nb_json_expect(&json, "apiVersion", version);
        if (expiration && nb_rfc3339_parse(expiration, &expires) < 0)
                nb_json_refuse(&json, "status.expirationTimestamp",
                               "a time such as '2026-01-02T15:04:05Z'", expiration);
        if (!certificate != !key || (!certificate && (!token || !token[0])))
                nb_json_refuse(&json, "status",
                               "a token, or clientCertificateData and clientKeyData", NULL);
        else if (!certificate && !nb_bearer_is_valid(token, strlen(token)))
                nb_json_refuse(&json, "status.token", "printable characters without blanks",
                               "something else");
        if (json.r < 0)
                return json.r;
        /* With both, kube-apiserver uses the certificate. */
        if (certificate && key) {
                identity.kind = NB_IDENTITY_CERTIFICATE;
                snprintf(identity.source, sizeof(identity.source), "%s", what);
                r = nb_secret_copy(&identity.certificate, certificate, strlen(certificate));
                if (r >= 0)
                        r = nb_secret_copy(&identity.secret, key, strlen(key));
        } else if (token)
                r = nb_identity_set_token(&identity, token, strlen(token), what);
        if (r < 0)
                return nb_failure_set_memory(f);
        *ret_identity = TAKE(identity);
        *ret_expires = expires;
        return 0;
}

int nb_exec_run(const struct nb_kubeconfig_input *input, const char *what,
                const struct nb_yaml_node *exec, const struct nb_cluster *cluster,
                struct nb_identity *ret_identity, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret output = NB_SECRET_INIT;
        _cleanup_(words_done) struct words arguments = { .n = 0 }, environment = { .n = 0 };
        const struct plugin plugin = { what, exec, isatty(STDIN_FILENO) == 1, f };
        const struct nb_process process = { .argv = (const char *const *)arguments.list,
                                            .environment = (const char *const *)environment.list,
                                            .output = &output,
                                            .timeout_ms = NB_PROCESS_TIMEOUT_MS,
                                            .is_error_passed = true,
                                            .is_interactive = plugin.is_interactive };
        struct nb_process_result result = { 0 };
        const char *hint = nb_yaml_text(exec, "installHint");
        char line[192];
        struct nb_admin *admin = input->userdata;
        time_t expires = 0, now = time(NULL);
        int r = add_arguments(&plugin, input->folder, &arguments);

        if (r >= 0)
                r = add_environment(&plugin, cluster, &environment);
        if (r >= 0)
                r = nb_secret_init(&output, NB_EXEC_OUTPUT_MAX);
        if (r < 0)
                return nb_failure_set(f, NB_ADMIN_KUBECONFIG_UNUSABLE, r,
                                      "%s: cannot prepare the plugin: %m", what);
        r = nb_process_run(&process, &result);
        if (r == -ECANCELED)
                return r;
        if (r >= 0 && result.status != 0 && !result.error[0])
                snprintf(result.error, sizeof(result.error), "failed with exit status %d",
                         result.status);
        NB_TEXT_COPY_LINE(line, hint ? hint : "");
        if (r < 0 || result.status != 0)
                return nb_failure_set(f, NB_ADMIN_EXEC_FAILED, r, "%s: '%.200s': %s%s%s", what,
                                      arguments.list[0],
                                      r == -E2BIG ? "it wrote too much"
                                      : r < 0     ? strerror(-r)
                                                  : result.error,
                                      hint ? "; " : "", line);
        r = nb_exec_credential_parse(output.data, output.len, what,
                                     nb_yaml_text(exec, "apiVersion"), ret_identity, &expires, f);
        if (r < 0)
                return r;
        admin->expires_ms = expires == 0    ? NB_TIME_INFINITE
                            : expires > now ? nb_now_ms() + (uint64_t)(expires - now) * 1000
                                            : nb_now_ms();
        return 0;
}
