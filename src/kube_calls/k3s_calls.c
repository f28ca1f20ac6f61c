/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "crypto/pkcs10.h"
#include "kube_calls/k3s_calls.h"
#include "kube_objects/node_name.h"

#define HEADER_SIZE 256

/* 403 has two causes, which only the text distinguishes. A Status has WRONG_ROLE (doAuth() of k3s,
 * pkg/server/auth/auth.go) or one of several texts of pkg/nodepassword; old supervisors answer
 * without a Status, and name the password. */
#define WRONG_ROLE "forbidden"
#define WRONG_PASSWORD "node password"

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

/* --- Certificates --- */

static const char *program_at(const struct nb_url *endpoint) {
        return endpoint->port == NB_RKE2_SUPERVISOR_PORT ? "rke2" : "k3s";
}

static const struct nb_answer_codes codes = {
        .has_plain_refusals = true,
        .unauthorized = NB_TOKEN_REJECTED,
        .forbidden = NB_SUPERVISOR_FORBIDDEN,
        .invalid = NB_CSR_REJECTED,
};

static int refuse_key(const struct nb_api *api, const struct nb_k3s_request *request,
                      struct nb_failure *f) {
        const char *name = request->node_name, *program = program_at(request->endpoint);

        if (!request->node_password)
                return nb_failure_set(f, NB_SUPERVISOR_TOO_OLD, EPROTONOSUPPORT,
                                      "the supervisor at %s answered the request with a private "
                                      "key of its own, and stored nothing",
                                      api->name);
        return nb_failure_set(f, NB_SUPERVISOR_TOO_OLD, EPROTONOSUPPORT,
                              "the supervisor at %s answered the request with a private key of "
                              "its own, and stored this machine's node password in the secret "
                              "kube-system/%.160s.node-password.%s",
                              api->name, name, program);
}

/* Until the API server's handlers exist, only passwords are known, and everybody else gets the 403
 * of a wrong role; until its caches are filled, tokens and Nodes are unknown (401). k3s' agent
 * retries indefinitely. */
static int mark_startup(int r, struct nb_failure *f) {
        f->is_startup = true;
        return r;
}

/* Old supervisors answer without a Status object. */
static int refuse_identity(const struct nb_api *api, const struct nb_call *call,
                           const struct nb_status *status, struct nb_failure *f) {
        int r = nb_failure_set_http(
                f, NB_TOKEN_REJECTED, 401, "%s %s: the supervisor rejected the %s (401%s%s)",
                call->what, api->name, api->authorization.len > 0 ? "token" : "client certificate",
                status->message[0] ? ": " : "", status->message);

        return mark_startup(nb_api_name_identity(api, r, f), f);
}

static int read_certificate(const struct nb_api *api, const struct nb_call *call,
                            const struct nb_k3s_request *request,
                            const struct nb_http_answer *answer, struct nb_buffer *ret_certificate,
                            struct nb_failure *f) {
        const char *text = nb_answer_text(answer);
        const struct nb_status status = nb_answer_status(answer);
        int r;

        if (answer->status == 401)
                return refuse_identity(api, call, &status, f);
        if (answer->status == 403 && request->node_password &&
            (status.code == 403 ? strcmp(status.message, WRONG_ROLE) != 0
                                : strcasestr(text, WRONG_PASSWORD) != NULL))
                return nb_failure_set_http(
                        f, NB_NODE_PASSWORD_REJECTED, 403, "%s %s: 403 %s: '%.160s'", call->what,
                        api->name, status.reason, status.code == 403 ? status.message : text);
        if (answer->status != 200) {
                r = nb_answer_failure(api, call, answer, f);
                return f->code == NB_SUPERVISOR_FORBIDDEN ? mark_startup(r, f) : r;
        }
        if (strstr(text, "PRIVATE KEY-----"))
                return refuse_key(api, request, f);
        nb_buffer_append(ret_certificate, text, answer->body.len);
        return ret_certificate->error < 0 ? nb_failure_set_memory(f) : 0;
}

int nb_k3s_sign(struct nb_api *api, const struct nb_k3s_request *request,
                struct nb_buffer *ret_certificate, struct nb_failure *f) {
        const char *program = program_at(request->endpoint);
        char path[64], prefix[32], header[HEADER_SIZE + NB_NODE_NAME_MAX], ips[HEADER_SIZE];
        const struct nb_call call = { "requesting the certificate from the supervisor at", path,
                                      NB_K3S_CERTIFICATE_MAX, &codes };
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        _cleanup_(nb_secret_done) struct nb_secret password = NB_SECRET_INIT;
        struct nb_http_request http = { .body = request->csr->data,
                                        .body_len = request->csr->len,
                                        .body_type = "application/pkcs10" };
        int r;

        snprintf(path, sizeof(path), "/v1-%s/%s.crt", program, request->name);
        if (request->node_password) {
                snprintf(prefix, sizeof(prefix), "%s-Node-Password: ", program);
                snprintf(header, sizeof(header), "%s-Node-Name: %s", program, request->node_name);
                snprintf(ips, sizeof(ips), "%s-Node-IP: %s", program, request->node_ips);
                if (nb_secret_join(&password, prefix, request->node_password,
                                   strlen(request->node_password)) < 0)
                        return nb_failure_set_memory(f);
                http.headers[0] = &password;
                http.lines[0] = header;
                http.lines[1] = request->node_ips[0] ? ips : NULL;
        }
        r = nb_api_perform(api, &call, &http, &answer, f);
        return r < 0 ? r : read_certificate(api, &call, request, &answer, ret_certificate, f);
}

int nb_k3s_verify_signing(struct nb_api *api, const struct nb_url *endpoint, const char *node_name,
                          struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer csr = NB_BUFFER_INIT(NB_PKCS10_PEM_MAX),
                                                   ignored = NB_BUFFER_INIT(NB_K3S_CERTIFICATE_MAX);
        _cleanup_(nb_key_freep) struct nb_key *key = NULL;
        const struct nb_k3s_request request = { .endpoint = endpoint,
                                                .name = "client-kube-proxy",
                                                .node_name = node_name,
                                                .csr = &csr };
        int r = nb_key_generate(&key);

        if (r >= 0)
                r = nb_pkcs10_create(key, node_name, false, &csr);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "the CSR cannot be created");
        return nb_k3s_sign(api, &request, &ignored, f);
}

int nb_k3s_ask_ready(struct nb_api *api, const struct nb_url *endpoint, struct nb_failure *f) {
        char path[64];
        const struct nb_call call = { "whether it is ready, from the supervisor at", path,
                                      NB_READY_MAX, &codes };
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        struct nb_status status;
        int r;

        snprintf(path, sizeof(path), "/v1-%s/readyz", program_at(endpoint));
        r = nb_api_get(api, &call, NULL, &answer, f);
        if (r < 0 || answer.status == 200)
                return r;
        status = nb_answer_status(&answer);
        if (answer.status == 401)
                return refuse_identity(api, &call, &status, f);
        r = nb_answer_failure(api, &call, &answer, f);
        return f->code == NB_SUPERVISOR_FORBIDDEN ? mark_startup(r, f) : r;
}
