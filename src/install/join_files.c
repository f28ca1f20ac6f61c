/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "install/join_files.h"
#include "install/runtime.h"
#include "join_method/cluster_identity.h"
#include "kube_objects/kubeconfig_format.h"
#include "node_state/flags.h"
#include "os/clock.h"
#include "settings/kubelet_env.h"
#include "state_files/refresh_settings.h"
#include "systemd/log.h"

/* --- What each file has --- */

static const char *text_of(const struct nb_secret *present) {
        return present->data ? present->data : "";
}

static bool has_hash(const struct nb_record *record, const uint8_t hash[static NB_SHA256_SIZE]) {
        return nb_pins_contain((const uint8_t(*)[NB_PIN_SIZE])record->hashes, record->n_hashes,
                               hash);
}

static bool is_hash_ours(const struct nb_record *record, const struct nb_secret *present) {
        uint8_t hash[NB_SHA256_SIZE];

        return present->len > 0 && nb_sha256(present->data, present->len, hash) >= 0 &&
               has_hash(record, hash);
}

static int build_record(struct nb_join_files *files, struct nb_swap *file) {
        int r = nb_state_file_format(&nb_record_file, &files->record, &file->text);

        return r < 0 ? r : 1;
}

static int build_env(struct nb_join_files *files, struct nb_swap *file) {
        const char *name = files->node ? files->node->inspection.node : files->record.node;
        struct nb_kubelet_paths paths;

        nb_kubelet_paths_get(&files->context->settings, &paths);
        nb_kubelet_env_format(name, &paths, &file->text);
        return 1;
}

/* A running kubelet does not load a certificate that it has not renewed itself, nor a server in
 * place of one that is dead. */
static int build_restart(struct nb_join_files *files, struct nb_swap *file) {
        nb_buffer_append_string(&file->text, "kubelet.service\n");
        return files->pass == NB_PASS_REFRESH &&
               (files->context->settings.restart_kubelet || files->pem_name[0] ||
                nb_record_is_by_supervisor(&files->record));
}

/* A repair leaves a kubeconfig that can be used alone. */
static bool is_kubeconfig_lost(const struct nb_join_files *files) {
        return files->node->inspection.state == NB_NODE_STATE_WITHOUT_KUBECONFIG;
}

/* The other files may be those of another program, if the kubeconfig is. */
static bool is_join_in_use(const struct nb_join_files *files) {
        return is_kubeconfig_lost(files) || nb_join_files_is_ours(files, NB_FILE_KUBECONFIG);
}

/* Whether a repair of a join through a supervisor finds no PEM. A certificate or key of another
 * program stays. */
static bool is_supervised_lost(const struct nb_join_files *files, enum nb_join_file i) {
        _cleanup_(nb_secret_done) struct nb_secret pem = NB_SECRET_INIT;
        int r;

        if (files->pass != NB_PASS_REPAIR || !nb_record_is_by_supervisor(&files->record) ||
            !is_join_in_use(files))
                return false;
        r = nb_path_read(files->context->root_fd, files->files[i].path, NB_HANDOFF_MAX, &pem);
        return r == -ENOENT || (r >= 0 && !strstr(text_of(&pem), "-----END "));
}

/* The file with kubelet's certificate has its CA too. After a rotation, the CA before that one is
 * missing until the next renewal. */
static int build_client_ca(struct nb_join_files *files, struct nb_swap *file) {
        const struct nb_buffer *ca = files->accepted ? &files->accepted->client_ca : NULL;
        const struct nb_certificates *chain = files->node ? files->node->present.chain : NULL;

        if (ca && ca->len > 0)
                nb_buffer_append(&file->text, ca->data, ca->len);
        else if (chain && nb_certificates_count(chain) > 1 &&
                 is_supervised_lost(files, NB_FILE_CLIENT_CA))
                nb_certificate_export(chain, 1, &file->text);
        return file->text.len > 0;
}

/* If neither this file nor a link to it is there, a refresh leaves kubelet.crt and kubelet.key
 * alone: they are kubelet's own or the administrator's. */
static int build_serving(struct nb_join_files *files, struct nb_swap *file) {
        file->secret = files->accepted ? &files->accepted->serving : NULL;
        return file->secret && file->secret->len > 0 &&
               (files->pass == NB_PASS_JOIN || files->found[NB_FILE_SERVING] >= 0 ||
                nb_join_files_has_serving_link(files));
}

/* kubelet.crt and kubelet.key are links to one file with certificate and key, so that a renewal
 * replaces both at once. Beside one of another pair, a repair would keep kubelet from starting. */
static int build_serving_link(struct nb_join_files *files, struct nb_swap *file) {
        static const enum nb_join_file pair[] = { NB_FILE_SERVING_KEY,
                                                  NB_FILE_SERVING_CERTIFICATE };

        nb_buffer_append_string(&file->text, NB_STORE_SERVING);
        if (files->pass == NB_PASS_JOIN)
                return files->accepted->serving.len > 0;
        for (size_t i = 0; i < N_ELEMENTS(pair); i++) {
                int r = nb_join_files_read(files, pair[i]);

                if (r < 0)
                        return r;
                if (files->found[pair[i]] >= 0 ? !nb_join_files_is_ours(files, pair[i])
                                               : !is_supervised_lost(files, pair[i]))
                        return 0;
        }
        return 1;
}

static int build_link(struct nb_join_files *files, struct nb_swap *file) {
        nb_buffer_append_string(&file->text, files->record.certificate);
        return files->pem_name[0] || (files->node && files->node->present.is_link_lost);
}

/* The CA last seen: if somebody else has changed the CA file, a CA that they removed does not come
 * back. Whether the file stays: with more CAs than the record can hold, or with one that cannot be
 * parsed beside others, kubelet still uses it. */
static bool adopt_ca(struct nb_join_files *files) {
        static const struct nb_ca_criteria all = { .choice = NB_CA_ALL_UNPINNED,
                                                   .malformed = NB_INSTALLED_MALFORMED,
                                                   .mismatch = NB_INSTALLED_MALFORMED };
        const struct nb_secret *present = &files->present[NB_FILE_CA];
        struct nb_failure ignored = { 0 };

        const int found = files->found[NB_FILE_CA];

        if (found < 0)
                return found != -ENOENT && found != -EBADF;
        if (!strcmp(text_of(present), files->record.ca))
                return true;
        if (nb_ca_select(text_of(present), present->len, &all, &files->ca, NULL, &ignored) < 0)
                return strstr(text_of(present), "-----END CERTIFICATE-----") != NULL;
        files->record.ca = files->ca.data;
        return true;
}

static int build_ca(struct nb_join_files *files, struct nb_swap *file) {
        if (!files->record.ca)
                return 0;
        if (files->pass == NB_PASS_REPAIR && (!is_join_in_use(files) || adopt_ca(files)))
                return 0;
        nb_buffer_append_string(&file->text, files->record.ca);
        return 1;
}

/* kubeadm formats this file differently, and its upgrade removes arguments. So a file that is not
 * ours is kept without a warning, unless the arguments have changed. Without a kubeconfig, a crash
 * may have left the file of the join before. */
static int build_flags(struct nb_join_files *files, struct nb_swap *file) {
        const char *arguments = files->record.arguments;
        const struct nb_secret *present = &files->present[NB_FILE_FLAGS];

        nb_flags_file_format(arguments, &file->text);
        return arguments[0] &&
               (files->pass == NB_PASS_JOIN || nb_flags_file_is(text_of(present), "") ||
                strcmp(arguments, files->previous->arguments) != 0 ||
                (is_kubeconfig_lost(files) && is_hash_ours(files->previous, present)));
}

static int build_instance(struct nb_join_files *files, struct nb_swap *file) {
        nb_instance_format(files->record.runtime_endpoint, &file->text);
        return files->record.runtime_endpoint[0] != '\0';
}

static int build_kubeconfig(struct nb_join_files *files, struct nb_swap *file) {
        const struct nb_record *record = &files->record;
        struct nb_cluster cluster = { .server = record->server };

        NB_TEXT_COPY(cluster.tls_server_name, record->tls_server_name);
        NB_TEXT_COPY(cluster.proxy_url, record->proxy_url);
        nb_kubeconfig_format(&cluster, record->ca ? files->context->settings.ca_file : NULL,
                             files->files[NB_FILE_LINK].path, &file->text);
        return files->pass != NB_PASS_REPAIR || is_kubeconfig_lost(files);
}

#define IN(setting) offsetof(struct nb_settings, setting)
#define STORE(name) IN(certificate_directory), "/" name
#define KUBELET(name) 0, NB_KUBELET_DIRECTORY "/" name

const struct nb_join_file_row nb_join_file_rows[_NB_FILE_N] = {
        [NB_FILE_RECORD] = { STORE(NB_RECORD_FILE), 0644, build_record, .is_own = true },
        [NB_FILE_ENV] = { KUBELET(NB_KUBELET_ENV_FILE), 0644, build_env, .is_own = true },
        [NB_FILE_MARK] = { KUBELET(NB_REFRESH_MARK), 0644, NULL, .is_own = true },
        [NB_FILE_RESTART] = { KUBELET(NB_REFRESH_RESTART_FILE), 0600, build_restart,
                              .is_own = true },
        [NB_FILE_CLIENT_CA] = { IN(ca_file), "", 0644, build_client_ca, .is_supervised = true,
                                .is_set_aside = true },
        [NB_FILE_SERVING] = { STORE(NB_STORE_SERVING), 0600, build_serving, .is_supervised = true },
        [NB_FILE_SERVING_KEY] = { STORE(NB_SERVING_KEY), S_IFLNK, build_serving_link,
                                  .is_supervised = true, .is_set_aside = true },
        [NB_FILE_SERVING_CERTIFICATE] = { STORE(NB_SERVING_CERTIFICATE), S_IFLNK,
                                          build_serving_link, .is_supervised = true,
                                          .is_set_aside = true },
        [NB_FILE_CA] = { IN(ca_file), "", 0644, build_ca, .is_set_aside = true },
        [NB_FILE_FLAGS] = { KUBELET(NB_FLAGS_FILE), 0644, build_flags, .is_foreign_kept = true },
        [NB_FILE_INSTANCE] = { KUBELET(NB_INSTANCE_FILE), 0644, build_instance,
                               .is_foreign_kept = true },
        [NB_FILE_LINK] = { STORE(NB_STORE_CURRENT), S_IFLNK, build_link, .is_set_aside = true },
        [NB_FILE_KUBECONFIG] = { IN(kubeconfig), "", 0600, build_kubeconfig, .is_set_aside = true },
};

/* --- What is there --- */

struct nb_join_files *nb_join_files_new(const struct nb_context *context, enum nb_join_pass pass,
                                        const struct nb_record *previous) {
        static struct nb_record none; /* not const: it must not fill the program file */
        const struct nb_settings *settings = &context->settings;
        struct nb_join_files *files = calloc(1, sizeof(*files));
        char client_ca[NB_CLIENT_CA_PATH_MAX];

        if (!files)
                return NULL;
        files->context = context;
        files->pass = pass;
        files->store_fd = -1;
        files->begun_usec = nb_now_usec();
        files->ca = (struct nb_buffer)NB_BUFFER_INIT(NB_CA_FILE_MAX);
        files->previous = previous ? previous : &none;
        if (previous)
                files->record = *previous;
        nb_settings_client_ca(settings, client_ca);
        for (unsigned i = 0; i < _NB_FILE_N; i++) {
                const struct nb_join_file_row *row = &nb_join_file_rows[i];

                nb_swap_init(&files->files[i],
                             i == NB_FILE_CLIENT_CA ? client_ca
                             : row->folder > 0      ? (const char *)settings + row->folder
                                                    : "",
                             row->name, row->mode);
        }
        return files;
}

void nb_join_files_freep(struct nb_join_files **files) {
        for (unsigned i = 0; *files && i < _NB_FILE_N; i++) {
                nb_swap_done(&(*files)->files[i]);
                nb_secret_done(&(*files)->present[i]);
        }
        if (*files) {
                nb_closep(&(*files)->store_fd);
                nb_buffer_done(&(*files)->ca);
        }
        free(*files);
}

static int read_link(int root_fd, const char *path, struct nb_secret *ret) {
        _cleanup_(nb_closep) int fd = nb_path_open(root_fd, path, O_PATH | O_NOFOLLOW);
        char target[PATH_MAX];
        ssize_t n;

        if (fd < 0)
                return fd;
        n = readlinkat(fd, "", target, sizeof(target));
        return n < 0 ? -EINVAL : nb_secret_copy(ret, target, (size_t)n);
}

int nb_join_files_read(struct nb_join_files *files, enum nb_join_file i) {
        const char *path = files->files[i].path;
        int root_fd = files->context->root_fd;

        nb_secret_done(&files->present[i]);
        files->found[i] = S_ISLNK(files->files[i].mode)
                                  ? read_link(root_fd, path, &files->present[i])
                                  : nb_path_read(root_fd, path, NB_KUBECONFIG_MAX,
                                                 &files->present[i]);
        return files->found[i] == -ENOMEM ? -ENOMEM : 0;
}

bool nb_join_files_is_ours(const struct nb_join_files *files, enum nb_join_file i) {
        const struct nb_secret *present = &files->present[i];

        if (i == NB_FILE_FLAGS && present->len > 0 && files->previous->arguments[0] &&
            nb_flags_file_is(present->data, files->previous->arguments))
                return true;
        /* On a machine that has joined, somebody has put an older text of ours back. */
        if (i == NB_FILE_FLAGS && files->pass != NB_PASS_JOIN && files->node &&
            !is_kubeconfig_lost(files))
                return false;
        /* kubelet's rotation replaces the link. */
        return i == NB_FILE_LINK || nb_join_file_rows[i].is_own ||
               is_hash_ours(files->previous, present);
}

bool nb_join_files_has_serving_link(const struct nb_join_files *files) {
        return files->found[NB_FILE_SERVING_CERTIFICATE] >= 0 &&
               nb_join_files_is_ours(files, NB_FILE_SERVING_CERTIFICATE);
}

/* Nothing is lost if it is replaced. After a power cut, a file may be empty or hold only NULs. */
static bool is_replaceable(const struct nb_join_files *files, enum nb_join_file i) {
        const struct nb_secret *present = &files->present[i];

        return files->found[i] == -ENOENT || (files->found[i] >= 0 && !text_of(present)[0]) ||
               nb_join_files_is_ours(files, i) ||
               (i == NB_FILE_FLAGS && present->data &&
                (nb_flags_file_is(present->data, "") ||
                 nb_flags_file_is(present->data, files->record.arguments)));
}

/* --- One pass --- */

/* Warns of the arguments that a kubeadm-flags.env of another program lacks. */
static int warn_foreign_flags(const struct nb_join_files *files) {
        _cleanup_(nb_buffer_done) struct nb_buffer missing = NB_BUFFER_INIT(NB_FLAGS_MAX);

        nb_flags_find_missing(text_of(&files->present[NB_FILE_FLAGS]), files->record.arguments,
                              files->context->is_override_needed, &missing);
        if (missing.len > 0)
                nb_log(LOG_WARNING, NB_KUBELET_ARGUMENTS_MISSING,
                       "'" NB_KUBELET_DIRECTORY "/" NB_FLAGS_FILE
                       "' was not written by node-bootstrap, or has been changed since, and is "
                       "left unchanged; add %s",
                       missing.data);
        return missing.error;
}

static bool is_same(const struct nb_secret *present, const struct nb_swap *file) {
        const char *data = file->secret ? file->secret->data : file->text.data;
        size_t len = file->secret ? file->secret->len : file->text.len;

        return present->len == len && len > 0 && !memcmp(present->data, data, len);
}

/* The latest comes first; the oldest ones are forgotten. A repair changes nothing for a hash that
 * is known. */
static int add_hash(struct nb_join_files *files, const void *data, size_t len) {
        struct nb_record *record = &files->record;
        const unsigned max = N_ELEMENTS(record->hashes);
        uint8_t hash[NB_SHA256_SIZE];
        unsigned i = 0;
        int r = nb_sha256(data, len, hash);

        if (r < 0 || (files->pass == NB_PASS_REPAIR && has_hash(record, hash)))
                return r;
        while (i < record->n_hashes && memcmp(record->hashes[i], hash, sizeof(hash)) != 0)
                i++;
        record->n_hashes += i == record->n_hashes && i < max;
        memmove(record->hashes[1], record->hashes[0], (i < max ? i : max - 1) * sizeof(hash));
        memcpy(record->hashes[0], hash, sizeof(hash));
        return 0;
}

/* The hash of our file that is there, also if it stays, and of the one that replaces it. */
static int add_hashes(struct nb_join_files *files, enum nb_join_file i) {
        const struct nb_join_file_row *row = &nb_join_file_rows[i];
        const struct nb_secret *present = &files->present[i];
        const struct nb_swap *file = &files->files[i];
        int r = 0;

        if ((!file->is_wanted && files->pass == NB_PASS_REPAIR) || row->is_own || i == NB_FILE_LINK)
                return 0;
        /* What kubeadm has made of our file is ours, but must not look like an older one. */
        if (file->is_wanted ? nb_join_files_is_ours(files, i)
                            : is_hash_ours(files->previous, present))
                r = add_hash(files, present->data, present->len);
        return r < 0 || !file->is_wanted
                       ? r
                       : add_hash(files, file->secret ? file->secret->data : file->text.data,
                                  file->secret ? file->secret->len : file->text.len);
}

static int prepare_file(struct nb_join_files *files, enum nb_join_file i) {
        const struct nb_join_file_row *row = &nb_join_file_rows[i];
        struct nb_swap *file = &files->files[i];
        int r;

        if (!row->build || (files->is_env_only && i != NB_FILE_ENV))
                return 0;
        r = nb_join_files_read(files, i);
        if (r >= 0)
                r = row->build(files, file);
        if (r < 0 || file->text.error < 0)
                return r < 0 ? r : file->text.error;
        /* A join sets the kubeconfig aside, even if it stays the same, as long as kubelet could
         * combine it with other files of another join. */
        file->is_wanted = r > 0 && (!is_same(&files->present[i], file) ||
                                    (i == NB_FILE_KUBECONFIG && files->pass == NB_PASS_JOIN));
        if (file->is_wanted && row->is_foreign_kept && !is_replaceable(files, i)) {
                file->is_wanted = false;
                r = i == NB_FILE_FLAGS ? warn_foreign_flags(files) : 0;
        }
        return r < 0 ? r : add_hashes(files, i);
}

/* Creates the dated file; nothing refers to it yet. */
static int write_certificate(struct nb_join_files *files, struct nb_failure *f) {
        const char *store = files->context->settings.certificate_directory;
        int root_fd = files->context->root_fd, r;

        if (!files->accepted || files->accepted->pem.len == 0)
                return 0;
        r = nb_path_make_folder(root_fd, store, 0755, &files->store_fd);
        if (r < 0)
                return nb_swap_fail_folder(root_fd, store, r, f);
        r = nb_store_create(files->store_fd, files->context->now, &files->accepted->pem,
                            files->pem_name);
        if (r < 0) {
                files->pem_name[0] = '\0';
                return nb_swap_fail(store, r, f);
        }
        snprintf(files->record.certificate, sizeof(files->record.certificate), "%s/%s", store,
                 files->pem_name);
        return 0;
}

static int prepare_all(struct nb_join_files *files, struct nb_failure *f) {
        _cleanup_(nb_closep) int kubelet_fd = -1;
        int root_fd = files->context->root_fd, r;

        /* Create this folder first and with kubelet's own mode: the certificate directory is
         * usually in it, and missing parents are created with mode 0755. */
        r = nb_path_make_folder(root_fd, NB_KUBELET_DIRECTORY, 0750, &kubelet_fd);
        if (r < 0)
                return nb_swap_fail_folder(root_fd, NB_KUBELET_DIRECTORY, r, f);
        r = write_certificate(files, f);
        if (r < 0)
                return r;
        /* In reverse, since the kubeconfig decides about the CA file. */
        for (unsigned i = _NB_FILE_N; i-- > 0;) {
                r = i == NB_FILE_RECORD ? 0 : prepare_file(files, i);
                if (r < 0)
                        return nb_swap_fail(files->files[i].path, r, f);
        }
        return 0;
}

static int stage_all(struct nb_join_files *files, struct nb_failure *f) {
        for (unsigned i = 0; i < _NB_FILE_N; i++) {
                int r = nb_swap_open(&files->files[i], files->context->root_fd, f);

                if (r < 0)
                        return r;
        }
        return nb_swap_stage(files->files, _NB_FILE_N, f);
}

/* The record has the hashes of the other files, and how long they took. */
static int stage_record(struct nb_join_files *files, struct nb_failure *f) {
        struct nb_swap *file = &files->files[NB_FILE_RECORD];
        int r;

        if (files->pass == NB_PASS_JOIN)
                files->record.provenance.usec[NB_STAGE_INSTALL] = nb_now_usec() - files->begun_usec;
        r = prepare_file(files, NB_FILE_RECORD);
        return r < 0 ? nb_swap_fail(file->path, r, f) : nb_swap_stage(file, 1, f);
}

static bool is_copied(const struct nb_join_files *files, enum nb_join_file i) {
        return files->is_serving_copied &&
               (i == NB_FILE_SERVING_KEY || i == NB_FILE_SERVING_CERTIFICATE);
}

/* Begins with the kubeconfig, so that kubelet cannot read it while some of the files that it refers
 * to are missing. */
static int set_aside(struct nb_join_files *files, struct nb_failure *f) {
        int r = 0;

        for (unsigned i = _NB_FILE_N; i-- > 0 && r >= 0;) {
                struct nb_swap *file = &files->files[i];

                /* An existing link is replaced, but not a file: kubelet would refuse to rotate it
                 * ("expected ... to be a symlink but it is a file"). */
                if (is_copied(files, i) ||
                    (nb_join_file_rows[i].is_set_aside && file->is_wanted &&
                     !(S_ISLNK(file->mode) && nb_swap_is_at(file, S_IFLNK)) &&
                     (files->pass == NB_PASS_JOIN ||
                      !is_hash_ours(files->previous, &files->present[i]))))
                        r = nb_swap_set_aside(file, f);
        }
        return r;
}

static int publish_all(struct nb_join_files *files, struct nb_failure *f) {
        bool is_renewal = files->pass == NB_PASS_REFRESH && files->pem_name[0];
        int r = 0;

        if (files->pass != NB_PASS_REFRESH)
                r = set_aside(files, f);
        /* kubeadm-flags.env comes before the record, by whose arguments it is recognized: after a
         * crash between the two, it already has the arguments of the settings. */
        if (r >= 0 && files->pass == NB_PASS_REPAIR)
                r = nb_swap_publish(&files->files[NB_FILE_FLAGS], f);
        /* The record says when the certificate was renewed, so in a renewal it is the last: a crash
         * before must not delay the next renewal. */
        for (unsigned i = 0; i < _NB_FILE_N && r >= 0; i++)
                if (!is_renewal || i != NB_FILE_RECORD)
                        r = nb_swap_publish(&files->files[i], f);
        if (r >= 0)
                r = nb_swap_publish(&files->files[NB_FILE_RECORD], f);
        return r;
}

/* Restores the old kubeconfig only if all files that it refers to were restored. */
static void undo_all(struct nb_join_files *files) {
        bool is_undone = true;

        for (unsigned i = _NB_FILE_N; i-- > 0;)
                is_undone &= nb_swap_undo(&files->files[i]) >= 0;
        if (!is_undone)
                return;
        /* The link no longer names this file. */
        if (files->pem_name[0])
                (void)nb_file_remove(files->store_fd, files->pem_name);
        for (unsigned i = 0; i < _NB_FILE_N && is_undone; i++)
                is_undone = nb_swap_put_back(&files->files[i]) >= 0;
}

static void report_aside(const struct nb_join_files *files, enum nb_join_file i, bool is_done) {
        const struct nb_swap *file = &files->files[i];

        if (!file->old_name[0])
                return;
        if (is_done && is_copied(files, i) && nb_file_remove(file->folder_fd, file->old_name) >= 0)
                nb_log(LOG_NOTICE, NB_NONE,
                       "removed '%s', of kubelet on node '%s'; kubelet creates a new one",
                       file->path, files->previous->node);
        else
                nb_log(LOG_NOTICE, NB_SET_ASIDE, "the existing '%s' was renamed to '%s'",
                       file->path, file->old_name);
}

int nb_join_files_write(struct nb_join_files *files, struct nb_failure *f) {
        const struct nb_swap *all = files->files;
        int r = prepare_all(files, f);

        if (r >= 0 && files->pass == NB_PASS_REFRESH && !all[NB_FILE_CA].is_wanted &&
            !all[NB_FILE_LINK].is_wanted && !all[NB_FILE_KUBECONFIG].is_wanted)
                return 0;
        if (r >= 0)
                r = stage_all(files, f);
        if (r >= 0)
                r = stage_record(files, f);
        if (r >= 0)
                r = publish_all(files, f);
        if (r < 0)
                undo_all(files);
        for (unsigned i = 0; i < _NB_FILE_N; i++) {
                nb_swap_keep(&files->files[i]);
                report_aside(files, i, r >= 0);
        }
        return r < 0 ? r : 1;
}
