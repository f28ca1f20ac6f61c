/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/macro.h"
#include "install/give.h"
#include "install/present.h"
#include "install/refresh_install.h"
#include "install/state_directory.h"
#include "install/swap.h"
#include "kube/kubeconfig_format.h"
#include "system/clock.h"
#include "system/log.h"

/* In the order in which they are published. */
enum target {
        TARGET_RESTART,
        TARGET_RECORD,
        TARGET_CA,
        TARGET_KUBECONFIG,
        _TARGET_N,
};

struct refresh {
        const struct nb_context *context;
        struct nb_cluster handoff;
        char link[NB_SWAP_PATH_SIZE]; /* kubelet-client-current.pem */
        bool has_record;
        struct nb_record record;
        struct nb_secret kubeconfig, ca; /* as they are now */
        struct nb_cluster cluster;       /* of the kubeconfig, without its CA */
        struct nb_ca_selection selection;
        struct nb_swap files[_TARGET_N];
};

static void refresh_freep(struct refresh **refresh) {
        for (unsigned i = 0; *refresh && i < _TARGET_N; i++)
                nb_swap_done(&(*refresh)->files[i]);
        if (*refresh) {
                nb_cluster_done(&(*refresh)->handoff);
                nb_secret_done(&(*refresh)->kubeconfig);
                nb_secret_done(&(*refresh)->ca);
        }
        free(*refresh);
}

static struct refresh *refresh_new(const struct nb_context *context) {
        const struct nb_settings *settings = &context->settings;
        const char *store = settings->certificate_directory;
        struct refresh *refresh = calloc(1, sizeof(*refresh));
        struct nb_swap *files;

        if (!refresh)
                return NULL;
        refresh->context = context;
        snprintf(refresh->link, sizeof(refresh->link), "%s/" NB_STORE_CURRENT, store);
        files = refresh->files;
        nb_swap_init(&files[TARGET_RESTART], NB_KUBELET_DIRECTORY, "/" NB_REFRESH_RESTART_FILE,
                     0600);
        nb_swap_init(&files[TARGET_RECORD], store, "/" NB_RECORD_FILE, 0644);
        nb_swap_init(&files[TARGET_CA], settings->ca_file, "", 0644);
        nb_swap_init(&files[TARGET_KUBECONFIG], settings->kubeconfig, "", 0600);
        return refresh;
}

/* --- The node's current files --- */

static int inspect_node(struct refresh *refresh, struct nb_failure *f) {
        _cleanup_(nb_present_done) struct nb_present present = { 0 };
        struct nb_inspection inspection;
        int r;

        r = nb_present_read(refresh->context, &present, f);
        if (r < 0) {
                if (f->code == NB_TARGET_NOT_KUBECONFIG)
                        f->code = NB_REFRESH_INAPPLICABLE;
                return r;
        }
        nb_present_classify(&present, refresh->context, &inspection);
        refresh->has_record = present.has_record;
        refresh->record = present.record;
        if (nb_node_state_is_joined(inspection.state))
                return 0;
        return nb_failure_set(f, NB_REFRESH_INAPPLICABLE, 0, "this machine has not joined: %s",
                              inspection.detail);
}

static int read_file(const struct refresh *refresh, const char *path, size_t max,
                     struct nb_secret *ret, struct nb_failure *f) {
        int r = nb_path_read(refresh->context->root_fd, path, max, ret);

        return r < 0 ? nb_failure_set(f, NB_REFRESH_INAPPLICABLE, r, "cannot read '%s': %m", path)
                     : 0;
}

static int read_own(struct refresh *refresh, struct nb_failure *f) {
        const struct nb_settings *settings = &refresh->context->settings;
        struct nb_kubeconfig_input input = { .origin = settings->kubeconfig };
        int r;

        r = inspect_node(refresh, f);
        if (r < 0)
                return r;
        r = read_file(refresh, settings->kubeconfig, NB_KUBECONFIG_MAX, &refresh->kubeconfig, f);
        if (r < 0)
                return r;
        input.text = refresh->kubeconfig.data;
        input.len = refresh->kubeconfig.len;
        r = nb_kubeconfig_parse_own(&input, settings->ca_file, refresh->link, &refresh->cluster, f);
        if (r < 0)
                return r;
        return read_file(refresh, settings->ca_file, NB_CA_FILE_MAX, &refresh->ca, f);
}

int nb_refresh_begin(const struct nb_context *context, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer ca = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        _cleanup_(refresh_freep) struct refresh *refresh = refresh_new(context);
        struct nb_failure ignored = { 0 };
        int r;

        if (!refresh)
                return nb_failure_set_memory(f);
        r = read_own(refresh, f);
        if (r < 0)
                return r;
        /* Whether `refresh` can trust it. */
        r = nb_ca_renew(refresh->ca.data, refresh->ca.len, refresh->ca.data, refresh->ca.len,
                        NB_REFRESH_INAPPLICABLE, NB_REFRESH_INAPPLICABLE, &ca, NULL, f);
        if (r < 0)
                return r;
        /* Removes files that a crash of an earlier refresh left; this refresh may have nothing to
         * write. */
        for (unsigned i = 0; i < _TARGET_N; i++)
                (void)nb_swap_open(&refresh->files[i], context->root_fd, &ignored);
        return nb_give_for_refresh(context, f);
}

/* --- The output of `refresh` --- */

/* Reads the handoff once and then removes it, usable or not: the next refresh asks again. */
static int read_handoff(struct nb_cluster *ret_handoff, struct nb_failure *f) {
        _cleanup_(nb_state_done) struct nb_state state = { .fd = -1 };
        int r, cleared;

        r = nb_state_open(&state, f);
        if (r < 0)
                return r;
        r = nb_state_parse(&state, NB_REFRESH_FILE, &nb_refresh_file, ret_handoff, f);
        cleared = nb_state_clear(&state);
        if (cleared < 0)
                nb_log(LOG_WARNING, NB_NONE, "cannot empty the state directory: %s",
                       strerror(-cleared));
        return r;
}

static int format_record(struct refresh *refresh) {
        struct nb_record *record = &refresh->record;

        _Static_assert(sizeof(record->ca_hashes) == sizeof(refresh->selection.taken),
                       "as many places for hashes as a bundle has");
        record->server = refresh->handoff.server;
        memcpy(record->ca_hashes, refresh->selection.taken, sizeof(record->ca_hashes));
        record->n_ca_hashes = refresh->selection.n_taken;
        nb_time_format(refresh->context->now, record->refreshed_at);
        return nb_state_file_format(&nb_record_file, record, &refresh->files[TARGET_RECORD].text);
}

static int format_kubeconfig(struct refresh *refresh) {
        struct nb_swap *file = &refresh->files[TARGET_KUBECONFIG];

        nb_kubeconfig_format(&refresh->handoff, refresh->context->settings.ca_file, refresh->link,
                             &file->text);
        if (file->text.error < 0)
                return -ENOMEM;
        file->is_wanted = file->text.len != refresh->kubeconfig.len ||
                          memcmp(file->text.data, refresh->kubeconfig.data, file->text.len) != 0;
        return 0;
}

/* Returns 1 if any file must be written. */
static int prepare_files(struct refresh *refresh, struct nb_failure *f) {
        struct nb_swap *files = refresh->files;
        int r;

        r = nb_ca_renew(refresh->ca.data, refresh->ca.len, refresh->handoff.ca,
                        refresh->handoff.ca_len, NB_HANDOFF_MALFORMED, NB_HANDOFF_UNTRUSTED,
                        &files[TARGET_CA].text, &refresh->selection, f);
        if (r < 0)
                return r;
        files[TARGET_CA].is_wanted = r > 0;
        files[TARGET_RESTART].is_wanted = refresh->context->settings.restart_kubelet;
        files[TARGET_RECORD].is_wanted = refresh->has_record;
        nb_buffer_append_string(&files[TARGET_RESTART].text, "kubelet.service\n");
        if (format_kubeconfig(refresh) < 0 || (refresh->has_record && format_record(refresh) < 0) ||
            files[TARGET_RESTART].text.error < 0)
                return nb_failure_set_memory(f);
        return files[TARGET_CA].is_wanted || files[TARGET_KUBECONFIG].is_wanted;
}

static int stage_and_publish(struct refresh *refresh, struct nb_failure *f) {
        struct nb_swap *files = refresh->files;
        int r;

        for (unsigned i = 0; i < _TARGET_N; i++) {
                r = nb_swap_open(&files[i], refresh->context->root_fd, f);
                if (r < 0)
                        return r;
                r = nb_swap_stage(&files[i], f);
                if (r < 0)
                        return r;
        }
        for (unsigned i = 0; i < _TARGET_N; i++) {
                r = nb_swap_publish(&files[i], f);
                if (r < 0)
                        return r;
        }
        return 0;
}

static void report_refreshed(const struct refresh *refresh) {
        bool is_ca_new = refresh->files[TARGET_CA].is_wanted,
             is_kubeconfig_new = refresh->files[TARGET_KUBECONFIG].is_wanted;
        char server[NB_URL_MAX], before[NB_URL_MAX], pin[NB_PIN_TEXT_SIZE];
        unsigned n = refresh->selection.n_taken;
        bool has_moved;

        nb_url_format(&refresh->cluster.server, before);
        nb_url_format(&refresh->handoff.server, server);
        has_moved = strcmp(server, before) != 0;
        nb_pin_format(refresh->selection.taken[0], pin);
        nb_log_field(NB_FIELD_CA_SHA256, "%s", pin);
        nb_log(LOG_NOTICE, NB_REFRESHED,
               "%s%s%s replaced: the server is %s%s%s, the CA file holds %u CA%s",
               is_ca_new ? "the CA file" : "", is_ca_new && is_kubeconfig_new ? " and " : "",
               is_kubeconfig_new ? "the kubeconfig" : "", server, has_moved ? ", previously " : "",
               has_moved ? before : "", n, n == 1 ? "" : "s");
        nb_log_status("Refreshed: the server is %s, the CA file holds %u CA%s", server, n,
                      n == 1 ? "" : "s");
}

int nb_refresh_install(const struct nb_context *context, struct nb_failure *f) {
        _cleanup_(refresh_freep) struct refresh *refresh = refresh_new(context);
        int r;

        if (!refresh)
                return nb_failure_set_memory(f);
        r = read_handoff(&refresh->handoff, f);
        if (r == -ENOENT && f->code == NB_NONE)
                return 0;
        if (r < 0)
                return r;
        r = read_own(refresh, f);
        if (r < 0)
                return r;
        r = prepare_files(refresh, f);
        if (r <= 0)
                return r;
        r = stage_and_publish(refresh, f);
        /* The last one first, so that a kubeconfig is never without the CA that it needs. */
        for (unsigned i = _TARGET_N; i-- > 0;)
                if (r < 0)
                        (void)nb_swap_undo(&refresh->files[i]);
                else
                        nb_swap_keep(&refresh->files[i]);
        if (r >= 0)
                report_refreshed(refresh);
        return r;
}
