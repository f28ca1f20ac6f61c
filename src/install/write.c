/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "files/refresh_settings.h"
#include "install/certificate_store.h"
#include "install/flags.h"
#include "install/runtime.h"
#include "install/swap.h"
#include "install/write.h"
#include "kube/kubeconfig_format.h"
#include "kube/kubelet_config.h"
#include "node/machine_facts.h"
#include "settings/kubelet_env.h"
#include "system/clock.h"
#include "system/log.h"

/* In the order in which they are published. */
enum target {
        TARGET_RECORD, /* first, so that after a crash reset knows the files of the join */
        TARGET_CA,
        TARGET_CLIENT_CA,
        TARGET_SERVING,
        TARGET_SERVING_KEY,
        TARGET_SERVING_CERTIFICATE,
        TARGET_LINK,
        TARGET_ENV,
        TARGET_FLAGS,
        TARGET_INSTANCE,
        TARGET_CONFIG,
        TARGET_KUBECONFIG, /* last: the commit point */
        _TARGET_N,
};

/* Existing files that are renamed before the new ones are published. The kubeconfig is the first,
 * so that kubelet cannot read it while some of the files that it refers to are missing. */
static const enum target aside_targets[] = {
        TARGET_KUBECONFIG,          TARGET_CA,   TARGET_CLIENT_CA, TARGET_SERVING_KEY,
        TARGET_SERVING_CERTIFICATE, TARGET_LINK,
};

/* All files to be written. They are prepared in memory before the first one is written. */
struct plan {
        const struct nb_context *context;
        const struct nb_accepted *accepted;
        bool has_previous;
        struct nb_record previous, record; /* of an earlier join and of this one */
        struct nb_swap files[_TARGET_N];
        char pem_name[NB_STORE_NAME_SIZE]; /* the dated file; "" before it exists */
        bool is_serving_copied; /* kubelet has signed its serving certificate on the original */
        bool is_committed;      /* the previous files are gone, and nothing can be undone */
};

static void plan_init(struct plan *plan, const struct nb_context *context,
                      const struct nb_accepted *accepted) {
        const struct nb_settings *settings = &context->settings;
        const char *store = settings->certificate_directory;
        char client_ca[NB_CLIENT_CA_PATH_MAX];
        const struct {
                const char *folder, *name;
                mode_t mode;
        } rows[_TARGET_N] = {
                [TARGET_RECORD] = { store, "/" NB_RECORD_FILE, 0644 },
                [TARGET_CA] = { settings->ca_file, "", 0644 },
                [TARGET_CLIENT_CA] = { client_ca, "", 0644 },
                [TARGET_SERVING] = { store, "/" NB_STORE_SERVING, 0600 },
                [TARGET_SERVING_KEY] = { store, "/" NB_SERVING_KEY, S_IFLNK },
                [TARGET_SERVING_CERTIFICATE] = { store, "/" NB_SERVING_CERTIFICATE, S_IFLNK },
                [TARGET_LINK] = { store, "/" NB_STORE_CURRENT, S_IFLNK },
                [TARGET_ENV] = { NB_KUBELET_DIRECTORY, "/" NB_KUBELET_ENV_FILE, 0644 },
                [TARGET_FLAGS] = { NB_KUBELET_DIRECTORY, "/" NB_FLAGS_FILE, 0644 },
                [TARGET_INSTANCE] = { NB_KUBELET_DIRECTORY, "/" NB_INSTANCE_FILE, 0644 },
                [TARGET_CONFIG] = { NB_KUBELET_CONFIG_PATH, "", 0644 },
                [TARGET_KUBECONFIG] = { settings->kubeconfig, "", 0600 },
        };

        nb_settings_client_ca(settings, client_ca);
        plan->context = context;
        plan->accepted = accepted;
        for (unsigned i = 0; i < _TARGET_N; i++)
                nb_swap_init(&plan->files[i], rows[i].folder, rows[i].name, rows[i].mode);
}

static void plan_freep(struct plan **plan) {
        for (unsigned i = 0; *plan && i < _TARGET_N; i++)
                nb_swap_done(&(*plan)->files[i]);
        free(*plan);
}

/* --- Preparing --- */

static int open_folders(struct plan *plan, struct nb_failure *f) {
        _cleanup_(nb_closep) int kubelet_fd = -1;
        int root_fd = plan->context->root_fd, r;

        /* Create this folder first and with kubelet's own mode: the certificate directory is
         * usually in it, and missing parents are created with mode 0755. */
        r = nb_path_make_folder(root_fd, NB_KUBELET_DIRECTORY, 0750, &kubelet_fd);
        if (r < 0)
                return nb_swap_fail_folder(root_fd, NB_KUBELET_DIRECTORY, r, f);
        for (unsigned i = 0; i < _TARGET_N; i++) {
                r = nb_swap_open(&plan->files[i], root_fd, f);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Replaces a CA file that differs or cannot be read. With the system's CAs there is no CA file. */
static void prepare_ca(struct nb_swap *file, const struct nb_buffer *ca) {
        if (ca->len == 0)
                return;
        nb_buffer_append(&file->text, ca->data, ca->len);
        file->is_wanted = nb_swap_differs(file);
}

/* The files that only a supervisor of k3s issues. kubelet.crt and kubelet.key are links to one file
 * with certificate and key, so that a renewal replaces both at once. */
static void prepare_supervised(struct plan *plan) {
        const struct nb_accepted *accepted = plan->accepted;
        struct nb_swap *files = plan->files;

        if (plan->context->bootstrap.issuer != NB_ISSUER_SUPERVISOR)
                return;
        prepare_ca(&files[TARGET_CLIENT_CA], &accepted->client_ca);
        files[TARGET_SERVING].secret = &accepted->serving;
        for (unsigned i = TARGET_SERVING; i <= TARGET_SERVING_CERTIFICATE; i++)
                files[i].is_wanted = accepted->serving.len > 0;
        nb_buffer_append_string(&files[TARGET_SERVING_KEY].text, NB_STORE_SERVING);
        nb_buffer_append_string(&files[TARGET_SERVING_CERTIFICATE].text, NB_STORE_SERVING);
}

static void prepare_config(struct plan *plan) {
        const struct nb_buffer *config = &plan->accepted->kubelet_config;
        struct nb_swap *file = &plan->files[TARGET_CONFIG];

        file->is_wanted = config->len > 0 && nb_config_is_wanted(plan->context);
        if (file->is_wanted)
                nb_buffer_append(&file->text, config->data, config->len);
}

/* Warns of the arguments that a kubeadm-flags.env of another program lacks. */
static int warn_foreign_flags(const struct plan *plan, const char *file, const char *arguments) {
        _cleanup_(nb_buffer_done) struct nb_buffer missing = NB_BUFFER_INIT(NB_FLAGS_MAX);

        nb_flags_find_missing(file, arguments, plan->context->is_override_needed, &missing);
        if (missing.error < 0)
                return missing.error;
        if (missing.len > 0)
                nb_log(LOG_WARNING, NB_KUBELET_ARGUMENTS_MISSING,
                       "'" NB_KUBELET_DIRECTORY "/" NB_FLAGS_FILE
                       "' was not written by node-bootstrap and is left unchanged; add %s",
                       missing.data);
        return 0;
}

/* Writes kubeadm-flags.env if there is none, it has no argument, or an earlier join wrote it. 0,
 * -errno. */
static int prepare_flags(struct plan *plan, const struct nb_runtime *runtime) {
        _cleanup_(nb_buffer_done) struct nb_buffer old = NB_BUFFER_INIT(NB_FLAGS_MAX),
                                                   words = NB_BUFFER_INIT(NB_FLAGS_MAX);
        struct nb_swap *file = &plan->files[TARGET_FLAGS];
        const char *arguments, *text;
        int r;

        nb_flags_format(plan->context, runtime->is_remote_needed, &words);
        if (words.error < 0)
                return words.error;
        r = nb_file_read(file->folder_fd, file->name, &old, NULL);
        if (r < 0 && r != -ENOENT)
                return r;
        arguments = words.data;
        text = old.data ? old.data : "";
        if (!nb_flags_file_is(text, "") && !nb_flags_file_is(text, arguments) &&
            !nb_flags_file_is(text, plan->previous.arguments))
                return warn_foreign_flags(plan, text, arguments);
        if (words.len < sizeof(plan->record.arguments))
                memcpy(plan->record.arguments, arguments, words.len + 1);
        file->is_wanted = true;
        nb_flags_file_format(arguments, &file->text);
        return 0;
}

/* Writes instance-config.yaml if there is none or an earlier join wrote it. Leaves anything else
 * in its place: the join does not need it. */
static int prepare_instance(struct plan *plan, const struct nb_runtime *runtime) {
        _cleanup_(nb_buffer_done) struct nb_buffer old = NB_BUFFER_INIT(NB_INSTANCE_MAX);
        struct nb_swap *file = &plan->files[TARGET_INSTANCE];
        int r = nb_file_read(file->folder_fd, file->name, &old, NULL);
        const char *text = old.data ? old.data : "";

        if (r == -ENOMEM)
                return r;
        file->is_wanted = r == -ENOENT || nb_instance_is(text, plan->previous.runtime_endpoint) ||
                          nb_instance_is(text, runtime->endpoint);
        if (!file->is_wanted)
                return 0;
        memcpy(plan->record.runtime_endpoint, runtime->endpoint, sizeof(runtime->endpoint));
        nb_instance_format(runtime->endpoint, &file->text);
        return 0;
}

static int prepare_plan(struct plan *plan, struct nb_failure *f) {
        struct nb_swap *env = &plan->files[TARGET_ENV],
                       *kubeconfig = &plan->files[TARGET_KUBECONFIG];
        const struct nb_settings *settings = &plan->context->settings;
        struct nb_kubelet_paths paths;
        struct nb_runtime runtime;
        int r;

        r = open_folders(plan, f);
        if (r < 0)
                return r;
        r = nb_context_read_record(plan->context, &plan->previous);
        if (r < 0)
                return nb_failure_set_memory(f);
        plan->has_previous = r > 0;
        env->is_wanted = true;
        nb_kubelet_paths_get(settings, &paths);
        nb_kubelet_env_format(plan->context->node_name, &paths, &env->text);
        prepare_ca(&plan->files[TARGET_CA], &plan->accepted->ca);
        prepare_supervised(plan);
        prepare_config(plan);
        kubeconfig->is_wanted = true;
        nb_kubeconfig_format(&plan->accepted->handoff.cluster,
                             plan->accepted->ca.len > 0 ? settings->ca_file : NULL,
                             plan->files[TARGET_LINK].path, &kubeconfig->text);
        if (nb_runtime_find(plan->context, &runtime) < 0)
                return nb_failure_set_memory(f);
        r = prepare_flags(plan, &runtime);
        if (r < 0)
                return nb_swap_fail(plan->files[TARGET_FLAGS].path, r, f);
        r = prepare_instance(plan, &runtime);
        if (r < 0)
                return nb_swap_fail(plan->files[TARGET_INSTANCE].path, r, f);
        for (unsigned i = 0; i < _TARGET_N; i++)
                if (plan->files[i].text.error < 0)
                        return nb_swap_fail(plan->files[i].path, plan->files[i].text.error, f);
        return 0;
}

/* Whether the CA file existed before our first join; reset then keeps it. */
static bool is_ca_found(const struct plan *plan) {
        const struct nb_ca_selection *selection = &plan->accepted->selection;
        const struct nb_record *previous = &plan->previous;

        if (plan->accepted->ca.len == 0 || plan->files[TARGET_CA].is_wanted)
                return false;
        return !plan->has_previous || previous->is_ca_found ||
               previous->n_ca_hashes != selection->n_taken ||
               memcmp(previous->ca_hashes, selection->taken,
                      selection->n_taken * sizeof(selection->taken[0])) != 0;
}

static int prepare_record(struct plan *plan, const char *certificate, struct nb_failure *f) {
        const struct nb_context *context = plan->context;
        const struct nb_accepted *accepted = plan->accepted;
        const struct nb_handoff *handoff = &accepted->handoff;
        const struct nb_cluster_identity *identity = &context->identity;
        struct nb_record *record = &plan->record;
        struct nb_swap *file = &plan->files[TARGET_RECORD];
        int r;

        _Static_assert(sizeof(record->ca_hashes) == sizeof(accepted->selection.taken), "same size");
        _Static_assert(sizeof(record->pins) == sizeof(identity->pins), "same size");
        record->n_pins = identity->n_pins;
        record->n_ca_hashes = accepted->selection.n_taken;
        memcpy(record->pins, identity->pins, sizeof(record->pins));
        memcpy(record->ca_hashes, accepted->selection.taken, sizeof(record->ca_hashes));
        snprintf(record->discovery, sizeof(record->discovery), "%s",
                 nb_method(context->bootstrap.method)->name);
        snprintf(record->node, sizeof(record->node), "%s", context->node_name);
        /* `join` reports which cloud's metadata it used. */
        snprintf(record->metadata, sizeof(record->metadata), "%s",
                 context->is_metadata_wanted ? handoff->metadata : "");
        snprintf(record->certificate, sizeof(record->certificate), "%s", certificate);
        record->server = handoff->cluster.server;
        memcpy(record->kubeconfig, context->settings.kubeconfig, sizeof(record->kubeconfig));
        memcpy(record->tls_server_name, handoff->cluster.tls_server_name,
               sizeof(record->tls_server_name));
        memcpy(record->proxy_url, handoff->cluster.proxy_url, sizeof(record->proxy_url));
        record->provenance = handoff->provenance;
        if (context->bootstrap.issuer == NB_ISSUER_SUPERVISOR)
                record->provenance.csr[0] = '\0';
        record->is_discard_from_metadata = context->is_discard_from_metadata;
        record->is_ca_found = is_ca_found(plan);
        if (nb_refresh_settings_keep(&context->settings, record) < 0)
                return nb_failure_set_memory(f);
        nb_time_format(context->now, record->joined_at);
        r = nb_facts_read(context->root_fd, &record->facts);
        if (r >= 0)
                r = nb_state_file_format(&nb_record_file, record, &file->text);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "cannot format '%s': %m", file->path);
        file->is_wanted = true;
        return 0;
}

/* --- kubelet's serving certificate on a copy --- */

/* "CN=<node><suffix>@1700000000": the names that kubelet gives its own certificate and the CA of
 * that certificate (client-go util/cert, GenerateSelfSignedCertKey). */
static bool is_self_signed_name(const char *text, const char *node, const char *suffix) {
        char start[NB_NODE_NAME_MAX + 16];
        size_t len = (size_t)snprintf(start, sizeof(start), "CN=%s%s@", node, suffix);

        return !strncmp(text, start, len) && text[len] &&
               !text[len + strspn(text + len, NB_DIGITS)];
}

static bool is_self_signed(const struct nb_buffer *pem, const char *node) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *chain = NULL;
        char subject[NB_SUBJECT_SIZE], issuer[NB_SUBJECT_SIZE];

        if (!pem->data || nb_certificates_parse(pem->data, pem->len, true, &chain) < 0)
                return false;
        nb_certificate_subject(chain, 0, subject);
        nb_certificate_issuer(chain, 0, issuer);
        return is_self_signed_name(subject, node, "") && is_self_signed_name(issuer, node, "-ca");
}

/*
 * Every copy has the serving key of the original. kubelet creates a new key if it finds none, but
 * whoever issued another certificate must replace it. The files are set aside with those of the
 * join, which puts them back if it fails, and are removed with the previous files.
 */
static void find_copied_serving(struct plan *plan) {
        const struct nb_swap *certificate = &plan->files[TARGET_SERVING_CERTIFICATE];
        _cleanup_(nb_buffer_done) struct nb_buffer pem = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        const struct nb_record *previous = &plan->previous;

        if (!plan->has_previous || certificate->is_wanted ||
            nb_facts_compare(&plan->record.facts, &previous->facts) != NB_LIKENESS_COPY ||
            nb_file_read(certificate->folder_fd, certificate->name, &pem, NULL) < 0)
                return;
        plan->is_serving_copied = is_self_signed(&pem, previous->node);
        if (!plan->is_serving_copied)
                nb_log(LOG_WARNING, NB_NONE,
                       "'%s' belongs to the machine of which this one is a copy; replace it "
                       "and its key",
                       certificate->path);
}

static void remove_copied_serving(struct plan *plan) {
        for (unsigned i = TARGET_SERVING_KEY; i <= TARGET_SERVING_CERTIFICATE; i++) {
                struct nb_swap *file = &plan->files[i];

                if (!plan->is_serving_copied || !file->old_name[0] ||
                    nb_file_remove(file->folder_fd, file->old_name) < 0)
                        continue;
                file->old_name[0] = '\0';
                nb_log(LOG_NOTICE, NB_NONE,
                       "removed '%s', of kubelet on node '%s'; kubelet creates a new one",
                       file->path, plan->previous.node);
        }
}

/* --- Writing --- */

static int stage_all(struct plan *plan, struct nb_failure *f) {
        const char *store = plan->context->settings.certificate_directory;
        struct nb_swap *link = &plan->files[TARGET_LINK];
        char name[NB_STORE_NAME_SIZE];
        int r;

        r = nb_store_create(link->folder_fd, plan->context->now, &plan->accepted->pem, name);
        if (r < 0)
                return nb_swap_fail(store, r, f);
        memcpy(plan->pem_name, name, sizeof(name));
        nb_buffer_printf(&link->text, "%s/%s", store, name);
        if (link->text.error < 0)
                return nb_failure_set_memory(f);
        link->is_wanted = true;
        r = prepare_record(plan, link->text.data, f);
        return r < 0 ? r : nb_swap_stage(plan->files, _TARGET_N, f);
}

static int set_aside(struct plan *plan, struct nb_failure *f) {
        int r = 0;

        for (size_t i = 0; i < N_ELEMENTS(aside_targets) && r >= 0; i++) {
                enum target target = aside_targets[i];
                struct nb_swap *file = &plan->files[target];
                bool is_copied = plan->is_serving_copied && (target == TARGET_SERVING_KEY ||
                                                             target == TARGET_SERVING_CERTIFICATE);

                /* An existing link is replaced, but not a file: kubelet would refuse to rotate it
                 * ("expected ... to be a symlink but it is a file"). */
                if (is_copied ||
                    (file->is_wanted && !(S_ISLNK(file->mode) && nb_swap_is_at(file, S_IFLNK))))
                        r = nb_swap_set_aside(file, f);
        }
        return r;
}

static int publish_all(struct plan *plan, struct nb_failure *f) {
        int r;

        r = set_aside(plan, f);
        /* These two are ours if they match the record, or what this join would write. Publish them
         * before a new record: after a crash in between, the second condition still holds. */
        for (unsigned i = TARGET_FLAGS; i <= TARGET_INSTANCE && r >= 0 && plan->has_previous; i++)
                r = nb_swap_publish(&plan->files[i], f);
        for (unsigned i = 0; i < TARGET_KUBECONFIG && r >= 0; i++)
                r = nb_swap_publish(&plan->files[i], f);
        if (r < 0)
                return r;
        /* Remove the previous files before the kubeconfig is published: after a crash later,
         * nothing would remove them. */
        for (unsigned i = 0; i < TARGET_KUBECONFIG; i++)
                nb_swap_keep(&plan->files[i]);
        remove_copied_serving(plan);
        plan->is_committed = true;
        return nb_swap_publish(&plan->files[TARGET_KUBECONFIG], f);
}

/* Restores the old kubeconfig only if all files that it refers to were restored. */
static void undo_plan(struct plan *plan) {
        bool is_undone = true;

        if (plan->is_committed)
                return;
        for (unsigned i = _TARGET_N; i-- > 0;)
                if (nb_swap_undo(&plan->files[i]) < 0)
                        is_undone = false;
        if (!is_undone)
                return;
        /* The link no longer names this file. */
        if (plan->pem_name[0])
                (void)nb_file_remove(plan->files[TARGET_LINK].folder_fd, plan->pem_name);
        for (size_t i = N_ELEMENTS(aside_targets); i-- > 0;)
                if (nb_swap_put_back(&plan->files[aside_targets[i]]) < 0)
                        return;
}

static void report_aside(const struct plan *plan) {
        for (size_t i = 0; i < N_ELEMENTS(aside_targets); i++) {
                const struct nb_swap *file = &plan->files[aside_targets[i]];

                if (file->old_name[0])
                        nb_log(LOG_NOTICE, NB_SET_ASIDE, "the existing '%s' was renamed to '%s'",
                               file->path, file->old_name);
        }
}

/* kubelet ignores files whose name begins with a dot. */
static void warn_static_pods(const struct nb_context *context) {
        _cleanup_(nb_closep) int fd = nb_path_open(context->root_fd, NB_STATIC_POD_DIRECTORY,
                                                   O_RDONLY | O_DIRECTORY);
        _cleanup_(nb_folder_closep) DIR *folder = fd < 0 ? NULL : nb_folder_list(fd);
        const struct dirent *entry = NULL;

        while (folder && (entry = readdir(folder)) && entry->d_name[0] == '.')
                ;
        if (entry)
                nb_log(LOG_WARNING, NB_KUBELET_CONFIG_REDUCED,
                       "kubelet will not run the static pods in '" NB_STATIC_POD_DIRECTORY
                       "': staticPodPath is not taken from the cluster");
}

static void warn_volatile(const struct plan *plan) {
        struct statfs st;

        if (fstatfs(plan->files[TARGET_LINK].folder_fd, &st) < 0 ||
            (st.f_type != TMPFS_MAGIC && st.f_type != RAMFS_MAGIC))
                return;
        nb_log(LOG_WARNING, NB_CERTIFICATE_DIRECTORY_VOLATILE,
               "'%s' is on a %s, in memory: this machine will join again at every boot, as long as "
               "its token is valid",
               plan->context->settings.certificate_directory,
               st.f_type == TMPFS_MAGIC ? "tmpfs" : "ramfs");
}

int nb_write_config(const struct nb_context *context, const struct nb_accepted *accepted,
                    struct nb_failure *f) {
        const struct nb_buffer *config = &accepted->kubelet_config;
        _cleanup_(nb_closep) int folder_fd = -1;
        int r = nb_path_make_folder(context->root_fd, NB_KUBELET_DIRECTORY, 0750, &folder_fd);

        if (r >= 0)
                r = nb_file_create(folder_fd, "config.yaml", 0644, config->data, config->len);
        if (r < 0)
                return nb_swap_fail(NB_KUBELET_CONFIG_PATH, r, f);
        nb_log(LOG_NOTICE, NB_NONE,
               "'" NB_KUBELET_CONFIG_PATH "' was missing, and was read from the cluster");
        warn_static_pods(context);
        return 0;
}

int nb_write(const struct nb_context *context, const struct nb_accepted *accepted,
             struct nb_failure *f) {
        _cleanup_(plan_freep) struct plan *plan = calloc(1, sizeof(*plan));
        int r;

        if (!plan)
                return nb_failure_set_memory(f);
        plan_init(plan, context, accepted);
        r = prepare_plan(plan, f);
        if (r < 0)
                return r;
        r = stage_all(plan, f);
        if (r >= 0) {
                find_copied_serving(plan);
                r = publish_all(plan, f);
        }
        if (r < 0)
                undo_plan(plan);
        report_aside(plan);
        if (r < 0)
                return r;
        warn_volatile(plan);
        if (plan->files[TARGET_CONFIG].is_wanted)
                warn_static_pods(context);
        return 0;
}
