/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/macro.h"
#include "files/refresh_settings.h"
#include "install/accept.h"
#include "install/certificate_store.h"
#include "install/give.h"
#include "install/refresh_install.h"
#include "install/restore.h"
#include "install/state_directory.h"
#include "install/swap.h"
#include "install/write.h"
#include "kube/kubeconfig_format.h"
#include "kube/kubelet_config.h"
#include "node/present.h"
#include "system/clock.h"
#include "system/log.h"

/* In the order in which they are published. */
enum target {
        TARGET_RESTART,
        TARGET_CLIENT_CA,
        TARGET_SERVING,
        TARGET_LINK,
        TARGET_RECORD, /* after a renewed certificate, since it records the renewal */
        TARGET_CA,
        TARGET_KUBECONFIG,
        _TARGET_N,
};

struct refresh {
        const struct nb_context *context;
        struct nb_node *node;         /* what is on disk; refresh takes its chain */
        struct nb_accepted accepted;  /* with the handoff */
        char link[NB_SWAP_PATH_SIZE]; /* kubelet-client-current.pem */
        bool has_record;
        struct nb_record record;
        struct nb_certificates *chain;     /* of kubelet's certificate, as it is now */
        struct nb_secret kubeconfig, ca;   /* as they are now */
        char pem_name[NB_STORE_NAME_SIZE]; /* the dated file of a renewal; "" before it exists */
        struct nb_cluster cluster;         /* of the kubeconfig, without its CA */
        struct nb_ca_selection selection;
        struct nb_swap files[_TARGET_N];
};

static void refresh_freep(struct refresh **refresh) {
        for (unsigned i = 0; *refresh && i < _TARGET_N; i++)
                nb_swap_done(&(*refresh)->files[i]);
        if (*refresh) {
                nb_accepted_done(&(*refresh)->accepted);
                nb_certificates_free((*refresh)->chain);
                nb_secret_done(&(*refresh)->kubeconfig);
                nb_secret_done(&(*refresh)->ca);
        }
        free(*refresh);
}

static struct refresh *refresh_new(const struct nb_context *context, struct nb_node *node) {
        const struct nb_settings *settings = &context->settings;
        const char *store = settings->certificate_directory;
        struct refresh *refresh = calloc(1, sizeof(*refresh));
        char client_ca[NB_CLIENT_CA_PATH_MAX];
        struct nb_swap *files;

        if (!refresh)
                return NULL;
        refresh->context = context;
        refresh->node = node;
        snprintf(refresh->link, sizeof(refresh->link), "%s/" NB_STORE_CURRENT, store);
        files = refresh->files;
        nb_swap_init(&files[TARGET_RESTART], NB_KUBELET_DIRECTORY, "/" NB_REFRESH_RESTART_FILE,
                     0600);
        nb_swap_init(&files[TARGET_RECORD], store, "/" NB_RECORD_FILE, 0644);
        nb_settings_client_ca(settings, client_ca);
        nb_swap_init(&files[TARGET_CLIENT_CA], client_ca, "", 0644);
        nb_swap_init(&files[TARGET_SERVING], store, "/" NB_STORE_SERVING, 0600);
        nb_swap_init(&files[TARGET_CA], settings->ca_file, "", 0644);
        nb_swap_init(&files[TARGET_LINK], store, "/" NB_STORE_CURRENT, S_IFLNK);
        nb_swap_init(&files[TARGET_KUBECONFIG], settings->kubeconfig, "", 0600);
        return refresh;
}

/* --- The node's current files --- */

static int take_node(struct refresh *refresh, struct nb_failure *f) {
        struct nb_inspection *inspection = &refresh->node->inspection;
        struct nb_present *present = &refresh->node->present;
        int r;

        if (inspection->state == NB_NODE_STATE_WITHOUT_KUBECONFIG &&
            nb_present_is_mendable(present)) {
                r = nb_restore_kubeconfig(refresh->context, present, f);
                if (r < 0)
                        return r;
                inspection->state = NB_NODE_STATE_USABLE;
        }
        refresh->has_record = present->has_record;
        refresh->record = present->record;
        refresh->chain = TAKE(present->chain);
        if (nb_node_state_is_joined(inspection->state))
                return 0;
        return nb_failure_set(f, NB_REFRESH_INAPPLICABLE, 0, "this machine has not joined: %s",
                              inspection->detail);
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

        r = take_node(refresh, f);
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

static bool is_supervised(const struct refresh *refresh) {
        return refresh->has_record && nb_record_is_by_supervisor(&refresh->record);
}

/* k3s has no cluster-info, so there is nothing else to refresh. */
static bool is_renewal_due(const struct refresh *refresh) {
        time_t not_after = nb_certificate_not_after(refresh->chain, 0),
               renewal = nb_record_renewal(&refresh->record, not_after);
        char from[NB_RFC3339_SIZE], until[NB_RFC3339_SIZE];

        if (refresh->context->now >= renewal)
                return true;
        nb_time_format(renewal, from);
        nb_time_format(not_after, until);
        nb_log(LOG_INFO, NB_REFRESH_UNCHANGED,
               "kubelet's certificate is valid until %s; it is renewed from %s on", until, from);
        nb_log_status("kubelet's certificate is renewed from %s on", from);
        return false;
}

int nb_refresh_begin(const struct nb_context *context, struct nb_node *node, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer ca = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        _cleanup_(refresh_freep) struct refresh *refresh = refresh_new(context, node);
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
        if (is_supervised(refresh) && !is_renewal_due(refresh))
                return 0;
        r = nb_give_for_refresh(
                context, is_supervised(refresh) ? NB_REFRESH_RENEWAL : NB_REFRESH_CLUSTER, f);
        return r < 0 ? r : 1;
}

/* --- The output of `refresh` --- */

/* Also removes what is unusable: the next refresh asks again. */
static void clear_state(const struct nb_state *state) {
        int r = nb_state_clear(state);

        if (r < 0)
                nb_log(LOG_WARNING, NB_NONE, "cannot empty the state directory: %s", strerror(-r));
}

/* Only for a node that joined through a supervisor. A CA of the existing certificate must have
 * issued the new one: an attacker who has taken over `refresh` cannot replace a valid certificate
 * by one of another CA. */
static int accept_renewal(struct refresh *refresh, const struct nb_state *state,
                          struct nb_failure *f) {
        struct nb_accepted *accepted = &refresh->accepted;

        if (!accepted->handoff.certificate)
                return 0;
        if (!is_supervised(refresh))
                return nb_failure_set(f, NB_HANDOFF_UNTRUSTED, EPERM,
                                      "'" NB_REFRESH_FILE
                                      "' contains a certificate, but kubelet renews that of this "
                                      "node");
        accepted->ca = (struct nb_buffer)NB_BUFFER_INIT(NB_HANDOFF_MAX);
        nb_buffer_append(&accepted->ca, refresh->ca.data, strlen(refresh->ca.data));
        if (accepted->ca.error < 0)
                return nb_failure_set_memory(f);
        return nb_accept_certificates(refresh->context, state, refresh->chain, accepted, f);
}

/* Returns 1; 0 if there is no handoff. */
static int accept_handoff(struct refresh *refresh, const struct nb_state *state,
                          struct nb_failure *f) {
        int r;

        r = nb_state_parse(state, NB_REFRESH_FILE, &nb_refresh_file, &refresh->accepted.handoff, f);
        if (r == -ENOENT && f->code == NB_NONE)
                return 0;
        if (r >= 0)
                r = read_own(refresh, f);
        if (r >= 0)
                r = accept_renewal(refresh, state, f);
        return r < 0 ? r : 1;
}

static int format_record(struct refresh *refresh) {
        const struct nb_cluster *cluster = &refresh->accepted.handoff.cluster;
        struct nb_record *record = &refresh->record;

        _Static_assert(sizeof(record->ca_hashes) == sizeof(refresh->selection.taken),
                       "as many places for hashes as a bundle has");
        record->server = cluster->server;
        memcpy(record->kubeconfig, refresh->context->settings.kubeconfig,
               sizeof(record->kubeconfig));
        memcpy(record->tls_server_name, cluster->tls_server_name, sizeof(record->tls_server_name));
        memcpy(record->proxy_url, cluster->proxy_url, sizeof(record->proxy_url));
        memcpy(record->ca_hashes, refresh->selection.taken, sizeof(record->ca_hashes));
        record->n_ca_hashes = refresh->selection.n_taken;
        nb_time_format(refresh->context->now, record->refreshed_at);
        return nb_state_file_format(&nb_record_file, record, &refresh->files[TARGET_RECORD].text);
}

static int format_kubeconfig(struct refresh *refresh) {
        struct nb_swap *file = &refresh->files[TARGET_KUBECONFIG];

        nb_kubeconfig_format(&refresh->accepted.handoff.cluster, refresh->context->settings.ca_file,
                             refresh->link, &file->text);
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

        r = nb_ca_renew(refresh->ca.data, refresh->ca.len, refresh->accepted.handoff.cluster.ca,
                        refresh->accepted.handoff.cluster.ca_len, NB_HANDOFF_MALFORMED,
                        NB_HANDOFF_UNTRUSTED, &files[TARGET_CA].text, &refresh->selection, f);
        if (r < 0)
                return r;
        files[TARGET_CA].is_wanted = r > 0;
        files[TARGET_LINK].is_wanted = refresh->accepted.pem.len > 0;
        /* A running kubelet does not load a certificate that it has not renewed itself. */
        files[TARGET_RESTART].is_wanted = refresh->context->settings.restart_kubelet ||
                                          files[TARGET_LINK].is_wanted;
        files[TARGET_RECORD].is_wanted = refresh->has_record;
        nb_buffer_append_string(&files[TARGET_RESTART].text, "kubelet.service\n");
        if (format_kubeconfig(refresh) < 0 || files[TARGET_RESTART].text.error < 0)
                return nb_failure_set_memory(f);
        if (is_supervised(refresh) &&
            (files[TARGET_CA].is_wanted || files[TARGET_KUBECONFIG].is_wanted))
                return nb_failure_set(f, NB_HANDOFF_UNTRUSTED, EPERM,
                                      "'" NB_REFRESH_FILE
                                      "' names another CA or server, but on this node a refresh "
                                      "renews only certificates");
        return files[TARGET_CA].is_wanted || files[TARGET_KUBECONFIG].is_wanted ||
               files[TARGET_LINK].is_wanted;
}

/* Creates the dated file of a renewed certificate. Replaces kubelet-serving.pem only if it exists:
 * without it, kubelet.crt and kubelet.key are kubelet's own or the administrator's. */
static int prepare_renewal(struct refresh *refresh, struct nb_failure *f) {
        const char *store = refresh->context->settings.certificate_directory;
        const struct nb_accepted *accepted = &refresh->accepted;
        struct nb_swap *files = refresh->files, *link = &files[TARGET_LINK];
        char name[NB_STORE_NAME_SIZE];
        int r;

        if (!link->is_wanted)
                return 0;
        files[TARGET_CLIENT_CA].is_wanted = accepted->client_ca.len > 0;
        nb_buffer_append(&files[TARGET_CLIENT_CA].text, accepted->client_ca.data,
                         accepted->client_ca.len);
        files[TARGET_SERVING].secret = &accepted->serving;
        files[TARGET_SERVING].is_wanted = accepted->serving.len > 0 &&
                                          nb_swap_is_at(&files[TARGET_SERVING], S_IFREG);
        r = nb_store_create(link->folder_fd, refresh->context->now, &accepted->pem, name);
        if (r < 0)
                return nb_swap_fail(store, r, f);
        memcpy(refresh->pem_name, name, sizeof(name));
        nb_buffer_printf(&link->text, "%s/%s", store, name);
        if (link->text.error < 0 || files[TARGET_CLIENT_CA].text.error < 0)
                return nb_failure_set_memory(f);
        snprintf(refresh->record.certificate, sizeof(refresh->record.certificate), "%s",
                 link->text.data);
        return 0;
}

static int stage_and_publish(struct refresh *refresh, struct nb_failure *f) {
        struct nb_swap *files = refresh->files;
        int r = 0;

        for (unsigned i = 0; i < _TARGET_N && r >= 0; i++)
                r = nb_swap_open(&files[i], refresh->context->root_fd, f);
        if (r >= 0)
                r = prepare_renewal(refresh, f);
        if (r >= 0 && refresh->has_record && format_record(refresh) < 0)
                r = nb_failure_set_memory(f);
        if (r >= 0)
                r = nb_swap_stage(files, _TARGET_N, f);
        for (unsigned i = 0; i < _TARGET_N && r >= 0; i++)
                r = nb_swap_publish(&files[i], f);
        return r;
}

/* Begins with the last file, so that a kubeconfig is never without the CA that it needs. */
static void undo(struct refresh *refresh) {
        bool is_undone = true;

        for (unsigned i = _TARGET_N; i-- > 0;)
                if (nb_swap_undo(&refresh->files[i]) < 0)
                        is_undone = false;
        if (is_undone && refresh->pem_name[0])
                (void)nb_file_remove(refresh->files[TARGET_LINK].folder_fd, refresh->pem_name);
}

static void report_refreshed(const struct refresh *refresh) {
        bool is_ca_new = refresh->files[TARGET_CA].is_wanted,
             is_kubeconfig_new = refresh->files[TARGET_KUBECONFIG].is_wanted;
        char server[NB_URL_MAX], before[NB_URL_MAX], pin[NB_PIN_TEXT_SIZE];
        unsigned n = refresh->selection.n_taken;
        bool has_moved;

        nb_url_format(&refresh->cluster.server, before);
        nb_url_format(&refresh->accepted.handoff.cluster.server, server);
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

static void report_renewed(const struct refresh *refresh) {
        const char *until = refresh->accepted.not_after;

        nb_log(LOG_NOTICE, NB_RENEWED,
               "kubelet's certificate was renewed by the supervisor, and is valid until %s", until);
        nb_log_status("kubelet's certificate was renewed; it is valid until %s", until);
}

int nb_refresh_install(const struct nb_context *context, struct nb_node *node,
                       struct nb_failure *f) {
        _cleanup_(refresh_freep) struct refresh *refresh = refresh_new(context, node);
        _cleanup_(nb_state_done) struct nb_state state = { .fd = -1 };
        int r;

        if (!refresh)
                return nb_failure_set_memory(f);
        r = nb_state_open(&state, f);
        if (r < 0)
                return r;
        r = accept_handoff(refresh, &state, f);
        clear_state(&state);
        if (r > 0)
                r = prepare_files(refresh, f);
        if (r <= 0)
                return r;
        r = stage_and_publish(refresh, f);
        if (r < 0) {
                undo(refresh);
                return r;
        }
        for (unsigned i = 0; i < _TARGET_N; i++)
                nb_swap_keep(&refresh->files[i]);
        if (refresh->files[TARGET_LINK].is_wanted)
                report_renewed(refresh);
        else
                report_refreshed(refresh);
        return 0;
}

/* --- The timer --- */

static bool is_by_supervisor(const struct nb_context *context) {
        struct nb_record record;

        return nb_context_read_record(context, &record) > 0 && nb_record_is_by_supervisor(&record);
}

/* Returns a descriptor of the directory of the mark, or -errno. */
static int open_mark_folder(const struct nb_context *context) {
        return nb_path_open(context->root_fd, NB_KUBELET_DIRECTORY, O_RDONLY | O_DIRECTORY);
}

void nb_refresh_set_automatic(const struct nb_context *context) {
        bool is_wanted = nb_setting_is_set(&context->settings, NB_SETTING_REFRESH_AUTOMATIC)
                                 ? context->settings.refresh_automatic
                                 : is_by_supervisor(context);
        _cleanup_(nb_closep) int folder_fd = -1;
        int r;

        if (is_wanted == (nb_refresh_mark_time(context->root_fd) > 0))
                return;
        r = folder_fd = open_mark_folder(context);
        if (r >= 0)
                r = is_wanted ? nb_file_create(folder_fd, NB_REFRESH_MARK, 0644, "", 0)
                              : nb_file_remove(folder_fd, NB_REFRESH_MARK);
        if (r < 0)
                nb_log(LOG_WARNING, NB_NONE,
                       "cannot %s '" NB_KUBELET_DIRECTORY "/" NB_REFRESH_MARK
                       "', on which node-bootstrap-refresh.timer depends: %s",
                       is_wanted ? "create" : "remove", strerror(-r));
}

bool nb_refresh_is_due(const struct nb_context *context) {
        time_t last = nb_refresh_mark_time(context->root_fd);

        if (last == 0)
                return false;
        /* A time in the future is due to a wrong clock. */
        return is_by_supervisor(context) || last > context->now ||
               context->now - last >= NB_REFRESH_PERIOD_S;
}

void nb_refresh_remember(const struct nb_context *context) {
        _cleanup_(nb_closep) int folder_fd = open_mark_folder(context);

        if (folder_fd >= 0)
                (void)utimensat(folder_fd, NB_REFRESH_MARK, NULL, AT_SYMLINK_NOFOLLOW);
}

/* --- kubelet's configuration --- */

int nb_config_begin(const struct nb_context *context, struct nb_failure *f) {
        int r;

        if (!nb_config_is_wanted(context))
                return 0;
        r = nb_give_for_refresh(context, NB_REFRESH_CONFIG, f);
        return r < 0 ? r : 1;
}

int nb_config_install(const struct nb_context *context, const struct nb_state *state,
                      struct nb_failure *f) {
        _cleanup_(nb_accepted_done) struct nb_accepted accepted = { 0 };
        char client_ca[NB_CLIENT_CA_PATH_MAX];
        struct nb_record record;
        int r;

        if (!nb_state_has(state, NB_KUBELET_CONFIG_FILE) || !nb_config_is_wanted(context))
                return 0;
        r = nb_context_read_record(context, &record);
        if (r < 0)
                return nb_failure_set_memory(f);
        nb_settings_client_ca(&context->settings, client_ca);
        r = nb_accept_kubelet_config(state,
                                     r > 0 && nb_record_is_by_supervisor(&record)
                                             ? client_ca
                                             : context->settings.ca_file,
                                     &accepted, f);
        return r < 0 ? r : nb_write_config(context, &accepted, f);
}
