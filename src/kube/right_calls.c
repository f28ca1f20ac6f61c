/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "format/access_review.h"
#include "format/csr.h"
#include "kube/answer.h"
#include "kube/right_calls.h"

#define REVIEW_PATH "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

int nb_csr_right_read(struct nb_api *api, uint64_t until_ms, struct nb_failure *f) {
        static const char review[] = "{\"apiVersion\":\"authorization.k8s.io/v1\",\"kind\":\"SelfSubjectAccessReview\",\"spec\":{\"resourceAttributes\":{"
                                     "\"group\":\"certificates.k8s.io\",\"resource\":\"certificatesigningrequests\",\"verb\":\"create\"}}}";
        static const struct nb_answer_codes codes = {
                .unauthorized = NB_TOKEN_REJECTED,
                .forbidden = NB_ANSWER_MALFORMED,
                .anonymous = NB_TOKEN_REJECTED,
                .invalid = NB_ANSWER_MALFORMED,
        };
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        char url[NB_URL_MAX + sizeof(REVIEW_PATH)], what[NB_URL_MAX + 64];
        const struct nb_http_request request = {
                .what = what,
                .url = url,
                .authorization = &api->authorization,
                .body = review,
                .body_len = strlen(review),
                .max_body = NB_ACCESS_REVIEW_MAX,
                .timeout_ms = NB_HTTP_REQUEST_TIMEOUT_MS,
        };
        struct nb_status status = { 0 };
        char user[sizeof(status.message)];
        bool is_allowed;
        int r;

        (void)snprintf(what, sizeof(what), "asking %s for a right", api->name);
        (void)snprintf(url, sizeof(url), "%s" REVIEW_PATH, api->base);
        r = nb_http_perform(api->http, &request, until_ms, &answer, f);
        if (r < 0)
                return r;
        if (answer.status == 200 || answer.status == 201) {
                r = nb_access_review_parse(nb_answer_text(&answer), answer.body.len, &is_allowed, f);
                return r < 0 ? r : is_allowed;
        }
        (void)nb_status_parse(nb_answer_text(&answer), answer.body.len, &status);
        nb_status_user(&status, user, sizeof(user));
        /* Everybody whom it knows may ask this, by default; who is nobody to it has shown it nothing. */
        if ((answer.status == 403 || answer.status == 404) && status.code == answer.status && strcmp(user, "system:anonymous") != 0)
                return -EACCES;
        return nb_answer_failure(&answer, what, &codes, f);
}
