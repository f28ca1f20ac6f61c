/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/encoding.h"
#include "base/file.h"
#include "base/macro.h"
#include "base/sources.h"
#include "install/acl.h"
#include "install/give.h"
#include "state/handoff.h"
#include "state/platform.h"

#define NAMED_FILE_MAX (1024 * 1024) /* a bundle of CAs is the largest of them */
#define PASSWORD_MAX 64              /* as many as `join` shows */
#define PASSWORD_FILE_MAX 4096
#define PASSWORD_BYTES 16 /* k3s takes as many, and writes them in hex */

struct giving {
        const struct nb_context *context;
        int folder_fd;
        uid_t reader;         /* the folder's owner: `join` */
        bool is_installed;    /* the kubeconfig that is being read is kubelet's own */
        struct nb_failure *f; /* of a copy that the parser of a kubeconfig has asked for */
};

static int write_all(int fd, const char *data, size_t len) {
        while (len > 0) {
                ssize_t n = write(fd, data, len);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                data += n;
                len -= (size_t)n;
        }
        return 0;
}

static int write_copy(const struct giving *giving, const char *data, size_t len) {
        _cleanup_(nb_closep) int fd = -1;
        int r;

        if (unlinkat(giving->folder_fd, NB_GIVEN_TEMPORARY, 0) < 0 && errno != ENOENT)
                return -errno;
        fd = openat(giving->folder_fd, NB_GIVEN_TEMPORARY,
                    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;
        r = write_all(fd, data, len);
        /* By hand the reader is the process itself. */
        if (r >= 0 && giving->reader != geteuid())
                r = nb_acl_let_read(fd, giving->reader);
        return r;
}

/* No fsync(): the folder does not outlive the machine's next boot. */
static int copy(const struct giving *giving, const char *path, const char *data, size_t len) {
        char name[NAME_MAX + 1];
        int r;

        r = nb_given_name(path, name);
        if (r < 0)
                return r;
        r = write_copy(giving, data, len);
        if (r >= 0 && renameat(giving->folder_fd, NB_GIVEN_TEMPORARY, giving->folder_fd, name) < 0)
                r = -errno;
        if (r < 0)
                (void)unlinkat(giving->folder_fd, NB_GIVEN_TEMPORARY, 0);
        return r;
}

struct original {
        const char *path;
        const char *data;
        size_t len;
        bool is_public; /* everybody can read it, `join` too, as long as there is no copy */
};

static int give(const struct giving *giving, const struct original *original,
                struct nb_failure *f) {
        const char *path = original->path;
        int r = copy(giving, path, original->data, original->len);

        if (r >= 0 || ((r == -EOPNOTSUPP || r == -ENAMETOOLONG) && original->is_public))
                return 0;
        errno = -r;
        if (r == -EOPNOTSUPP)
                return nb_failure_set(
                        f, NB_COPY_UNWRITABLE, -r,
                        "'%s' cannot be handed to the network side, since the file system of the "
                        "runtime "
                        "directory has no access control lists; give it as a credential",
                        path);
        if (r == -ENAMETOOLONG)
                return nb_failure_set(f, NB_COPY_UNWRITABLE, -r,
                                      "'%s' cannot be handed to the network side, since its path "
                                      "is longer than %d bytes; give it "
                                      "as a credential, or by a shorter path",
                                      path, NB_GIVEN_PATH_MAX);
        return nb_failure_set(f, NB_COPY_UNWRITABLE, -r,
                              "a copy of '%s' for the network side cannot be made: %m", path);
}

/* 0 also where it cannot be read; ret_text may be NULL, and is empty then. */
static int give_file(const struct giving *giving, const char *path, struct nb_secret *ret_text,
                     struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        struct stat st;
        int r;

        if (path[0] != '/')
                return 0;
        r = nb_sources_read(giving->context->sources, path, NAMED_FILE_MAX, &text, &st);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r < 0)
                return 0;
        r = give(giving, &(struct original){ path, text.data, text.len, st.st_mode & 0004 }, f);
        if (r < 0 || !ret_text)
                return r;
        *ret_text = text;
        text = (struct nb_secret)NB_SECRET_INIT;
        return 0;
}

/* Of this machine, as installed: below --root. ret_text as above. */
static int give_target(const struct giving *giving, const char *path, struct nb_secret *ret_text,
                       struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        int r;

        r = nb_path_read(giving->context->root_fd, path, NAMED_FILE_MAX, &text);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r < 0)
                return 0;
        r = give(giving, &(struct original){ path, text.data, text.len, false }, f);
        if (r < 0 || !ret_text)
                return r;
        *ret_text = text;
        text = (struct nb_secret)NB_SECRET_INIT;
        return 0;
}

static int give_document(void *userdata, const struct nb_config_document *document,
                         struct nb_failure *f) {
        if (!document->path)
                return 0;
        return give(userdata,
                    &(struct original){ document->path, document->data, document->len,
                                        document->is_exposed },
                    f);
}

/* What a kubeconfig refers to. */
static int read_named(void *userdata, const char *path, struct nb_secret *ret) {
        const struct giving *giving = userdata;
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        int r;

        r = giving->is_installed ? give_target(giving, path, &text, giving->f)
                                 : give_file(giving, path, &text, giving->f);
        if (r < 0)
                return r;
        if (!text.data)
                return -ENOENT;
        *ret = text;
        text = (struct nb_secret)NB_SECRET_INIT;
        return 0;
}

/* That it does not do is for `join` to say; only a copy that could not be made is a failure here.
 */
static int give_named(struct giving *giving, const char *origin, const char *folder,
                      const struct nb_secret *text, const struct nb_kubeconfig_policy *policy,
                      struct nb_failure *f) {
        _cleanup_(nb_identity_done) struct nb_identity identity = NB_IDENTITY_INIT;
        _cleanup_(nb_cluster_done) struct nb_cluster cluster = { 0 };
        const struct nb_kubeconfig_input input = {
                .origin = origin,
                .text = text->data,
                .len = text->len,
                .read = read_named,
                .userdata = giving,
                .folder = folder,
        };
        struct nb_failure ignored = { 0 }, why = { 0 };
        int r;

        giving->f = &why;
        r = nb_kubeconfig_parse(policy, &input, &cluster, &identity, &ignored);
        giving->f = NULL;
        if (why.code == NB_NONE)
                return r == -ENOMEM ? nb_failure_set_memory(f) : 0;
        *f = why;
        return why.errnum > 0 ? -why.errnum : -EPROTO;
}

static int give_kubeconfig(struct giving *giving, const char *path,
                           const struct nb_kubeconfig_policy *policy, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        char folder[NB_SETTINGS_PATH_MAX];
        const char *name;
        int r;

        r = give_file(giving, path, &text, f);
        if (r < 0 || !text.data || nb_path_split(path, folder, sizeof(folder), &name) < 0)
                return r;
        return give_named(giving, path, folder, &text, policy, f);
}

/* The credential itself is delivered to `join` by systemd. */
static int give_credential(struct giving *giving, const char *name,
                           const struct nb_kubeconfig_policy *policy, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        struct nb_failure ignored = { 0 };
        int r;

        r = nb_sources_credential(giving->context->sources, name, NB_KUBECONFIG_MAX, &text,
                                  &ignored);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        return r < 0 ? 0 : give_named(giving, name, NULL, &text, policy, f);
}

/* What node-bootstrap-platform.service has found on this machine itself: as good as metadata, so
 * that it is for those who want that. */
static int give_platform(const struct giving *giving, struct nb_failure *f) {
        static const char *const paths[] = { NB_PLATFORM_NOTE, NB_PLATFORM_USER_DATA,
                                             NB_PLATFORM_META_DATA, NB_PLATFORM_TOKEN };
        int r = 0;

        if (!giving->context->is_metadata_wanted)
                return 0;
        for (size_t i = 0; i < N_ELEMENTS(paths) && r >= 0; i++)
                r = give_file(giving, paths[i], NULL, f);
        return r;
}

static int refuse_password(int errnum, const char *found, struct nb_failure *f) {
        return nb_failure_set(f, NB_NODE_PASSWORD_MISSING, errnum,
                              "'" NB_NODE_PASSWORD_FILE
                              "' %s; expected 1 to %d printable characters",
                              found, PASSWORD_MAX);
}

/* Of what is there already, as `join` and k3s read it; `join` only learns that there is none that
 * does. */
static int verify_password(const struct nb_context *context, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        size_t len;
        int r = nb_path_read(context->root_fd, NB_NODE_PASSWORD_FILE, PASSWORD_FILE_MAX, &text);

        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r == -ENOENT)
                return refuse_password(-r, "is a link that leads nowhere", f);
        if (r == -EFBIG)
                return refuse_password(-r, "is too large", f);
        if (r < 0)
                return refuse_password(-r, "cannot be read", f);
        len = text.len;
        while (len > 0 && strchr(" \t\r\n", text.data[len - 1]))
                len--;
        if (len == 0)
                return refuse_password(EINVAL, "is empty", f);
        if (len > PASSWORD_MAX)
                return refuse_password(EINVAL, "holds more characters", f);
        for (size_t i = 0; i < len; i++)
                if (text.data[i] <= ' ' || text.data[i] > '~')
                        return refuse_password(
                                EINVAL,
                                "holds a blank, a control character or one outside of ASCII", f);
        return 0;
}

/* As k3s makes it. The server keeps what it is shown first, so it has to be on disk before. */
static int make_password(const struct nb_context *context, struct nb_failure *f) {
        _cleanup_(nb_closep) int folder_fd = -1;
        uint8_t bytes[PASSWORD_BYTES];
        char folder[64], text[2 * PASSWORD_BYTES + 2];
        const char *name;
        int r;

        r = nb_path_split(NB_NODE_PASSWORD_FILE, folder, sizeof(folder), &name);
        if (r >= 0)
                r = nb_path_make_folder(context->root_fd, folder, 0755, &folder_fd);
        if (r >= 0 && faccessat(folder_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
                return verify_password(context, f);
        if (r >= 0 && getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
                r = -EIO;
        if (r >= 0) {
                nb_hex_encode(bytes, sizeof(bytes), text);
                text[2 * PASSWORD_BYTES] = '\n';
                r = nb_file_create(folder_fd, name, 0600, text, 2 * PASSWORD_BYTES + 1);
        }
        explicit_bzero(text, sizeof(text));
        explicit_bzero(bytes, sizeof(bytes));
        if (r >= 0)
                return 0;
        return nb_failure_set(f, NB_TARGET_UNWRITABLE, -r,
                              "the node password '" NB_NODE_PASSWORD_FILE "' cannot be made: %m%s",
                              r == -EROFS || r == -ENOENT || r == -EACCES
                                      ? "; make its folder first: mkdir --parents /etc/rancher/node"
                                      : "");
}

static int give_password(const struct giving *giving, bool is_joined, struct nb_failure *f) {
        int r;

        if (giving->context->bootstrap.issuer != NB_ISSUER_SUPERVISOR)
                return 0;
        r = is_joined ? 0 : make_password(giving->context, f);
        return r < 0 ? r : give_target(giving, NB_NODE_PASSWORD_FILE, NULL, f);
}

/* The server, and what else than our own layout it may name. */
static int give_own_kubeconfig(struct giving *giving, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        const char *path = giving->context->settings.kubeconfig, *name;
        char folder[NB_SETTINGS_PATH_MAX];
        int r;

        r = give_target(giving, path, &text, f);
        if (r < 0 || !text.data || nb_path_split(path, folder, sizeof(folder), &name) < 0)
                return r;
        giving->is_installed = true;
        r = give_named(giving, path, folder, &text, &nb_kubeconfig_bootstrap, f);
        giving->is_installed = false;
        return r;
}

static int give_client(struct giving *giving, struct nb_failure *f) {
        const struct nb_settings *settings = &giving->context->settings;
        char path[NB_SETTINGS_PATH_MAX + sizeof(NB_STORE_CURRENT) + 1];
        int r;

        snprintf(path, sizeof(path), "%s/" NB_STORE_CURRENT, settings->certificate_directory);
        r = give_target(giving, path, NULL, f);
        if (r >= 0)
                r = give_target(giving, settings->ca_file, NULL, f);
        return r < 0 ? r : give_own_kubeconfig(giving, f);
}

static void giving_done(struct giving *giving) {
        nb_closep(&giving->folder_fd);
}

/* The configuration files are for every reader. */
static int giving_init(struct giving *giving, const struct nb_context *context,
                       struct nb_failure *f) {
        struct stat st;
        int r;

        giving->context = context;
        r = nb_sources_folder("RUNTIME_DIRECTORY", &giving->folder_fd, f);
        if (r < 0)
                return r;
        if (fstat(giving->folder_fd, &st) < 0)
                return nb_failure_set(f, NB_INTERNAL, errno,
                                      "the runtime directory cannot be looked at: %m");
        giving->reader = st.st_uid;
        return nb_sources_config(context->sources, give_document, giving, f);
}

int nb_give_for_refresh(const struct nb_context *context, struct nb_failure *f) {
        _cleanup_(giving_done) struct giving giving = { .folder_fd = -1 };
        int r;

        r = giving_init(&giving, context, f);
        if (r >= 0)
                r = give_target(&giving, context->settings.kubeconfig, NULL, f);
        return r < 0 ? r : give_target(&giving, context->settings.ca_file, NULL, f);
}

int nb_give(const struct nb_context *context, bool is_joined, bool is_client_needed,
            struct nb_failure *f) {
        _cleanup_(giving_done) struct giving giving = { .folder_fd = -1 };
        const struct nb_settings *settings = &context->settings;
        int r;

        r = giving_init(&giving, context, f);
        if (r >= 0)
                r = give_kubeconfig(&giving, settings->discovery_file,
                                    &nb_kubeconfig_discovery_file, f);
        if (r >= 0)
                r = give_file(&giving, settings->url_ca_file, NULL, f);
        if (r >= 0)
                r = give_kubeconfig(&giving, settings->bootstrap_kubeconfig,
                                    &nb_kubeconfig_bootstrap, f);
        if (r >= 0)
                r = give_credential(&giving, NB_CREDENTIAL_CLUSTER_INFO,
                                    &nb_kubeconfig_discovery_file, f);
        if (r >= 0)
                r = give_credential(&giving, NB_CREDENTIAL_KUBECONFIG, &nb_kubeconfig_bootstrap, f);
        if (r >= 0)
                r = give_platform(&giving, f);
        if (r >= 0)
                r = give_password(&giving, is_joined, f);
        if (r >= 0 && is_client_needed)
                r = give_client(&giving, f);
        return r;
}
