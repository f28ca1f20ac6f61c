/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/log.h"
#include "base/macro.h"
#include "join/report.h"
#include "join/stages.h"

/* A web server is not a Kubernetes API server: its statuses have their own meaning. */
static int verify_status(const struct nb_http_answer *answer, const char *what,
                         struct nb_failure *f) {
        if (answer->status == 200)
                return 0;
        if (f->code == NB_NONE)
                f->retry_after_ms = answer->retry_after_ms;
        /* The query may contain a signature that gives access to the document. */
        if (answer->status >= 300 && answer->status < 400)
                return nb_failure_set_http(f, NB_DISCOVERY_URL_REFUSED, answer->status,
                                           "%s: expected the document, found a redirect (%ld) to "
                                           "'%.*s'; redirects are not followed",
                                           what, answer->status,
                                           (int)strcspn(answer->location, "?"), answer->location);
        return nb_failure_set_http(
                f,
                answer->status == 429 || answer->status >= 500 ? NB_SERVER_ERROR
                                                               : NB_DISCOVERY_URL_REFUSED,
                answer->status, "%s: expected the document with status 200, found status %ld", what,
                answer->status);
}

static int fetch(struct nb_join *join, const char *url, struct nb_http_answer *ret_answer,
                 struct nb_failure *f) {
        const struct nb_cluster server = { .server = join->bootstrap->url };
        _cleanup_(nb_api_done) struct nb_api api = { 0 };
        char what[NB_URL_MAX + 32];
        const struct nb_http_request request = {
                .what = what,
                .url = url,
                .max_body = NB_KUBECONFIG_MAX,
                .timeout_ms = NB_HTTP_REQUEST_TIMEOUT_MS,
        };
        int r;

        snprintf(what, sizeof(what), "discovery from %s", url);
        r = nb_api_init(&api, &server, join->bootstrap->url_ca, join->bootstrap->url_ca_len, NULL,
                        f);
        if (r < 0)
                return r;
        r = nb_join_map_clock_skew(
                join, nb_http_perform(api.http, &request, join->deadline_ms, ret_answer, f), f);
        if (r < 0)
                return r;
        r = verify_status(ret_answer, what, f);
        if (r >= 0)
                nb_report_new_connection(&api);
        return r;
}

int nb_discover_url(struct nb_join *join, struct nb_failure *f) {
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        _cleanup_(nb_cluster_done) struct nb_cluster document = { 0 };
        char url[NB_URL_MAX + 1], name[NB_URL_MAX];
        int r;

        nb_endpoint_format(&join->bootstrap->url, name);
        nb_log_field(NB_FIELD_ENDPOINT, "%s", name);
        nb_url_format(&join->bootstrap->url, url);
        if (!join->bootstrap->url.path[0])
                strcat(url, "/");
        r = fetch(join, url, &answer, f);
        if (r < 0)
                return r;
        r = nb_kubeconfig_parse(&nb_kubeconfig_discovery_url,
                                &(struct nb_kubeconfig_input){
                                        .origin = url,
                                        .text = nb_answer_text(&answer),
                                        .len = answer.body.len,
                                },
                                &document, NULL, f);
        return r < 0 ? r
                     : nb_join_adopt_document(join, &document, &join->bootstrap->url,
                                              NB_ANSWER_MALFORMED, f);
}
