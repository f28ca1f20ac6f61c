/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/api.h"
#include "base/clock.h"
#include "base/encoding.h"
#include "base/log.h"
#include "base/macro.h"
#include "crypto/certificate.h"
#include "kube/object.h"

#define BASIC_MAX 4096
#define PATH_SIZE 1024 /* the longest path has the name of a CSR and the options of a watch */

static bool is_server(const char *pem, size_t len) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *chain = NULL;

        return nb_certificates_parse(pem, len, false, &chain) >= 0 &&
               nb_certificate_may_serve(chain, 0);
}

/* NB_NONE if it is valid now. */
static enum nb_code explain_time(const struct nb_certificates *certificates, size_t i,
                                 const char *what, char *ret_reason, size_t size) {
        time_t now = time(NULL), after = nb_certificate_not_after(certificates, i),
               before = nb_certificate_not_before(certificates, i);
        char when[NB_RFC3339_SIZE];

        if (now >= before && now <= after)
                return NB_NONE;
        nb_time_format(now > after ? after : before, when);
        snprintf(ret_reason, size, now > after ? "%s expired on %s" : "%s is not valid before %s",
                 what, when);
        return NB_TLS_EXPIRED;
}

/* Compares signatures: kubeadm gives the CAs of all clusters the same name. */
static enum nb_code explain_issuer(const struct nb_certificates *chain,
                                   const struct nb_certificates *ca, char *ret_reason,
                                   size_t size) {
        size_t last = nb_certificates_count(chain) - 1;
        char subject[NB_SUBJECT_SIZE], what[192];
        enum nb_code code = NB_NONE;

        for (size_t i = 0; code == NB_NONE && i < nb_certificates_count(ca); i++) {
                if (!nb_certificate_is_issued_by(chain, last, ca, i))
                        continue;
                nb_certificate_subject(ca, i, subject);
                snprintf(what, sizeof(what),
                         "the CA that issued the server's certificate, '%.100s',", subject);
                code = explain_time(ca, i, what, ret_reason, size);
        }
        return code;
}

/* Check the chain before the validity period: the dates of an untrusted certificate prove nothing.
 */
static enum nb_code explain(const char *pem, size_t len, const char *ca_pem, size_t ca_len,
                            const char *host, char *ret_reason, size_t size) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *chain = NULL, *ca = NULL;
        char names[160], issuer[NB_SUBJECT_SIZE];
        enum nb_code code;
        int r;

        r = nb_certificates_parse(pem, len, false, &chain);
        if (r >= 0 && ca_pem)
                r = nb_certificates_parse(ca_pem, ca_len, false, &ca);
        if (r < 0) {
                snprintf(ret_reason, size, "the server's certificate chain has %s",
                         nb_certificates_reason(r));
                return NB_TLS_UNTRUSTED;
        }
        if (!nb_certificate_is_trusted(chain, ca)) {
                nb_certificate_issuer(chain, 0, issuer);
                snprintf(ret_reason, size,
                         "the server's certificate was issued by '%.120s', not by the proven CA",
                         issuer);
                return NB_TLS_UNTRUSTED;
        }
        code = explain_time(chain, 0, "the server's certificate", ret_reason, size);
        if (code == NB_NONE && ca)
                code = explain_issuer(chain, ca, ret_reason, size);
        for (size_t i = 1; code == NB_NONE && i < nb_certificates_count(chain); i++)
                code = explain_time(chain, i, "an intermediate CA of the server's certificate",
                                    ret_reason, size);
        if (code != NB_NONE)
                return code;
        if (nb_certificate_is_for(chain, host))
                return NB_TLS_UNTRUSTED;
        nb_certificate_names(chain, 0, names, sizeof(names));
        snprintf(ret_reason, size, "the server's certificate is for %s, not for '%.64s'",
                 names[0] ? names : "no name", host);
        return NB_TLS_NAME_MISMATCH;
}

/* "Authorization: <scheme> <value>". */
static int make_authorization(const char *scheme, const char *value, size_t len,
                              struct nb_secret *ret_line) {
        static const char header[] = "Authorization: ";
        int r;

        r = nb_secret_init(ret_line, strlen(header) + strlen(scheme) + len);
        if (r >= 0)
                r = nb_secret_append(ret_line, header, strlen(header));
        if (r >= 0)
                r = nb_secret_append(ret_line, scheme, strlen(scheme));
        return r < 0 ? r : nb_secret_append(ret_line, value, len);
}

static int authorize(struct nb_secret *ret_line, const struct nb_identity *identity) {
        _cleanup_(nb_buffer_done) struct nb_buffer basic = NB_BUFFER_INIT(BASIC_MAX);
        int r;

        if (identity->kind == NB_IDENTITY_TOKEN)
                return make_authorization("Bearer ", identity->secret.data, identity->secret.len,
                                          ret_line);
        if (identity->kind != NB_IDENTITY_PASSWORD)
                return 0;
        r = nb_base64_encode(identity->secret.data, identity->secret.len, &basic);
        if (r >= 0)
                r = make_authorization("Basic ", basic.data, basic.len, ret_line);
        if (basic.data)
                explicit_bzero(basic.data, basic.allocated);
        return r;
}

int nb_api_init(struct nb_api *ret_api, const struct nb_cluster *cluster, const char *ca,
                size_t ca_len, const struct nb_identity *identity, struct nb_failure *f) {
        _cleanup_(nb_api_done) struct nb_api api = { .authorization = NB_SECRET_INIT };
        struct nb_http_trust trust = {
                .ca = ca_len > 0 ? ca : NULL,
                .ca_len = ca_len,
                .is_server = is_server,
                .explain = explain,
                .tls_server_name = cluster->tls_server_name,
                .proxy_url = cluster->proxy_url,
        };
        int r;

        if (identity && identity->kind == NB_IDENTITY_CERTIFICATE) {
                trust.client_certificate = identity->certificate;
                trust.client_certificate_len = identity->certificate_len;
                trust.client_key = &identity->secret;
        }
        r = nb_http_new(&trust, &api.http, f);
        if (r < 0)
                return r;
        if (identity && authorize(&api.authorization, identity) < 0)
                return nb_failure_set_memory(f);
        nb_url_format(&cluster->server, api.base);
        nb_endpoint_format(&cluster->server, api.name);
        *ret_api = TAKE(api);
        return 0;
}

void nb_api_done(struct nb_api *api) {
        nb_http_free(api->http);
        nb_secret_done(&api->authorization);
        *api = (struct nb_api){ 0 };
}

/* --- Requests --- */

struct call {
        struct nb_http_request request;
        char url[NB_URL_MAX + PATH_SIZE];
        char what[NB_URL_MAX + PATH_SIZE];
};

static const struct nb_http_request *fill_request(const struct nb_http_request *request,
                                                  const char *base, const char *name,
                                                  struct call *call) {
        assert(strlen(request->url) < PATH_SIZE && strlen(request->what) < PATH_SIZE - 1);
        snprintf(call->url, sizeof(call->url), "%s%s", base, request->url);
        snprintf(call->what, sizeof(call->what), "%s %s", request->what, name);
        call->request = *request;
        call->request.url = call->url;
        call->request.what = call->what;
        call->request.timeout_ms = request->is_stream ? 0 : NB_HTTP_REQUEST_TIMEOUT_MS;
        return &call->request;
}

int nb_api_start(struct nb_api *api, const struct nb_http_request *request,
                 struct nb_http_transfer **ret_transfer, struct nb_failure *f) {
        struct call call;

        return nb_http_start(api->http, fill_request(request, api->base, api->name, &call),
                             ret_transfer, f);
}

int nb_api_perform(struct nb_api *api, const struct nb_http_request *request, uint64_t until_ms,
                   struct nb_http_answer *ret_answer, struct nb_failure *f) {
        struct call call;

        return nb_http_perform(api->http, fill_request(request, api->base, api->name, &call),
                               until_ms, ret_answer, f);
}

int nb_api_start_unverified(struct nb_http *http, const struct nb_url *endpoint,
                            const struct nb_http_request *request,
                            struct nb_http_transfer **ret_transfer, struct nb_failure *f) {
        char base[NB_URL_MAX], name[NB_URL_MAX];
        struct call call;

        nb_url_format(endpoint, base);
        nb_endpoint_format(endpoint, name);
        return nb_http_start(http, fill_request(request, base, name, &call), ret_transfer, f);
}

/* --- Answers --- */

const char *nb_answer_text(const struct nb_http_answer *answer) {
        return answer->body.data ? answer->body.data : "";
}

bool nb_answer_is_not_found(const struct nb_http_answer *answer) {
        struct nb_status status;

        (void)nb_status_parse(nb_answer_text(answer), answer->body.len, &status);
        return answer->status == 404 && status.code == 404;
}

static enum nb_code code_of_status(long status, const struct nb_answer_codes *codes) {
        enum nb_code code = NB_NONE;

        if (status == 401)
                code = codes->unauthorized;
        else if (status == 403)
                code = codes->forbidden;
        else if (status == 400 || status == 409 || status == 422)
                code = codes->invalid;
        else if (status == 429 || status >= 500)
                code = NB_SERVER_ERROR;
        return code == NB_NONE ? NB_ANSWER_MALFORMED : code;
}

/* Whether an answer without a Status did not come from an API server. Load balancers answer 5xx
 * too, but those pass. */
static bool is_foreign(long status, const struct nb_answer_codes *codes) {
        if (status == 401 || status == 403)
                return !codes->has_plain_refusals;
        return status >= 400 && status < 500 && status != 429;
}

/* A credential was sent, and the API server still sees an anonymous user: the credential was lost
 * on the way, or the server does not support its kind. */
static bool is_anonymous(const struct nb_http_answer *answer, const struct nb_status *status) {
        char user[sizeof(status->message)];

        nb_status_user(status, user, sizeof(user));
        if (answer->status != 403 || !user[0])
                return false;
        nb_log_field(NB_FIELD_USER, "%s", user);
        return strcmp(user, "system:anonymous") == 0;
}

int nb_answer_failure(const struct nb_http_answer *answer, const char *what, const char *name,
                      const struct nb_answer_codes *codes, struct nb_failure *f) {
        enum nb_code code = code_of_status(answer->status, codes);
        struct nb_status status;

        if (f->code == NB_NONE)
                f->retry_after_ms = answer->retry_after_ms;
        (void)nb_status_parse(nb_answer_text(answer), answer->body.len, &status);
        if (answer->status >= 300 && answer->status < 400)
                return nb_failure_set_http(
                        f, NB_ANSWER_FOREIGN, answer->status,
                        "%s %s: the answer is a redirect (%ld) to '%s'; redirects are not followed",
                        what, name, answer->status, answer->location);
        if (status.code == 0)
                return nb_failure_set_http(
                        f, is_foreign(answer->status, codes) ? NB_ANSWER_FOREIGN : code,
                        answer->status,
                        "%s %s: the answer has status %ld and no Status object, so it may not come "
                        "from an API server",
                        what, name, answer->status);
        if (codes->anonymous != NB_NONE && is_anonymous(answer, &status))
                return nb_failure_set_http(
                        f, codes->anonymous, answer->status,
                        "%s %s: the API server ignored the credential and treated the request as "
                        "anonymous: %ld %s: '%s'",
                        what, name, answer->status, status.reason, status.message);
        return nb_failure_set_http(f, code, answer->status, "%s %s: %ld %s: '%s'", what, name,
                                   answer->status, status.reason, status.message);
}
