/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/macro.h"
#include "kube/answer.h"
#include "kube/csr_calls.h"
#include "kube/csr_internal.h"

const struct nb_answer_codes nb_csr_answer_codes = {
        .unauthorized = NB_TOKEN_REJECTED,
        .forbidden = NB_CSR_FORBIDDEN,
        .anonymous = NB_TOKEN_REJECTED,
        .invalid = NB_CSR_REJECTED,
};

int nb_csr_submit(struct nb_api *api, const char *name, const char *request, size_t request_len, uint32_t expiration_seconds,
                  uint64_t until_ms, struct nb_csr *ret_csr, struct nb_failure *f) {
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        _cleanup_(nb_buffer_done) struct nb_buffer body = NB_BUFFER_INIT(NB_CSR_OBJECT_MAX);
        char url[NB_URL_MAX + sizeof(NB_CSR_PATH)], what[NB_URL_MAX + 64];
        struct nb_http_request call = {
                .what = what,
                .url = url,
                .authorization = &api->authorization,
                .max_body = NB_CSR_OBJECT_MAX,
                .timeout_ms = NB_HTTP_REQUEST_TIMEOUT_MS,
        };
        int r;

        r = nb_csr_format(name, request, request_len, expiration_seconds, &body);
        if (r < 0)
                return nb_failure_set_memory(f);
        call.body = body.data;
        call.body_len = body.len;
        (void)snprintf(what, sizeof(what), "submitting the request to %s", api->name);
        (void)snprintf(url, sizeof(url), "%s" NB_CSR_PATH, api->base);
        r = nb_http_perform(api->http, &call, until_ms, &answer, f);
        if (r < 0)
                return r;
        if (answer.status == 200 || answer.status == 201)
                return nb_csr_parse(nb_answer_text(&answer), answer.body.len, ret_csr, f);
        if (answer.status == 409) {
                r = nb_csr_read(api, name, until_ms, ret_csr, f);
                if (r != 0)
                        return r;
                /* Removed between the two calls: the next attempt creates it. */
                return nb_failure_set_http(f, NB_SERVER_ERROR, 404, "%s: '%s' was there, and was removed before it could be read",
                                           what, name);
        }
        return nb_answer_failure(&answer, what, &nb_csr_answer_codes, f);
}

int nb_csr_read(struct nb_api *api, const char *name, uint64_t until_ms, struct nb_csr *ret_csr, struct nb_failure *f) {
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        char path[sizeof(NB_CSR_PATH) + NB_CSR_NAME_MAX + 2], what[NB_URL_MAX + 64];
        struct nb_status status = { 0 };
        int r;

        (void)snprintf(what, sizeof(what), "reading the request from %s", api->name);
        (void)snprintf(path, sizeof(path), NB_CSR_PATH "/%s", name);
        r = nb_api_get(api, path, what, NB_CSR_OBJECT_MAX, until_ms, &answer, f);
        if (r < 0)
                return r;
        if (answer.status == 200) {
                r = nb_csr_parse(nb_answer_text(&answer), answer.body.len, ret_csr, f);
                return r < 0 ? r : 1;
        }
        (void)nb_status_parse(nb_answer_text(&answer), answer.body.len, &status);
        if (answer.status == 404 && status.code == 404)
                return 0;
        return nb_answer_failure(&answer, what, &nb_csr_answer_codes, f);
}
