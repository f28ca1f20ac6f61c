/* SPDX-License-Identifier: Apache-2.0 */
#include "format/access_review.h"
#include "base/macro.h"
#include "format/json.h"

#define API_VERSION "authorization.k8s.io/v1"
#define KIND "SelfSubjectAccessReview"

const char nb_access_review_nodeclient[] =
        "{\"apiVersion\":\"" API_VERSION "\",\"kind\":\"" KIND "\",\"spec\":{\"resourceAttributes\":{\"verb\":\"create\","
        "\"group\":\"certificates.k8s.io\",\"resource\":\"certificatesigningrequests\",\"subresource\":\"nodeclient\"}}}";

static int take(const struct nb_json *json, bool *ret_is_allowed, struct nb_failure *f) {
        bool is_allowed = false;
        char error[128];
        int r;

        r = nb_json_expect(json, "kind", KIND, f);
        if (r >= 0)
                r = nb_json_expect(json, "apiVersion", API_VERSION, f);
        if (r >= 0)
                r = nb_json_boolean(json, "status.allowed", &is_allowed, f);
        if (r < 0)
                return r;
        if (r == 0)
                return nb_failure_set(f, json->code, 0, "%s: status.allowed: expected true or false, found nothing", json->what);
        r = nb_json_line(json, "status.evaluationError", error, sizeof(error), f);
        if (r < 0)
                return r;
        if (!is_allowed && error[0])
                return nb_failure_set(f, json->code, 0, "%s: the server could not find out: '%s'", json->what, error);
        *ret_is_allowed = is_allowed;
        return 0;
}

int nb_access_review_parse(const char *text, size_t len, bool *ret_is_allowed, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = {};
        int r;

        if (len > NB_ACCESS_REVIEW_MAX)
                return nb_failure_set(f, NB_ANSWER_MALFORMED, 0, "access review: expected at most %d bytes, found %zu", NB_ACCESS_REVIEW_MAX, len);
        r = nb_json_parse(text, len, "access review", NB_ANSWER_MALFORMED, &json, f);
        return r < 0 ? r : take(&json, ret_is_allowed, f);
}
