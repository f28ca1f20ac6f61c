/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin/client/exec.h"
#include "admin/policy/bootstrap_token.h"
#include "base/encoding.h"
#include "base/macro.h"
#include "base/text.h"
#include "codec/json.h"
#include "system/clock.h"
#include "system/process.h"

#define INFO_MAX (NB_KUBECONFIG_MAX * 2)
/* Of a cluster: configuration for plugins. */
#define EXTENSION "client.authentication.k8s.io/exec"

static int refuse(const struct nb_exec_plugin *plugin, const char *key, const char *expected,
                  struct nb_failure *f) {
        return nb_failure_set(f, NB_ADMIN_KUBECONFIG_UNUSABLE, 0, "%s: %s: expected %s, found %s",
                              plugin->what, key, expected,
                              nb_yaml_get(plugin->exec, key) ? "something else" : "nothing");
}

/* --- KUBERNETES_EXEC_INFO --- */

static void put_yaml(struct nb_json_writer *writer, const char *key,
                     const struct nb_yaml_node *node) {
        const char *type = nb_yaml_type_name(node);
        char *end = NULL;
        long long number;

        if (node->type != NB_YAML_SCALAR) {
                nb_json_open(writer, key, node->type == NB_YAML_MAPPING ? '{' : '[');
                for (const struct nb_yaml_node *child = node->first; child; child = child->next)
                        put_yaml(writer, child->key, child);
                nb_json_close(writer);
                return;
        }
        errno = 0;
        number = strcmp(type, "a number") == 0 ? strtoll(node->value, &end, 10) : 0;
        if (end && *end == '\0' && errno == 0)
                nb_json_put_integer(writer, key, number);
        else if (strcmp(type, "a boolean") == 0)
                nb_json_put_boolean(writer, key, node->value[0] == 't' || node->value[0] == 'T');
        else
                nb_json_put_string(writer, key, nb_yaml_is_null(node) ? NULL : node->value);
}

static void put_cluster(struct nb_json_writer *writer, const struct nb_exec_plugin *plugin,
                        struct nb_failure *f) {
        static const char *const keys[] = { "server", "tls-server-name", "proxy-url" };
        _cleanup_(nb_buffer_done) struct nb_buffer ca = NB_BUFFER_INIT(INFO_MAX);
        const struct nb_yaml_node *extensions = nb_yaml_get(plugin->cluster_fields, "extensions");

        nb_json_open(writer, "cluster", '{');
        for (size_t i = 0; i < N_ELEMENTS(keys); i++) {
                const char *text = nb_yaml_text(plugin->cluster_fields, keys[i]);

                if (text)
                        nb_json_put_string(writer, keys[i], text);
        }
        if (plugin->cluster->ca) {
                nb_base64_encode(plugin->cluster->ca, plugin->cluster->ca_len, &ca);
                if (ca.error < 0)
                        (void)nb_failure_set_memory(f);
                else
                        nb_json_put_string(writer, "certificate-authority-data", ca.data);
        }
        for (const struct nb_yaml_node *entry = extensions ? extensions->first : NULL; entry;
             entry = entry->next) {
                const char *name = nb_yaml_text(entry, "name");
                const struct nb_yaml_node *extension = nb_yaml_get(entry, "extension");

                if (name && strcmp(name, EXTENSION) == 0 && extension)
                        put_yaml(writer, "config", extension);
        }
        nb_json_close(writer);
}

static int format_info(const struct nb_exec_plugin *plugin, const char *version,
                       bool is_interactive, struct nb_buffer *ret, struct nb_failure *f) {
        const char *provides = nb_yaml_text(plugin->exec, "provideClusterInfo");
        struct nb_json_writer writer = { .buffer = ret };
        int r;

        nb_json_open(&writer, NULL, '{');
        nb_json_put_string(&writer, "kind", "ExecCredential");
        nb_json_put_string(&writer, "apiVersion", version);
        nb_json_open(&writer, "spec", '{');
        if (provides && strcmp(provides, "true") == 0)
                put_cluster(&writer, plugin, f);
        nb_json_put_boolean(&writer, "interactive", is_interactive);
        r = nb_json_finish(&writer);
        if (r < 0)
                return nb_failure_set(f, NB_ADMIN_KUBECONFIG_UNUSABLE, r,
                                      "%s: cannot describe the cluster for the plugin: %m",
                                      plugin->what);
        return f->code == NB_NONE ? 0 : -ENOMEM;
}

/* --- Command line and environment --- */

static void free_words(char ***words) {
        for (char **word = *words; word && *word; word++)
                free(*word);
        free(*words);
}

static size_t count_children(const struct nb_yaml_node *node) {
        size_t n = 0;

        for (const struct nb_yaml_node *child = node ? node->first : NULL; child;
             child = child->next)
                n++;
        return n;
}

/* As in a kubeconfig that kubectl reads: "plugin" is searched in $PATH, "./plugin" and "bin/plugin"
 * are relative to the file. The words are those of the kubeconfig, or `path`. */
static int make_arguments(const struct nb_exec_plugin *plugin, char path[static PATH_MAX],
                          const char ***ret, struct nb_failure *f) {
        const struct nb_yaml_node *args = nb_yaml_get(plugin->exec, "args");
        const char *command = nb_yaml_text(plugin->exec, "command");
        _cleanup_(nb_freep) const char **words = NULL;
        bool is_relative;
        size_t n = 1;

        if (!command)
                return refuse(plugin, "command", "a program", f);
        is_relative = command[0] != '/' && strchr(command, '/');
        if (is_relative && snprintf(path, PATH_MAX, "%s/%s", plugin->folder, command) >= PATH_MAX)
                return refuse(plugin, "command", "a shorter path", f);
        words = calloc(count_children(args) + 2, sizeof(*words));
        if (!words)
                return nb_failure_set_memory(f);
        words[0] = is_relative ? path : command;
        for (const struct nb_yaml_node *arg = args ? args->first : NULL; arg; arg = arg->next) {
                if (args->type != NB_YAML_SEQUENCE || arg->type != NB_YAML_SCALAR)
                        return refuse(plugin, "args", "a list of strings", f);
                words[n++] = arg->value;
        }
        *ret = TAKE(words);
        return 0;
}

/* Sets "NAME=VALUE" in the environment, which has room for it. */
static int set_variable(char **environment, const char *name, const char *value) {
        size_t len = strlen(name);
        char **entry = environment, *text;

        if (asprintf(&text, "%s=%s", name, value) < 0)
                return -ENOMEM;
        while (*entry && (strncmp(*entry, name, len) != 0 || (*entry)[len] != '='))
                entry++;
        free(*entry);
        *entry = text;
        return 0;
}

static int make_environment(const struct nb_exec_plugin *plugin, const char *info, char ***ret,
                            struct nb_failure *f) {
        const struct nb_yaml_node *env = nb_yaml_get(plugin->exec, "env");
        _cleanup_(free_words) char **environment = NULL;
        size_t n = 0;

        while (environ[n])
                n++;
        environment = calloc(n + count_children(env) + 2, sizeof(*environment));
        if (!environment)
                return nb_failure_set_memory(f);
        for (size_t i = 0; i < n; i++) {
                environment[i] = strdup(environ[i]);
                if (!environment[i])
                        return nb_failure_set_memory(f);
        }
        for (const struct nb_yaml_node *entry = env ? env->first : NULL; entry;
             entry = entry->next) {
                const char *name = nb_yaml_text(entry, "name"),
                           *value = nb_yaml_text(entry, "value");

                if (env->type != NB_YAML_SEQUENCE || !name || strchr(name, '='))
                        return refuse(plugin, "env", "a list of names and values", f);
                if (set_variable(environment, name, value ? value : "") < 0)
                        return nb_failure_set_memory(f);
        }
        if (set_variable(environment, "KUBERNETES_EXEC_INFO", info) < 0)
                return nb_failure_set_memory(f);
        *ret = TAKE(environment);
        return 0;
}

/* --- What it wrote --- */

static int take_credential(struct nb_json *json, struct nb_identity *ret) {
        const char *token = nb_json_string(json, "status.token");
        const char *certificate = nb_json_string(json, "status.clientCertificateData");
        const char *key = nb_json_string(json, "status.clientKeyData");
        size_t token_len = token ? strlen(token) : 0;
        int r = 0;

        if (json->r < 0)
                return json->r;
        if (!certificate != !key || (!certificate && token_len == 0)) {
                nb_json_refuse(json, "status",
                               "a token, or clientCertificateData and clientKeyData", NULL);
                return json->r;
        }
        /* With both, kube-apiserver uses the certificate. */
        if (!certificate && !nb_bearer_is_valid(token, token_len))
                return nb_failure_set(json->f, json->code, 0,
                                      "%s: status.token: expected printable characters without "
                                      "blanks, found something else",
                                      json->what);
        if (!certificate)
                r = nb_identity_set_token(ret, token, token_len, json->what);
        else {
                ret->kind = NB_IDENTITY_CERTIFICATE;
                snprintf(ret->source, sizeof(ret->source), "%s", json->what);
                r = nb_secret_copy(&ret->certificate, certificate, strlen(certificate));
                if (r >= 0)
                        r = nb_secret_copy(&ret->secret, key, strlen(key));
        }
        return r < 0 ? nb_failure_set_memory(json->f) : 0;
}

int nb_exec_credential_parse(const char *text, size_t len, const char *what, const char *version,
                             struct nb_identity *ret_identity, time_t *ret_expires,
                             struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = nb_json_parse(text, len, what,
                                                                    NB_ADMIN_EXEC_FAILED, f);
        _cleanup_(nb_identity_done) struct nb_identity identity = NB_IDENTITY_INIT;
        const char *expiration;
        time_t expires = 0;
        int r;

        nb_json_expect(&json, "kind", "ExecCredential");
        nb_json_expect(&json, "apiVersion", version);
        expiration = nb_json_string(&json, "status.expirationTimestamp");
        if (expiration && nb_rfc3339_parse(expiration, &expires) < 0)
                nb_json_refuse(&json, "status.expirationTimestamp",
                               "a time such as '2026-01-02T15:04:05Z'", expiration);
        r = take_credential(&json, &identity);
        if (r < 0)
                return r;
        *ret_identity = TAKE(identity);
        *ret_expires = expires;
        return 0;
}

/* --- All together --- */

/* client.authentication.k8s.io/v1 requires interactiveMode; in v1beta1 the default is IfAvailable.
 */
static int read_mode(const struct nb_exec_plugin *plugin, const char *version,
                     bool *ret_is_interactive, struct nb_failure *f) {
        const char *mode = nb_yaml_text(plugin->exec, "interactiveMode");
        bool is_terminal = isatty(STDIN_FILENO) == 1;

        if (!mode && strcmp(version, "client.authentication.k8s.io/v1beta1") == 0)
                mode = "IfAvailable";
        if (mode && strcmp(mode, "Always") == 0 && !is_terminal)
                return nb_failure_set(f, NB_ADMIN_EXEC_FAILED, 0,
                                      "%s: the plugin asks questions (interactiveMode: Always), "
                                      "but standard input is not a terminal",
                                      plugin->what);
        if (!mode || (strcmp(mode, "Never") != 0 && strcmp(mode, "IfAvailable") != 0 &&
                      strcmp(mode, "Always") != 0))
                return refuse(plugin, "interactiveMode", "Never, IfAvailable or Always", f);
        *ret_is_interactive = is_terminal && strcmp(mode, "Never") != 0;
        return 0;
}

static int fail(const struct nb_exec_plugin *plugin, const char *command, int r,
                const struct nb_process_result *result, struct nb_failure *f) {
        const char *hint = nb_yaml_text(plugin->exec, "installHint");
        char line[192];

        if (r == -ECANCELED)
                return r;
        if (r == -E2BIG)
                (void)nb_failure_set(f, NB_ADMIN_EXEC_FAILED, r,
                                     "%s: '%.200s' wrote more than %d bytes", plugin->what, command,
                                     NB_EXEC_OUTPUT_MAX);
        else if (r < 0)
                (void)nb_failure_set(f, NB_ADMIN_EXEC_FAILED, r, "%s: cannot run '%.200s': %m",
                                     plugin->what, command);
        else if (result->error[0])
                (void)nb_failure_set(f, NB_ADMIN_EXEC_FAILED, 0, "%s: '%.200s' %s", plugin->what,
                                     command, result->error);
        else
                (void)nb_failure_set(f, NB_ADMIN_EXEC_FAILED, 0,
                                     "%s: '%.200s' failed with exit status %d", plugin->what,
                                     command, result->status);
        if (hint) {
                NB_TEXT_COPY_LINE(line, hint);
                nb_failure_add(f, "; %s", line);
        }
        return r < 0 ? r : -EPROTO;
}

int nb_exec_run(const struct nb_exec_plugin *plugin, struct nb_identity *ret_identity,
                time_t *ret_expires, struct nb_failure *f) {
        _cleanup_(nb_freep) const char **words = NULL;
        _cleanup_(free_words) char **environment = NULL;
        _cleanup_(nb_buffer_done) struct nb_buffer info = NB_BUFFER_INIT(INFO_MAX);
        _cleanup_(nb_secret_done) struct nb_secret output = NB_SECRET_INIT;
        const char *version = nb_yaml_text(plugin->exec, "apiVersion");
        struct nb_process_result result;
        char path[PATH_MAX];
        bool is_interactive = false;
        int r;

        if (!version || (strcmp(version, "client.authentication.k8s.io/v1") != 0 &&
                         strcmp(version, "client.authentication.k8s.io/v1beta1") != 0))
                return refuse(plugin, "apiVersion",
                              "client.authentication.k8s.io/v1 or "
                              "client.authentication.k8s.io/v1beta1",
                              f);
        r = read_mode(plugin, version, &is_interactive, f);
        if (r < 0)
                return r;
        r = format_info(plugin, version, is_interactive, &info, f);
        if (r < 0)
                return r;
        r = make_arguments(plugin, path, &words, f);
        if (r < 0 || !words)
                return r;
        r = make_environment(plugin, info.data, &environment, f);
        if (r < 0)
                return r;
        if (nb_secret_init(&output, NB_EXEC_OUTPUT_MAX) < 0)
                return nb_failure_set_memory(f);
        r = nb_process_run(
                &(struct nb_process){
                        .argv = words,
                        .environment = (const char *const *)environment,
                        .output = &output,
                        .timeout_ms = NB_PROCESS_TIMEOUT_MS,
                        .is_error_passed = true,
                        .is_interactive = is_interactive,
                },
                &result);
        if (r < 0 || result.status != 0)
                return fail(plugin, words[0], r, &result, f);
        return nb_exec_credential_parse(output.data, output.len, plugin->what, version,
                                        ret_identity, ret_expires, f);
}
