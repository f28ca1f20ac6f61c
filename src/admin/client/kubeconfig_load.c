/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin/client/exec.h"
#include "admin/client/kubeconfig_load.h"
#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "system/clock.h"

#define FILES_MAX 32
#define DEFAULT_FILE "/etc/kubernetes/admin.conf"

#define ACCESS_INIT \
        { .identity = NB_IDENTITY_INIT, .expires_ms = NB_TIME_INFINITE }

static const struct nb_kubeconfig_policy policy = {
        .unacceptable = NB_ADMIN_KUBECONFIG_UNUSABLE,
        .unreadable = NB_ADMIN_KUBECONFIG_UNUSABLE,
        .users = NB_KUBECONFIG_USERS_CURRENT,
};

struct file {
        char path[PATH_MAX]; /* absolute */
        char folder[PATH_MAX];
        struct nb_yaml_node *document;
};

/* In the order of precedence. */
struct files {
        struct file *list[FILES_MAX];
        size_t n;
};

static void files_done(struct files *files) {
        for (size_t i = 0; i < files->n; i++) {
                nb_yaml_free(files->list[i]->document);
                free(files->list[i]);
        }
        files->n = 0;
}

static int read_file(_unused_ void *userdata, const char *path, struct nb_secret *ret) {
        return nb_path_read(-1, path, NB_KUBECONFIG_MAX, ret);
}

static struct nb_kubeconfig_input input_of(const struct file *file) {
        return (struct nb_kubeconfig_input){ .origin = file->path,
                                             .read = read_file,
                                             .folder = file->folder };
}

/* --- Files --- */

static int set_path(struct file *file, const char *path, size_t len) {
        char here[PATH_MAX];
        const char *name;
        int n;

        if (path[0] == '/')
                n = snprintf(file->path, sizeof(file->path), "%.*s", (int)len, path);
        else if (!getcwd(here, sizeof(here)))
                return -errno;
        else
                n = snprintf(file->path, sizeof(file->path), "%s/%.*s",
                             strcmp(here, "/") == 0 ? "" : here, (int)len, path);
        if ((size_t)n >= sizeof(file->path))
                return -ENAMETOOLONG;
        return nb_path_split(file->path, file->folder, sizeof(file->folder), &name);
}

/* Adds a file. If it does not exist, it is skipped or, with `is_required`, refused. */
static int add_file(struct files *files, const char *path, size_t len, bool is_required,
                    struct nb_failure *f) {
        _cleanup_(nb_freep) struct file *file = NULL;
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        struct nb_kubeconfig_input input;
        int r;

        if (files->n == FILES_MAX)
                return nb_failure_set(f, NB_ADMIN_KUBECONFIG_UNUSABLE, 0,
                                      "expected at most %d files in $KUBECONFIG, found more",
                                      FILES_MAX);
        file = calloc(1, sizeof(*file));
        if (!file)
                return nb_failure_set_memory(f);
        r = set_path(file, path, len);
        if (r >= 0)
                r = nb_path_read(-1, file->path, NB_KUBECONFIG_MAX, &text);
        if (r == -ENOENT && !is_required)
                return 0;
        if (r < 0)
                return nb_failure_set(f, NB_ADMIN_KUBECONFIG_UNUSABLE, r,
                                      r == -EBADF ? "the kubeconfig '%.*s' is not a regular file"
                                                  : "cannot read the kubeconfig '%.*s': %m",
                                      (int)len, path);
        input = input_of(file);
        input.text = text.data ? text.data : "";
        input.len = text.len;
        r = nb_kubeconfig_open(&policy, &input, &file->document, f);
        if (r < 0)
                return r;
        files->list[files->n++] = TAKE(file);
        return 0;
}

static int add_listed_files(struct files *files, const char *list, struct nb_failure *f) {
        size_t len;
        int r;

        for (const char *path = list; *path; path += len + (path[len] == ':')) {
                len = strcspn(path, ":");
                r = len > 0 ? add_file(files, path, len, false, f) : 0;
                if (r < 0)
                        return r;
        }
        return files->n > 0 ? 0
                            : nb_failure_set(f, NB_ADMIN_KUBECONFIG_UNUSABLE, ENOENT,
                                             "no file that $KUBECONFIG names exists: '%s'", list);
}

static int find_files(const struct nb_admin_place *place, struct files *files,
                      struct nb_failure *f) {
        const char *list = getenv("KUBECONFIG"), *home = getenv("HOME");
        char path[PATH_MAX];
        int r = 0;

        if (place->kubeconfig)
                return add_file(files, place->kubeconfig, strlen(place->kubeconfig), true, f);
        if (list && list[0])
                return add_listed_files(files, list, f);
        if (home && home[0] == '/' &&
            (size_t)snprintf(path, sizeof(path), "%s/.kube/config", home) < sizeof(path))
                r = add_file(files, path, strlen(path), false, f);
        if (r >= 0 && files->n == 0)
                r = add_file(files, DEFAULT_FILE, strlen(DEFAULT_FILE), false, f);
        return r;
}

/* --- Entries --- */

/* NULL if the value is missing, empty or not a scalar. */
static const char *find_text(const struct nb_yaml_node *mapping, const char *key) {
        const struct nb_yaml_node *node = nb_yaml_get(mapping, key);

        return node && !nb_yaml_is_null(node) && node->type == NB_YAML_SCALAR && node->value_len > 0
                       ? node->value
                       : NULL;
}

/* Finds the entry in the first file that has it: the other files cannot add to it. `list` is the
 * plural of the field in its entries. NULL if no file has it. */
static const struct nb_yaml_node *find_entry(const struct files *files, const char *list,
                                             const char *name, const struct file **ret_file) {
        char key[16];

        snprintf(key, sizeof(key), "%.*s", (int)strlen(list) - 1, list);
        for (size_t i = 0; i < files->n; i++) {
                const struct nb_yaml_node *entries = nb_yaml_get(files->list[i]->document, list);

                for (const struct nb_yaml_node *entry = entries ? entries->first : NULL; entry;
                     entry = entry->next) {
                        const char *found = find_text(entry, "name");

                        if (!found || strcmp(found, name) != 0)
                                continue;
                        *ret_file = files->list[i];
                        return nb_yaml_get(entry, key);
                }
        }
        return NULL;
}

static void list_contexts(const struct files *files, char *ret, size_t size) {
        snprintf(ret, size, "%s", "");
        for (size_t i = 0; i < files->n; i++) {
                const struct nb_yaml_node *entries = nb_yaml_get(files->list[i]->document,
                                                                 "contexts");

                for (const struct nb_yaml_node *entry = entries ? entries->first : NULL; entry;
                     entry = entry->next)
                        if (find_text(entry, "name"))
                                nb_text_list_add(ret, size, find_text(entry, "name"));
        }
}

struct context {
        const char *name, *cluster, *user;
        const struct file *file;
};

static int find_context(const struct files *files, const char *wanted, struct context *ret,
                        struct nb_failure *f) {
        const struct nb_yaml_node *fields;
        const char *name = wanted, *origin = files->list[0]->path;
        char known[192];

        for (size_t i = 0; i < files->n && !name; i++)
                name = find_text(files->list[i]->document, "current-context");
        list_contexts(files, known, sizeof(known));
        if (!name)
                return nb_failure_set(f, NB_ADMIN_KUBECONFIG_UNUSABLE, 0,
                                      "%s: no current-context is set; name one with --context, or "
                                      "use `kubectl config use-context`. Contexts: %s",
                                      origin, known[0] ? known : "none");
        ret->name = name;
        fields = find_entry(files, "contexts", name, &ret->file);
        if (!fields)
                return nb_failure_set(f, NB_ADMIN_KUBECONFIG_UNUSABLE, 0,
                                      "%s: there is no context '%s'. Contexts: %s", origin, name,
                                      known[0] ? known : "none");
        ret->cluster = find_text(fields, "cluster");
        ret->user = find_text(fields, "user");
        if (!ret->cluster || !ret->user)
                return nb_failure_set(f, NB_ADMIN_KUBECONFIG_UNUSABLE, 0,
                                      "%s: context '%s': expected a cluster and a user, found %s",
                                      ret->file->path, name,
                                      ret->cluster ? "no user" : "no cluster");
        return 0;
}

/* Fields that kubectl has, or once had, and that have no effect here. */
static int check_supported(const struct file *file, const char *entry, const char *name,
                           const struct nb_yaml_node *fields, struct nb_failure *f) {
        static const char password[] =
                "Kubernetes 1.19 removed passwords; use a client certificate, a token or exec";
        static const char provider[] = "Kubernetes 1.26 removed it; use exec";
        static const char person[] = "impersonation is not supported; use a credential of the user";
        static const struct {
                const char *key, *advice;
        } unsupported[] = {
                { "username", password },
                { "password", password },
                { "auth-provider", provider },
                { "as", person },
                { "as-uid", person },
                { "as-groups", person },
                { "as-user-extra", person },
                { "insecure-skip-tls-verify",
                  "it would send the credential to any server; set certificate-authority-data" },
        };

        for (size_t i = 0; i < N_ELEMENTS(unsupported); i++) {
                const struct nb_yaml_node *node = nb_yaml_get(fields, unsupported[i].key);

                if (!node || nb_yaml_is_null(node) ||
                    (node->type == NB_YAML_SCALAR &&
                     (node->value_len == 0 || strcmp(node->value, "false") == 0)))
                        continue;
                return nb_failure_set(f, NB_ADMIN_KUBECONFIG_UNUSABLE, 0, "%s: %s '%s': %s: %s",
                                      file->path, entry, name, unsupported[i].key,
                                      unsupported[i].advice);
        }
        return 0;
}

static int find_fields(const struct files *files, const char *list, const char *entry,
                       const char *name, const struct context *context,
                       const struct nb_yaml_node **ret_fields, const struct file **ret_file,
                       struct nb_failure *f) {
        const struct nb_yaml_node *fields = find_entry(files, list, name, ret_file);

        if (!fields)
                return nb_failure_set(f, NB_ADMIN_KUBECONFIG_UNUSABLE, 0,
                                      "%s: context '%s' names the %s '%s', which is not in the "
                                      "list of %s",
                                      context->file->path, context->name, entry, name, list);
        *ret_fields = fields;
        return check_supported(*ret_file, entry, name, fields, f);
}

/* --- The credential --- */

static bool has_value(const struct nb_yaml_node *fields, const char *key) {
        const struct nb_yaml_node *node = nb_yaml_get(fields, key);

        return node && !nb_yaml_is_null(node) &&
               (node->type == NB_YAML_SCALAR ? node->value_len > 0 : node->first != NULL);
}

static void set_expiry(struct nb_admin_access *access, time_t expires) {
        time_t now = time(NULL);

        access->is_renewable = true;
        if (expires != 0)
                access->expires_ms = nb_now_ms() +
                                     (expires > now ? (uint64_t)(expires - now) * 1000 : 0);
}

static int read_exec(const struct file *file, const char *name, const struct nb_yaml_node *user,
                     const struct nb_yaml_node *cluster, struct nb_admin_access *access,
                     struct nb_failure *f) {
        static const char *const others[] = {
                "token",      "tokenFile",      "client-certificate", "client-certificate-data",
                "client-key", "client-key-data"
        };
        char what[PATH_MAX + 256];
        const struct nb_exec_plugin plugin = { .what = what,
                                               .folder = file->folder,
                                               .exec = nb_yaml_get(user, "exec"),
                                               .cluster_fields = cluster,
                                               .cluster = &access->cluster };
        time_t expires;
        int r;

        snprintf(what, sizeof(what), "%s: exec of the user '%.200s'", file->path, name);
        for (size_t i = 0; i < N_ELEMENTS(others); i++)
                if (has_value(user, others[i]))
                        return nb_failure_set(f, NB_ADMIN_KUBECONFIG_UNUSABLE, 0,
                                              "%s: expected no other credential, found %s", what,
                                              others[i]);
        r = nb_exec_run(&plugin, &access->identity, &expires, f);
        if (r >= 0)
                set_expiry(access, expires);
        return r;
}

static int read_credential(const struct file *file, const char *name,
                           const struct nb_yaml_node *user, const struct nb_yaml_node *cluster,
                           struct nb_admin_access *access, struct nb_failure *f) {
        const struct nb_kubeconfig_input input = input_of(file);
        int r;

        if (has_value(user, "exec"))
                return read_exec(file, name, user, cluster, access, f);
        r = nb_kubeconfig_read_user(&policy, &input, file->document, name, &access->identity, f);
        if (r < 0 || !has_value(user, "tokenFile"))
                return r;
        access->is_renewable = true;
        access->expires_ms = nb_now_ms() + NB_ADMIN_TOKEN_FILE_MS;
        return 0;
}

int nb_admin_kubeconfig_read(const struct nb_admin_place *place, struct nb_admin_access *ret_access,
                             struct nb_failure *f) {
        _cleanup_(files_done) struct files files = { .n = 0 };
        const struct nb_yaml_node *cluster = NULL, *user = NULL;
        const struct file *cluster_file = NULL, *user_file = NULL;
        struct nb_kubeconfig_input input;
        _cleanup_(nb_admin_access_done) struct nb_admin_access access = ACCESS_INIT;
        struct context context = { 0 };
        int r;

        r = find_files(place, &files, f);
        if (r < 0 || files.n == 0)
                return r;
        r = find_context(&files, place->context, &context, f);
        if (r < 0 || !context.cluster || !context.user)
                return r;
        r = find_fields(&files, "clusters", "cluster", context.cluster, &context, &cluster,
                        &cluster_file, f);
        if (r < 0)
                return r;
        r = find_fields(&files, "users", "user", context.user, &context, &user, &user_file, f);
        if (r < 0 || !cluster_file || !user_file)
                return r;
        input = input_of(cluster_file);
        r = nb_kubeconfig_read_cluster(&policy, &input, cluster_file->document, context.cluster,
                                       &access.cluster, f);
        if (r < 0)
                return r;
        r = read_credential(user_file, context.user, user, cluster, &access, f);
        if (r < 0)
                return r;
        snprintf(access.origin, sizeof(access.origin), "%s", cluster_file->path);
        snprintf(access.context, sizeof(access.context), "%s", context.name);
        *ret_access = TAKE(access);
        return 1;
}

/* --- A pod --- */

int nb_admin_pod_read(struct nb_admin_access *ret_access, struct nb_failure *f) {
        static const char folder[] = NB_ADMIN_POD_FOLDER;
        _cleanup_(nb_secret_done) struct nb_secret ca = NB_SECRET_INIT, token = NB_SECRET_INIT;
        const char *host = getenv("KUBERNETES_SERVICE_HOST"),
                   *port = getenv("KUBERNETES_SERVICE_PORT"), *end;
        _cleanup_(nb_admin_access_done) struct nb_admin_access access = ACCESS_INIT;
        char url[NB_URL_MAX];
        int r;

        if (!host || !host[0] || !port || !port[0])
                return 0;
        snprintf(url, sizeof(url), strchr(host, ':') ? "https://[%s]:%s" : "https://%s:%s", host,
                 port);
        if (nb_url_parse(url, strlen(url), &access.cluster.server) < 0)
                return nb_failure_set(f, NB_ADMIN_KUBECONFIG_UNUSABLE, 0,
                                      "$KUBERNETES_SERVICE_HOST and _PORT: expected an address and "
                                      "a port, found '%s' and '%s'",
                                      host, port);
        r = nb_path_read(-1, NB_ADMIN_POD_FOLDER "/ca.crt", NB_KUBECONFIG_MAX, &ca);
        if (r >= 0)
                r = nb_path_read(-1, NB_ADMIN_POD_FOLDER "/token", NB_KUBECONFIG_MAX, &token);
        if (r < 0)
                return nb_failure_set(f, NB_ADMIN_KUBECONFIG_UNUSABLE, r,
                                      "cannot read ca.crt and token in %s: %m; the pod needs a "
                                      "ServiceAccount with automountServiceAccountToken",
                                      folder);
        for (end = token.data + token.len; end > token.data && strchr(" \t\r\n", end[-1]); end--)
                ;
        if (ca.len == 0 || !nb_bearer_is_valid(token.data, (size_t)(end - token.data)))
                return nb_failure_set(f, NB_ADMIN_KUBECONFIG_UNUSABLE, 0,
                                      "%s: expected a CA and a token, found something else",
                                      folder);
        access.cluster.ca = strndup(ca.data, ca.len);
        access.cluster.ca_len = ca.len;
        if (!access.cluster.ca || nb_identity_set_token(&access.identity, token.data,
                                                        (size_t)(end - token.data), folder) < 0)
                return nb_failure_set_memory(f);
        snprintf(access.origin, sizeof(access.origin), "%s", folder);
        access.is_renewable = true;
        access.expires_ms = nb_now_ms() + NB_ADMIN_TOKEN_FILE_MS;
        *ret_access = TAKE(access);
        return 1;
}

void nb_admin_access_done(struct nb_admin_access *access) {
        nb_identity_done(&access->identity);
        nb_cluster_done(&access->cluster);
}
