/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/sources.h"
#include "bootstrap/documents.h"
#include "install/context.h"

static bool is_own(int folder_fd, const char *name) {
        struct stat st;

        if (fstatat(folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT;
        return st.st_uid == geteuid();
}

/*
 * systemd 252 delivers credentials as files of the service's user, kept from changing by a read-only mount. Where it
 * could not mount (a container without the right to), that user could have written what root now goes by: settings, and
 * the CAs and hashes that tell which cluster is meant.
 */
static int verify_credentials(struct nb_failure *f) {
        static const char *const names[] = { NB_CREDENTIAL_CONFIG, NB_CREDENTIAL_TOKEN, NB_CREDENTIAL_TLS_BOOTSTRAP_TOKEN,
                                             NB_CREDENTIAL_KUBECONFIG, NB_CREDENTIAL_CLUSTER_INFO };
        const char *path = getenv("CREDENTIALS_DIRECTORY");
        _cleanup_(nb_closep) int fd = -1;
        struct statvfs mount;
        struct stat st;

        if (!path || nb_folder_open(path, &fd) < 0)
                return 0;
        if (fstatvfs(fd, &mount) == 0 && (mount.f_flag & ST_RDONLY))
                return 0;
        for (size_t i = 0; i < N_ELEMENTS(names); i++)
                if (fstat(fd, &st) < 0 || st.st_uid != geteuid() || !is_own(fd, names[i]))
                        return nb_failure_set(f, NB_SETTINGS_UNREADABLE, EPERM,
                                              "credential '%s' could have been changed by the network side: expected a "
                                              "read-only mount, or root as owner of it and its folder",
                                              names[i]);
        return 0;
}

static bool has_upper_case(const char *text) {
        for (; *text; text++)
                if (*text >= 'A' && *text <= 'Z')
                        return true;
        return false;
}

static int load_node_name(struct nb_context *context, struct nb_failure *f) {
        int r = nb_sources_host_name(context->host_name, f);

        if (r < 0)
                return r;
        context->is_name_lowered = context->settings.node_name[0] ? context->settings.is_node_name_lowered : has_upper_case(context->host_name);
        return nb_node_name_choose(context->settings.node_name, context->host_name, context->node_name,
                                   &context->is_override_needed, f);
}

/* What cannot be read is a failure only for those who need it. */
static int load_bootstrap(struct nb_context *context, struct nb_failure *f) {
        int r = nb_bootstrap_load(&context->settings, &context->bootstrap, &context->bootstrap_failure);

        r = nb_anchors_take(r < 0 ? NULL : &context->bootstrap, &context->settings, &context->anchors);
        return r < 0 ? nb_failure_set_memory(f) : 0;
}

static int load(struct nb_context *context, const char *root, struct nb_failure *f) {
        int r;

        r = nb_documents_merge(context->config_directory, NULL, NULL, &context->settings, f);
        if (r >= 0)
                r = load_node_name(context, f);
        if (r >= 0)
                r = load_bootstrap(context, f);
        if (r < 0 || !root)
                return r;
        r = nb_folder_open(root, &context->root_fd);
        if (r < 0) {
                errno = -r;
                return nb_failure_set(f, NB_USAGE, -r, "--root=%s: %m", root);
        }
        return 0;
}

int nb_context_load(struct nb_context *ret_context, const char *root, const char *config_directory,
                    struct nb_failure *f) {
        struct nb_context context = { .root_fd = -1, .now = time(NULL), .config_directory = config_directory };
        int r;

        r = verify_credentials(f);
        if (r >= 0)
                r = load(&context, root, f);
        if (r < 0) {
                nb_context_done(&context);
                return r;
        }
        *ret_context = context;
        return 0;
}

int nb_context_verify_bootstrap(const struct nb_context *context, struct nb_failure *f) {
        if (context->bootstrap_failure.code == NB_NONE)
                return 0;
        *f = context->bootstrap_failure;
        return f->errnum > 0 ? -f->errnum : -EPROTO;
}

void nb_context_done(struct nb_context *context) {
        nb_bootstrap_done(&context->bootstrap);
        if (context->root_fd >= 0)
                (void)close(context->root_fd);
        context->root_fd = -1;
}
