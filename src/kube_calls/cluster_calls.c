/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "codec/json.h"
#include "kube_calls/cluster_calls.h"
#include "kube_objects/kubelet_config.h"

#define VERSION_ANSWER_MAX (64 * 1024)   /* a real one has some hundred bytes */
#define CONFIG_MAP_MAX (2 * 1024 * 1024) /* etcd's limit for an object is 1.5 MiB */
/* When the name of the ConfigMap contained a version, kubelet could be this many minor versions
 * older than the API server. */
#define OLDER_MAX 2

/* --- cluster-info --- */

const struct nb_call nb_cluster_info_call = {
        .what = "cluster-info from",
        .path = "/api/v1/namespaces/kube-public/configmaps/cluster-info",
        .max = NB_CLUSTER_INFO_MAX,
        .codes = &(const struct nb_answer_codes){ .unauthorized = NB_CLUSTER_INFO_FORBIDDEN,
                                                  .forbidden = NB_CLUSTER_INFO_FORBIDDEN },
};

int nb_cluster_info_read(const struct nb_api *api, const struct nb_http_answer *answer,
                         const char *token_id, struct nb_cluster_info *ret_info,
                         struct nb_failure *f) {
        const char *text = nb_answer_text(answer);

        /* A captive portal or a proxy answers with an HTML page. */
        if (answer->status == 200 && text[strspn(text, " \t\r\n")] == '<')
                return nb_failure_set(f, NB_ANSWER_MALFORMED, 0,
                                      "cluster-info from %s: expected JSON, found HTML (status "
                                      "200)",
                                      api->name);
        if (answer->status == 200)
                return nb_cluster_info_parse(text, answer->body.len, token_id, ret_info, f);
        if (nb_answer_is_not_found(answer))
                return nb_failure_set_http(f, NB_CLUSTER_INFO_MISSING, 404,
                                           "%s has no ConfigMap kube-public/cluster-info",
                                           api->name);
        return nb_answer_failure(api, &nb_cluster_info_call, answer, f);
}

int nb_cluster_info_fetch_verified(struct nb_api *api, struct nb_cluster_info *ret_info,
                                   struct nb_failure *f) {
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        int r;

        r = nb_api_get(api, &nb_cluster_info_call, "", &answer, f);
        return r < 0 ? r : nb_cluster_info_read(api, &answer, "", ret_info, f);
}

bool nb_cluster_info_is_hidden(const struct nb_failure *f) {
        return f->code == NB_CLUSTER_INFO_FORBIDDEN || f->code == NB_CLUSTER_INFO_MISSING ||
               f->http_status == 404;
}

/* --- The Node --- */

int nb_node_read(struct nb_api *api, const char *name, const struct nb_http_request *more,
                 struct nb_node_object *ret_node, struct nb_failure *f) {
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        char what[NB_NODE_NAME_MAX + 32];
        const struct nb_call call = { what, "/api/v1/nodes/", NB_NODE_OBJECT_MAX, NULL };
        struct nb_http_request request = more ? *more : (struct nb_http_request){ 0 };
        int r;

        snprintf(what, sizeof(what), "the Node '%s' from", name);
        request.url = name;
        r = nb_api_perform(api, &call, &request, &answer, f);
        if (r < 0)
                return r;
        if (answer.status == 404 || answer.status == 401 || answer.status == 403)
                return (int)answer.status;
        if (answer.status != 200)
                return nb_answer_failure(api, &call, &answer, f);
        r = nb_node_object_parse(nb_answer_text(&answer), answer.body.len, ret_node, f);
        if (r < 0)
                return r;
        if (strcmp(ret_node->name, name) != 0)
                return nb_failure_set(f, NB_ANSWER_MALFORMED, EBADMSG,
                                      "%s %s: the answer is the Node '%s'", what, api->name,
                                      ret_node->name);
        return 200;
}

/* --- The server's version --- */

int nb_version_read(struct nb_api *api, const char *key, char ret[static NB_VERSION_SIZE],
                    struct nb_failure *f) {
        static const struct nb_call call = { "the version from", "/version", VERSION_ANSWER_MAX,
                                             NULL };
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        struct nb_failure ignored = { 0 };
        int r;

        ret[0] = '\0';
        r = nb_api_get(api, &call, "", &answer, f);
        if (r < 0)
                return r;
        if (answer.status == 200) {
                _cleanup_(nb_json_done) struct nb_json json = nb_json_parse(
                        nb_answer_text(&answer), answer.body.len, call.path, NB_ANSWER_MALFORMED,
                        &ignored);

                nb_json_line(&json, key, ret, NB_VERSION_SIZE);
        }
        return 0;
}

/* --- kubelet's configuration --- */

static int fetch_config(struct nb_api *api, const char *name, struct nb_buffer *ret_text,
                        struct nb_failure *f) {
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        char what[NB_KUBELET_CONFIG_NAME_SIZE + 64];
        const struct nb_call call = {
                what, "/api/v1/namespaces/kube-system/configmaps/", CONFIG_MAP_MAX,
                &(struct nb_answer_codes){ .unauthorized = NB_KUBELET_CONFIG_FORBIDDEN,
                                           .forbidden = NB_KUBELET_CONFIG_FORBIDDEN }
        };
        int r;

        snprintf(what, sizeof(what), "the ConfigMap kube-system/%s from", name);
        r = nb_api_get(api, &call, name, &answer, f);
        if (r < 0)
                return r;
        if (answer.status == 200)
                return nb_kubelet_config_map_parse(nb_answer_text(&answer), answer.body.len,
                                                   ret_text, f);
        if (answer.status == 404)
                return nb_failure_set_http(f, NB_KUBELET_CONFIG_MISSING, 404,
                                           "there is no ConfigMap kube-system/%s at %s", name,
                                           api->name);
        return nb_answer_failure(api, &call, &answer, f);
}

int nb_kubelet_config_fetch(struct nb_api *api, struct nb_buffer *ret_text,
                            char ret_name[static NB_KUBELET_CONFIG_NAME_SIZE],
                            struct nb_failure *f) {
        struct nb_failure refusal = { 0 };
        char version[NB_VERSION_SIZE], suffix[16] = "";
        unsigned minor = 0;
        int r;

        for (unsigned i = 0; i <= OLDER_MAX + 1; i++) {
                struct nb_failure why = { 0 };

                if (i == 1) {
                        r = nb_version_read(api, "minor", version, f);
                        if (r < 0)
                                return r;
                        (void)sscanf(version, "%4u", &minor); /* some servers report "20+" */
                }
                if (minor < i)
                        break;
                if (i > 0)
                        snprintf(suffix, sizeof(suffix), "-1.%u", minor + 1 - i);
                snprintf(ret_name, NB_KUBELET_CONFIG_NAME_SIZE, "kubelet-config%s", suffix);
                r = fetch_config(api, ret_name, ret_text, &why);
                if (r >= 0)
                        return 0;
                if (why.http_status != 404 && why.http_status != 403) {
                        *f = why;
                        return r;
                }
                /* Prefer to report that a ConfigMap is missing, rather than that another one is
                 * forbidden. */
                if (i == 0 || (why.code == NB_KUBELET_CONFIG_MISSING &&
                               refusal.code != NB_KUBELET_CONFIG_MISSING))
                        refusal = why;
        }
        *f = refusal;
        return -EACCES;
}
