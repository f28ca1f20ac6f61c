/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/encoding.h"
#include "base/macro.h"
#include "crypto/certificate.h"
#include "kube_calls/api.h"
#include "systemd/log.h"

#define PATH_SIZE 1024 /* the longest path has the name of a CSR and the options of a watch */

static enum nb_code verify_server(const char *pem, size_t len, const char *ca_pem, size_t ca_len,
                                  const char *host, char *ret_reason, size_t size) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *chain = NULL;
        int r;

        r = nb_certificates_parse(pem, len, false, &chain);
        if (r < 0) {
                snprintf(ret_reason, size, "the server's certificate chain has %s",
                         nb_certificates_reason(r));
                return NB_TLS_UNTRUSTED;
        }
        return nb_certificate_verify_server(chain, ca_pem, ca_len, host, time(NULL), ret_reason,
                                            size);
}

static int format_authorization(struct nb_secret *ret_line, const struct nb_identity *identity) {
        if (identity->kind == NB_IDENTITY_TOKEN)
                return nb_secret_join(ret_line, "Authorization: Bearer ", identity->secret.data,
                                      identity->secret.len);
        if (identity->kind != NB_IDENTITY_PASSWORD)
                return 0;
        return nb_base64_encode_secret("Authorization: Basic ", &identity->secret, ret_line);
}

static void set_server(struct nb_api *api, const struct nb_url *server) {
        nb_url_format(server, api->base);
        nb_endpoint_format(server, api->name);
}

int nb_api_init_early(struct nb_api *ret_api, const struct nb_url *endpoint, struct nb_failure *f) {
        const struct nb_http_trust trust = {
                .is_ca_later = true, .verify = verify_server, .tls_server_name = "", .proxy_url = ""
        };

        set_server(ret_api, endpoint);
        return nb_http_new(&trust, &ret_api->http, f);
}

/* Moves the early connection of `early` to `api`, if it is to the same server in the same way, and
 * sets its CAs. */
static int take_early(struct nb_api *early, const struct nb_http_trust *trust, struct nb_api *api,
                      struct nb_failure *f) {
        if (!early->http || strcmp(early->base, api->base) != 0 || !trust->ca ||
            trust->client_certificate || trust->tls_server_name[0] || trust->proxy_url[0]) {
                nb_api_done(early);
                return nb_http_new(trust, &api->http, f);
        }
        api->http = TAKE(early->http);
        return nb_http_set_ca(api->http, trust->ca, trust->ca_len, f);
}

int nb_api_init(struct nb_api *ret_api, const struct nb_cluster *cluster,
                const struct nb_identity *identity, uint64_t deadline_ms, struct nb_failure *f) {
        _cleanup_(nb_api_done) struct nb_api api = { .identity = identity,
                                                     .deadline_ms = deadline_ms };
        struct nb_http_trust trust = {
                .ca = cluster->ca,
                .ca_len = cluster->ca_len,
                .verify = verify_server,
                .tls_server_name = cluster->tls_server_name,
                .proxy_url = cluster->proxy_url,
        };
        int r;

        if (identity && identity->kind == NB_IDENTITY_CERTIFICATE) {
                trust.client_certificate = identity->certificate.data;
                trust.client_certificate_len = identity->certificate.len;
                trust.client_key = &identity->secret;
        }
        set_server(&api, &cluster->server);
        r = take_early(ret_api, &trust, &api, f);
        if (r < 0)
                return r;
        if (identity && format_authorization(&api.authorization, identity) < 0)
                return nb_failure_set_memory(f);
        *ret_api = TAKE(api);
        return 0;
}

int nb_api_init_unverified(struct nb_api *ret_api, const struct nb_url *endpoint,
                           struct nb_failure *f) {
        set_server(ret_api, endpoint);
        return nb_http_new(NULL, &ret_api->http, f);
}

void nb_api_done(struct nb_api *api) {
        nb_http_free(api->http);
        nb_secret_done(&api->authorization);
        *api = (struct nb_api){ 0 };
}

/* --- Requests --- */

struct request {
        struct nb_http_request http;
        char url[NB_URL_MAX + PATH_SIZE];
        char what[NB_URL_MAX + PATH_SIZE];
};

static const struct nb_http_request *fill_request(const struct nb_api *api,
                                                  const struct nb_call *call,
                                                  const struct nb_http_request *more,
                                                  struct request *request) {
        struct nb_http_request *http = &request->http;

        *http = more ? *more : (struct nb_http_request){ 0 };
        snprintf(request->url, sizeof(request->url), "%s%s%s", api->base, call->path,
                 http->url ? http->url : "");
        snprintf(request->what, sizeof(request->what), "%s %s", call->what, api->name);
        http->url = request->url;
        http->what = request->what;
        http->max_body = call->max;
        if (api->authorization.data)
                http->authorization = &api->authorization;
        if (!http->is_stream && http->timeout_ms == 0)
                http->timeout_ms = NB_HTTP_REQUEST_TIMEOUT_MS;
        return http;
}

int nb_api_start(struct nb_api *api, const struct nb_call *call, const struct nb_http_request *more,
                 struct nb_http_transfer **ret_transfer, struct nb_failure *f) {
        struct request request;

        return nb_http_start(api->http, fill_request(api, call, more, &request), ret_transfer, f);
}

int nb_api_perform(struct nb_api *api, const struct nb_call *call,
                   const struct nb_http_request *more, struct nb_http_answer *ret_answer,
                   struct nb_failure *f) {
        struct request request;

        return nb_http_perform(api->http, fill_request(api, call, more, &request), api->deadline_ms,
                               ret_answer, f);
}

int nb_api_get(struct nb_api *api, const struct nb_call *call, const char *name,
               struct nb_http_answer *ret_answer, struct nb_failure *f) {
        return nb_api_perform(api, call, &(struct nb_http_request){ .url = name }, ret_answer, f);
}

/* --- Answers --- */

const char *nb_answer_text(const struct nb_http_answer *answer) {
        return answer->body.data ? answer->body.data : "";
}

struct nb_status nb_answer_status(const struct nb_http_answer *answer) {
        return nb_status_parse(nb_answer_text(answer), answer->body.len);
}

bool nb_answer_is_not_found(const struct nb_http_answer *answer) {
        return answer->status == 404 && nb_answer_status(answer).code == 404;
}

static enum nb_code code_of_status(long status, const struct nb_answer_codes *codes) {
        enum nb_code code = NB_NONE;

        if (status == 429 || status >= 500)
                return NB_SERVER_ERROR;
        if (codes && status == 401)
                code = codes->unauthorized;
        else if (codes && status == 403)
                code = codes->forbidden;
        else if (codes && (status == 400 || status == 409 || status == 422))
                code = codes->invalid;
        return code == NB_NONE ? NB_ANSWER_MALFORMED : code;
}

/* Whether an answer without a Status did not come from an API server. Load balancers answer 5xx,
 * too, but these failures are temporary. */
static bool is_foreign(long status, const struct nb_answer_codes *codes) {
        if (status == 401 || status == 403)
                return !codes || !codes->has_plain_refusals;
        return status >= 300 && status < 500 && status != 429;
}

/* A credential was sent, but the API server treats the user as anonymous: something on the path
 * removed the credential, or the server does not support its kind. */
static bool is_anonymous(const struct nb_http_answer *answer, const struct nb_status *status) {
        char user[sizeof(status->message)];

        nb_status_user(status, user, sizeof(user));
        if (answer->status != 403 || !user[0])
                return false;
        nb_log_field(NB_FIELD_USER, "%s", user);
        return strcmp(user, "system:anonymous") == 0;
}

int nb_api_name_identity(const struct nb_api *api, int r, struct nb_failure *f) {
        const struct nb_identity *identity = api->identity;

        if (f->code != NB_TOKEN_REJECTED || !identity)
                return r;
        if (identity->token_id[0])
                nb_failure_add(f, "; the token with ID %s, from %s, was presented",
                               identity->token_id, identity->source);
        else
                nb_failure_add(f, "; the identity in %s was presented", identity->source);
        return r;
}

int nb_answer_failure(const struct nb_api *api, const struct nb_call *call,
                      const struct nb_http_answer *answer, struct nb_failure *f) {
        const struct nb_answer_codes *codes = call->codes;
        enum nb_code code = code_of_status(answer->status, codes);
        const struct nb_status status = nb_answer_status(answer);
        int r;

        if (f->code == NB_NONE)
                f->retry_after_ms = answer->retry_after_ms;
        if (status.code == 0)
                r = nb_failure_set_http(
                        f, is_foreign(answer->status, codes) ? NB_ANSWER_FOREIGN : code,
                        answer->status,
                        "%s %s: the answer has status %ld%s%s and no Status object, so it may not "
                        "come from an API server",
                        call->what, api->name, answer->status,
                        answer->location[0] ? ", a redirect to " : "", answer->location);
        else if (codes && codes->anonymous != NB_NONE && is_anonymous(answer, &status))
                r = nb_failure_set_http(
                        f, codes->anonymous, answer->status,
                        "%s %s: the API server ignored the credential and treated the request as "
                        "anonymous: %ld %s: '%s'",
                        call->what, api->name, answer->status, status.reason, status.message);
        else
                r = nb_failure_set_http(f, code, answer->status, "%s %s: %ld %s: '%s'", call->what,
                                        api->name, answer->status, status.reason, status.message);
        return nb_api_name_identity(api, r, f);
}
