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
 * With --kubelet-config, which node-bootstrap.service uses on a machine that has joined, reads
 * kubelet's missing configuration with this certificate. A failure is then only a warning.
 *
 * Writes nothing to disk except the handoff. A refresh has few retries, since a timer repeats it.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "crypto/certificate.h"
#include "files/handoff.h"
#include "join/main.h"
#include "join/retry.h"
#include "join/stages.h"
#include "kube/kubeconfig_format.h"
#include "kube_api/cluster_calls.h"
#include "method/settings_documents.h"
#include "net/http.h"
#include "system/clock.h"
#include "system/log.h"
#include "system/sources.h"
#include "system/stop.h"

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
static int attempt_refresh(void *userdata, struct nb_failure *f) {
        int r = refresh_once(userdata, f);

        if (r < 0 && f->code != NB_NONE && nb_failure_class(f) == NB_CLASS_WAIT &&
            !nb_http_is_untrusted(f->code))
                f->code = NB_REFRESH_UNFINISHED;
        return r;
}

/*
 * `present` is the node's current cluster with its CAs. 1: *ret_newer replaces it; 0: no change.
 * -ECANCELED; NB_REFRESH_NOT_SHOWN (401, 403, 404), NB_REFRESH_INAPPLICABLE, NB_REFRESH_UNFINISHED,
 * NB_REFRESH_UNPROVEN, NB_TLS_UNTRUSTED, NB_ANSWER_MALFORMED, NB_CLUSTER_INFO_UNACCEPTABLE.
 */
static int find_newer(const struct nb_cluster *present, uint64_t deadline_ms,
                      struct nb_cluster *ret_newer, struct nb_failure *f) {
        struct refresh refresh = { present, deadline_ms, ret_newer };
        time_t since = 0;
        struct nb_retry_loop loop = { .retry = { NB_RETRY_REFRESH, deadline_ms },
                                      .attempt = attempt_refresh,
                                      .userdata = &refresh,
                                      .waiting_since = &since };
        int r;

        r = verify_present(present, f);
        return r < 0 ? r : nb_retry_run(&loop, f);
}

/* --- Renewal by a supervisor --- */

struct renewal {
        struct nb_join join;
        struct nb_bootstrap bootstrap; /* without a token; has `previous` if install has passed
                                          kubelet's certificate */
        struct nb_record record;
        char node_name[NB_CERTIFICATE_NODE_SIZE];
};

static void renewal_done(struct renewal *renewal) {
        nb_join_done(&renewal->join);
        nb_bootstrap_done(&renewal->bootstrap);
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

/* A 401 for a certificate has other causes and remedies than a 401 for a token. */
static int renew_at(struct renewal *renewal, const struct nb_url *endpoint, struct nb_failure *f) {
        int r;

        nb_endpoint_format(endpoint, renewal->join.endpoint);
        r = nb_stage_request_supervisor(&renewal->join, f);
        if (r < 0 && f->code == NB_TOKEN_REJECTED)
                f->code = NB_NODE_ACCESS_REVOKED;
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
        if (r < 0 && f->code != NB_NONE && nb_failure_class(f) == NB_CLASS_WAIT &&
            !nb_http_is_untrusted(f->code))
                f->code = NB_REFRESH_UNFINISHED;
        if (r >= 0)
                nb_failure_clear(f);
        return r;
}

/* 1: renewed; -ECANCELED, ... */
static int renew(struct renewal *renewal, struct nb_cluster *present, struct nb_handoff *ret,
                 struct nb_failure *f) {
        struct nb_join *join = &renewal->join;
        time_t since = 0;
        struct nb_retry_loop loop = { .retry = { NB_RETRY_REFRESH, join->deadline_ms },
                                      .attempt = renew_once,
                                      .userdata = renewal,
                                      .waiting_since = &since };
        int r;

        nb_log_field(NB_FIELD_NODE, "%s", renewal->node_name);
        nb_log_status("Renewing kubelet's certificate");
        join->bootstrap = &renewal->bootstrap;
        join->node_name = renewal->node_name;
        join->cluster = TAKE(*present);
        r = nb_retry_run(&loop, f);
        if (r < 0)
                return r;
        ret->cluster = TAKE(join->cluster);
        ret->certificate = TAKE(join->certificate).data;
        ret->serving = TAKE(join->serving).data;
        return 1;
}

/* --- kubelet's configuration --- */

static int read_config_once(void *userdata, struct nb_failure *f) {
        struct renewal *renewal = userdata;

        return nb_join_fetch_kubelet_config(&renewal->join, &renewal->bootstrap.previous, f);
}

static int read_config(struct renewal *renewal, struct nb_cluster *present, struct nb_failure *f) {
        uint64_t begin_ms = nb_now_ms(), deadline_ms = renewal->join.deadline_ms;
        time_t since = 0;
        struct nb_retry_loop loop = { .retry = { NB_RETRY_STAGE, deadline_ms },
                                      .attempt = read_config_once,
                                      .userdata = renewal,
                                      .waiting_since = &since };
        int r;

        r = verify_present(present, f);
        if (r < 0)
                return r;
        nb_log_status("Reading kubelet's configuration from the cluster");
        renewal->join.cluster = TAKE(*present);
        r = nb_retry_run(&loop, f);
        if (r < 0)
                nb_retry_given_up(deadline_ms, deadline_ms - begin_ms, "kubelet waits", f);
        return r;
}

/* --- The command --- */

/* Loads the settings and the node's own files that the installer has passed on. */
static int load_installed(struct nb_sources *sources, struct nb_settings *ret_settings,
                          struct nb_cluster *ret_present, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT, pem = NB_SECRET_INIT;
        char link[NB_SETTINGS_PATH_MAX + sizeof(NB_STORE_CURRENT) + 1];
        struct nb_kubeconfig_input input = { .origin = ret_settings->kubeconfig };
        int r;

        r = nb_sources_receive(sources, f);
        if (r < 0)
                return r;
        r = nb_documents_merge(sources, NULL, NULL, ret_settings, f);
        if (r < 0)
                return r;
        r = nb_sources_read(sources, ret_settings->kubeconfig, NB_KUBECONFIG_MAX, &text, NULL);
        if (r < 0)
                return nb_installed_refuse(ret_settings->kubeconfig, r, f);
        snprintf(link, sizeof(link), "%s/" NB_STORE_CURRENT, ret_settings->certificate_directory);
        input.text = text.data;
        input.len = text.len;
        r = nb_kubeconfig_parse_own(&input, ret_settings->ca_file, link, ret_present, f);
        if (r < 0)
                return r;
        r = nb_sources_read(sources, ret_settings->ca_file, NB_CA_FILE_MAX, &pem, NULL);
        if (r < 0)
                return nb_installed_refuse(ret_settings->ca_file, r, f);
        ret_present->ca = strdup(pem.data);
        if (!ret_present->ca)
                return nb_failure_set_memory(f);
        ret_present->ca_len = strlen(ret_present->ca); /* up to the first NUL byte */
        return 0;
}

/* Sends no credential. 1: the cluster differs; 0: no change. */
static int ask_cluster(const struct nb_cluster *present, uint64_t deadline_ms,
                       struct nb_cluster *ret_newer, struct nb_failure *f) {
        char server[NB_URL_MAX];
        int r;

        nb_url_format(&present->server, server);
        nb_log_status("Asking %s for the cluster's CA and server", server);
        r = find_newer(present, deadline_ms, ret_newer, f);
        if (r != 0)
                return r;
        nb_log(LOG_INFO, NB_REFRESH_UNCHANGED,
               "the cluster at %s has the same CA and server as this node", server);
        nb_log_status("The cluster's CA and server have not changed");
        return 0;
}

static int run_refresh(struct nb_sources *sources, bool is_config, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        _cleanup_(nb_cluster_done) struct nb_cluster present = { 0 };
        _cleanup_(nb_handoff_done) struct nb_handoff handoff = { 0 };
        _cleanup_(renewal_done) struct renewal renewal = { 0 };
        _cleanup_(nb_closep) int state_fd = -1;
        uint64_t timeout_ms = is_config ? NB_FALLBACK_TIMEOUT_MS : NB_REFRESH_TIMEOUT_MS;
        struct nb_settings settings;
        int r;

        r = nb_sources_folder("STATE_DIRECTORY", &state_fd, f);
        if (r < 0)
                return r;
        r = nb_state_file_clear(state_fd, NB_REFRESH_FILE, f);
        if (r >= 0) /* a renewal has a new key */
                r = nb_state_file_clear(state_fd, NB_PENDING_KEY_FILE, f);
        if (r < 0)
                return r;
        r = load_installed(sources, &settings, &present, f);
        if (r >= 0)
                r = load_renewal(sources, &settings, is_config, &renewal, f);
        nb_sources_done(sources);
        if (r < 0)
                return r;
        if (timeout_ms > settings.timeout_ms)
                timeout_ms = settings.timeout_ms;
        renewal.join.settings = &settings;
        renewal.join.state_fd = state_fd;
        renewal.join.deadline_ms = nb_now_ms() + timeout_ms;
        if (is_config)
                return read_config(&renewal, &present, f);
        r = renewal.bootstrap.previous.kind == NB_IDENTITY_NONE
                    ? ask_cluster(&present, renewal.join.deadline_ms, &handoff.cluster, f)
                    : renew(&renewal, &present, &handoff, f);
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
                             "'" NB_KUBELET_CONFIG_PATH "' is still missing: %s", why.detail);
        nb_failure_add(f, "; %s",
                       is_foreign ? "write it yourself"
                                  : "when the cause is removed, `systemctl restart "
                                    "node-bootstrap.service` asks again");
        nb_log_failure(LOG_WARNING, f);
        nb_log_status_of(f, 0, "Already joined, without kubelet's configuration (%s): %s",
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
        nb_log_status("Not refreshed (%s): %s", nb_failure_info(f->code)->slug, f->detail);
        return r;
}
