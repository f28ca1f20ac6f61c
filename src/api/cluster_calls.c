/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/cluster_calls.h"
#include "base/macro.h"
#include "kube/object.h"

#define NODES_PATH "/api/v1/nodes"

static const struct nb_http_request cluster_info_request = {
        .what = "cluster-info from",
        .url = "/api/v1/namespaces/kube-public/configmaps/cluster-info",
        .max_body = NB_CLUSTER_INFO_MAX,
};

int nb_cluster_info_start(struct nb_http *http, const struct nb_url *endpoint,
                          struct nb_http_transfer **ret_transfer, struct nb_failure *f) {
        return nb_api_start_unverified(http, endpoint, &cluster_info_request, ret_transfer, f);
}

int nb_cluster_info_read(const struct nb_http_answer *answer, const char *name,
                         const char *token_id, struct nb_cluster_info *ret_info,
                         struct nb_failure *f) {
        static const struct nb_answer_codes codes = {
                .unauthorized = NB_CLUSTER_INFO_REFUSED,
                .forbidden = NB_CLUSTER_INFO_REFUSED,
        };
        const char *text = nb_answer_text(answer);

        /* A captive portal or a proxy answers with a page. */
        if (answer->status == 200 && text[strspn(text, " \t\r\n")] == '<')
                return nb_failure_set(f, NB_ANSWER_MALFORMED, 0,
                                      "cluster-info from %s: expected JSON, found HTML (status "
                                      "200)",
                                      name);
        if (answer->status == 200)
                return nb_cluster_info_parse(text, answer->body.len, token_id, ret_info, f);
        if (nb_answer_is_not_found(answer))
                return nb_failure_set_http(f, NB_CLUSTER_INFO_MISSING, 404,
                                           "%s has no ConfigMap kube-public/cluster-info", name);
        return nb_answer_failure(answer, cluster_info_request.what, name, &codes, f);
}

int nb_cluster_info_fetch_verified(struct nb_api *api, const char *token_id, uint64_t until_ms,
                                   struct nb_cluster_info *ret_info, struct nb_failure *f) {
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        int r;

        r = nb_api_perform(api, &cluster_info_request, until_ms, &answer, f);
        if (r < 0)
                return r;
        return nb_cluster_info_read(&answer, api->name, token_id, ret_info, f);
}

int nb_node_read(struct nb_api *api, const char *name, uint64_t until_ms,
                 struct nb_node_object *ret_node, long *ret_status, struct nb_failure *f) {
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        char path[sizeof(NODES_PATH) + NB_NODE_NAME_MAX + 2], what[NB_NODE_NAME_MAX + 32];
        int r;

        snprintf(what, sizeof(what), "the Node '%s' from", name);
        snprintf(path, sizeof(path), NODES_PATH "/%s", name);
        r = nb_api_perform(api,
                           &(struct nb_http_request){
                                   .what = what,
                                   .url = path,
                                   .authorization = &api->authorization,
                                   .max_body = NB_NODE_OBJECT_MAX,
                           },
                           until_ms, &answer, f);
        if (r < 0)
                return r;
        *ret_status = answer.status;
        if (answer.status == 404)
                return 0;
        if (answer.status == 401 || answer.status == 403)
                return -EACCES;
        if (answer.status != 200)
                return nb_answer_failure(&answer, what, api->name, &(struct nb_answer_codes){ 0 },
                                         f);
        r = nb_node_object_parse(nb_answer_text(&answer), answer.body.len, ret_node, f);
        if (r < 0)
                return r;
        if (strcmp(ret_node->name, name) != 0)
                return nb_failure_set(f, NB_ANSWER_MALFORMED, EBADMSG,
                                      "%s %s: the answer is the Node '%s'", what, api->name,
                                      ret_node->name);
        return 1;
}
