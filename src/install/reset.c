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
#include "format/handoff.h"
#include "format/kubeconfig.h"
#include "format/kubelet_env.h"
#include "install/aside.h"
#include "install/discard.h"
#include "install/flags.h"
#include "install/reset.h"
#include "install/state.h"
#include "install/target.h"

#define CA_FILE_MAX (256 * 1024)
#define WORDS_MAX 64
#define ENV_FILE NB_KUBELET_DIRECTORY "/node-bootstrap.env"
#define DISCARD_FILE NB_KUBELET_DIRECTORY "/" NB_DISCARD_FILE
#define FLAGS_FILE NB_KUBELET_DIRECTORY "/" NB_FLAGS_FILE
#define PATH_SIZE (2 * NB_SETTINGS_PATH_MAX)

struct reset {
        const struct nb_context *context;
        struct nb_record record;
        unsigned n_removed;
        char link[PATH_SIZE]; /* kubelet-client-current.pem */
        char path[PATH_SIZE]; /* of the record */
        bool is_taken_over;   /* somebody else has joined this machine since, with files where ours were */
};

static int unfinished(const char *path, int r, struct nb_failure *f) {
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        errno = -r;
        return nb_failure_set(f, NB_RESET_UNFINISHED, -r, "'%s' cannot be read or removed: %m", path);
}

static void tell_left(const char *path, const char *why) {
        (void)printf("left     %s: %s\n", path, why);
}

static int open_folder(const struct reset *reset, const char *path, int *ret_fd, const char **ret_name) {
        char folder[PATH_SIZE];
        int r = nb_path_split(path, folder, sizeof(folder), ret_name);

        if (r < 0)
                return r;
        r = nb_target_open(reset->context->root_fd, folder, O_RDONLY | O_DIRECTORY);
        if (r < 0)
                return r;
        *ret_fd = r;
        return 0;
}

/* A link goes as such, not what it names. */
static int remove_file(struct reset *reset, const char *path, struct nb_failure *f) {
        _cleanup_(nb_closep) int fd = -1;
        const char *name;
        int r;

        r = open_folder(reset, path, &fd, &name);
        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return unfinished(path, r, f);
        if (faccessat(fd, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : unfinished(path, -errno, f);
        r = nb_file_remove(fd, name);
        if (r < 0)
                return unfinished(path, r, f);
        (void)printf("removed  %s\n", path);
        reset->n_removed++;
        return 0;
}

/* 1: read; 0: this program has joined nothing here. */
static int read_record(struct reset *reset, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        struct nb_failure why = { 0 };
        int r = nb_target_read(reset->context->root_fd, reset->path, NB_HANDOFF_MAX, &text);

        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return unfinished(reset->path, r, f);
        r = nb_record_parse(text.data, text.len, &reset->record, &why);
        if (r < 0)
                return nb_failure_set(f, NB_INSTALLED_MALFORMED, -r, "'%s': %s", reset->path, why.detail);
        return 1;
}

/* Of the join, or of one that another program has done since: kubelet's layout is the same. */
static bool is_server_ours(const struct reset *reset, const char *server) {
        char text[NB_URL_MAX];
        struct nb_url url;

        if (!server || nb_url_parse(server, strlen(server), &url) < 0)
                return false;
        nb_url_format(&url, text);
        return !strcmp(text, reset->record.server);
}

enum owner {
        OWNER_NOBODY, /* there is none, or it is no kubeconfig */
        OWNER_JOIN,
        OWNER_OTHER,
};

/* Whose the kubeconfig is, or -errno. */
static int find_owner(const struct reset *reset, const char **ret_why, struct nb_failure *f) {
        _cleanup_(nb_kubeconfig_client_done) struct nb_kubeconfig_client client = { .key_data = NB_SECRET_INIT };
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        const char *path = reset->context->settings.kubeconfig;
        struct nb_failure why = { 0 };
        int r;

        r = nb_target_read(reset->context->root_fd, path, NB_KUBECONFIG_MAX, &text);
        if (r == -ENOENT)
                return 0;
        *ret_why = "it is no kubeconfig";
        if (r == -EBADF || r == -EFBIG)
                return 0;
        if (r < 0)
                return unfinished(path, r, f);
        r = nb_kubeconfig_parse_client(path, text.data, text.len, &client, &why);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r < 0)
                return 0;
        *ret_why = "it names another client certificate than the one of the join";
        if (client.certificate_data || !client.certificate_file || strcmp(client.certificate_file, reset->link) != 0)
                return OWNER_OTHER;
        *ret_why = "its API server is not that of the join";
        return is_server_ours(reset, client.server) ? OWNER_JOIN : OWNER_OTHER;
}

static int remove_kubeconfig(struct reset *reset, struct nb_failure *f) {
        const char *why = NULL;
        int r = find_owner(reset, &why, f);

        if (r == OWNER_JOIN)
                return remove_file(reset, reset->context->settings.kubeconfig, f);
        if (r >= 0 && why)
                tell_left(reset->context->settings.kubeconfig, why);
        reset->is_taken_over = r == OWNER_OTHER;
        return r;
}

/* Whether it still leads to the file of the record: kubelet's rotation puts another one there. */
static bool is_link_of_record(const struct reset *reset) {
        _cleanup_(nb_closep) int fd = -1;
        char target[PATH_SIZE];
        const char *name;
        ssize_t n;

        if (open_folder(reset, reset->link, &fd, &name) < 0)
                return false;
        n = readlinkat(fd, name, target, sizeof(target) - 1);
        if (n < 0)
                return false;
        target[n] = '\0';
        return !strcmp(target, reset->record.certificate);
}

/* A record is root's own, but nothing outside of the store is removed by its word. */
static bool is_in_store(const struct reset *reset) {
        const char *folder = reset->context->settings.certificate_directory, *path = reset->record.certificate;
        size_t len = strlen(folder);

        return !strncmp(path, folder, len) && path[len] == '/' && fnmatch("kubelet-client-*.pem", path + len + 1, FNM_PATHNAME) == 0;
}

/* Why a file in one of the folders of the join stays; NULL for those that nobody asks about. */
static const char *why_left(const char *name) {
        static const struct {
                const char *pattern, *why;
        } rows[] = {
                { "*" NB_ASIDE_SUFFIX, "a join has set it aside" },
                { "*" NB_ASIDE_SUFFIX ".[0-9]*", "a join has set it aside" },
                { "kubelet-client-*.pem", "kubelet has renewed its certificate, or it is from before the join" },
                { "kubelet-server-*.pem", "it is kubelet's own, for those that connect to it" },
                { "kubelet.crt", "it is kubelet's own, for those that connect to it" },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                if (fnmatch(rows[i].pattern, name, 0) == 0)
                        return rows[i].why;
        return NULL;
}

/* In the folder of a path that the join wrote. */
static void tell_rest(const struct reset *reset, const char *path) {
        _cleanup_(nb_folder_closep) DIR *folder = NULL;
        _cleanup_(nb_closep) int fd = -1;
        struct dirent *entry;
        const char *name;

        if (open_folder(reset, path, &fd, &name) < 0)
                return;
        folder = nb_folder_list(fd);
        while (folder && (entry = readdir(folder))) {
                const char *why = why_left(entry->d_name);
                char left[PATH_SIZE];

                if (!why)
                        continue;
                (void)snprintf(left, sizeof(left), "%.*s%s", (int)(strlen(path) - strlen(name)), path, entry->d_name);
                tell_left(left, why);
        }
}

static bool is_in_folder_of(const char *path, const char *other) {
        size_t len = (size_t)(strrchr(path, '/') - path);

        return (size_t)(strrchr(other, '/') - other) == len && !strncmp(path, other, len);
}

/* Each folder once. */
static void tell_all_rest(const struct reset *reset) {
        const char *paths[] = { reset->link, reset->context->settings.kubeconfig, reset->context->settings.ca_file };

        for (size_t i = 0; i < N_ELEMENTS(paths); i++) {
                bool is_told = false;

                for (size_t j = 0; j < i; j++)
                        is_told = is_told || is_in_folder_of(paths[i], paths[j]);
                if (!is_told)
                        tell_rest(reset, paths[i]);
        }
}

static void tell_taken_over(const struct reset *reset, const char *path) {
        _cleanup_(nb_closep) int fd = -1;
        const char *name;

        if (open_folder(reset, path, &fd, &name) >= 0 && faccessat(fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
                tell_left(path, "the kubeconfig beside which it is used is not of the join");
}

static int remove_certificate(struct reset *reset, struct nb_failure *f) {
        bool is_renewed = !is_link_of_record(reset);
        int r = 0;

        if (reset->is_taken_over) {
                tell_taken_over(reset, reset->link);
                if (!is_renewed)
                        return 0;
        } else {
                r = remove_file(reset, reset->link, f);
        }
        if (r >= 0 && is_in_store(reset))
                r = remove_file(reset, reset->record.certificate, f);
        if (r >= 0 && is_renewed && !reset->is_taken_over)
                (void)printf("         the certificate that kubelet has renewed since stays valid until it expires\n");
        return r;
}

static bool has_pin(const uint8_t (*pins)[NB_PIN_SIZE], unsigned n_pins, const uint8_t pin[static NB_PIN_SIZE]) {
        for (unsigned i = 0; i < n_pins; i++)
                if (!memcmp(pins[i], pin, NB_PIN_SIZE))
                        return true;
        return false;
}

/* Exactly the certificates that the join put there, by their public keys. */
static bool is_ca_ours(const struct reset *reset, const struct nb_secret *text) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *ca = NULL;
        uint8_t found[NB_CERTIFICATES_MAX][NB_SHA256_SIZE];
        unsigned n_found = 0;

        if (nb_certificates_parse(text->data, text->len, true, &ca) < 0)
                return false;
        for (size_t i = 0; i < nb_certificates_count(ca); i++) {
                if (nb_certificate_pin(ca, i, found[n_found]) < 0 || !has_pin(reset->record.ca_hashes, reset->record.n_ca_hashes, found[n_found]))
                        return false;
                n_found++;
        }
        for (unsigned i = 0; i < reset->record.n_ca_hashes; i++)
                if (!has_pin(found, n_found, reset->record.ca_hashes[i]))
                        return false;
        return n_found > 0;
}

static int remove_ca(struct reset *reset, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        const char *path = reset->context->settings.ca_file;
        int r;

        if (reset->is_taken_over) {
                tell_taken_over(reset, path);
                return 0;
        }
        r = nb_target_read(reset->context->root_fd, path, CA_FILE_MAX, &text);

        if (r == -ENOENT)
                return 0;
        if (r < 0 && r != -EBADF && r != -EFBIG)
                return unfinished(path, r, f);
        if (r < 0 || !is_ca_ours(reset, &text))
                tell_left(path, "it does not hold the certificates that the join put there");
        else if (reset->record.is_ca_found)
                tell_left(path, "it was there before the join");
        else
                return remove_file(reset, path, f);
        return 0;
}

static int write_flags(struct reset *reset, const struct nb_buffer *text, struct nb_failure *f) {
        _cleanup_(nb_closep) int fd = -1;
        const char *name;
        int r;

        r = open_folder(reset, FLAGS_FILE, &fd, &name);
        if (r >= 0)
                r = nb_file_write(fd, name, 0644, text->data, text->len);
        if (r < 0)
                return unfinished(FLAGS_FILE, r, f);
        (void)printf("changed  " FLAGS_FILE "\n");
        reset->n_removed++;
        return 0;
}

/* The arguments that the join wrote; where an older version did, those that one with these settings writes. */
struct own {
        struct nb_buffer line;
        char override[NB_NODE_NAME_MAX + 32];
        const char *words[WORDS_MAX];
        size_t n;
};

static void split_words(char *text, struct own *own) {
        char *rest, *word;

        for (word = strtok_r(text, " ", &rest); word && own->n < WORDS_MAX; word = strtok_r(NULL, " ", &rest))
                own->words[own->n++] = word;
}

static int list_own(const struct reset *reset, struct own *own) {
        char *rest;
        int r;

        if (reset->record.has_arguments) {
                r = nb_buffer_append_string(&own->line, reset->record.arguments);
                if (r >= 0)
                        split_words(own->line.data, own);
                return r;
        }
        r = nb_flags_make(reset->context, NULL, 0, &own->line);

        if (r < 0 && r != -EINVAL)
                return r;
        (void)snprintf(own->override, sizeof(own->override), "--hostname-override=%s", reset->record.node);
        own->words[own->n++] = own->override;
        /* KUBELET_KUBEADM_ARGS="--a=b --c=d", where no value has a blank or a quote in it. */
        if (r <= 0 || !strtok_r(own->line.data, "\"", &rest))
                return 0;
        rest[strcspn(rest, "\"")] = '\0';
        split_words(rest, own);
        return 0;
}

static int edit_flags(struct reset *reset, const struct nb_secret *text, struct nb_buffer *ret, struct nb_failure *f) {
        struct own own = { .line = NB_BUFFER_INIT(NB_FLAGS_MAX) };
        int r = list_own(reset, &own);

        if (r >= 0)
                r = nb_kubeadm_flags_remove(text->data, text->len, own.words, own.n, ret);
        nb_buffer_done(&own.line);
        if (r == -EINVAL) {
                tell_left(FLAGS_FILE, "it is not of the form that kubeadm writes");
                return 0;
        }
        if (r < 0)
                return unfinished(FLAGS_FILE, r, f);
        if (r == 0)
                tell_left(FLAGS_FILE, "nothing in it is of the join");
        return r;
}

static int remove_flags(struct reset *reset, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer rest = NB_BUFFER_INIT(NB_FLAGS_MAX);
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        int r;

        if (reset->is_taken_over) {
                tell_taken_over(reset, FLAGS_FILE);
                return 0;
        }
        r = nb_target_read(reset->context->root_fd, FLAGS_FILE, NB_FLAGS_MAX, &text);

        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return unfinished(FLAGS_FILE, r, f);
        r = edit_flags(reset, &text, &rest, f);
        if (r <= 0)
                return r;
        return rest.len == 0 ? remove_file(reset, FLAGS_FILE, f) : write_flags(reset, &rest, f);
}

static int clear_state(struct nb_failure *f) {
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

static int remove_all(struct reset *reset, struct nb_failure *f) {
        int r;

        r = remove_kubeconfig(reset, f);
        if (r >= 0)
                r = remove_certificate(reset, f);
        if (r >= 0)
                r = remove_ca(reset, f);
        if (r >= 0)
                r = remove_file(reset, ENV_FILE, f);
        if (r >= 0)
                r = remove_flags(reset, f);
        if (r >= 0)
                r = remove_file(reset, DISCARD_FILE, f);
        if (r >= 0)
                r = clear_state(f);
        return r < 0 ? r : remove_file(reset, reset->path, f);
}

int nb_reset(const struct nb_context *context, struct nb_failure *f) {
        struct reset reset = { .context = context };
        const char *folder = context->settings.certificate_directory;
        _cleanup_(nb_closep) int fd = -1;
        int r;

        (void)snprintf(reset.link, sizeof(reset.link), "%s/" NB_STORE_CURRENT, folder);
        (void)snprintf(reset.path, sizeof(reset.path), "%s/" NB_RECORD_FILE, folder);
        r = read_record(&reset, f);
        if (r < 0)
                return r;
        if (r == 0) {
                (void)printf("node-bootstrap has not joined this machine: there is no %s\n", reset.path);
                fd = nb_target_open(context->root_fd, context->settings.kubeconfig, O_PATH | O_NOFOLLOW);
                if (fd >= 0)
                        tell_left(context->settings.kubeconfig, "it is not of node-bootstrap");
                return clear_state(f);
        }
        r = remove_all(&reset, f);
        if (r < 0)
                return r;
        tell_all_rest(&reset);
        (void)printf("left     " NB_KUBELET_DIRECTORY "/config.yaml and what else is kubelet's own\n"
                     "left     the Node in the cluster: `kubectl delete node %s` removes it\n",
                     reset.record.node);
        return 0;
}
