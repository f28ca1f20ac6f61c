/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "install/join_files.h"
#include "install/runtime.h"
#include "install/write.h"
#include "kube_objects/kubelet_config.h"
#include "node_state/flags.h"
#include "node_state/machine_facts.h"
#include "os/clock.h"
#include "state_files/refresh_settings.h"
#include "systemd/log.h"

/* --- The record --- */

/* What kubelet's files are built from. 0; -E2BIG, -ENOMEM. */
static int record_kubelet(struct nb_record *record, const struct nb_context *context) {
        struct nb_buffer words = NB_BUFFER_IN(record->arguments);
        struct nb_runtime runtime = { 0 };
        int r = nb_runtime_find(context, &runtime);

        if (r < 0)
                return r;
        NB_TEXT_COPY(record->runtime_endpoint, runtime.endpoint);
        nb_flags_format(&context->settings, context->node_name, runtime.is_remote_needed, &words);
        return words.error;
}

static int make_record(struct nb_join_files *files) {
        const struct nb_context *context = files->context;
        const struct nb_accepted *accepted = files->accepted;
        const struct nb_record *previous = files->previous;
        struct nb_record *record = &files->record;
        const struct nb_handoff *handoff = &accepted->handoff;
        const struct nb_cluster_identity *identity = &context->identity;
        int r;

        _Static_assert(sizeof(record->pins) == sizeof(identity->pins), "same size");
        *record = (struct nb_record){
                .server = handoff->cluster.server,
                .provenance = handoff->provenance,
                .n_pins = identity->n_pins,
                .n_hashes = previous->n_hashes,
                .is_discard_from_metadata = context->is_discard_from_metadata,
                .ca = accepted->ca.len > 0 ? accepted->ca.data : NULL,
        };
        memcpy(record->hashes, previous->hashes, sizeof(record->hashes));
        memcpy(record->pins, identity->pins, sizeof(record->pins));
        NB_TEXT_COPY(record->join_method, nb_method(context->bootstrap.method)->name);
        NB_TEXT_COPY(record->node, context->node_name);
        NB_TEXT_COPY(record->metadata, context->metadata == NB_PROVIDER_NONE
                                               ? ""
                                               : nb_provider_names[context->metadata]);
        NB_TEXT_COPY(record->kubeconfig, context->settings.kubeconfig);
        NB_TEXT_COPY(record->tls_server_name, handoff->cluster.tls_server_name);
        NB_TEXT_COPY(record->proxy_url, handoff->cluster.proxy_url);
        if (context->bootstrap.issuer == NB_ISSUER_SUPERVISOR)
                record->provenance.csr[0] = '\0';
        nb_time_format(context->now, record->joined_at);
        r = accepted->ca.len > NB_CA_FILE_MAX ? -E2BIG : record_kubelet(record, context);
        if (r >= 0)
                r = nb_refresh_settings_keep(&context->settings, record);
        return r < 0 ? r : nb_facts_read(context->root_fd, &record->facts);
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

static bool is_self_signed(const struct nb_secret *pem, const char *node) {
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
 * join, which puts them back if it fails, and are removed afterwards.
 */
static void find_copied_serving(struct nb_join_files *files) {
        const char *path = files->files[NB_FILE_SERVING_CERTIFICATE].path;
        _cleanup_(nb_secret_done) struct nb_secret pem = NB_SECRET_INIT;
        const struct nb_record *previous = files->previous;

        if (!previous->node[0] || files->accepted->serving.len > 0 ||
            nb_facts_compare(&files->record.facts, &previous->facts) != NB_LIKENESS_COPY ||
            nb_path_read(files->context->root_fd, path, NB_HANDOFF_MAX, &pem) < 0)
                return;
        files->is_serving_copied = is_self_signed(&pem, previous->node);
        if (!files->is_serving_copied)
                nb_log(LOG_WARNING, NB_NONE,
                       "'%s' belongs to the machine of which this one is a copy; replace it "
                       "and its key",
                       path);
}

/* --- Writing --- */

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

static void warn_volatile(const struct nb_join_files *files) {
        struct statfs st;

        if (fstatfs(files->files[NB_FILE_LINK].folder_fd, &st) < 0 ||
            (st.f_type != TMPFS_MAGIC && st.f_type != RAMFS_MAGIC))
                return;
        nb_log(LOG_WARNING, NB_CERTIFICATE_DIRECTORY_VOLATILE,
               "'%s' is on a %s, in memory: this machine will join again at every boot, as long as "
               "its token is valid",
               files->context->settings.certificate_directory,
               st.f_type == TMPFS_MAGIC ? "tmpfs" : "ramfs");
}

int nb_write_config(const struct nb_context *context, const struct nb_buffer *config,
                    struct nb_failure *f) {
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
        _cleanup_(nb_join_files_freep) struct nb_join_files *files = NULL;
        _cleanup_(nb_record_done) struct nb_record previous = { 0 };
        int r = nb_context_read_record(context, &previous);

        if (r >= 0)
                files = nb_join_files_new(context, NB_PASS_JOIN, r > 0 ? &previous : NULL);
        if (!files)
                return nb_failure_set_memory(f);
        files->accepted = accepted;
        r = make_record(files);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "cannot make '%s': %m",
                                      files->files[NB_FILE_RECORD].path);
        find_copied_serving(files);
        r = nb_join_files_write(files, f);
        if (r < 0)
                return r;
        warn_volatile(files);
        return 0;
}
