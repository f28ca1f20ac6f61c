/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "install/accept.h"
#include "install/give.h"
#include "install/join_files.h"
#include "install/refresh_install.h"
#include "install/repair.h"
#include "install/state_directory.h"
#include "install/write.h"
#include "kube_objects/kubelet_config.h"
#include "node_state/present.h"
#include "os/addresses.h"
#include "os/clock.h"
#include "settings/node_ips.h"
#include "state_files/refresh_settings.h"
#include "systemd/log.h"

/* Prepares a refresh of the files that a join of this program wrote. NB_REFRESH_INAPPLICABLE. */
static int open_files(const struct nb_context *context, const struct nb_node *node,
                      struct nb_join_files **ret_files, struct nb_failure *f) {
        _cleanup_(nb_join_files_freep) struct nb_join_files *files = NULL;
        const struct nb_record *record = &node->present.record;

        if (!nb_node_state_is_joined(node->inspection.state))
                return nb_failure_set(f, NB_REFRESH_INAPPLICABLE, 0,
                                      "this machine has not joined: %s", node->inspection.detail);
        files = nb_join_files_new(context, NB_PASS_REFRESH, record);
        if (!files || nb_join_files_read(files, NB_FILE_KUBECONFIG) < 0 ||
            nb_join_files_read(files, NB_FILE_SERVING_CERTIFICATE) < 0)
                return nb_failure_set_memory(f);
        if (!nb_join_files_is_ours(files, NB_FILE_KUBECONFIG))
                return nb_failure_set(f, NB_REFRESH_INAPPLICABLE, 0,
                                      "'%s' was not written by node-bootstrap",
                                      context->settings.kubeconfig);
        if (!record->ca)
                return nb_failure_set(f, NB_REFRESH_INAPPLICABLE, 0,
                                      "this machine trusts the CAs of the system");
        files->node = node;
        *ret_files = TAKE(files);
        return 0;
}

/*
 * Whether kubelet's serving certificate, if a join has written it, is lost, is for an address that
 * this machine no longer has, or not for those of node-ip. Decided here, so that the network side
 * gets kubelet's key only for a renewal.
 */
static bool is_serving_stale(const struct nb_join_files *files) {
        const struct nb_context *context = files->context;
        _cleanup_(nb_certificates_freep) struct nb_certificates *chain = NULL;
        _cleanup_(nb_secret_done) struct nb_secret pem = NB_SECRET_INIT;
        _cleanup_(nb_buffer_done) struct nb_buffer own = NB_BUFFER_INIT(NB_ADDRESSES_MAX);
        char path[NB_SETTINGS_PATH_MAX + sizeof(NB_STORE_SERVING) + 1], name[INET6_ADDRSTRLEN],
                node_ips[NB_NODE_IPS_SIZE];
        struct in6_addr bytes;
        int r;

        snprintf(path, sizeof(path), "%s/" NB_STORE_SERVING,
                 context->settings.certificate_directory);
        if (nb_path_read(context->root_fd, path, NB_HANDOFF_MAX, &pem) < 0 ||
            nb_certificates_parse(pem.data, pem.len, true, &chain) < 0) {
                if (nb_join_files_has_serving_link(files))
                        nb_log(LOG_NOTICE, NB_NONE,
                               "kubelet's serving certificate '%s' is lost or damaged", path);
                return nb_join_files_has_serving_link(files);
        }
        nb_settings_node_ips(&context->settings, node_ips);
        for (const char *rest = node_ips; nb_node_ips_next(&rest, name);) {
                if (nb_certificate_is_for(chain, name))
                        continue;
                nb_log(LOG_NOTICE, NB_NONE,
                       "kubelet's serving certificate is not for %s, which is in node-ip", name);
                return true;
        }
        /* Without any address, this machine is not connected. */
        if (!node_ips[0] && (nb_addresses_read(&own) < 0 || own.len == 0))
                return false;
        for (unsigned n = 0; (r = nb_certificate_name(chain, 0, n, name, sizeof(name))) >= 0; n++) {
                if (r == 0 || !strcmp(name, "127.0.0.1") ||
                    inet_pton(strchr(name, ':') ? AF_INET6 : AF_INET, name, &bytes) != 1 ||
                    (node_ips[0] ? nb_node_ips_contain(node_ips, name)
                                 : nb_addresses_contain(&own, name)))
                        continue;
                nb_log(LOG_NOTICE, NB_NONE,
                       "kubelet's serving certificate is for %s, which is no longer %s", name,
                       node_ips[0] ? "in node-ip" : "an address of this machine");
                return true;
        }
        return false;
}

/* k3s has no cluster-info, so there is nothing else to refresh. */
static bool is_renewal_due(const struct nb_join_files *files) {
        const struct nb_present *present = &files->node->present;
        time_t not_after = nb_certificate_not_after(present->chain, 0),
               renewal = nb_record_renewal(&present->record, not_after);
        char from[NB_RFC3339_SIZE], until[NB_RFC3339_SIZE];

        if (files->context->now >= renewal || is_serving_stale(files))
                return true;
        nb_time_format(renewal, from);
        nb_time_format(not_after, until);
        nb_log(LOG_INFO, NB_REFRESH_UNCHANGED,
               "kubelet's certificate is valid until %s; it is renewed from %s on", until, from);
        nb_log_status("kubelet's certificate is renewed from %s on", from);
        return false;
}

int nb_refresh_begin(const struct nb_context *context, struct nb_node *node, bool *ret_is_renewal,
                     struct nb_failure *f) {
        _cleanup_(nb_join_files_freep) struct nb_join_files *files = NULL;
        const struct nb_present *present = &node->present;
        enum nb_refresh refresh = NB_REFRESH_CLUSTER;
        bool is_supervised;
        int r = nb_repair(context, node, f);

        if (r >= 0) {
                nb_node_done(node);
                r = nb_node_inspect_disk(context->root_fd, node, f);
        }
        if (r >= 0)
                r = open_files(context, node, &files, f);
        if (r < 0)
                return r;
        is_supervised = nb_record_is_by_supervisor(&present->record);
        if (is_supervised)
                nb_log_field(NB_FIELD_CLUSTER, "k3s");
        if (is_supervised && !is_renewal_due(files)) {
                if (context->settings.n_endpoints < 2)
                        return 0;
                refresh = NB_REFRESH_SERVER;
        } else if (is_supervised) {
                refresh = NB_REFRESH_RENEWAL;
                *ret_is_renewal = true;
        }
        r = nb_give_for_refresh(context, refresh, NB_TIME_INFINITE, f);
        return r < 0 ? r : 1;
}

/* --- The output of `refresh` --- */

/* Only for a node that joined through a supervisor. A CA of the existing certificate must have
 * issued the new one: an attacker who has taken over `refresh` cannot replace a valid certificate
 * by one of another CA. */
static int accept_renewal(struct nb_join_files *files, const struct nb_state *state,
                          struct nb_accepted *accepted, struct nb_failure *f) {
        if (!accepted->handoff.certificate)
                return 0;
        if (!nb_record_is_by_supervisor(&files->record))
                return nb_failure_set(f, NB_HANDOFF_UNTRUSTED, EPERM,
                                      "'" NB_REFRESH_FILE
                                      "' contains a certificate, but kubelet renews that of this "
                                      "node");
        accepted->ca = (struct nb_buffer)NB_BUFFER_INIT(NB_HANDOFF_MAX);
        nb_buffer_append_string(&accepted->ca, files->record.ca);
        if (accepted->ca.error < 0)
                return nb_failure_set_memory(f);
        return nb_accept_certificates(files->context, state, files->node->present.chain, accepted,
                                      f);
}

/* The API server of RKE2 is on the same machine as its supervisor. */
static bool is_listed(const struct nb_settings *settings, const struct nb_url *server) {
        for (unsigned i = 0; i < settings->n_endpoints; i++) {
                struct nb_url endpoint = settings->endpoints[i];

                if (endpoint.port == NB_RKE2_SUPERVISOR_PORT)
                        endpoint.port = NB_API_SERVER_PORT;
                if (nb_url_is_equal(&endpoint, server))
                        return true;
        }
        return false;
}

/* Puts the cluster's CA and server into the record. */
static int accept_cluster(struct nb_join_files *files, struct nb_accepted *accepted,
                          struct nb_failure *f) {
        struct nb_cluster *cluster = &accepted->handoff.cluster;
        struct nb_record *record = &files->record;
        const struct nb_record *previous = files->previous;
        int r;

        r = nb_ca_renew(previous->ca, strlen(previous->ca), cluster->ca, cluster->ca_len,
                        NB_HANDOFF_MALFORMED, NB_HANDOFF_UNTRUSTED, &files->ca,
                        &accepted->selection, f);
        if (r < 0)
                return r;
        files->record.ca = files->ca.data;
        record->server = cluster->server;
        NB_TEXT_COPY(record->tls_server_name, cluster->tls_server_name);
        NB_TEXT_COPY(record->proxy_url, cluster->proxy_url);
        if (nb_record_is_by_supervisor(record) &&
            (r > 0 ||
             (!nb_url_is_equal(&record->server, &previous->server) &&
              !is_listed(&files->context->settings, &record->server)) ||
             strcmp(record->tls_server_name, previous->tls_server_name) != 0 ||
             strcmp(record->proxy_url, previous->proxy_url) != 0))
                return nb_failure_set(f, NB_HANDOFF_UNTRUSTED, EPERM,
                                      "'" NB_REFRESH_FILE
                                      "' names another CA, or a server that is not in "
                                      "discovery.endpoints, but on this node a refresh replaces "
                                      "neither");
        return 0;
}

static void report_refreshed(const struct nb_join_files *files) {
        bool is_ca_new = files->files[NB_FILE_CA].is_wanted,
             is_kubeconfig_new = files->files[NB_FILE_KUBECONFIG].is_wanted;
        unsigned n = files->accepted->selection.n_taken;
        char server[NB_URL_MAX], before[NB_URL_MAX], pin[NB_PIN_TEXT_SIZE];
        bool has_moved;

        nb_url_format(&files->previous->server, before);
        nb_url_format(&files->record.server, server);
        has_moved = strcmp(server, before) != 0;
        nb_pin_format(files->accepted->selection.taken[0], pin);
        nb_log_field(NB_FIELD_CA_SHA256, "%s", pin);
        nb_log(LOG_NOTICE, NB_REFRESHED,
               "%s%s%s replaced: the server is %s%s%s, the CA file holds %u CA%s",
               is_ca_new ? "the CA file" : "", is_ca_new && is_kubeconfig_new ? " and " : "",
               is_kubeconfig_new ? "the kubeconfig" : "", server, has_moved ? ", previously " : "",
               has_moved ? before : "", n, n == 1 ? "" : "s");
        nb_log_status("Refreshed: the server is %s, the CA file holds %u CA%s", server, n,
                      n == 1 ? "" : "s");
}

static void report_renewed(const char *until) {
        nb_log(LOG_NOTICE, NB_RENEWED,
               "kubelet's certificate was renewed by the supervisor, and is valid until %s", until);
        nb_log_status("kubelet's certificate was renewed; it is valid until %s", until);
}

int nb_refresh_install(const struct nb_context *context, struct nb_node *node,
                       struct nb_failure *f) {
        _cleanup_(nb_join_files_freep) struct nb_join_files *files = NULL;
        _cleanup_(nb_accepted_done) struct nb_accepted accepted = { 0 };
        _cleanup_(nb_state_done) struct nb_state state = { .fd = -1 };
        int r;

        r = nb_state_open(&state, f);
        if (r < 0)
                return r;
        r = nb_state_parse(&state, NB_REFRESH_FILE, &nb_refresh_file, &accepted.handoff, f);
        if (r >= 0)
                r = open_files(context, node, &files, f);
        if (files)
                r = accept_renewal(files, &state, &accepted, f);
        if (files && r >= 0)
                r = accept_cluster(files, &accepted, f);
        /* Also removes what is unusable: the next refresh asks again. */
        nb_state_discard(&state);
        if (r < 0 || !files)
                return r == -ENOENT && f->code == NB_NONE ? 0 : r;
        files->accepted = &accepted;
        /* With k3s, the time from which the next renewal is counted. */
        if (accepted.pem.len > 0 || !nb_record_is_by_supervisor(&files->record)) {
                nb_time_format(context->now, files->record.refreshed_at);
                files->record.renewal_failure[0] = files->record.renewal_failed_at[0] = '\0';
        }
        r = nb_join_files_write(files, f);
        if (r <= 0)
                return r;
        if (accepted.pem.len > 0)
                report_renewed(accepted.not_after);
        else
                report_refreshed(files);
        return 0;
}

/* --- The timer --- */

static bool is_by_supervisor(const struct nb_context *context) {
        _cleanup_(nb_record_done) struct nb_record record = { 0 };

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

void nb_refresh_note_failure(int root_fd, bool is_renewal, enum nb_code code) {
        _cleanup_(nb_node_done) struct nb_node node = { 0 };
        const struct nb_record *record = &node.present.record;
        struct nb_failure ignored = { 0 };
        int r;

        if (nb_node_inspect_disk(root_fd, &node, &ignored) < 0 || !node.present.has_record ||
            !node.present.chain || !nb_record_is_by_supervisor(record) ||
            (!is_renewal &&
             node.now < nb_record_renewal(record, nb_certificate_not_after(node.present.chain, 0))))
                return;
        r = nb_node_record_renewal(&node, code);
        if (r < 0)
                nb_log(LOG_WARNING, NB_NONE,
                       "cannot note in '" NB_RECORD_FILE "' that the renewal "
                       "has failed: %s",
                       strerror(-r));
}

void nb_refresh_remember(const struct nb_context *context) {
        _cleanup_(nb_closep) int folder_fd = open_mark_folder(context);

        if (folder_fd >= 0)
                (void)utimensat(folder_fd, NB_REFRESH_MARK, NULL, AT_SYMLINK_NOFOLLOW);
}

/* --- kubelet's configuration --- */

int nb_config_begin(const struct nb_context *context, uint64_t timeout_ms, struct nb_failure *f) {
        int r;

        if (!nb_config_is_wanted(context))
                return 0;
        r = nb_give_for_refresh(context, NB_REFRESH_CONFIG, timeout_ms, f);
        return r < 0 ? r : 1;
}

int nb_config_install(const struct nb_context *context, const struct nb_state *state,
                      struct nb_failure *f) {
        _cleanup_(nb_record_done) struct nb_record record = { 0 };
        _cleanup_(nb_buffer_done) struct nb_buffer config = NB_BUFFER_INIT(NB_KUBELET_CONFIG_MAX);
        const char *ca_file = context->settings.ca_file;
        char client_ca[NB_CLIENT_CA_PATH_MAX];
        int r;

        if (!nb_config_is_wanted(context))
                return 0;
        r = nb_context_read_record(context, &record);
        if (r < 0)
                return nb_failure_set_memory(f);
        nb_settings_client_ca(&context->settings, client_ca);
        if (r > 0 && nb_record_is_by_supervisor(&record))
                ca_file = client_ca;
        else if (r > 0 && !record.ca)
                ca_file = NULL; /* the system's CAs */
        r = nb_accept_kubelet_config(state, ca_file, &config, f);
        if (r == -ENOENT && f->code == NB_NONE)
                return 0;
        if (r >= 0)
                r = nb_write_config(context, &config, f);
        if (r >= 0)
                nb_log_status("Joined; kubelet's configuration was read from the cluster");
        return r;
}
