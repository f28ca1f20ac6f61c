/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Finds out whether this node's cluster has a new CA bundle or server. cluster-info is fetched over
 * TLS that exactly the node's CAs verify, without a credential. A change is accepted only if the
 * new bundle shares a CA with the current one (nb_ca_renew()), and if the new server presents the
 * same cluster-info over TLS that the new CAs verify.
 *
 * If install passes kubelet's client certificate with its key, this program renews the certificate
 * instead, through the supervisor of k3s: as a join does, but with this certificate in place of a
 * token. k3s has no cluster-info.
 *
 * With --kubelet-config, which node-bootstrap.service uses once a machine has joined, reads
 * kubelet's missing configuration with this certificate. A failure is then only a warning.
 *
 * Writes nothing to disk except the handoff. A refresh has few retries, since a timer repeats it.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "crypto/certificate.h"
#include "http/http.h"
#include "join/main.h"
#include "join/other_server.h"
#include "join/report.h"
#include "join/retry.h"
#include "join/stages.h"
#include "join_method/plan.h"
#include "kube_calls/cluster_calls.h"
#include "kube_objects/kubeconfig_format.h"
#include "kube_objects/kubelet_config.h"
#include "os/clock.h"
#include "os/sources.h"
#include "os/stop.h"
#include "state_files/handoff.h"
#include "systemd/log.h"

/* Refuses an empty CA file: without a CA, the system's CAs would verify the server. */
static int verify_present(const struct nb_cluster *present, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer ca = NB_BUFFER_INIT(NB_CA_FILE_MAX);

        return nb_ca_renew(present->ca, present->ca_len, present->ca, present->ca_len,
                           NB_REFRESH_INAPPLICABLE, NB_REFRESH_INAPPLICABLE, &ca, NULL, f);
}

/* TLS proves that the server has a certificate of the CA. Equal cluster-info proves that the server
 * belongs to this cluster, and not to another one with the same CA. */
static int verify_newer(const struct nb_cluster *newer, const struct nb_cluster_info *expected,
                        uint64_t deadline_ms, struct nb_failure *f) {
        _cleanup_(nb_cluster_info_done) struct nb_cluster_info info = { 0 };
        _cleanup_(nb_cluster_done) struct nb_cluster ignored = { 0 };
        char server[NB_URL_MAX];
        int r;

        r = nb_cluster_fetch_info(newer, deadline_ms, &info, &ignored, f);
        if (r < 0 || nb_cluster_info_is_equal(&info, expected))
                return r;
        nb_url_format(&newer->server, server);
        return nb_failure_set(f, NB_REFRESH_UNPROVEN, EKEYREJECTED,
                              "cluster-info names the server '%s', whose own cluster-info differs",
                              server);
}

struct refresh {
        const struct nb_cluster *present;
        uint64_t deadline_ms;
        struct nb_cluster *ret_newer;
};

static int refresh_once(const struct refresh *refresh, struct nb_failure *f) {
        const struct nb_cluster *present = refresh->present;
        _cleanup_(nb_cluster_info_done) struct nb_cluster_info info = { 0 };
        _cleanup_(nb_cluster_done) struct nb_cluster newer = { 0 };
        _cleanup_(nb_buffer_done) struct nb_buffer ca = NB_BUFFER_INIT(NB_CA_FILE_MAX);
        int r;

        r = nb_cluster_fetch_info(present, refresh->deadline_ms, &info, &newer, f);
        if (r < 0 && nb_cluster_info_is_hidden(f))
                f->code = NB_REFRESH_NOT_SHOWN;
        if (r < 0)
                return r;
        r = nb_ca_renew(present->ca, present->ca_len, newer.ca, newer.ca_len, NB_REFRESH_UNPROVEN,
                        NB_REFRESH_UNPROVEN, &ca, NULL, f);
        if (r < 0)
                return r;
        if (r == 0 && nb_cluster_has_same_transport(present, &newer))
                return 0;
        nb_cluster_take_ca(&newer, &ca);
        r = verify_newer(&newer, &info, refresh->deadline_ms, f);
        if (r < 0)
                return r;
        *refresh->ret_newer = TAKE(newer);
        return 1;
}

/* The catalog texts of codes of class "wait" describe a join, so replaces them with a code for a
 * refresh. TLS failures keep their codes, which have their own remedies. */
static int as_refresh(int r, struct nb_failure *f) {
        if (r < 0 && f->code != NB_NONE && nb_failure_class(f) == NB_CLASS_WAIT &&
            !nb_http_is_untrusted(f->code))
                f->code = NB_REFRESH_UNFINISHED;
        return r;
}

static int attempt_refresh(void *userdata, struct nb_failure *f) {
        return as_refresh(refresh_once(userdata, f), f);
}

/*
 * Needs no credential. `present` is the node's current cluster with its CAs. 1: *ret_newer replaces
 * it; 0: no change. -ECANCELED; NB_REFRESH_NOT_SHOWN (401, 403, 404), NB_REFRESH_INAPPLICABLE,
 * NB_REFRESH_UNFINISHED, NB_REFRESH_UNPROVEN, NB_TLS_UNTRUSTED, NB_ANSWER_MALFORMED,
 * NB_CLUSTER_INFO_UNACCEPTABLE.
 */
static int ask_cluster(const struct nb_cluster *present, uint64_t deadline_ms,
                       struct nb_cluster *ret_newer, struct nb_failure *f) {
        struct refresh refresh = { present, deadline_ms, ret_newer };
        char server[NB_URL_MAX];
        int r;

        nb_url_format(&present->server, server);
        nb_log_status("Asking %s for the cluster's CA and server", server);
        r = verify_present(present, f);
        if (r >= 0)
                r = nb_retry_until(NB_RETRY_REFRESH, deadline_ms, attempt_refresh, &refresh, f);
        if (r != 0)
                return r;
        nb_log(LOG_INFO, NB_REFRESH_UNCHANGED,
               "the cluster at %s has the same CA and server as this node", server);
        nb_log_status("The cluster's CA and server have not changed");
        return 0;
}

/* --- Renewal by a supervisor --- */

#define NODE_TIMEOUT_MS 10000 /* after the deadline of the renewal */

struct renewal {
        struct nb_join join;
        struct nb_bootstrap bootstrap; /* without a token; has `previous` if install has passed
                                          kubelet's certificate */
        struct nb_record record;
        char node_name[NB_CERTIFICATE_NODE_SIZE];
        bool is_refused; /* a supervisor has rejected the certificate */
};

static void renewal_done(struct renewal *renewal) {
        nb_join_done(&renewal->join);
        nb_bootstrap_done(&renewal->bootstrap);
        nb_record_done(&renewal->record);
}

/* Loads what install passes only for a renewal or for kubelet's configuration. */
static int load_renewal(struct nb_sources *sources, const struct nb_settings *settings,
                        bool is_config, struct renewal *renewal, struct nb_failure *f) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *chain = NULL;
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        const struct nb_secret *pem = &renewal->bootstrap.previous.certificate;
        char path[NB_SETTINGS_PATH_MAX + sizeof(NB_RECORD_FILE) + 1];
        int r;

        r = nb_bootstrap_load_node(sources, settings, &renewal->bootstrap, f);
        if (r < 0 || renewal->bootstrap.previous.kind == NB_IDENTITY_NONE || is_config)
                return r;
        snprintf(path, sizeof(path), "%s/" NB_RECORD_FILE, settings->certificate_directory);
        r = nb_sources_read(sources, path, NB_HANDOFF_MAX, &text, NULL);
        if (r < 0)
                return nb_installed_refuse(path, r, f);
        r = nb_state_file_parse(&nb_record_file, text.data, text.len, &renewal->record, f);
        if (r < 0)
                return r;
        r = nb_certificates_parse(pem->data, pem->len, true, &chain);
        if (r < 0)
                return nb_failure_set(f, NB_INSTALLED_MALFORMED, r,
                                      "%s contains no valid certificate",
                                      renewal->bootstrap.previous.source);
        nb_certificate_node_name(chain, renewal->node_name);
        return 0;
}

static int renew_at(struct renewal *renewal, const struct nb_url *endpoint, struct nb_failure *f) {
        int r;

        nb_endpoint_format(endpoint, renewal->join.endpoint);
        r = nb_stage_request_supervisor(&renewal->join, f);
        renewal->is_refused |= r < 0 && f->is_startup;
        return r;
}

/* Asks the supervisor of the join, which may be gone by now, and then those in the settings.
 * Reports the failure of the first one. */
static int renew_once(void *userdata, struct nb_failure *f) {
        struct renewal *renewal = userdata;
        const struct nb_settings *settings = renewal->join.settings;
        const char *recorded = renewal->record.provenance.endpoint;
        struct nb_url endpoint;
        int r;

        r = nb_endpoint_parse(recorded, strlen(recorded), &endpoint);
        if (r >= 0)
                r = renew_at(renewal, &endpoint, f);
        for (unsigned i = 0; i < settings->n_endpoints && r < 0 && r != -ECANCELED; i++) {
                struct nb_failure other = { 0 };

                if (!nb_url_is_equal(&settings->endpoints[i], &endpoint))
                        r = renew_at(renewal, &settings->endpoints[i], &other);
        }
        if (r >= 0)
                nb_failure_clear(f);
        return as_refresh(r, f);
}

/*
 * Whether the Node was deleted, or the API server, too, rejects the certificate: the refusal of a
 * supervisor proves neither, since it does not know any Node while it starts. Otherwise the failure
 * of the renewal stays. -ECANCELED.
 */
static int explain_refusal(const struct renewal *renewal, const struct nb_cluster *cluster, int r,
                           struct nb_failure *f) {
        _cleanup_(nb_api_done) struct nb_api api = { 0 };
        struct nb_failure ignored = { 0 }, why = *f;
        struct nb_node_object node;
        int status;

        nb_failure_clear(f);
        status = nb_api_init(&api, cluster, &renewal->bootstrap.previous,
                             nb_now_ms() + NODE_TIMEOUT_MS, &ignored);
        if (status >= 0)
                status = nb_node_read(&api, renewal->node_name, NULL, &node, &ignored);
        if (status == -ECANCELED && ignored.code == NB_NONE)
                return status;
        if (status == 404)
                return nb_failure_set_http(f, NB_NODE_DELETED, 404, "%s has no Node '%s'; %s",
                                           api.name, renewal->node_name, why.detail);
        if (status == 401)
                return nb_failure_set_http(f, NB_NODE_ACCESS_REVOKED, 401,
                                           "%s rejects the certificate as well; %s", api.name,
                                           why.detail);
        *f = why;
        return r;
}

/* 1: renewed; -ECANCELED, ... */
static int renew(struct renewal *renewal, struct nb_cluster *present, struct nb_handoff *ret,
                 struct nb_failure *f) {
        struct nb_join *join = &renewal->join;
        int r;

        nb_log_field(NB_FIELD_NODE, "%s", renewal->node_name);
        nb_log_field(NB_FIELD_CLUSTER, "k3s");
        nb_log_status("Renewing kubelet's certificate");
        join->bootstrap = &renewal->bootstrap;
        join->node_name = renewal->node_name;
        join->cluster = TAKE(*present);
        r = nb_retry_until(NB_RETRY_REFRESH, join->deadline_ms, renew_once, renewal, f);
        if (r < 0 && f->code != NB_NONE && renewal->is_refused)
                return explain_refusal(renewal, &join->cluster, r, f);
        if (r < 0)
                return r;
        ret->cluster = TAKE(join->cluster);
        ret->certificate = TAKE(join->certificate).data;
        ret->serving = TAKE(join->serving).data;
        return 1;
}

/* --- kubelet's configuration --- */

/* Presents the certificate of this node, since kubeadm's Role is for all nodes, but only for the
 * tokens of one group. Filters the configuration to log what is dropped: the installer filters it
 * again, since it does not trust this program. */
static int read_config_once(void *userdata, struct nb_failure *f) {
        const struct renewal *renewal = userdata;
        const struct nb_join *join = &renewal->join;
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_KUBELET_CONFIG_MAX),
                                                   filtered = NB_BUFFER_INIT(NB_KUBELET_CONFIG_MAX);
        char name[NB_KUBELET_CONFIG_NAME_SIZE], origin[NB_KUBELET_CONFIG_NAME_SIZE + 32],
                dropped[NB_KUBELET_CONFIG_DROPPED_SIZE];
        const struct nb_kubelet_config_source source = { origin,
                                                         join->cluster.ca ? join->settings->ca_file
                                                                          : NULL,
                                                         NB_KUBELET_CONFIG_UNACCEPTABLE };
        _cleanup_(nb_api_done) struct nb_api api = { 0 };
        int r;

        r = nb_api_init(&api, &join->cluster, &renewal->bootstrap.previous, join->deadline_ms, f);
        if (r < 0)
                return r;
        nb_log_field(NB_FIELD_ENDPOINT, "%s", api.name);
        r = nb_kubelet_config_fetch(&api, &text, name, f);
        if (r < 0)
                return r;
        nb_report_new_connection(&api);
        snprintf(origin, sizeof(origin), "the ConfigMap kube-system/%s", name);
        r = nb_kubelet_config_filter(&source, text.data ? text.data : "", text.len, &filtered,
                                     dropped, f);
        if (r < 0)
                return r;
        r = nb_state_file_write(join->state_fd, NB_KUBELET_CONFIG_FILE, &filtered, f);
        if (r >= 0 && dropped[0])
                nb_log(LOG_NOTICE, NB_KUBELET_CONFIG_REDUCED, "%s: ignored: %s", origin, dropped);
        return r;
}

static int read_config(struct renewal *renewal, struct nb_cluster *present, struct nb_failure *f) {
        uint64_t begin_ms = nb_now_ms(), deadline_ms = renewal->join.deadline_ms;
        int r;

        r = present->ca ? verify_present(present, f) : 0;
        if (r < 0)
                return r;
        nb_log_status("Joined; reading kubelet's configuration from the cluster");
        renewal->join.cluster = TAKE(*present);
        r = nb_retry_until(NB_RETRY_STAGE, deadline_ms, read_config_once, renewal, f);
        if (r < 0)
                nb_retry_given_up(deadline_ms, deadline_ms - begin_ms, "kubelet waits", f);
        return r;
}

/* --- The command --- */

/* Loads the node's own files that the installer has passed on. */
static int load_installed(struct nb_sources *sources, bool is_config,
                          const struct nb_settings *settings, struct nb_cluster *ret_present,
                          struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT, pem = NB_SECRET_INIT;
        char link[NB_SETTINGS_PATH_MAX + sizeof(NB_STORE_CURRENT) + 1];
        struct nb_kubeconfig_input input = { .origin = settings->kubeconfig };
        struct nb_failure ignored = { 0 };
        int r;

        r = nb_sources_read(sources, settings->kubeconfig, NB_KUBECONFIG_MAX, &text, NULL);
        if (r < 0)
                return nb_installed_refuse(settings->kubeconfig, r, f);
        snprintf(link, sizeof(link), "%s/" NB_STORE_CURRENT, settings->certificate_directory);
        input.text = text.data;
        input.len = text.len;
        r = nb_kubeconfig_parse_own(&input, settings->ca_file, link, ret_present, f);
        /* With the CAs of the system, there is no CA that a refresh could replace. */
        if (r < 0 && is_config &&
            nb_kubeconfig_parse_own(&input, NULL, link, ret_present, &ignored) >= 0) {
                nb_failure_clear(f);
                return 0;
        }
        if (r < 0)
                return r;
        r = nb_sources_read(sources, settings->ca_file, NB_CA_FILE_MAX, &pem, NULL);
        if (r < 0)
                return nb_installed_refuse(settings->ca_file, r, f);
        ret_present->ca = strdup(pem.data);
        if (!ret_present->ca)
                return nb_failure_set_memory(f);
        ret_present->ca_len = strlen(ret_present->ca); /* up to the first NUL byte */
        return 0;
}

static int run_refresh(struct nb_sources *sources, bool is_config, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        _cleanup_(nb_cluster_done) struct nb_cluster present = { 0 };
        _cleanup_(nb_handoff_done) struct nb_handoff handoff = { 0 };
        _cleanup_(renewal_done) struct renewal renewal = { 0 };
        _cleanup_(nb_closep) int state_fd = -1;
        _cleanup_(nb_settings_tokens_done) struct nb_settings_tokens none = NB_SETTINGS_TOKENS_INIT;
        uint64_t timeout_ms = NB_REFRESH_TIMEOUT_MS;
        struct nb_plan plan;
        const struct nb_settings *settings = &plan.settings;
        int r;

        r = nb_sources_folder("STATE_DIRECTORY", &state_fd, f);
        if (r >= 0)
                r = nb_state_file_clear(state_fd, NB_REFRESH_FILE, f);
        if (r >= 0)
                r = nb_plan_take(sources, &plan, &none, f);
        if (r >= 0) /* a renewal has a new key */
                r = nb_state_file_clear(state_fd, NB_PENDING_KEY_FILE, f);
        if (r >= 0)
                r = load_installed(sources, is_config, settings, &present, f);
        if (r >= 0)
                r = load_renewal(sources, settings, is_config, &renewal, f);
        nb_sources_done(sources);
        if (r < 0)
                return r;
        if (timeout_ms > settings->timeout_ms)
                timeout_ms = settings->timeout_ms;
        renewal.join.settings = settings;
        renewal.join.state_fd = state_fd;
        renewal.join.deadline_ms = nb_now_ms() + timeout_ms;
        if (is_config)
                return read_config(&renewal, &present, f);
        if (renewal.bootstrap.previous.kind != NB_IDENTITY_NONE)
                r = renew(&renewal, &present, &handoff, f);
        else if (settings->cluster_type == NB_CLUSTER_TYPE_K3S)
                r = nb_find_other_server(&present, settings, renewal.join.deadline_ms,
                                         &handoff.cluster, f);
        else
                r = ask_cluster(&present, renewal.join.deadline_ms, &handoff.cluster, f);
        if (r <= 0)
                return r;
        r = nb_state_file_format(&nb_refresh_file, &handoff, &text);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "cannot format '" NB_REFRESH_FILE "': %m");
        return nb_state_file_write(state_fd, NB_REFRESH_FILE, &text, f);
}

/* This machine has joined, so kubelet must be able to start. */
static int warn_without_config(struct nb_failure *f) {
        bool is_foreign = f->code == NB_REFRESH_INAPPLICABLE;
        struct nb_failure why = *f;

        nb_failure_clear(f);
        (void)nb_failure_set(f, is_foreign ? NB_KUBELET_UNPREPARED : why.code, why.errnum,
                             "'" NB_KUBELET_CONFIG_PATH "' is missing: %s", why.detail);
        nb_failure_add(f, "; %s",
                       is_foreign ? "write it yourself"
                                  : "when the cause is removed, `systemctl restart "
                                    "node-bootstrap.service` asks again");
        nb_log_failure(LOG_WARNING, f);
        nb_log_status_of(f, 0, "Joined, without kubelet's configuration (%s): %s",
                         nb_failure_info(f->code)->slug, why.detail);
        return 0;
}

int nb_command_refresh(struct nb_options *options, struct nb_failure *f) {
        struct nb_sources sources;
        bool is_config = false;
        const struct nb_option rows[] = {
                { "kubelet-config", NULL, .ret_switch = &is_config },
                { NULL },
        };
        int r;

        r = nb_options_read(options, rows, f);
        if (r < 0)
                return r;
        r = nb_stop_init();
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "cannot wait for signals: %m");
        nb_sources_init(&sources, options->config_directory);
        nb_log_field(NB_FIELD_STAGE, is_config ? "configure" : "refresh");
        r = nb_http_begin(false, f);
        if (r >= 0) {
                nb_http_report_landlock();
                r = run_refresh(&sources, is_config, f);
        }
        nb_http_end();
        if (r >= 0)
                return 0;
        if (r == -ECANCELED && f->code == NB_NONE) {
                nb_log(LOG_NOTICE, NB_NONE, "stopped before the cluster answered");
                return NB_EXIT_STOPPED;
        }
        if (is_config)
                return warn_without_config(f);
        if (f->code == NB_REFRESH_INAPPLICABLE || f->code == NB_REFRESH_NOT_SHOWN) {
                nb_log(f->code == NB_REFRESH_NOT_SHOWN ? LOG_WARNING : LOG_DEBUG, f->code,
                       "nothing is refreshed: %s", f->detail);
                return 0;
        }
        nb_log_status_of(f, 0, "Not refreshed (%s): %s", nb_failure_info(f->code)->slug, f->detail);
        return r;
}
