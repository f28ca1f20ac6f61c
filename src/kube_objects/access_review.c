/* SPDX-License-Identifier: Apache-2.0 */
#include "kube_objects/access_review.h"
#include "base/macro.h"
#include "codec/json.h"
#include "kube_objects/object.h"

#define KIND "SelfSubjectAccessReview"
#define API_VERSION "authorization.k8s.io/v1"
#define BODY(subresource) \
        "{\"kind\":\"" KIND "\",\"apiVersion\":\"" API_VERSION "\"," \
        "\"spec\":{\"resourceAttributes\":{\"verb\":\"create\"," subresource \
        "\"group\":\"certificates.k8s.io\",\"resource\":\"certificatesigningrequests\"}}}"

const char *const nb_access_review_body[] = {
        [NB_RIGHT_CREATE_CSR] = BODY(""),
        [NB_RIGHT_NODECLIENT] = BODY("\"subresource\":\"nodeclient\","),
};

int nb_access_review_parse(const char *text, size_t len, bool *ret_is_allowed,
                           struct nb_failure *f) {
        static const struct nb_object_type type = {
                .what = "access review",
                .kind = KIND,
                .api_version = API_VERSION,
                .max = NB_ACCESS_REVIEW_MAX,
        };
        _cleanup_(nb_json_done) struct nb_json json = nb_object_parse(text, len, &type, f);
        int is_allowed = nb_json_boolean(&json, "status.allowed");
        char error[128];

        if (is_allowed < 0)
                nb_json_refuse(&json, "status.allowed", "true or false", NULL);
        nb_json_line(&json, "status.evaluationError", error, sizeof(error));
        if (!is_allowed && error[0])
                json.r = nb_failure_set(f, json.code, 0,
                                        "%s: the server could not evaluate it: '%s'", json.what,
                                        error);
        if (json.r < 0)
                return json.r;
        *ret_is_allowed = is_allowed;
        return 0;
}
