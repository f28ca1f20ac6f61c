/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/macro.h"
#include "kube/answer.h"
#include "stage/internal.h"

/* The way to a web server, which is not of Kubernetes: what its statuses mean is said here. */
static int verify_status(const struct nb_http_answer *answer, const char *what, struct nb_failure *f) {
        if (answer->status == 200)
                return 0;
        if (f->code == NB_NONE)
                f->retry_after_ms = answer->retry_after_ms;
        /* What follows a question mark may be a signature that opens the document to anybody. */
        if (answer->status >= 300 && answer->status < 400)
                return nb_failure_set_http(f, NB_DISCOVERY_URL_REFUSED, answer->status,
                                           "%s: expected the document, found a redirect (%ld) to '%.*s'; redirects are not followed", what, answer->status,
                                           (int)strcspn(answer->location, "?"), answer->location);
        return nb_failure_set_http(f, answer->status == 429 || answer->status >= 500 ? NB_SERVER_ERROR : NB_DISCOVERY_URL_REFUSED, answer->status,
                                   "%s: expected the document with status 200, found status %ld", what, answer->status);
}

static int fetch(struct nb_join *join, const char *url, struct nb_http_answer *ret_answer, struct nb_failure *f) {
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

        (void)snprintf(what, sizeof(what), "discovery from %s", url);
        r = nb_api_init(&api, &server, join->bootstrap->url_ca, join->bootstrap->url_ca_len, NULL, f);
        if (r >= 0)
                r = nb_join_blame_clock(join, nb_http_perform(api.http, &request, join->deadline_ms, ret_answer, f), f);
        if (r >= 0)
                r = verify_status(ret_answer, what, f);
        if (r >= 0)
                nb_report_new_connection(&api);
        return r;
}

int nb_stage_discover_url(struct nb_join *join, struct nb_failure *f) {
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
        if (r >= 0)
                r = nb_kubeconfig_parse_given(url, NULL, nb_answer_text(&answer), answer.body.len, false, NULL, NULL,
                                              NB_ANSWER_MALFORMED, &document, NULL, f);
        return r < 0 ? r : nb_join_take_document(join, &document, &join->bootstrap->url, f);
}
