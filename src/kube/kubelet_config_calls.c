/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "format/json.h"
#include "format/kubelet_config.h"
#include "kube/answer.h"
#include "kube/kubelet_config_calls.h"

#define CONFIG_MAPS_PATH "/api/v1/namespaces/kube-system/configmaps"
#define OBJECT_MAX (2 * 1024 * 1024) /* etcd's limit for an object is 1.5 MiB */
#define VERSION_MAX (64 * 1024)
#define OLDER_MAX 2 /* kubelet may be so many minor versions behind the API server of such a cluster */

static const struct nb_answer_codes codes = {
        .unauthorized = NB_KUBELET_CONFIG_REFUSED,
        .forbidden = NB_KUBELET_CONFIG_REFUSED,
        .invalid = NB_ANSWER_MALFORMED,
};

/* 1: read; 0: there is none, or it is not for us, and `refusal` says so. */
static int fetch_one(struct nb_api *api, const char *name, uint64_t until_ms, struct nb_buffer *ret_text, struct nb_failure *refusal,
                     struct nb_failure *f) {
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        char path[sizeof(CONFIG_MAPS_PATH) + NB_KUBELET_CONFIG_NAME_SIZE + 2], what[NB_URL_MAX + 96];
        int r;

        (void)snprintf(what, sizeof(what), "the ConfigMap kube-system/%s from %s", name, api->name);
        (void)snprintf(path, sizeof(path), CONFIG_MAPS_PATH "/%s", name);
        r = nb_api_get(api, path, what, OBJECT_MAX, until_ms, &answer, f);
        if (r < 0)
                return r;
        if (answer.status == 200) {
                r = nb_kubelet_config_map_parse(nb_answer_text(&answer), answer.body.len, ret_text, f);
                return r < 0 ? r : 1;
        }
        if (answer.status == 404)
                (void)nb_failure_set_http(refusal, NB_KUBELET_CONFIG_MISSING, 404, "there is no ConfigMap kube-system/%s at %s", name, api->name);
        else if (answer.status == 403)
                (void)nb_answer_failure(&answer, what, &codes, refusal);
        else
                return nb_answer_failure(&answer, what, &codes, f);
        return 0;
}

/* The minor version; 0 where the server does not tell. Some write "20+". */
static int fetch_version(struct nb_api *api, uint64_t until_ms, unsigned *ret_minor, struct nb_failure *f) {
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        char what[NB_URL_MAX + 32];
        struct nb_failure ignored = { 0 };
        const char *text;
        size_t len;
        int r;

        *ret_minor = 0;
        (void)snprintf(what, sizeof(what), "the version from %s", api->name);
        r = nb_api_get(api, "/version", what, VERSION_MAX, until_ms, &answer, f);
        if (r < 0 || answer.status != 200)
                return r;
        r = nb_json_parse(nb_answer_text(&answer), answer.body.len, what, NB_ANSWER_MALFORMED, &json, &ignored);
        if (r >= 0)
                r = nb_json_string(&json, "minor", &text, &len, &ignored);
        if (r > 0 && len <= 4 && strspn(text, "0123456789") > 0)
                *ret_minor = (unsigned)strtoul(text, NULL, 10);
        return 0;
}

/* As fetch_one(). */
static int fetch_older(struct nb_api *api, uint64_t until_ms, struct nb_buffer *ret_text, char ret_name[static NB_KUBELET_CONFIG_NAME_SIZE],
                       struct nb_failure *refusal, struct nb_failure *f) {
        unsigned minor;
        int r;

        r = fetch_version(api, until_ms, &minor, f);
        for (unsigned i = 0; i <= OLDER_MAX && r == 0 && minor > i; i++) {
                struct nb_failure why = { 0 };

                (void)snprintf(ret_name, NB_KUBELET_CONFIG_NAME_SIZE, "kubelet-config-1.%u", minor - i);
                r = fetch_one(api, ret_name, until_ms, ret_text, &why, f);
                /* That one is not there says more than that others may not be looked at. */
                if (r == 0 && why.code == NB_KUBELET_CONFIG_MISSING && refusal->code != NB_KUBELET_CONFIG_MISSING)
                        *refusal = why;
        }
        return r;
}

int nb_kubelet_config_fetch(struct nb_api *api, uint64_t until_ms, struct nb_buffer *ret_text, char ret_name[static NB_KUBELET_CONFIG_NAME_SIZE],
                            struct nb_failure *f) {
        struct nb_failure refusal = { 0 };
        int r;

        (void)snprintf(ret_name, NB_KUBELET_CONFIG_NAME_SIZE, "kubelet-config");
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
