/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "crypto/certificate.h"
#include "install/aside.h"
#include "install/flags.h"
#include "install/reset.h"
#include "install/state.h"
#include "kube/kubeconfig.h"
#include "method/cluster_identity.h"
#include "settings/kubelet_env.h"
#include "state/record.h"

#define CA_FILE_MAX (256 * 1024)
#define ENV_FILE NB_KUBELET_DIRECTORY "/" NB_KUBELET_ENV_FILE
#define DISCARD_FILE NB_KUBELET_DIRECTORY "/" NB_DISCARD_FILE
#define FLAGS_FILE NB_KUBELET_DIRECTORY "/" NB_FLAGS_FILE
#define PATH_SIZE (2 * NB_SETTINGS_PATH_MAX)

struct reset {
        const struct nb_context *context;
        struct nb_record record;
        char record_path[PATH_SIZE];
        char link[PATH_SIZE]; /* kubelet-client-current.pem */
        bool is_taken_over;   /* another program has joined this machine since, in the same paths */
};

static int unfinished(const char *path, int r, struct nb_failure *f) {
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        return nb_failure_set(f, NB_RESET_UNFINISHED, r, "cannot read or remove '%s': %m", path);
}

static void print_left(const char *path, const char *why) {
        printf("left     %s: %s\n", path, why);
}

static int open_folder(const struct reset *reset, const char *path, int *ret_fd,
                       const char **ret_name) {
        char folder[PATH_SIZE];
        int r = nb_path_split(path, folder, sizeof(folder), ret_name);

        if (r < 0)
                return r;
        r = nb_path_open(reset->context->root_fd, folder, O_RDONLY | O_DIRECTORY);
        if (r < 0)
                return r;
        *ret_fd = r;
        return 0;
}

/* Does not follow a link. 1; 0 if there is nothing; -errno. */
static int find_file(const struct reset *reset, const char *path, int *ret_fd,
                     const char **ret_name) {
        int r = open_folder(reset, path, ret_fd, ret_name);

        if (r >= 0 && faccessat(*ret_fd, *ret_name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
                r = -errno;
        return r == -ENOENT ? 0 : r < 0 ? r : 1;
}

static int remove_file(const struct reset *reset, const char *path, struct nb_failure *f) {
        _cleanup_(nb_closep) int fd = -1;
        const char *name;
        int r;

        r = find_file(reset, path, &fd, &name);
        if (r == 0)
                return 0;
        if (r > 0)
                r = nb_file_remove(fd, name);
        if (r < 0)
                return unfinished(path, r, f);
        printf("removed  %s\n", path);
        return 0;
}

/* --- kubeconfig --- */

/* Another program that has joined this machine to another cluster uses kubelet's paths as well. */
static bool is_server_ours(const struct reset *reset, const char *server) {
        struct nb_url url;

        return server && nb_url_parse(server, strlen(server), &url) >= 0 &&
               nb_url_is_equal(&url, &reset->record.server);
}

static int remove_kubeconfig(struct reset *reset, struct nb_failure *f) {
        _cleanup_(nb_kubeconfig_client_done) struct nb_kubeconfig_client client =
                NB_KUBECONFIG_CLIENT_INIT;
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        const char *path = reset->context->settings.kubeconfig;
        struct nb_failure why = { 0 };
        int r;

        r = nb_path_read(reset->context->root_fd, path, NB_KUBECONFIG_MAX, &text);
        if (r == -ENOENT)
                return 0;
        if (r < 0 && r != -EBADF && r != -EFBIG)
                return unfinished(path, r, f);
        if (r >= 0)
                r = nb_kubeconfig_parse_client(path, text.data, text.len, &client, &why);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r < 0) {
                print_left(path, "not a kubeconfig");
                return 0;
        }
        reset->is_taken_over = true;
        if (client.certificate.data || !client.certificate_file ||
            strcmp(client.certificate_file, reset->link) != 0) {
                print_left(path, "uses another client certificate than that of the join");
                return 0;
        }
        if (!is_server_ours(reset, client.server)) {
                print_left(path, "uses another API server than the join");
                return 0;
        }
        reset->is_taken_over = false;
        return remove_file(reset, path, f);
}

/* True for a file that belongs to whoever wrote the kubeconfig that stays. */
static bool is_left_to_other(const struct reset *reset, const char *path) {
        _cleanup_(nb_closep) int fd = -1;
        const char *name;

        if (reset->is_taken_over && find_file(reset, path, &fd, &name) > 0)
                print_left(path, "used by the kubeconfig, which is not that of the join");
        return reset->is_taken_over;
}

/* --- Certificate --- */

/* Whether the link still names the file of the record: when kubelet renews, it names another. */
static bool is_renewed(const struct reset *reset) {
        _cleanup_(nb_closep) int fd = -1;
        char target[PATH_SIZE];
        const char *name;
        ssize_t n;

        if (open_folder(reset, reset->link, &fd, &name) < 0)
                return true;
        n = readlinkat(fd, name, target, sizeof(target) - 1);
        if (n < 0)
                return true;
        target[n] = '\0';
        return strcmp(target, reset->record.certificate) != 0;
}

/* Nothing outside of the store is removed because a record names it, though root wrote that. */
static bool is_in_store(const struct reset *reset) {
        const char *folder = reset->context->settings.certificate_directory,
                   *path = reset->record.certificate;
        size_t len = strlen(folder);

        return !strncmp(path, folder, len) && path[len] == '/' &&
               fnmatch("kubelet-client-*.pem", path + len + 1, FNM_PATHNAME) == 0;
}

static int remove_certificate(struct reset *reset, struct nb_failure *f) {
        bool was_renewed = is_renewed(reset);
        int r;

        if (is_left_to_other(reset, reset->link)) {
                if (!was_renewed)
                        return 0;
        } else {
                r = remove_file(reset, reset->link, f);
                if (r < 0)
                        return r;
        }
        if (is_in_store(reset)) {
                r = remove_file(reset, reset->record.certificate, f);
                if (r < 0)
                        return r;
        }
        if (was_renewed && !reset->is_taken_over)
                printf("         kubelet has renewed its certificate since; that one stays "
                       "valid until it expires\n");
        return 0;
}

/* --- Other files --- */

/* Whether the file has exactly the certificates of the join, by their public keys. */
static bool is_ca_ours(const struct reset *reset, const struct nb_secret *text) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *ca = NULL;
        uint8_t pins[NB_CERTIFICATES_MAX][NB_SHA256_SIZE];
        unsigned n = 0;

        if (nb_certificates_parse(text->data, text->len, true, &ca) < 0)
                return false;
        for (; n < nb_certificates_count(ca); n++)
                if (nb_certificate_pin(ca, n, pins[n]) < 0)
                        return false;
        return n > 0 && nb_pins_are_equal((const uint8_t(*)[NB_PIN_SIZE])pins, n,
                                          (const uint8_t(*)[NB_PIN_SIZE])reset->record.ca_hashes,
                                          reset->record.n_ca_hashes);
}

static int remove_ca(struct reset *reset, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        const char *path = reset->context->settings.ca_file;
        int r;

        if (is_left_to_other(reset, path))
                return 0;
        r = nb_path_read(reset->context->root_fd, path, CA_FILE_MAX, &text);
        if (r == -ENOENT)
                return 0;
        if (r < 0 && r != -EBADF && r != -EFBIG)
                return unfinished(path, r, f);
        if (r >= 0 && is_ca_ours(reset, &text) && !reset->record.is_ca_found)
                return remove_file(reset, path, f);
        print_left(path, r >= 0 && reset->record.is_ca_found
                                 ? "existed before the join"
                                 : "does not have exactly the certificates that the join wrote");
        return 0;
}

static int remove_env(struct reset *reset, struct nb_failure *f) {
        return remove_file(reset, ENV_FILE, f);
}

static int remove_flags(struct reset *reset, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer file = NB_BUFFER_INIT(NB_FLAGS_MAX);
        _cleanup_(nb_closep) int fd = -1;
        const char *name;
        int r;

        if (is_left_to_other(reset, FLAGS_FILE))
                return 0;
        r = open_folder(reset, FLAGS_FILE, &fd, &name);
        if (r >= 0)
                r = nb_file_read(fd, name, &file, NULL);
        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return unfinished(FLAGS_FILE, r, f);
        if (nb_flags_file_is(&file, reset->record.arguments))
                return remove_file(reset, FLAGS_FILE, f);
        print_left(FLAGS_FILE, "not written by the join");
        return 0;
}

static int remove_discard(struct reset *reset, struct nb_failure *f) {
        return remove_file(reset, DISCARD_FILE, f);
}

static int clear_state(_unused_ struct reset *reset, struct nb_failure *f) {
        _cleanup_(nb_state_done) struct nb_state state = { .fd = -1 };
        int r;

        if (!getenv("STATE_DIRECTORY"))
                return 0;
        r = nb_state_open(&state, f);
        if (r < 0)
                return r;
        r = nb_state_clear(&state);
        return r < 0 ? unfinished(getenv("STATE_DIRECTORY"), r, f) : 0;
}

/* Last: without it a second reset would remove nothing. */
static int remove_record(struct reset *reset, struct nb_failure *f) {
        return remove_file(reset, reset->record_path, f);
}

/* --- What is left --- */

/* Why a file in a folder of the join stays; NULL for files that need no explanation. */
static const char *explain_left(const char *name) {
        static const struct {
                const char *pattern, *why;
        } rows[] = {
                { "*" NB_ASIDE_SUFFIX, "renamed by a join" },
                { "*" NB_ASIDE_SUFFIX ".[0-9]*", "renamed by a join" },
                { "kubelet-client-*.pem", "renewed by kubelet, or older than the join" },
                { "kubelet-server-*.pem", "kubelet's own serving certificate" },
                { "kubelet.crt", "kubelet's own serving certificate" },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                if (fnmatch(rows[i].pattern, name, 0) == 0)
                        return rows[i].why;
        return NULL;
}

static void print_folder(const struct reset *reset, const char *folder) {
        _cleanup_(nb_folder_closep) DIR *stream = NULL;
        _cleanup_(nb_closep) int fd = nb_path_open(reset->context->root_fd, folder,
                                                   O_RDONLY | O_DIRECTORY);
        char path[PATH_SIZE + NAME_MAX];
        struct dirent *entry;

        stream = fd < 0 ? NULL : nb_folder_list(fd);
        while (stream && (entry = readdir(stream)))
                if (explain_left(entry->d_name)) {
                        snprintf(path, sizeof(path), "%.*s/%s", NB_SETTINGS_PATH_MAX, folder,
                                 entry->d_name);
                        print_left(path, explain_left(entry->d_name));
                }
}

/* Of each folder of the join, once. */
static void print_rest(const struct reset *reset) {
        const char *paths[] = { reset->link, reset->context->settings.kubeconfig,
                                reset->context->settings.ca_file };
        char folders[N_ELEMENTS(paths)][PATH_SIZE];

        for (size_t i = 0; i < N_ELEMENTS(paths); i++) {
                bool is_new = true;
                const char *name;

                if (nb_path_split(paths[i], folders[i], sizeof(folders[i]), &name) < 0)
                        folders[i][0] = '\0';
                for (size_t j = 0; j < i; j++)
                        is_new = is_new && strcmp(folders[i], folders[j]) != 0;
                if (is_new)
                        print_folder(reset, folders[i]);
        }
}

int nb_reset(const struct nb_context *context, struct nb_failure *f) {
        static int (*const steps[])(struct reset *, struct nb_failure *) = {
                remove_kubeconfig, remove_certificate, remove_ca,   remove_env,
                remove_flags,      remove_discard,     clear_state, remove_record,
        };
        const struct nb_settings *settings = &context->settings;
        struct reset reset = { .context = context };
        _cleanup_(nb_closep) int fd = -1;
        const char *name;
        int r;

        snprintf(reset.link, sizeof(reset.link), "%s/" NB_STORE_CURRENT,
                 settings->certificate_directory);
        snprintf(reset.record_path, sizeof(reset.record_path), "%s/" NB_RECORD_FILE,
                 settings->certificate_directory);
        r = nb_record_read(context->root_fd, settings->certificate_directory, &reset.record, f);
        if (r < 0)
                return r;
        if (r == 0) {
                printf("node-bootstrap has not joined this machine: there is no %s\n",
                       reset.record_path);
                if (find_file(&reset, settings->kubeconfig, &fd, &name) > 0)
                        print_left(settings->kubeconfig, "not written by node-bootstrap");
                return clear_state(&reset, f);
        }
        for (size_t i = 0; i < N_ELEMENTS(steps); i++) {
                r = steps[i](&reset, f);
                if (r < 0)
                        return r;
        }
        print_rest(&reset);
        printf("left     " NB_KUBELET_DIRECTORY "/config.yaml and kubelet's other files\n"
               "left     the Node object in the cluster: `kubectl delete node %s` removes it\n",
               reset.record.node);
        return 0;
}
