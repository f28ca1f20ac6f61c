/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/macro.h"
#include "format/csr.h"
#include "kube/answer.h"
#include "kube/cluster_info.h"

#define CLUSTER_INFO_PATH "/api/v1/namespaces/kube-public/configmaps/cluster-info"
#define WHAT_SIZE (NB_URL_MAX + 32)

static void describe(const char *endpoint, char ret[static WHAT_SIZE]) {
        (void)snprintf(ret, WHAT_SIZE, "cluster-info from %s", endpoint);
}

int nb_cluster_info_start(struct nb_http *unverified, const struct nb_url *endpoint, struct nb_http_transfer **ret_transfer,
                          struct nb_failure *f) {
        char name[NB_URL_MAX], what[WHAT_SIZE];

        nb_endpoint_format(endpoint, name);
        describe(name, what);
        return nb_api_start_unverified(unverified, endpoint, CLUSTER_INFO_PATH, what, NB_CLUSTER_INFO_MAX, ret_transfer, f);
}

int nb_cluster_info_read(const struct nb_http_answer *answer, const char *name, const char *token_id,
                         struct nb_cluster_info *ret_info, struct nb_failure *f) {
        static const struct nb_answer_codes codes = {
                .unauthorized = NB_CLUSTER_INFO_REFUSED,
                .forbidden = NB_CLUSTER_INFO_REFUSED,
                .invalid = NB_ANSWER_MALFORMED,
        };
        struct nb_status status = { 0 };
        char what[WHAT_SIZE];

        describe(name, what);
        if (answer->status == 200)
                return nb_cluster_info_parse(nb_answer_text(answer), answer->body.len, token_id, ret_info, f);
        (void)nb_status_parse(nb_answer_text(answer), answer->body.len, &status);
        if (answer->status == 404 && status.code == 404)
                return nb_failure_set_http(f, NB_CLUSTER_INFO_MISSING, 404, "%s: %s", what, status.message);
        return nb_answer_failure(answer, what, &codes, f);
}

int nb_cluster_info_fetch_verified(struct nb_api *api, const char *token_id, uint64_t until_ms, struct nb_cluster_info *ret_info,
                                   struct nb_failure *f) {
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        char what[WHAT_SIZE];
        int r;

        describe(api->name, what);
        r = nb_api_get_public(api, CLUSTER_INFO_PATH, what, NB_CLUSTER_INFO_MAX, until_ms, &answer, f);
        if (r < 0)
                return r;
        return nb_cluster_info_read(&answer, api->name, token_id, ret_info, f);
}
