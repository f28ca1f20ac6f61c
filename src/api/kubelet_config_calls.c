/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/kubelet_config_calls.h"
#include "base/macro.h"
#include "codec/json.h"
#include "kube/kubelet_config.h"

#define CONFIG_MAPS_PATH "/api/v1/namespaces/kube-system/configmaps"
#define OBJECT_MAX (2 * 1024 * 1024) /* etcd's limit for an object is 1.5 MiB */
#define VERSION_MAX (64 * 1024)
/* How many minor versions kubelet could be behind the API server when ConfigMaps had versions. */
#define OLDER_MAX 2

static const struct nb_answer_codes codes = {
        .unauthorized = NB_KUBELET_CONFIG_REFUSED,
        .forbidden = NB_KUBELET_CONFIG_REFUSED,
        .invalid = NB_ANSWER_MALFORMED,
};

/* 1: read; 0: it does not exist or may not be read, see `refusal`. */
static int fetch_one(struct nb_api *api, const char *name, uint64_t until_ms,
                     struct nb_buffer *ret_text, struct nb_failure *refusal, struct nb_failure *f) {
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        char path[sizeof(CONFIG_MAPS_PATH) + NB_KUBELET_CONFIG_NAME_SIZE + 2], what[96];
        int r;

        snprintf(what, sizeof(what), "the ConfigMap kube-system/%s from", name);
        snprintf(path, sizeof(path), CONFIG_MAPS_PATH "/%s", name);
        r = nb_api_perform(api,
                           &(struct nb_http_request){
                                   .what = what,
                                   .url = path,
                                   .authorization = &api->authorization,
                                   .max_body = OBJECT_MAX,
                           },
                           until_ms, &answer, f);
        if (r < 0)
                return r;
        if (answer.status == 200) {
                r = nb_kubelet_config_map_parse(nb_answer_text(&answer), answer.body.len, ret_text,
                                                f);
                return r < 0 ? r : 1;
        }
        if (answer.status == 404)
                (void)nb_failure_set_http(refusal, NB_KUBELET_CONFIG_MISSING, 404,
                                          "there is no ConfigMap kube-system/%s at %s", name,
                                          api->name);
        else if (answer.status == 403)
                (void)nb_answer_failure(&answer, what, api->name, &codes, refusal);
        else
                return nb_answer_failure(&answer, what, api->name, &codes, f);
        return 0;
}

/* The minor version of the server; 0 if it does not say. Some say "20+". */
static int fetch_version(struct nb_api *api, uint64_t until_ms, unsigned *ret_minor,
                         struct nb_failure *f) {
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        struct nb_failure ignored = { 0 };
        const char *text;
        size_t len;
        int r;

        *ret_minor = 0;
        r = nb_api_perform(api,
                           &(struct nb_http_request){
                                   .what = "the version from",
                                   .url = "/version",
                                   .authorization = &api->authorization,
                                   .max_body = VERSION_MAX,
                           },
                           until_ms, &answer, f);
        if (r < 0 || answer.status != 200)
                return r;
        r = nb_json_parse(nb_answer_text(&answer), answer.body.len, "/version", NB_ANSWER_MALFORMED,
                          &json, &ignored);
        if (r >= 0)
                r = nb_json_string(&json, "minor", &text, &len, &ignored);
        if (r > 0 && len <= 4 && strspn(text, "0123456789") > 0)
                *ret_minor = (unsigned)strtoul(text, NULL, 10);
        return 0;
}

/* Results as of fetch_one(). */
static int fetch_older(struct nb_api *api, uint64_t until_ms, struct nb_buffer *ret_text,
                       char ret_name[static NB_KUBELET_CONFIG_NAME_SIZE],
                       struct nb_failure *refusal, struct nb_failure *f) {
        unsigned minor;
        int r;

        r = fetch_version(api, until_ms, &minor, f);
        if (r < 0)
                return r;
        for (unsigned i = 0; i <= OLDER_MAX && minor > i; i++) {
                struct nb_failure why = { 0 };

                snprintf(ret_name, NB_KUBELET_CONFIG_NAME_SIZE, "kubelet-config-1.%u", minor - i);
                r = fetch_one(api, ret_name, until_ms, ret_text, &why, f);
                if (r != 0)
                        return r;
                /* That one is missing says more than that another is forbidden. */
                if (why.code == NB_KUBELET_CONFIG_MISSING &&
                    refusal->code != NB_KUBELET_CONFIG_MISSING)
                        *refusal = why;
        }
        return 0;
}

int nb_kubelet_config_fetch(struct nb_api *api, uint64_t until_ms, struct nb_buffer *ret_text,
                            char ret_name[static NB_KUBELET_CONFIG_NAME_SIZE],
                            struct nb_failure *f) {
        struct nb_failure refusal = { 0 };
        int r;

        snprintf(ret_name, NB_KUBELET_CONFIG_NAME_SIZE, "kubelet-config");
        r = fetch_one(api, ret_name, until_ms, ret_text, &refusal, f);
        if (r == 0)
                r = fetch_older(api, until_ms, ret_text, ret_name, &refusal, f);
        if (r < 0)
                return r;
        if (r > 0)
                return 0;
        *f = refusal;
        return -EACCES;
}
