/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/client/client.h"
#include "admin/client/exec.h"
#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "os/clock.h"

#define FILES_MAX 16
#define DEFAULT_FILE "/etc/kubernetes/admin.conf"

#define FILE_MS 60000 /* client-go reads token files again after a minute */

static const struct nb_kubeconfig_policy policy = {
        .unacceptable = NB_ADMIN_KUBECONFIG_UNUSABLE,
        .unreadable = NB_ADMIN_KUBECONFIG_UNUSABLE,
        .users = NB_KUBECONFIG_USERS_CURRENT,
        .needs_context = true,
        .exec = nb_exec_run,
};

/* In the order of precedence. */
struct files {
        struct file {
                char path[PATH_MAX];
                char folder[PATH_MAX];
                struct nb_secret text;
                struct nb_kubeconfig_input input;
        } list[FILES_MAX];
        size_t n;
};

static void files_done(struct files *files) {
        for (size_t i = 0; i < files->n; i++)
                nb_secret_done(&files->list[i].text);
}

/* --- Files --- */

/* Adds a file; `len` -1 is the whole path. If it does not exist, it is skipped or, with
 * `is_required`, refused. */
static int add_file(struct files *files, const char *path, int len, bool is_required,
                    struct nb_failure *f) {
        struct file *file = &files->list[files->n];
        const char *slash;
        int r;

        if (files->n == FILES_MAX)
                return nb_failure_set(f, NB_ADMIN_KUBECONFIG_UNUSABLE, E2BIG,
                                      "$KUBECONFIG names too many files");
        r = snprintf(file->path, sizeof(file->path), "%.*s", len, path);
        r = (size_t)r >= sizeof(file->path)
                    ? -ENAMETOOLONG
                    : nb_path_read(-1, file->path, NB_KUBECONFIG_MAX, &file->text);
        if (r == -ENOENT && !is_required)
                return 0;
        if (r < 0)
                return nb_failure_set(f, NB_ADMIN_KUBECONFIG_UNUSABLE, r,
                                      r == -EBADF ? "the kubeconfig '%s' is not a regular file"
                                                  : "cannot read the kubeconfig '%s': %m",
                                      nb_text_shown(file->path));
        slash = strrchr(file->path, '/');
        snprintf(file->folder, sizeof(file->folder), "%.*s", slash ? (int)(slash - file->path) : 1,
                 slash ? file->path : ".");
        files->n++;
        return 0;
}

/* What client-go does for a pod (rest.InClusterConfig), as a kubeconfig. */
static int add_pod(struct files *files, struct nb_failure *f) {
        const char *host = getenv("KUBERNETES_SERVICE_HOST"),
                   *port = getenv("KUBERNETES_SERVICE_PORT");
        struct file *file = &files->list[0];
        char text[1024];

        if (!host || !port)
                return nb_failure_set(
                        f, NB_ADMIN_KUBECONFIG_UNUSABLE, ENOENT,
                        "found no kubeconfig: --kubeconfig and $KUBECONFIG are not set, "
                        "~/.kube/config and " DEFAULT_FILE " do not exist, and this is not a pod");
        snprintf(file->path, sizeof(file->path),
                 "the pod's ServiceAccount (needs automountServiceAccountToken)");
        NB_TEXT_COPY(file->folder, "/var/run/secrets/kubernetes.io/serviceaccount");
        snprintf(text, sizeof(text),
                 "current-context: pod\n"
                 "contexts: [{name: pod, context: {cluster: pod, user: pod}}]\n"
                 "users: [{name: pod, user: {tokenFile: token}}]\n"
                 "clusters: [{name: pod, cluster: {certificate-authority: ca.crt, server: "
                 "\"https://%s%s%s:%s\"}}]\n",
                 strchr(host, ':') ? "[" : "", host, strchr(host, ':') ? "]" : "", port);
        files->n++;
        return nb_secret_copy(&file->text, text, strlen(text)) < 0 ? nb_failure_set_memory(f) : 0;
}

static int find_files(const struct nb_admin_place *place, struct files *files,
                      struct nb_failure *f) {
        const char *list = getenv("KUBECONFIG"), *home = getenv("HOME");
        char path[2 * PATH_MAX];
        int len, r = 0;

        if (place->kubeconfig)
                return add_file(files, place->kubeconfig, -1, true, f);
        for (const char *at = list ? list : ""; *at && r >= 0; at += len + (at[len] == ':')) {
                len = (int)strcspn(at, ":");
                r = len > 0 ? add_file(files, at, len, false, f) : 0;
        }
        if (r >= 0 && files->n == 0 && list && list[0])
                return nb_failure_set(f, NB_ADMIN_KUBECONFIG_UNUSABLE, ENOENT,
                                      "no file that $KUBECONFIG names exists: '%s'",
                                      nb_text_shown(list));
        snprintf(path, sizeof(path), "%s/.kube/config", home ? home : "");
        if (r >= 0 && files->n == 0 && home)
                r = add_file(files, path, -1, false, f);
        if (r >= 0 && files->n == 0)
                r = add_file(files, DEFAULT_FILE, -1, false, f);
        if (r >= 0 && files->n == 0)
                r = add_pod(files, f);
        return r;
}

/* A file that the kubeconfig names may be replaced while this program runs. */
static int read_file(void *userdata, const char *path, struct nb_secret *ret) {
        struct nb_admin *admin = userdata;
        int r = nb_path_read(-1, path, NB_KUBECONFIG_MAX, ret);

        admin->expires_ms = nb_now_ms() + FILE_MS;
        admin->is_file_missing |= r == -ENOENT;
        return r;
}

int nb_admin_kubeconfig_read(struct nb_admin *admin, struct nb_failure *f) {
        _cleanup_(files_done) struct files files = { .n = 0 };
        int r = find_files(&admin->place, &files, f);

        if (r < 0)
                return r;
        admin->expires_ms = NB_TIME_INFINITE;
        for (size_t i = 0; i < files.n; i++) {
                struct file *file = &files.list[i];

                file->input = (struct nb_kubeconfig_input){
                        .origin = file->path,
                        .text = file->text.data ? file->text.data : "",
                        .len = file->text.len,
                        .read = read_file,
                        .userdata = admin,
                        .folder = file->folder,
                        .context = admin->place.context,
                        .next = i + 1 < files.n ? &file[1].input : NULL,
                };
        }
        snprintf(admin->origin, sizeof(admin->origin), "%s",
                 files.n > 1 ? "the files in $KUBECONFIG" : nb_text_shown(files.list[0].path));
        r = nb_kubeconfig_parse(&policy, &files.list[0].input, &admin->cluster, &admin->identity,
                                f);
        if (f->code == NB_ADMIN_KUBECONFIG_UNUSABLE && admin->place.context)
                nb_failure_add(f, "; the context is '%s'", nb_text_shown(admin->place.context));
        return r;
}
