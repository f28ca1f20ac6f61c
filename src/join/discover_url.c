/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/api.h"
#include "base/log.h"
#include "base/macro.h"
#include "join/report.h"
#include "join/stages.h"

/* A web server is not a Kubernetes API server: its statuses have their own meaning. */
static int verify_status(const struct nb_http_answer *answer, const char *url,
                         struct nb_failure *f) {
        bool is_later = answer->status == 429 || answer->status >= 500;

        if (answer->status == 200)
                return 0;
        if (f->code == NB_NONE)
                f->retry_after_ms = answer->retry_after_ms;
        /* The query may contain a signature that gives access to the document. */
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
        return r < 0 ? r : nb_join_adopt_document(join, &document, NB_ANSWER_MALFORMED, f);
}
