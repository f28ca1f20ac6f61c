/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "kube_api/cluster_calls.h"
#include "kube_api/k3s_calls.h"

const struct nb_call nb_cacerts_call = { "/cacerts of", "/cacerts", NB_CACERTS_MAX, NULL };

/* kube-apiserver does not serve /cacerts, and answers 401, 403 or 404. */
int nb_cacerts_verify(const struct nb_api *api, const struct nb_http_answer *answer,
                      struct nb_failure *f) {
        if (answer->status == 200)
                return 0;
        if (answer->status == 401 || answer->status == 403 || answer->status == 404)
                return nb_failure_set_http(f, NB_SUPERVISOR_MISSING, answer->status,
                                           "/cacerts of %s: the answer has status %ld; a "
                                           "supervisor of k3s or RKE2 serves it to everybody",
                                           api->name, answer->status);
        return nb_answer_failure(api, &nb_cacerts_call, answer, f);
}

/* --- /version --- */

/*
 * The first patch release of each minor release that may sign requests. k3s-io/k3s#11471, of
 * January 2025, is in v1.32.1. The patch releases of December 2024 were v1.31.4 and v1.30.8. v1.29
 * had releases until March 2025, so for v1.29.13 and newer the answer to the request decides.
 */
static bool is_too_old(const char *version) {
        static const unsigned first_patch[] = { [29] = 13, [30] = 9, [31] = 5, [32] = 1 };
        unsigned major, minor, patch;

        if (sscanf(version, "v%u.%u.%u", &major, &minor, &patch) != 3 || major != 1 ||
            minor >= N_ELEMENTS(first_patch))
                return false;
        return minor < 29 || patch < first_patch[minor];
}

int nb_k3s_verify_version(struct nb_api *api, struct nb_failure *f) {
        struct nb_failure ignored = { 0 };
        char version[NB_VERSION_SIZE];

        if (nb_version_read(api, "gitVersion", version, &ignored) == -ECANCELED)
                return -ECANCELED;
        if (!is_too_old(version))
                return 0;
        return nb_failure_set(f, NB_SUPERVISOR_TOO_OLD, EPROTONOSUPPORT,
                              "the supervisor at %s runs version %s", api->name, version);
}

/* --- client-kubelet.crt --- */

static int read_certificate(const struct nb_api *api, const struct nb_call *call,
                            const struct nb_http_answer *answer, struct nb_buffer *ret_certificate,
                            struct nb_failure *f) {
        const char *text = nb_answer_text(answer);
        const struct nb_status status = nb_answer_status(answer);
        int r;

        /* Old supervisors answer without a Status object. */
        if (answer->status == 401) {
                r = nb_failure_set_http(f, NB_TOKEN_REJECTED, 401,
                                        "%s %s: the supervisor rejected the %s (401%s%s)",
                                        call->what, api->name,
                                        api->authorization.len > 0 ? "token" : "client certificate",
                                        status.message[0] ? ": " : "", status.message);
                return nb_api_name_identity(api, r, f);
        }
        /* 403 has two causes, which only the message distinguishes. */
        if (answer->status == 403 &&
            (status.code == 403 ? strcmp(status.message, "forbidden") != 0
                                : strcasestr(text, "node password") != NULL))
                return nb_failure_set_http(
                        f, NB_NODE_PASSWORD_REJECTED, 403, "%s %s: 403 %s: '%.160s'", call->what,
                        api->name, status.reason, status.code == 403 ? status.message : text);
        if (answer->status != 200)
                return nb_answer_failure(api, call, answer, f);
        nb_buffer_append(ret_certificate, text, answer->body.len);
        return ret_certificate->error < 0 ? nb_failure_set_memory(f) : 0;
}

int nb_k3s_sign(struct nb_api *api, const struct nb_k3s_request *request,
                struct nb_buffer *ret_certificate, struct nb_failure *f) {
        static const struct nb_answer_codes codes = {
                .has_plain_refusals = true,
                .unauthorized = NB_TOKEN_REJECTED,
                .forbidden = NB_SUPERVISOR_REFUSED,
                .invalid = NB_CSR_REJECTED,
        };
        bool is_rke2 = request->endpoint->port == NB_RKE2_SUPERVISOR_PORT;
        const struct nb_call call = { "requesting the certificate from the supervisor at",
                                      is_rke2 ? "/v1-rke2/client-kubelet.crt"
                                              : "/v1-k3s/client-kubelet.crt",
                                      NB_K3S_CERTIFICATE_MAX, &codes };
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        _cleanup_(nb_secret_done) struct nb_secret name = NB_SECRET_INIT, password = NB_SECRET_INIT;
        int r;

        if (nb_secret_join(&name, is_rke2 ? "rke2-Node-Name: " : "k3s-Node-Name: ",
                           request->node_name, strlen(request->node_name)) < 0 ||
            nb_secret_join(&password, is_rke2 ? "rke2-Node-Password: " : "k3s-Node-Password: ",
                           request->node_password, strlen(request->node_password)) < 0)
                return nb_failure_set_memory(f);
        r = nb_api_perform(api, &call,
                           &(struct nb_http_request){
                                   .headers = { &name, &password },
                                   .body = request->csr->data,
                                   .body_len = request->csr->len,
                                   .body_type = "application/pkcs10",
                           },
                           &answer, f);
        return r < 0 ? r : read_certificate(api, &call, &answer, ret_certificate, f);
}
