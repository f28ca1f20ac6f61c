/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "codec/json.h"
#include "kube_objects/cluster_info.h"
#include "kube_objects/object.h"

/* NULL if there is none. */
static char *copy_string(struct nb_json *json, const char *path) {
        const char *text = nb_json_string(json, path);
        char *copy = text ? strdup(text) : NULL;

        if (text && !copy)
                json->r = nb_failure_set_memory(json->f);
        return copy;
}

int nb_cluster_info_parse(const char *text, size_t len, const char *token_id,
                          struct nb_cluster_info *ret_info, struct nb_failure *f) {
        static const struct nb_object_type type = {
                .what = "cluster-info",
                .kind = "ConfigMap",
                .api_version = "v1",
                .max = NB_CLUSTER_INFO_MAX,
        };
        _cleanup_(nb_json_done) struct nb_json json = nb_object_parse(text, len, &type, f);
        _cleanup_(nb_cluster_info_done) struct nb_cluster_info info = { 0 };
        char path[64];

        info.kubeconfig = copy_string(&json, "data.kubeconfig");
        if (!info.kubeconfig)
                nb_json_refuse(&json, "data.kubeconfig", "a string", NULL);
        for (const char *key = NULL; (key = nb_json_next_key(&json, "data", key));)
                info.n_signatures += !strncmp(key, NB_SIGNATURE_PREFIX,
                                              strlen(NB_SIGNATURE_PREFIX));
        snprintf(path, sizeof(path), "data." NB_SIGNATURE_PREFIX "%s", token_id);
        info.signature = copy_string(&json, path);
        if (json.r < 0)
                return json.r;
        *ret_info = TAKE(info);
        return 0;
}

int nb_cluster_info_parse_cluster(const char *kubeconfig, struct nb_cluster *ret_cluster,
                                  struct nb_failure *f) {
        const struct nb_kubeconfig_input input = {
                .origin = "kubeconfig in cluster-info",
                .text = kubeconfig,
                .len = strlen(kubeconfig),
        };

        return nb_kubeconfig_parse(&nb_kubeconfig_cluster_info, &input, ret_cluster, NULL, f);
}

bool nb_cluster_info_is_equal(const struct nb_cluster_info *a, const struct nb_cluster_info *b) {
        return strcmp(a->kubeconfig, b->kubeconfig) == 0;
}

void nb_cluster_info_done(struct nb_cluster_info *info) {
        free(info->kubeconfig);
        free(info->signature);
        *info = (struct nb_cluster_info){};
}
