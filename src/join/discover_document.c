/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "join/report.h"
#include "join/stages.h"
#include "kube_calls/cluster_calls.h"
#include "systemd/log.h"

/* If the server cannot be reached, discovery fails, because the join needs this server anyway. If
 * cluster-info is hidden, missing or malformed, discovery uses the document alone. */
static bool is_transport_failure(const struct nb_failure *f) {
        return nb_http_is_unanswered(f->code) || nb_http_is_untrusted(f->code) ||
               f->code == NB_SERVER_ERROR || f->code == NB_WORKER_UNSTARTABLE ||
               f->code == NB_INTERNAL;
}

/* Unless cluster-info contains its own, keeps the proxy through which the node reaches the cluster
 * and, if the server is the same, the TLS server name. */
static void inherit_transport(const struct nb_cluster *known, struct nb_cluster *newer) {
        if (!newer->proxy_url[0])
                NB_TEXT_COPY(newer->proxy_url, known->proxy_url);
        if (!newer->tls_server_name[0] && nb_url_is_equal(&known->server, &newer->server))
                NB_TEXT_COPY(newer->tls_server_name, known->tls_server_name);
}

int nb_cluster_fetch_info(const struct nb_cluster *known, uint64_t deadline_ms,
                          struct nb_cluster_info *ret_info, struct nb_cluster *ret_newer,
                          struct nb_failure *f) {
        _cleanup_(nb_api_done) struct nb_api api = { 0 };
        int r;

        r = nb_api_init(&api, known, NULL, deadline_ms, f);
        if (r < 0)
                return r;
        nb_log_field(NB_FIELD_ENDPOINT, "%s", api.name);
        r = nb_cluster_info_fetch_verified(&api, ret_info, f);
        if (r < 0)
                return r;
        nb_report_new_connection(&api);
        r = nb_cluster_info_parse_cluster(ret_info->kubeconfig, ret_newer, f);
        if (r >= 0)
                inherit_transport(known, ret_newer);
        return r;
}

/* Replaces the document's cluster with the one in cluster-info, if the document's CAs verify it. */
static int renew_document(const struct nb_join *join, struct nb_cluster *cluster,
                          enum nb_code malformed, struct nb_ca_selection *selection,
                          struct nb_failure *f) {
        _cleanup_(nb_cluster_info_done) struct nb_cluster_info info = { 0 };
        _cleanup_(nb_cluster_done) struct nb_cluster newer = { 0 };
        int r;

        r = nb_cluster_fetch_info(cluster, join->deadline_ms, &info, &newer, f);
        if (r >= 0)
                r = nb_join_trust(join, &newer, malformed, selection, f);
        if (r == -ECANCELED || (r < 0 && is_transport_failure(f)))
                return r;
        if (r < 0) {
                if (!nb_cluster_info_is_hidden(f))
                        nb_log(LOG_WARNING, NB_NEWER_LEFT_OUT, "using %s alone: %s",
                               join->bootstrap->discovery_source, f->detail);
                nb_failure_clear(f);
                return 0;
        }
        nb_cluster_done(cluster);
        *cluster = TAKE(newer);
        return 0;
}

static int adopt_document(struct nb_join *join, struct nb_cluster *document, enum nb_code malformed,
                          struct nb_failure *f) {
        struct nb_ca_selection selection;
        char name[NB_URL_MAX];
        int r;

        nb_endpoint_format(&join->bootstrap->origin.server, name);
        nb_log_field(NB_FIELD_ENDPOINT, "%s", name);
        r = nb_join_trust(join, document, malformed, &selection, f);
        if (r >= 0 && document->ca)
                r = renew_document(join, document, malformed, &selection, f);
        if (r < 0)
                return r;
        nb_join_adopt(join, document, name, &selection, join->bootstrap->discovery_source);
        return 0;
}

int nb_discover_document(struct nb_join *join, struct nb_failure *f) {
        const struct nb_cluster *source = &join->bootstrap->origin;
        _cleanup_(nb_cluster_done) struct nb_cluster document = *source;

        document.ca = source->ca ? strndup(source->ca, source->ca_len) : NULL;
        if (source->ca && !document.ca)
                return nb_failure_set_memory(f);
        return adopt_document(join, &document, NB_DISCOVERY_FILE_UNACCEPTABLE, f);
}

/* --- From a URL --- */

/* The URL names a web server, not an API server, so nb_answer_failure() does not apply. */
static int verify_status(const struct nb_http_answer *answer, const char *url,
                         struct nb_failure *f) {
        bool is_later = answer->status == 429 || answer->status >= 500;

        if (answer->status == 200)
                return 0;
        if (f->code == NB_NONE)
                f->retry_after_ms = answer->retry_after_ms;
        /* Omit the query of a redirect: it may contain a signature that gives access to the
         * document. */
        return nb_failure_set_http(
                f, is_later ? NB_SERVER_ERROR : NB_DISCOVERY_URL_REFUSED, answer->status,
                "discovery from %s: expected the document with status 200, found status %ld%s%.*s",
                url, answer->status,
                answer->location[0] ? "; redirects are not followed, here to " : "",
                (int)strcspn(answer->location, "?"), answer->location);
}

int nb_discover_url(struct nb_join *join, struct nb_failure *f) {
        const struct nb_cluster *web = &join->bootstrap->origin;
        const struct nb_call call = { "discovery from", web->server.path[0] ? "" : "/",
                                      NB_KUBECONFIG_MAX, NULL };
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        _cleanup_(nb_cluster_done) struct nb_cluster document = { 0 };
        _cleanup_(nb_api_done) struct nb_api api = { 0 };
        int r;

        r = nb_api_init(&api, web, NULL, join->deadline_ms, f);
        if (r < 0)
                return r;
        nb_log_field(NB_FIELD_ENDPOINT, "%s", api.name);
        r = nb_api_get(&api, &call, "", &answer, f);
        if (r < 0)
                return r;
        r = verify_status(&answer, api.base, f);
        if (r < 0)
                return r;
        nb_report_new_connection(&api);
        r = nb_kubeconfig_parse(&nb_kubeconfig_discovery_url,
                                &(struct nb_kubeconfig_input){
                                        .origin = join->bootstrap->discovery_source,
                                        .text = nb_answer_text(&answer),
                                        .len = answer.body.len,
                                },
                                &document, NULL, f);
        return r < 0 ? r : adopt_document(join, &document, NB_ANSWER_MALFORMED, f);
}
