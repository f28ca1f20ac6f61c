/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "api/cluster_calls.h"
#include "base/log.h"
#include "base/macro.h"
#include "join/report.h"
#include "join/stages.h"

/* Failures to reach the server end the join: it has to be reached anyway. cluster-info that is
 * hidden, missing or malformed says nothing against the document. */
static bool is_of_transport(const struct nb_failure *f) {
        return nb_http_is_unanswered(f->code) || nb_http_is_untrusted(f->code) ||
               f->code == NB_SERVER_ERROR || f->code == NB_INTERNAL;
}

void nb_cluster_inherit_transport(const struct nb_cluster *known, struct nb_cluster *newer) {
        if (!newer->proxy_url[0])
                memcpy(newer->proxy_url, known->proxy_url, sizeof(newer->proxy_url));
        if (!newer->tls_server_name[0] && nb_url_is_equal(&known->server, &newer->server))
                memcpy(newer->tls_server_name, known->tls_server_name,
                       sizeof(newer->tls_server_name));
}

static int fetch_newer(const struct nb_join *join, const struct nb_cluster *known,
                       enum nb_code malformed, struct nb_cluster *ret_newer,
                       struct nb_ca_selection *ret_selection, struct nb_failure *f) {
        _cleanup_(nb_cluster_info_done) struct nb_cluster_info info = { 0 };
        _cleanup_(nb_api_done) struct nb_api api = { 0 };
        int r;

        r = nb_api_init(&api, known, NULL, join->deadline_ms, f);
        if (r < 0)
                return r;
        r = nb_cluster_info_fetch_verified(&api, &info, f);
        if (r >= 0)
                r = nb_cluster_info_parse_cluster(&info, ret_newer, f);
        if (r >= 0)
                r = nb_join_trust(join, ret_newer, malformed, ret_selection, f);
        if (r >= 0 || !is_of_transport(f))
                nb_report_new_connection(&api);
        return r;
}

/* Replaces the cluster by that of cluster-info, if the document's CAs verify it. */
static int renew(const struct nb_join *join, struct nb_cluster *cluster, enum nb_code malformed,
                 struct nb_ca_selection *selection, struct nb_failure *f) {
        _cleanup_(nb_cluster_done) struct nb_cluster newer = { 0 };
        int r;

        r = fetch_newer(join, cluster, malformed, &newer, selection, f);
        if (r == -ECANCELED || (r < 0 && is_of_transport(f)))
                return r;
        if (r < 0) {
                bool is_hidden = nb_cluster_info_is_hidden(f);

                nb_log(is_hidden ? LOG_DEBUG : LOG_WARNING, is_hidden ? NB_NONE : NB_NEWER_LEFT_OUT,
                       "using %s alone: %s", join->bootstrap->discovery_source, f->detail);
                nb_failure_clear(f);
                return 0;
        }
        nb_cluster_inherit_transport(cluster, &newer);
        nb_cluster_done(cluster);
        *cluster = TAKE(newer);
        return 0;
}

int nb_join_adopt_document(struct nb_join *join, struct nb_cluster *document,
                           enum nb_code malformed, struct nb_failure *f) {
        struct nb_ca_selection selection;
        char name[NB_URL_MAX];
        int r;

        nb_endpoint_format(&join->bootstrap->origin.server, name);
        nb_log_field(NB_FIELD_ENDPOINT, "%s", name);
        r = nb_join_trust(join, document, malformed, &selection, f);
        if (r >= 0 && document->ca)
                r = renew(join, document, malformed, &selection, f);
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
        return nb_join_adopt_document(join, &document, NB_DISCOVERY_FILE_UNACCEPTABLE, f);
}
