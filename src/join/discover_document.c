/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/cluster_calls.h"
#include "base/log.h"
#include "base/macro.h"
#include "join/report.h"
#include "join/stages.h"

/* A cluster, and the CAs of it that are trusted. */
struct facts {
        struct nb_cluster cluster;
        struct nb_trust trust;
        enum nb_code malformed; /* the failure of its CAs */
};

#define FACTS_INIT \
        { .trust = NB_TRUST_INIT }

static void facts_done(struct facts *facts) {
        nb_cluster_done(&facts->cluster);
        nb_buffer_done(&facts->trust.ca);
}

static int select_ca(const struct nb_join *join, struct facts *facts, struct nb_failure *f) {
        const struct nb_cluster *cluster = &facts->cluster;

        return nb_join_select_ca(join, cluster->ca ? cluster->ca : "",
                                 cluster->ca ? cluster->ca_len : 0, facts->malformed, &facts->trust,
                                 f);
}

/* Failures to reach the server end the join: it has to be reached anyway. cluster-info that is
 * hidden, missing or malformed says nothing against the document. */
static bool is_of_transport(const struct nb_failure *f) {
        return nb_http_is_unanswered(f->code) || nb_http_is_untrusted(f->code) ||
               f->code == NB_CLOCK_WRONG || f->code == NB_SERVER_ERROR || f->code == NB_INTERNAL;
}

void nb_cluster_inherit_transport(const struct nb_cluster *known, struct nb_cluster *newer) {
        if (!newer->proxy_url[0])
                memcpy(newer->proxy_url, known->proxy_url, sizeof(newer->proxy_url));
        if (!newer->tls_server_name[0] && nb_url_is_equal(&known->server, &newer->server))
                memcpy(newer->tls_server_name, known->tls_server_name,
                       sizeof(newer->tls_server_name));
}

static int fetch_newer(const struct nb_join *join, const struct facts *old, struct facts *newer,
                       struct nb_failure *f) {
        _cleanup_(nb_cluster_info_done) struct nb_cluster_info info = { 0 };
        _cleanup_(nb_api_done) struct nb_api api = { 0 };
        int r;

        r = nb_api_init(&api, &old->cluster, old->trust.ca.data, old->trust.ca.len, NULL, f);
        if (r < 0)
                return r;
        r = nb_join_map_clock_skew(
                join, nb_cluster_info_fetch_verified(&api, "", join->deadline_ms, &info, f), f);
        if (r >= 0)
                r = nb_cluster_info_parse_cluster(&info, &newer->cluster, f);
        if (r >= 0)
                r = select_ca(join, newer, f);
        if (r >= 0 || !is_of_transport(f))
                nb_report_new_connection(&api);
        return r;
}

/* Replaces the facts by those of cluster-info, if the document's CAs verify it. */
static int renew(const struct nb_join *join, struct facts *facts, struct nb_failure *f) {
        _cleanup_(facts_done) struct facts newer = FACTS_INIT;
        int r;

        newer.malformed = facts->malformed;
        r = fetch_newer(join, facts, &newer, f);
        if (r == -ECANCELED || (r < 0 && is_of_transport(f)))
                return r;
        if (r < 0) {
                bool is_hidden = f->code == NB_CLUSTER_INFO_REFUSED ||
                                 f->code == NB_CLUSTER_INFO_MISSING || f->http_status == 404;

                nb_log(is_hidden ? LOG_DEBUG : LOG_WARNING, is_hidden ? NB_NONE : NB_NEWER_LEFT_OUT,
                       "using %s alone: %s", join->bootstrap->discovery_source, f->detail);
                nb_failure_clear(f);
                return 0;
        }
        nb_cluster_inherit_transport(&facts->cluster, &newer.cluster);
        facts_done(facts);
        *facts = TAKE(newer);
        return 0;
}

int nb_join_adopt_document(struct nb_join *join, struct nb_cluster *document,
                           const struct nb_url *origin, enum nb_code malformed,
                           struct nb_failure *f) {
        _cleanup_(facts_done) struct facts facts = FACTS_INIT;
        char name[NB_URL_MAX];
        int r;

        facts.malformed = malformed;
        facts.cluster = TAKE(*document);
        nb_endpoint_format(origin, name);
        nb_log_field(NB_FIELD_ENDPOINT, "%s", name);
        r = select_ca(join, &facts, f);
        if (r >= 0 && facts.trust.ca.len > 0)
                r = renew(join, &facts, f);
        if (r < 0)
                return r;
        nb_join_log_selection(&facts.trust.selection, join->bootstrap->discovery_source);
        snprintf(join->endpoint, sizeof(join->endpoint), "%s", name);
        nb_cluster_done(&join->cluster);
        nb_buffer_done(&join->ca);
        join->cluster = TAKE(facts.cluster);
        join->ca = TAKE(facts.trust.ca);
        return 0;
}

int nb_discover_document(struct nb_join *join, struct nb_failure *f) {
        const struct nb_cluster *source = &join->bootstrap->document;
        _cleanup_(nb_cluster_done) struct nb_cluster document = *source;

        document.ca = NULL;
        if (source->ca) {
                document.ca = strndup(source->ca, source->ca_len);
                if (!document.ca)
                        return nb_failure_set_memory(f);
        }
        return nb_join_adopt_document(join, &document, &source->server,
                                      NB_DISCOVERY_FILE_UNACCEPTABLE, f);
}
