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

#define POD_FOLDER "/var/run/secrets/kubernetes.io/serviceaccount"
#define TOKEN_FILE_MS 60000 /* client-go reads token files again after a minute */

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
        char here[PATH_MAX] = "";
        const char *name;

        if (path[0] != '/' && !getcwd(here, sizeof(here)))
                return -errno;
        if ((size_t)snprintf(file->path, sizeof(file->path), "%s%s%.*s", here, here[0] ? "/" : "",
                             (int)len, path) >= sizeof(file->path))
                return -ENAMETOOLONG;
        return nb_path_split(file->path, file->folder, sizeof(file->folder), &name);
}

/* Adds a file with this path, folder and text. */
static int add_text(struct files *files, const struct file *added, const char *text, size_t len,
                    struct nb_failure *f) {
        struct nb_kubeconfig_input input = input_of(added);
        struct file *file;

        if (files->n == FILES_MAX)
                return nb_failure_set(f, NB_ADMIN_KUBECONFIG_UNUSABLE, 0,
                                      "expected at most %d files in $KUBECONFIG, found more",
                                      FILES_MAX);
        file = malloc(sizeof(*file));
        if (!file)
                return nb_failure_set_memory(f);
        *file = *added;
        input.text = text;
        input.len = len;
        files->list[files->n++] = file;
        return nb_kubeconfig_open(&policy, &input, &file->document, f);
}

/* Adds a file. If it does not exist, it is skipped or, with `is_required`, refused. */
static int add_file(struct files *files, const char *path, size_t len, bool is_required,
                    struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        struct file file = { .document = NULL };
        int r;

        r = set_path(&file, path, len);
        if (r >= 0)
                r = nb_path_read(-1, file.path, NB_KUBECONFIG_MAX, &text);
        if (r == -ENOENT && !is_required)
                return 0;
        if (r < 0)
                return nb_failure_set(f, NB_ADMIN_KUBECONFIG_UNUSABLE, r,
                                      r == -EBADF ? "the kubeconfig '%.*s' is not a regular file"
                                                  : "cannot read the kubeconfig '%.*s': %m",
                                      (int)len, path);
        return add_text(files, &file, text.data ? text.data : "", text.len, f);
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

/* What client-go does for a pod (rest.InClusterConfig), as a kubeconfig. */
static int add_pod(struct files *files, struct nb_failure *f) {
        const char *host = getenv("KUBERNETES_SERVICE_HOST"),
                   *port = getenv("KUBERNETES_SERVICE_PORT");
        char text[1024];

        if (!host || !host[0] || !port || !port[0])
                return nb_failure_set(
                        f, NB_ADMIN_KUBECONFIG_UNUSABLE, ENOENT,
                        "found no kubeconfig: --kubeconfig and $KUBECONFIG are not set, "
                        "~/.kube/config and " DEFAULT_FILE " do not exist, and this is not a pod");
        snprintf(text, sizeof(text),
                 "current-context: pod\n"
                 "contexts: [{name: pod, context: {cluster: pod, user: pod}}]\n"
                 "users: [{name: pod, user: {tokenFile: token}}]\n"
                 "clusters: [{name: pod, cluster: {certificate-authority: ca.crt, server: "
                 "\"https://%s%s%s:%s\"}}]\n",
                 strchr(host, ':') ? "[" : "", host, strchr(host, ':') ? "]" : "", port);
        return add_text(files,
                        &(struct file){ .path = "the pod's ServiceAccount (needs "
                                                "automountServiceAccountToken)",
                                        .folder = POD_FOLDER },
                        text, strlen(text), f);
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
        if (r >= 0 && files->n == 0)
                r = add_pod(files, f);
        return r;
}

/* --- Entries --- */

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
                        const char *found = nb_yaml_text(entry, "name");

                        if (!found || strcmp(found, name) != 0)
                                continue;
                        *ret_file = files->list[i];
                        return nb_yaml_get(entry, key);
                }
        }
        return NULL;
}

/* The entries of one context. */
struct context {
        const char *name, *cluster_name, *user_name;
        const struct nb_yaml_node *cluster, *user;
        const struct file *cluster_file, *user_file;
};

static int find_context(const struct files *files, const char *wanted, struct context *ret,
                        struct nb_failure *f) {
        const struct file *file = files->list[0];
        const struct nb_yaml_node *fields;

        ret->name = wanted;
        for (size_t i = 0; i < files->n && !ret->name; i++)
                ret->name = nb_yaml_text(files->list[i]->document, "current-context");
        if (!ret->name)
                return nb_failure_set(f, NB_ADMIN_KUBECONFIG_UNUSABLE, 0,
                                      "%s: no current-context is set; name one with --context, or "
                                      "use `kubectl config use-context`",
                                      file->path);
        fields = find_entry(files, "contexts", ret->name, &file);
        ret->cluster_name = nb_yaml_text(fields, "cluster");
        ret->user_name = nb_yaml_text(fields, "user");
        if (!ret->cluster_name || !ret->user_name)
                return nb_failure_set(f, NB_ADMIN_KUBECONFIG_UNUSABLE, 0,
                                      "%s: expected a context '%s' with a cluster and a user; "
                                      "`kubectl config get-contexts` lists all contexts",
                                      file->path, ret->name);
        ret->cluster = find_entry(files, "clusters", ret->cluster_name, &ret->cluster_file);
        ret->user = find_entry(files, "users", ret->user_name, &ret->user_file);
        if (ret->cluster && ret->user)
                return 0;
        return nb_failure_set(f, NB_ADMIN_KUBECONFIG_UNUSABLE, 0,
                              "%s: context '%s' names the %s '%s', which is not in the list",
                              file->path, ret->name, ret->cluster ? "user" : "cluster",
                              ret->cluster ? ret->user_name : ret->cluster_name);
}

/* --- The credential --- */

static int read_exec(const struct context *context, struct nb_admin_access *access,
                     struct nb_failure *f) {
        char what[PATH_MAX + 256];
        const struct nb_exec_plugin plugin = { .what = what,
                                               .folder = context->user_file->folder,
                                               .exec = nb_yaml_get(context->user, "exec"),
                                               .cluster_fields = context->cluster,
                                               .cluster = &access->cluster };
        time_t expires, now;
        int r;

        snprintf(what, sizeof(what), "%s: exec of the user '%.200s'", context->user_file->path,
                 context->user_name);
        /* To ignore a field such as `as` would give the request other rights. */
        for (const struct nb_yaml_node *node = context->user->first; node; node = node->next)
                if (strcmp(node->key, "exec") != 0 && strcmp(node->key, "extensions") != 0 &&
                    !nb_yaml_is_empty(node))
                        return nb_failure_set(f, NB_ADMIN_KUBECONFIG_UNUSABLE, 0,
                                              "%s: expected no other credential, found %s", what,
                                              nb_text_contains_token(node->key) ? "a key"
                                                                                : node->key);
        r = nb_exec_run(&plugin, &access->identity, &expires, f);
        if (r < 0)
                return r;
        now = time(NULL);
        access->is_renewable = true;
        if (expires != 0)
                access->expires_ms = nb_now_ms() +
                                     (expires > now ? (uint64_t)(expires - now) * 1000 : 0);
        return 0;
}

static int read_credential(const struct context *context, struct nb_admin_access *access,
                           struct nb_failure *f) {
        const struct nb_kubeconfig_input input = input_of(context->user_file);
        int r;

        if (!nb_yaml_is_empty(nb_yaml_get(context->user, "exec")))
                return read_exec(context, access, f);
        r = nb_kubeconfig_read_user(&policy, &input, context->user_file->document,
                                    context->user_name, &access->identity, f);
        if (r < 0 || nb_yaml_is_empty(nb_yaml_get(context->user, "tokenFile")))
                return r;
        access->is_renewable = true;
        access->expires_ms = nb_now_ms() + TOKEN_FILE_MS;
        return 0;
}

int nb_admin_kubeconfig_read(const struct nb_admin_place *place, struct nb_admin_access *ret_access,
                             struct nb_failure *f) {
        _cleanup_(files_done) struct files files = { .n = 0 };
        _cleanup_(nb_admin_access_done) struct nb_admin_access access = {
                .expires_ms = NB_TIME_INFINITE
        };
        struct context context = { 0 };
        struct nb_kubeconfig_input input;
        int r;

        r = find_files(place, &files, f);
        if (r >= 0)
                r = find_context(&files, place->context, &context, f);
        if (r < 0 || !context.cluster_file || !context.user_file)
                return r;
        input = input_of(context.cluster_file);
        r = nb_kubeconfig_read_cluster(&policy, &input, context.cluster_file->document,
                                       context.cluster_name, &access.cluster, f);
        if (r >= 0)
                r = read_credential(&context, &access, f);
        if (r < 0)
                return r;
        snprintf(access.origin, sizeof(access.origin), "%s", context.cluster_file->path);
        snprintf(access.context, sizeof(access.context), "%s", context.name);
        *ret_access = TAKE(access);
        return 0;
}

void nb_admin_access_done(struct nb_admin_access *access) {
        nb_identity_done(&access->identity);
        nb_cluster_done(&access->cluster);
}
