/* SPDX-License-Identifier: Apache-2.0 */
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
#include "files/refresh_settings.h"
#include "install/flags.h"
#include "install/remove_join.h"
#include "install/runtime.h"
#include "install/state_directory.h"
#include "install/swap.h"
#include "kube/kubeconfig.h"
#include "method/cluster_identity.h"
#include "settings/kubelet_env.h"

struct reset {
        const struct nb_context *context;
        struct nb_record record;
        char record_path[NB_SWAP_PATH_SIZE];
        char link[NB_SWAP_PATH_SIZE]; /* kubelet-client-current.pem */
        bool is_renewed;              /* by kubelet: the link names another file than the record */
        bool is_taken_over; /* another program has joined this machine since, in the same paths */
};

/* A file that reset removes. */
struct row {
        const char *path;
        bool is_shared; /* stays if the machine is taken over: the other kubeconfig may need it */
        size_t max;     /* of what `judge` reads; 0: nothing */
        /* Sets the reason for which the file stays. `text` is empty if it is not a regular file of
         * at most `max` bytes. 0, -errno. */
        int (*judge)(struct reset *reset, const struct nb_secret *text, const char **ret_why);
        const char *target; /* only a link to it is removed; NULL: any file */
};

static int fail_unfinished(const char *path, int r, struct nb_failure *f) {
        return nb_failure_set(f, NB_RESET_UNFINISHED, r, "cannot read or remove '%s': %m", path);
}

static void print_left(const char *path, const char *why) {
        printf("left     %s: %s\n", path, why);
}

/* Does not follow a link. -ENOENT if there is no such file. */
static int open_file(const struct reset *reset, const char *path) {
        return nb_path_open(reset->context->root_fd, path, O_PATH | O_NOFOLLOW);
}

static bool is_link_to(const struct reset *reset, const char *path, const char *target) {
        _cleanup_(nb_closep) int fd = open_file(reset, path);
        char found[NB_SWAP_PATH_SIZE];
        ssize_t n = fd < 0 ? -1 : readlinkat(fd, "", found, sizeof(found) - 1);

        return n == (ssize_t)strlen(target) && memcmp(found, target, (size_t)n) == 0;
}

static int remove_file(const struct reset *reset, const char *path) {
        _cleanup_(nb_closep) int fd = -1;
        char folder[NB_SWAP_PATH_SIZE];
        const char *name;
        int r;

        r = nb_path_split(path, folder, sizeof(folder), &name);
        if (r < 0)
                return r;
        fd = nb_path_open(reset->context->root_fd, folder, O_RDONLY | O_DIRECTORY);
        if (fd < 0)
                return fd;
        r = nb_file_remove(fd, name);
        if (r >= 0)
                printf("removed  %s\n", path);
        return r;
}

/* Sets the reason why a file stays; NULL if it must be removed. */
static int judge_row(struct reset *reset, const struct row *row, const char **ret_why) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        int r = 0;

        *ret_why = NULL;
        if (row->is_shared && reset->is_taken_over)
                *ret_why = "used by a kubeconfig that the join did not write";
        else if (row->target && !is_link_to(reset, row->path, row->target))
                *ret_why = "not the link that the join wrote";
        if (*ret_why || !row->judge)
                return 0;
        if (row->max > 0)
                r = nb_path_read(reset->context->root_fd, row->path, row->max, &text);
        if (r < 0 && r != -ENOENT && r != -EBADF && r != -EFBIG)
                return r;
        return row->judge(reset, &text, ret_why);
}

static int remove_row(struct reset *reset, const struct row *row, struct nb_failure *f) {
        _cleanup_(nb_closep) int fd = open_file(reset, row->path);
        const char *why;
        int r;

        if (fd == -ENOENT)
                return 0;
        if (fd < 0)
                return fail_unfinished(row->path, fd, f);
        r = judge_row(reset, row, &why);
        if (r >= 0 && why)
                print_left(row->path, why);
        else if (r >= 0)
                r = remove_file(reset, row->path);
        return r < 0 ? fail_unfinished(row->path, r, f) : 0;
}

/* --- Which files belong to the join --- */

/* Another program that has joined this machine to another cluster uses kubelet's paths as well. */
static bool is_server_ours(const struct reset *reset, const char *server) {
        struct nb_url url;

        return server && nb_url_parse(server, strlen(server), &url) >= 0 &&
               nb_url_is_equal(&url, &reset->record.server);
}

static int judge_kubeconfig(struct reset *reset, const struct nb_secret *text,
                            const char **ret_why) {
        _cleanup_(nb_kubeconfig_client_done) struct nb_kubeconfig_client client =
                NB_KUBECONFIG_CLIENT_INIT;
        struct nb_failure why = { 0 };
        int r = text->data ? nb_kubeconfig_parse_client("", text->data, text->len, &client, &why)
                           : -EINVAL;

        if (r == -ENOMEM)
                return r;
        reset->is_taken_over = r >= 0;
        if (r < 0)
                *ret_why = "not a kubeconfig";
        else if (client.certificate.data || !client.certificate_file ||
                 strcmp(client.certificate_file, reset->link) != 0)
                *ret_why = "uses another client certificate";
        else if (!is_server_ours(reset, client.server))
                *ret_why = "uses another API server";
        else
                reset->is_taken_over = false;
        return 0;
}

/* A path in the record is not removed if it is outside the certificate directory, although only
 * root can write the record. */
static int judge_certificate(struct reset *reset, _unused_ const struct nb_secret *text,
                             const char **ret_why) {
        const char *folder = reset->context->settings.certificate_directory,
                   *path = reset->record.certificate;
        size_t len = strlen(folder);

        if (strncmp(path, folder, len) != 0 || path[len] != '/' ||
            fnmatch("kubelet-client-*.pem", path + len + 1, FNM_PATHNAME) != 0)
                *ret_why = "not a client certificate in the certificate directory";
        else if (reset->is_taken_over && !reset->is_renewed)
                *ret_why = "used by a kubeconfig that the join did not write";
        return 0;
}

/* Whether the file has exactly the certificates of the join, by their public keys. */
static bool is_ca_ours(const struct reset *reset, const struct nb_secret *text) {
        _cleanup_(nb_buffer_done) struct nb_buffer pem = NB_BUFFER_INIT(NB_CA_FILE_MAX);
        struct nb_ca_selection found;
        struct nb_failure ignored = { 0 };

        return text->data &&
               nb_ca_select(text->data, text->len,
                            &(struct nb_ca_criteria){ .choice = NB_CA_ALL_UNPINNED,
                                                      .malformed = NB_RESET_UNFINISHED,
                                                      .mismatch = NB_RESET_UNFINISHED },
                            &pem, &found, &ignored) >= 0 &&
               found.n_left_out == 0 &&
               nb_pins_are_equal((const uint8_t(*)[NB_PIN_SIZE])found.taken, found.n_taken,
                                 (const uint8_t(*)[NB_PIN_SIZE])reset->record.ca_hashes,
                                 reset->record.n_ca_hashes);
}

static int judge_ca(struct reset *reset, const struct nb_secret *text, const char **ret_why) {
        if (!is_ca_ours(reset, text))
                *ret_why = "does not have exactly the certificates that the join wrote";
        else if (reset->record.is_ca_found)
                *ret_why = "existed before the last join";
        return 0;
}

static int judge_flags(struct reset *reset, const struct nb_secret *text, const char **ret_why) {
        if (!text->data || !nb_flags_file_is(text->data, reset->record.arguments))
                *ret_why = "not written by the join";
        return 0;
}

static int judge_instance(struct reset *reset, const struct nb_secret *text, const char **ret_why) {
        if (!text->data || !nb_instance_is(text->data, reset->record.runtime_endpoint))
                *ret_why = "not written by the join";
        return 0;
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
        return r < 0 ? fail_unfinished(getenv("STATE_DIRECTORY"), r, f) : 0;
}

static int remove_rows(struct reset *reset, struct nb_failure *f) {
        const struct nb_settings *settings = &reset->context->settings;
        const char *store = settings->certificate_directory;
        char client_ca[NB_CLIENT_CA_PATH_MAX], certificate[NB_SWAP_PATH_SIZE],
                key[NB_SWAP_PATH_SIZE], serving[NB_SWAP_PATH_SIZE];
        const struct row rows[] = {
                { settings->kubeconfig, false, NB_KUBECONFIG_MAX, judge_kubeconfig },
                { reset->record.certificate, false, 0, judge_certificate },
                { reset->link, true, 0, NULL },
                { settings->ca_file, true, NB_CA_FILE_MAX, judge_ca },
                { NB_KUBELET_DIRECTORY "/" NB_FLAGS_FILE, true, NB_FLAGS_MAX, judge_flags },
                { NB_KUBELET_DIRECTORY "/" NB_INSTANCE_FILE, true, NB_INSTANCE_MAX,
                  judge_instance },
                /* from a supervisor of k3s */
                { certificate, true, 0, NULL, NB_STORE_SERVING },
                { key, true, 0, NULL, NB_STORE_SERVING },
                { serving, true, 0, NULL },
                { client_ca, true, 0, NULL },
        };
        size_t n = N_ELEMENTS(rows) - (nb_record_is_by_supervisor(&reset->record) ? 0 : 4);

        nb_settings_client_ca(settings, client_ca);
        snprintf(certificate, sizeof(certificate), "%s/" NB_SERVING_CERTIFICATE, store);
        snprintf(key, sizeof(key), "%s/" NB_SERVING_KEY, store);
        snprintf(serving, sizeof(serving), "%s/" NB_STORE_SERVING, store);
        for (size_t i = 0; i < n; i++) {
                int r = remove_row(reset, &rows[i], f);

                if (r < 0)
                        return r;
        }
        return 0;
}

int nb_remove_join(const struct nb_context *context, const struct nb_record *last,
                   struct nb_failure *f) {
        const struct nb_settings *settings = &context->settings;
        const char *store = settings->certificate_directory;
        struct reset reset = { .context = context };
        /* Removed last: a repeated reset finds the files by the record, and the record by
         * node-bootstrap.env. */
        const struct row last_rows[] = { { .path = NB_KUBELET_DIRECTORY "/" NB_REFRESH_MARK },
                                         { .path = NB_KUBELET_ENV_PATH },
                                         { .path = reset.record_path } };
        int r;

        snprintf(reset.link, sizeof(reset.link), "%s/" NB_STORE_CURRENT, store);
        snprintf(reset.record_path, sizeof(reset.record_path), "%s/" NB_RECORD_FILE, store);
        if (!last) {
                _cleanup_(nb_closep) int fd = open_file(&reset, settings->kubeconfig);

                printf("node-bootstrap has not joined this machine: there is no %s\n",
                       reset.record_path);
                if (fd >= 0)
                        print_left(settings->kubeconfig, "not written by node-bootstrap");
                return clear_state(f);
        }
        reset.record = *last;
        reset.is_renewed = !is_link_to(&reset, reset.link, reset.record.certificate);
        r = remove_rows(&reset, f);
        if (r < 0)
                return r;
        r = clear_state(f);
        if (r < 0)
                return r;
        for (size_t i = 0; i < N_ELEMENTS(last_rows); i++) {
                r = remove_row(&reset, &last_rows[i], f);
                if (r < 0)
                        return r;
        }
        if (reset.is_renewed && !reset.is_taken_over)
                printf("left     the certificate that kubelet has renewed since: it stays valid "
                       "until it expires\n");
        printf("left     kubelet's own files in " NB_KUBELET_DIRECTORY
               " and %s, certificates of earlier "
               "joins, and *.old files that a join renamed\n"
               "left     the Node object in the cluster: `kubectl delete node %s` removes it\n",
               store, reset.record.node);
        return 0;
}
