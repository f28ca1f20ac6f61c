/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/macro.h"
#include "kube/cluster_info.h"
#include "stage/internal.h"

/* What a document says, with the CAs of it that are trusted. */
struct facts {
        struct nb_cluster cluster;
        struct nb_buffer ca;
        struct nb_ca_selection selection;
};

#define FACTS_INIT \
        { .ca = NB_BUFFER_INIT(NB_CA_BUNDLE_MAX) }

static void facts_done(struct facts *facts) {
        nb_cluster_done(&facts->cluster);
        nb_buffer_done(&facts->ca);
}

/* What a web server says may be better the next time. */
static enum nb_code code_malformed(const struct nb_join *join) {
        return join->bootstrap->discovery == NB_DISCOVERY_URL ? NB_ANSWER_MALFORMED : NB_DISCOVERY_FILE_UNACCEPTABLE;
}

static int select_ca(const struct nb_join *join, struct facts *facts, struct nb_failure *f) {
        nb_buffer_clear(&facts->ca);
        return nb_bootstrap_select_ca(join->bootstrap, join->settings, facts->cluster.ca ? facts->cluster.ca : "",
                                      facts->cluster.ca ? facts->cluster.ca_len : 0, code_malformed(join), NB_CA_PIN_MISMATCH, &facts->ca,
                                      &facts->selection, f);
}

/*
 * Failures of the way to the server are those of the join: it has to be reached anyway. That cluster-info is not shown, not there, or
 * not in order, says nothing against the document.
 */
static bool is_of_the_way(const struct nb_failure *f) {
        return nb_http_is_unanswered(f->code) || nb_http_is_untrusted(f->code) || f->code == NB_CLOCK_WRONG || f->code == NB_SERVER_ERROR ||
               f->code == NB_INTERNAL;
}

void nb_cluster_keep_way(const struct nb_cluster *known, struct nb_cluster *newer) {
        if (!newer->proxy_url[0])
                memcpy(newer->proxy_url, known->proxy_url, sizeof(newer->proxy_url));
        if (!newer->tls_server_name[0] && nb_url_is_equal(&known->server, &newer->server))
                memcpy(newer->tls_server_name, known->tls_server_name, sizeof(newer->tls_server_name));
}

static int fetch_newer(const struct nb_join *join, const struct facts *old, struct facts *newer, struct nb_failure *f) {
        _cleanup_(nb_cluster_info_done) struct nb_cluster_info info = { 0 };
        _cleanup_(nb_api_done) struct nb_api api = { 0 };
        int r;

        r = nb_api_init(&api, &old->cluster, old->ca.data, old->ca.len, NULL, f);
        if (r >= 0)
                r = nb_join_blame_clock(join, nb_cluster_info_fetch_verified(&api, "", join->deadline_ms, &info, f), f);
        if (r >= 0)
                r = nb_kubeconfig_parse_cluster(info.kubeconfig, info.kubeconfig_len, &newer->cluster, f);
        if (r >= 0)
                r = select_ca(join, newer, f);
        if (r >= 0 || !is_of_the_way(f))
                nb_report_new_connection(&api);
        return r;
}

/* The facts are taken from cluster-info where it has newer ones that the document's CAs vouch for. */
static int renew(const struct nb_join *join, struct facts *facts, struct nb_failure *f) {
        _cleanup_(facts_done) struct facts newer = FACTS_INIT;
        struct facts old;
        int r;

        r = fetch_newer(join, facts, &newer, f);
        if (r == -ECANCELED || (r < 0 && is_of_the_way(f)))
                return r;
        if (r < 0) {
                if (f->code == NB_CLUSTER_INFO_REFUSED || f->code == NB_CLUSTER_INFO_MISSING || f->http_status == 404)
                        nb_log(LOG_DEBUG, NB_NONE, "going by %s alone: %s", join->bootstrap->discovery_source, f->detail);
                else
                        nb_log(LOG_WARNING, NB_NEWER_LEFT_OUT, "going by %s alone: %s", join->bootstrap->discovery_source, f->detail);
                nb_failure_clear(f);
                return 0;
        }
        nb_cluster_keep_way(&facts->cluster, &newer.cluster);
        old = *facts;
        *facts = newer;
        newer = old;
        return 0;
}

int nb_join_take_document(struct nb_join *join, struct nb_cluster *document, const struct nb_url *origin, struct nb_failure *f) {
        _cleanup_(facts_done) struct facts facts = FACTS_INIT;
        char pin[NB_PIN_TEXT_SIZE], name[NB_URL_MAX];
        int r;

        facts.cluster = *document;
        *document = (struct nb_cluster){ 0 };
        nb_endpoint_format(origin, name);
        nb_log_field(NB_FIELD_ENDPOINT, "%s", name);
        r = select_ca(join, &facts, f);
        if (r >= 0 && facts.ca.len > 0)
                r = renew(join, &facts, f);
        if (r < 0)
                return r;
        for (unsigned i = 0; i < facts.selection.n_left_out; i++) {
                nb_pin_format(facts.selection.left_out[i], pin);
                nb_log(LOG_WARNING, NB_CERTIFICATE_LEFT_OUT, "there is a CA that nothing that this machine was given vouches for, %s: left out", pin);
        }
        if (facts.selection.n_taken > 0) {
                nb_pin_format(facts.selection.taken[0], pin);
                nb_log_field(NB_FIELD_CA_SHA256, "%s", pin);
        }
        (void)snprintf(join->endpoint, sizeof(join->endpoint), "%s", name);
        nb_cluster_done(&join->cluster);
        nb_buffer_done(&join->ca);
        join->cluster = facts.cluster;
        join->ca = facts.ca;
        facts = (struct facts)FACTS_INIT;
        return 0;
}

int nb_stage_discover_document(struct nb_join *join, struct nb_failure *f) {
        const struct nb_cluster *given = &join->bootstrap->document;
        _cleanup_(nb_cluster_done) struct nb_cluster document = *given;

        document.ca = NULL;
        if (given->ca) {
                document.ca = strndup(given->ca, given->ca_len);
                if (!document.ca)
                        return nb_failure_set_memory(f);
        }
        return nb_join_take_document(join, &document, &given->server, f);
}
