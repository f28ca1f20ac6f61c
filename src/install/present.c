/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/macro.h"
#include "format/kubeconfig.h"
#include "install/present.h"
#include "install/target.h"

#define PEM_FILE_MAX (256 * 1024)
#define PATH_SIZE 4096

/* `verdict` with a reason; the first one stands. Always 0, since that is no failure of the installer. */
#define CONCLUDE(present, what, errnum, ...) \
        ({ \
                (present)->verdict = (what); \
                (void)nb_failure_set(&(present)->why, NB_JOIN_ANEW, (errnum), __VA_ARGS__); \
                0; \
        })

static int cannot_read(struct nb_present *present, const char *path, int r, struct nb_failure *f) {
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r == -ENOENT)
                return CONCLUDE(present, NB_VERDICT_UNREADABLE, ENOENT, "there is no '%s', which the kubeconfig names",
                                path);
        if (r == -EBADF)
                return CONCLUDE(present, NB_VERDICT_UNREADABLE, EBADF, "'%s' is no regular file", path);
        errno = -r;
        return CONCLUDE(present, NB_VERDICT_UNREADABLE, -r, "'%s' cannot be read: %m", path);
}

/* A relative path in a kubeconfig is relative to its folder (clientcmd ResolveLocalPaths). */
static int resolve(const struct nb_context *context, const char *path, char ret[static PATH_SIZE]) {
        const char *slash = strrchr(context->settings.kubeconfig, '/');
        int n;

        if (path[0] == '/')
                n = snprintf(ret, PATH_SIZE, "%s", path);
        else
                n = snprintf(ret, PATH_SIZE, "%.*s/%s", (int)(slash - context->settings.kubeconfig),
                             context->settings.kubeconfig, path);
        return n >= PATH_SIZE ? -ENAMETOOLONG : 0;
}

static int take_chain(struct nb_present *present, const char *origin, const char *pem, size_t len,
                      struct nb_failure *f) {
        int r = nb_certificates_parse(pem, len, true, &present->chain);

        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (len == 0)
                return CONCLUDE(present, NB_VERDICT_UNREADABLE, -r, "'%s' is empty; expected a client certificate",
                                origin);
        if (r < 0)
                return CONCLUDE(present, NB_VERDICT_UNREADABLE, -r, "'%s' holds no client certificate that can be read",
                                origin);
        return 0;
}

static int take_key(struct nb_present *present, const char *origin, const char *pem, size_t len, struct nb_failure *f) {
        int r = nb_key_import(pem, len, &present->key);

        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r < 0 && r != -ENOTSUP)
                return CONCLUDE(present, NB_VERDICT_UNREADABLE, -r, "'%s' holds no private key that can be read",
                                origin);
        return 0;
}

/* Certificate and key stand in one file as a rule; each may also be embedded, which wins (clientcmd). */
static int read_client(const struct nb_context *context, const struct nb_kubeconfig_client *client, bool is_key,
                       struct nb_present *present, struct nb_failure *f) {
        int (*take)(struct nb_present *, const char *, const char *, size_t, struct nb_failure *) =
                is_key ? take_key : take_chain;
        const char *data = is_key ? client->key_data.data : client->certificate_data;
        const char *file = is_key ? client->key_file : client->certificate_file;
        _cleanup_(nb_secret_done) struct nb_secret pem = NB_SECRET_INIT;
        char path[PATH_SIZE];
        int r;

        if (data)
                return take(present, context->settings.kubeconfig, data,
                            is_key ? client->key_data.len : client->certificate_data_len, f);
        if (!file)
                return CONCLUDE(present, NB_VERDICT_UNREADABLE, ENOENT, "'%s' names no client %s",
                                context->settings.kubeconfig, is_key ? "key" : "certificate");
        r = resolve(context, file, path);
        if (r >= 0)
                r = nb_target_read(context->root_fd, path, PEM_FILE_MAX, &pem);
        if (r < 0)
                return cannot_read(present, file, r, f);
        return take(present, file, pem.data, pem.len, f);
}

/* What tells clusters apart; where it cannot be read, nothing can be said, and nothing is. */
static int read_cluster(const struct nb_context *context, const struct nb_kubeconfig_client *client,
                        struct nb_present *present, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret ca = NB_SECRET_INIT, record = NB_SECRET_INIT;
        struct nb_failure ignored = { 0 };
        char path[PATH_SIZE];
        int r;

        r = resolve(context, client->ca_file ? client->ca_file : context->settings.ca_file, path);
        if (r >= 0)
                r = nb_target_read(context->root_fd, path, PEM_FILE_MAX, &ca);
        if (r >= 0)
                r = nb_certificates_parse(ca.data, ca.len, true, &present->ca);
        if (r >= 0)
                r = nb_ca_hash_k3s(ca.data, ca.len, present->k3s_hash);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        present->has_k3s_hash = r >= 0;
        (void)snprintf(path, sizeof(path), "%s/" NB_RECORD_FILE, context->settings.certificate_directory);
        r = nb_target_read(context->root_fd, path, NB_HANDOFF_MAX, &record);
        if (r >= 0)
                r = nb_record_parse(record.data, record.len, &present->record, &ignored);
        present->has_record = r >= 0;
        return r == -ENOMEM ? nb_failure_set_memory(f) : 0;
}

/* A machine that was copied file by file has one; kubelet loads it, and refuses to rotate it. */
static void look_at_store(const struct nb_context *context, const struct nb_kubeconfig_client *client, struct nb_present *present) {
        char path[PATH_SIZE], current[PATH_SIZE];
        _cleanup_(nb_closep) int fd = -1;
        struct stat st;

        if (client->certificate_data || !client->certificate_file || resolve(context, client->certificate_file, path) < 0)
                return;
        (void)snprintf(current, sizeof(current), "%s/" NB_STORE_CURRENT, context->settings.certificate_directory);
        if (strcmp(path, current) != 0)
                return;
        fd = nb_target_open(context->root_fd, current, O_PATH | O_NOFOLLOW);
        present->is_file = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

static int read_kubeconfig(const struct nb_context *context, struct nb_present *present,
                           struct nb_kubeconfig_client *ret_client, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        const char *path = context->settings.kubeconfig;
        int r;

        r = nb_target_read(context->root_fd, path, NB_KUBECONFIG_MAX, &text);
        if (r == -ENOENT)
                return CONCLUDE(present, NB_VERDICT_ABSENT, ENOENT, "there is no kubeconfig '%s'", path);
        if (r == -EBADF)
                return nb_failure_set(f, NB_TARGET_NOT_KUBECONFIG, EBADF,
                                      "'%s' is no regular file; expected a kubeconfig, or nothing", path);
        if (r == -EFBIG)
                return nb_failure_set(f, NB_TARGET_NOT_KUBECONFIG, EFBIG,
                                      "'%s' is larger than %d bytes; expected a kubeconfig, or nothing", path,
                                      NB_KUBECONFIG_MAX);
        if (r < 0)
                return cannot_read(present, path, r, f);
        return nb_kubeconfig_parse_client(path, text.data, text.len, ret_client, f);
}

static int read_all(const struct nb_context *context, struct nb_present *present, struct nb_failure *f) {
        _cleanup_(nb_kubeconfig_client_done) struct nb_kubeconfig_client client = { .key_data = NB_SECRET_INIT };
        int r;

        r = read_kubeconfig(context, present, &client, f);
        if (r >= 0 && present->verdict == NB_VERDICT_USABLE)
                r = read_client(context, &client, false, present, f);
        if (r >= 0 && present->verdict == NB_VERDICT_USABLE)
                r = read_client(context, &client, true, present, f);
        if (r >= 0 && present->verdict == NB_VERDICT_USABLE)
                r = read_cluster(context, &client, present, f);
        if (r >= 0 && present->verdict == NB_VERDICT_USABLE)
                look_at_store(context, &client, present);
        return r;
}

int nb_present_read(const struct nb_context *context, struct nb_present *ret_present, struct nb_failure *f) {
        _cleanup_(nb_present_done) struct nb_present present = { .verdict = NB_VERDICT_USABLE };
        int r;

        r = read_all(context, &present, f);
        if (r < 0)
                return r;
        *ret_present = present;
        present = (struct nb_present){ 0 };
        return 0;
}

void nb_present_done(struct nb_present *present) {
        nb_certificates_free(present->chain);
        nb_certificates_free(present->ca);
        nb_key_free(present->key);
        *present = (struct nb_present){ 0 };
}
