/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "format/csr.h"
#include "kube/answer.h"
#include "kube/k3s_calls.h"

#define CACERTS_PATH "/cacerts"
#define SIGN_PATH_SIZE sizeof("/v1-rke2/client-kubelet.crt")
#define WHAT_SIZE (NB_URL_MAX + 64)

static void describe_cacerts(const char *name, char ret[static WHAT_SIZE]) {
        (void)snprintf(ret, WHAT_SIZE, CACERTS_PATH " of %s", name);
}

int nb_cacerts_start(struct nb_http *unverified, const struct nb_url *endpoint, struct nb_http_transfer **ret_transfer,
                     struct nb_failure *f) {
        char name[NB_URL_MAX], what[WHAT_SIZE];

        nb_endpoint_format(endpoint, name);
        describe_cacerts(name, what);
        return nb_api_start_unverified(unverified, endpoint, CACERTS_PATH, what, NB_CACERTS_MAX, ret_transfer, f);
}

/* kube-apiserver itself knows no /cacerts, and says so in one of three ways. */
int nb_cacerts_verify(const struct nb_http_answer *answer, const char *name, struct nb_failure *f) {
        static const struct nb_answer_codes codes = {
                .unauthorized = NB_SUPERVISOR_MISSING,
                .forbidden = NB_SUPERVISOR_MISSING,
                .invalid = NB_ANSWER_MALFORMED,
        };
        char what[WHAT_SIZE];

        describe_cacerts(name, what);
        if (answer->status == 200)
                return 0;
        if (answer->status == 401 || answer->status == 403 || answer->status == 404)
                return nb_failure_set_http(f, NB_SUPERVISOR_MISSING, answer->status,
                                           "%s: the answer has the status %ld; a supervisor of k3s or RKE2 gives its CA certificates to everybody", what,
                                           answer->status);
        return nb_answer_failure(answer, what, &codes, f);
}

int nb_cacerts_fetch_verified(struct nb_api *api, uint64_t until_ms, struct nb_http_answer *ret_answer, struct nb_failure *f) {
        char what[WHAT_SIZE];
        int r;

        describe_cacerts(api->name, what);
        r = nb_api_get_public(api, CACERTS_PATH, what, NB_CACERTS_MAX, until_ms, ret_answer, f);
        return r < 0 ? r : nb_cacerts_verify(ret_answer, api->name, f);
}

/* --- client-kubelet.crt --- */

static int make_header(const char *program, const char *what, const char *value, struct nb_secret *ret_line) {
        char name[64];
        int r;

        (void)snprintf(name, sizeof(name), "%s-Node-%s: ", program, what);
        r = nb_secret_init(ret_line, strlen(name) + strlen(value));
        if (r >= 0)
                r = nb_secret_append(ret_line, name, strlen(name));
        return r < 0 ? r : nb_secret_append(ret_line, value, strlen(value));
}

static const struct nb_answer_codes sign_codes = {
        .has_plain_refusals = true,
        .unauthorized = NB_TOKEN_REJECTED,
        .forbidden = NB_SUPERVISOR_REFUSED,
        .invalid = NB_CSR_REJECTED,
};

/* Two things are forbidden with the same status, and only the words tell them apart. Old servers say them without a Status object. */
static int forbidden(const struct nb_http_answer *answer, const char *what, struct nb_failure *f) {
        struct nb_status status = { 0 };

        (void)nb_status_parse(nb_answer_text(answer), answer->body.len, &status);
        if (status.code == 403 && strcmp(status.message, "forbidden") != 0)
                return nb_failure_set_http(f, NB_NODE_PASSWORD_REJECTED, 403, "%s: 403 %s: '%s'", what, status.reason, status.message);
        if (status.code == 0 && strcasestr(nb_answer_text(answer), "node password"))
                return nb_failure_set_http(f, NB_NODE_PASSWORD_REJECTED, 403, "%s: 403: '%.160s'", what, nb_answer_text(answer));
        return nb_answer_failure(answer, what, &sign_codes, f);
}

static int judge(const struct nb_http_answer *answer, const char *what, struct nb_buffer *ret_certificate, struct nb_failure *f) {
        if (answer->status == 403)
                return forbidden(answer, what, f);
        if (answer->status != 200)
                return nb_answer_failure(answer, what, &sign_codes, f);
        if (nb_buffer_append(ret_certificate, nb_answer_text(answer), answer->body.len) < 0)
                return nb_failure_set_memory(f);
        return 0;
}

int nb_k3s_sign(struct nb_api *api, const struct nb_k3s_request *request, uint64_t until_ms, struct nb_buffer *ret_certificate,
                struct nb_failure *f) {
        const char *program = request->endpoint->port == NB_RKE2_SUPERVISOR_PORT ? "rke2" : "k3s";
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        _cleanup_(nb_secret_done) struct nb_secret name = NB_SECRET_INIT, password = NB_SECRET_INIT;
        char url[NB_URL_MAX + SIGN_PATH_SIZE], what[WHAT_SIZE];
        struct nb_http_request call = {
                .what = what,
                .url = url,
                .authorization = api->authorization.len > 0 ? &api->authorization : NULL,
                .headers = { &name, &password },
                .body = request->csr->data,
                .body_len = request->csr->len,
                .body_type = "application/pkcs10",
                .max_body = NB_K3S_CERTIFICATE_MAX,
                .timeout_ms = NB_HTTP_REQUEST_TIMEOUT_MS,
        };
        int r;

        if (make_header(program, "Name", request->node_name, &name) < 0 || make_header(program, "Password", request->node_password, &password) < 0)
                return nb_failure_set_memory(f);
        (void)snprintf(what, sizeof(what), "requesting the certificate from the supervisor at %s", api->name);
        (void)snprintf(url, sizeof(url), "%s/v1-%s/client-kubelet.crt", api->base, program);
        r = nb_http_perform(api->http, &call, until_ms, &answer, f);
        return r < 0 ? r : judge(&answer, what, ret_certificate, f);
}
