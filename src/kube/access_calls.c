/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "format/access_review.h"
#include "kube/access_calls.h"
#include "kube/answer.h"

#define REVIEW_PATH "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

static void describe(const struct nb_api *api, char *ret, size_t size) {
        (void)snprintf(ret, size, "asking %s for a right", api->name);
}

int nb_nodeclient_review_start(struct nb_api *api, struct nb_http_transfer **ret_transfer, struct nb_failure *f) {
        char url[NB_URL_MAX + sizeof(REVIEW_PATH)], what[NB_URL_MAX + 32];
        const struct nb_http_request request = {
                .what = what,
                .url = url,
                .authorization = &api->authorization,
                .body = nb_access_review_nodeclient,
                .body_len = strlen(nb_access_review_nodeclient),
                .max_body = NB_ACCESS_REVIEW_MAX,
                .timeout_ms = NB_HTTP_REQUEST_TIMEOUT_MS,
        };

        describe(api, what, sizeof(what));
        (void)snprintf(url, sizeof(url), "%s" REVIEW_PATH, api->base);
        return nb_http_start(api->http, &request, ret_transfer, f);
}

int nb_nodeclient_review_finish(const struct nb_api *api, struct nb_http_transfer *transfer, struct nb_failure *f) {
        static const struct nb_answer_codes codes = {
                .unauthorized = NB_ANSWER_MALFORMED,
                .forbidden = NB_ANSWER_MALFORMED,
                .invalid = NB_ANSWER_MALFORMED,
        };
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        char what[NB_URL_MAX + 32];
        bool is_allowed;
        int r;

        r = nb_http_finish(transfer, &answer, f);
        if (r < 0)
                return r;
        if (answer.status == 401 || answer.status == 403 || answer.status == 404)
                return -EACCES;
        describe(api, what, sizeof(what));
        if (answer.status != 200 && answer.status != 201)
                return nb_answer_failure(&answer, what, &codes, f);
        r = nb_access_review_parse(nb_answer_text(&answer), answer.body.len, &is_allowed, f);
        return r < 0 ? r : is_allowed;
}
