/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "codec/json.h"
#include "kube/cluster_info.h"
#include "kube/object.h"

#define SIGNATURE_PREFIX "jws-kubeconfig-"

static int count_signature(void *userdata, const char *key, struct nb_failure *f _unused_) {
        unsigned *n = userdata;

        *n += strncmp(key, SIGNATURE_PREFIX, strlen(SIGNATURE_PREFIX)) == 0;
        return 0;
}

/* 1; 0 if there is none. */
static int copy_string(const struct nb_json *json, const char *path, char **ret, size_t *ret_len,
                       struct nb_failure *f) {
        const char *text;
        int r;

        r = nb_json_string(json, path, &text, ret_len, f);
        if (r <= 0)
                return r;
        *ret = strndup(text, *ret_len);
        return *ret ? 1 : nb_failure_set_memory(f);
}

int nb_cluster_info_parse(const char *text, size_t len, const char *token_id,
                          struct nb_cluster_info *ret_info, struct nb_failure *f) {
        static const struct nb_object_type type = {
                .what = "cluster-info",
                .kind = "ConfigMap",
                .api_version = "v1",
                .max = NB_CLUSTER_INFO_MAX,
        };
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        _cleanup_(nb_cluster_info_done) struct nb_cluster_info info = { 0 };
        char path[64];
        int r;

        r = nb_object_parse(text, len, &type, &json, f);
        if (r < 0)
                return r;
        r = copy_string(&json, "data.kubeconfig", &info.kubeconfig, &info.kubeconfig_len, f);
        if (r < 0)
                return r;
        if (r == 0)
                return nb_failure_set(f, json.code, 0,
                                      "%s: data.kubeconfig: expected a string, found nothing",
                                      json.what);
        r = nb_json_each_key(&json, "data", count_signature, &info.n_signatures, f);
        if (r < 0)
                return r;
        snprintf(path, sizeof(path), "data." SIGNATURE_PREFIX "%s", token_id);
        r = copy_string(&json, path, &info.signature, &len, f);
        if (r < 0)
                return r;
        *ret_info = TAKE(info);
        return 0;
}

int nb_cluster_info_parse_cluster(const struct nb_cluster_info *info,
                                  struct nb_cluster *ret_cluster, struct nb_failure *f) {
        const struct nb_kubeconfig_input input = {
                .origin = "kubeconfig in cluster-info",
                .text = info->kubeconfig,
                .len = info->kubeconfig_len,
        };

        return nb_kubeconfig_parse(&nb_kubeconfig_cluster_info, &input, ret_cluster, NULL, f);
}

bool nb_cluster_info_is_equal(const struct nb_cluster_info *a, const struct nb_cluster_info *b) {
        return a->kubeconfig_len == b->kubeconfig_len &&
               !memcmp(a->kubeconfig, b->kubeconfig, a->kubeconfig_len);
}

void nb_cluster_info_done(struct nb_cluster_info *info) {
        free(info->kubeconfig);
        free(info->signature);
        *info = (struct nb_cluster_info){};
}
