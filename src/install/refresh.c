/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/macro.h"
#include "install/give.h"
#include "install/present.h"
#include "install/refresh.h"
#include "install/state.h"
#include "install/store.h"
#include "install/swap.h"
#include "kube/kubeconfig_format.h"

#define CA_FILE_MAX (256 * 1024)
#define PATH_SIZE (NB_SETTINGS_PATH_MAX + NB_STORE_NAME_SIZE)

/* What the node has now. */
struct own {
        struct nb_inspection inspection;
        bool has_record;
        struct nb_record record;
        struct nb_cluster cluster; /* without its CA */
        struct nb_secret ca;
};

#define OWN_INIT \
        { .ca = NB_SECRET_INIT }

static void own_done(struct own *own) {
        nb_cluster_done(&own->cluster);
        nb_secret_done(&own->ca);
}

static int look(const struct nb_context *context, struct own *own, struct nb_failure *f) {
        _cleanup_(nb_present_done) struct nb_present present = { 0 };
        int r;

        r = nb_present_read(context, &present, f);
        if (r < 0) {
                if (f->code == NB_TARGET_NOT_KUBECONFIG)
                        f->code = NB_REFRESH_INAPPLICABLE;
                return r;
        }
        nb_present_classify(&present, context, &own->inspection);
        own->has_record = present.has_record;
        own->record = present.record;
        if (nb_node_state_is_joined(own->inspection.state))
                return 0;
        return nb_failure_set(f, NB_REFRESH_INAPPLICABLE, 0, "this machine has not joined: %s",
                              own->inspection.detail);
}

static int read_file(const struct nb_context *context, const char *path, size_t max,
                     struct nb_secret *ret, struct nb_failure *f) {
        int r = nb_path_read(context->root_fd, path, max, ret);

        if (r >= 0)
                return 0;
        errno = -r;
        return r == -ENOMEM ? nb_failure_set_memory(f)
                            : nb_failure_set(f, NB_REFRESH_INAPPLICABLE, -r,
                                             "'%s' cannot be read: %m", path);
}

static void name_link(const struct nb_settings *settings, char ret[static PATH_SIZE]) {
        snprintf(ret, PATH_SIZE, "%s/" NB_STORE_CURRENT, settings->certificate_directory);
}

static int verify_ca(const struct nb_secret *pem, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer ca = NB_BUFFER_INIT(NB_HANDOFF_MAX);

        return nb_ca_renew(pem->data, pem->len, pem->data, pem->len, NB_REFRESH_INAPPLICABLE,
                           NB_REFRESH_INAPPLICABLE, &ca, NULL, f);
}

static int read_own(const struct nb_context *context, struct own *own, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        const struct nb_settings *settings = &context->settings;
        char link[PATH_SIZE];
        int r;

        r = look(context, own, f);
        if (r >= 0)
                r = read_file(context, settings->kubeconfig, NB_KUBECONFIG_MAX, &text, f);
        if (r < 0)
                return r;
        name_link(settings, link);
        r = nb_kubeconfig_parse_own(&(struct nb_kubeconfig_input){ .origin = settings->kubeconfig,
                                                                   .text = text.data,
                                                                   .len = text.len },
                                    settings->ca_file, link, &own->cluster, f);
        if (r >= 0)
                r = read_file(context, settings->ca_file, CA_FILE_MAX, &own->ca, f);
        return r < 0 ? r : verify_ca(&own->ca, f);
}

/* --- Writing --- */

enum target {
        TARGET_RESTART,
        TARGET_RECORD,
        TARGET_CA,
        TARGET_KUBECONFIG,
        _TARGET_N,
};

struct plan {
        const struct nb_context *context;
        const struct own *own;
        const struct nb_cluster *handoff;
        struct nb_buffer ca;
        struct nb_ca_selection selection;
        bool is_ca_changed, is_kubeconfig_changed;
        int folders[_TARGET_N];
        char paths[_TARGET_N][PATH_SIZE];
        struct nb_swap swaps[_TARGET_N];
};

static void plan_done(struct plan *plan) {
        nb_buffer_done(&plan->ca);
        for (unsigned i = 0; i < _TARGET_N; i++)
                if (plan->folders[i] >= 0)
                        (void)close(plan->folders[i]);
}

static int unwritable(const char *path, int r, struct nb_failure *f) {
        return nb_failure_set(f, NB_TARGET_UNWRITABLE, -r, "'%s' cannot be written: %m", path);
}

static void name_paths(const struct nb_settings *settings, char (*ret)[PATH_SIZE]) {
        snprintf(ret[TARGET_RESTART], PATH_SIZE, NB_KUBELET_DIRECTORY "/" NB_REFRESH_RESTART_FILE);
        snprintf(ret[TARGET_RECORD], PATH_SIZE, "%s/" NB_RECORD_FILE,
                 settings->certificate_directory);
        snprintf(ret[TARGET_CA], PATH_SIZE, "%s", settings->ca_file);
        snprintf(ret[TARGET_KUBECONFIG], PATH_SIZE, "%s", settings->kubeconfig);
}

static int stage(struct plan *plan, enum target target, mode_t mode, const struct nb_buffer *text,
                 struct nb_failure *f) {
        char folder[PATH_SIZE];
        const char *name;
        int r;

        r = nb_path_split(plan->paths[target], folder, sizeof(folder), &name);
        if (r >= 0)
                r = nb_path_make_folder(plan->context->root_fd, folder, 0755,
                                        &plan->folders[target]);
        if (r >= 0)
                r = nb_swap_file(&plan->swaps[target], plan->folders[target], name, mode,
                                 text->data, text->len);
        return r < 0 ? unwritable(plan->paths[target], r, f) : 0;
}

static int stage_restart(struct plan *plan, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(64);

        if (nb_buffer_append_string(&text, "kubelet.service\n") < 0)
                return nb_failure_set_memory(f);
        return stage(plan, TARGET_RESTART, 0600, &text, f);
}

static int stage_record(struct plan *plan, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        struct nb_record record = plan->own->record;

        _Static_assert(sizeof(record.ca_hashes) == sizeof(plan->selection.taken),
                       "as many places for hashes as a bundle has");
        record.server = plan->handoff->server;
        memcpy(record.ca_hashes, plan->selection.taken, sizeof(record.ca_hashes));
        record.n_ca_hashes = plan->selection.n_taken;
        nb_time_format(plan->context->now, record.refreshed_at);
        if (nb_state_file_format(&nb_record_file, &record, &text) < 0)
                return nb_failure_set(f, NB_INTERNAL, 0, "'%s' cannot be made",
                                      plan->paths[TARGET_RECORD]);
        return stage(plan, TARGET_RECORD, 0644, &text, f);
}

static int stage_kubeconfig(struct plan *plan, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_KUBECONFIG_MAX);
        const struct nb_settings *settings = &plan->context->settings;
        char link[PATH_SIZE];
        int r;

        name_link(settings, link);
        r = nb_kubeconfig_format(
                &(struct nb_kubeconfig){
                        .server = &plan->handoff->server,
                        .tls_server_name = plan->handoff->tls_server_name,
                        .proxy_url = plan->handoff->proxy_url,
                        .ca_file = settings->ca_file,
                        .client_certificate = link,
                },
                &text);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, -r, "the kubeconfig cannot be made");
        return stage(plan, TARGET_KUBECONFIG, 0600, &text, f);
}

static int stage_all(struct plan *plan, struct nb_failure *f) {
        int r = 0;

        if (plan->context->settings.restart_kubelet)
                r = stage_restart(plan, f);
        if (r >= 0 && plan->own->has_record)
                r = stage_record(plan, f);
        if (r >= 0 && plan->is_ca_changed)
                r = stage(plan, TARGET_CA, 0644, &plan->ca, f);
        if (r >= 0 && plan->is_kubeconfig_changed)
                r = stage_kubeconfig(plan, f);
        return r;
}

static int write_plan(struct plan *plan, struct nb_failure *f) {
        int r;

        name_paths(&plan->context->settings, plan->paths);
        r = stage_all(plan, f);
        for (unsigned i = 0; i < _TARGET_N && r >= 0; i++) {
                r = nb_swap_publish(&plan->swaps[i]);
                if (r < 0)
                        (void)unwritable(plan->paths[i], r, f);
        }
        /* The last one first, so that a kubeconfig never goes before the CA that it needs. */
        for (unsigned i = _TARGET_N; i-- > 0;)
                if (r < 0)
                        (void)nb_swap_undo(&plan->swaps[i]);
                else
                        nb_swap_keep(&plan->swaps[i]);
        return r;
}

/* --- Looking --- */

/* What a crash of the refresh before this one left: the next staging would take it over, but there
 * may be none. */
static void sweep(const struct nb_context *context) {
        char paths[_TARGET_N][PATH_SIZE], folder[PATH_SIZE], temporary[NAME_MAX + 1];
        const char *name;

        name_paths(&context->settings, paths);
        for (unsigned i = 0; i < _TARGET_N; i++) {
                _cleanup_(nb_closep) int fd = -1;

                if (nb_path_split(paths[i], folder, sizeof(folder), &name) < 0)
                        continue;
                fd = nb_path_open(context->root_fd, folder, O_RDONLY | O_DIRECTORY);
                if (fd >= 0 && snprintf(temporary, sizeof(temporary), ".%s.tmp", name) <
                                       (int)sizeof(temporary))
                        (void)nb_file_remove(fd, temporary);
        }
}

int nb_refresh_begin(const struct nb_context *context, struct nb_failure *f) {
        _cleanup_(own_done) struct own own = OWN_INIT;
        int r;

        r = read_own(context, &own, f);
        if (r < 0)
                return r;
        sweep(context);
        return nb_give_for_refresh(context, f);
}

/* --- What `refresh` has left --- */

/* It is read once and is gone then, whatever it is worth: the next refresh asks anew. */
static int read_handoff(struct nb_cluster *ret_handoff, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        _cleanup_(nb_state_done) struct nb_state state = { .fd = -1 };
        int r;

        r = nb_state_open(&state, f);
        if (r < 0)
                return r;
        r = nb_state_read(&state, NB_REFRESH_FILE, NB_HANDOFF_MAX, &text, f);
        if (nb_file_clear(state.fd, NB_REFRESH_FILE) < 0 ||
            nb_file_clear(state.fd, "." NB_REFRESH_FILE ".tmp") < 0)
                nb_log(LOG_WARNING, NB_NONE, "the state directory could not be emptied: %m");
        return r < 0 ? r
                     : nb_state_file_parse(&nb_refresh_file, text.data, text.len, ret_handoff, f);
}

static void report(const struct plan *plan) {
        char server[NB_URL_MAX], before[NB_URL_MAX], pin[NB_PIN_TEXT_SIZE];

        nb_url_format(&plan->own->cluster.server, before);
        nb_url_format(&plan->handoff->server, server);
        nb_pin_format(plan->selection.taken[0], pin);
        nb_log_field(NB_FIELD_CA_SHA256, "%s", pin);
        nb_log(LOG_NOTICE, NB_REFRESHED,
               "%s%s%s replaced: the server is %s%s%s, the CA file holds %u CA%s",
               plan->is_ca_changed ? "the CA file" : "",
               plan->is_ca_changed && plan->is_kubeconfig_changed ? " and " : "",
               plan->is_kubeconfig_changed ? "the kubeconfig" : "", server,
               strcmp(server, before) ? ", before it was " : "",
               strcmp(server, before) ? before : "", plan->selection.n_taken,
               plan->selection.n_taken == 1 ? "" : "s");
        nb_log_status("Refreshed: the server is %s, the CA file holds %u CA%s", server,
                      plan->selection.n_taken, plan->selection.n_taken == 1 ? "" : "s");
}

static int install_handoff(const struct nb_context *context, const struct nb_cluster *handoff,
                           struct nb_failure *f) {
        _cleanup_(own_done) struct own own = OWN_INIT;
        _cleanup_(plan_done) struct plan plan = {
                .context = context,
                .own = &own,
                .handoff = handoff,
                .ca = NB_BUFFER_INIT(NB_HANDOFF_MAX),
                .folders = { -1, -1, -1, -1 },
        };
        int r;

        r = read_own(context, &own, f);
        if (r >= 0)
                r = nb_ca_renew(own.ca.data, own.ca.len, handoff->ca, handoff->ca_len,
                                NB_HANDOFF_MALFORMED, NB_HANDOFF_UNTRUSTED, &plan.ca,
                                &plan.selection, f);
        if (r < 0)
                return r;
        plan.is_ca_changed = r > 0;
        plan.is_kubeconfig_changed = !nb_url_is_equal(&own.cluster.server, &handoff->server) ||
                                     strcmp(own.cluster.tls_server_name,
                                            handoff->tls_server_name) != 0 ||
                                     strcmp(own.cluster.proxy_url, handoff->proxy_url) != 0;
        if (!plan.is_ca_changed && !plan.is_kubeconfig_changed)
                return 0;
        r = write_plan(&plan, f);
        if (r >= 0)
                report(&plan);
        return r;
}

int nb_refresh_install(const struct nb_context *context, struct nb_failure *f) {
        _cleanup_(nb_cluster_done) struct nb_cluster handoff = { 0 };
        int r;

        r = read_handoff(&handoff, f);
        if (r == -ENOENT && f->code == NB_NONE)
                return 0;
        return r < 0 ? r : install_handoff(context, &handoff, f);
}
