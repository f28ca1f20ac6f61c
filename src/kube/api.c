/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/encoding.h"
#include "base/macro.h"
#include "crypto/certificate.h"
#include "kube/api.h"

#define BASIC_MAX 4096
#define PATH_MAX_LEN 512 /* the longest holds the name of a Node or of a CSR */

static bool is_server(const char *pem, size_t len) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *chain = NULL;

        return nb_certificates_parse(pem, len, false, &chain) >= 0 && nb_certificate_may_serve(chain, 0);
}

/* NB_NONE when it is valid now. */
static enum nb_code explain_time(const struct nb_certificates *certificates, size_t i, const char *what, char *ret_reason, size_t size) {
        time_t now = time(NULL);
        char when[NB_RFC3339_SIZE];

        if (now > nb_certificate_not_after(certificates, i)) {
                nb_time_format(nb_certificate_not_after(certificates, i), when);
                (void)snprintf(ret_reason, size, "%s expired on %s", what, when);
                return NB_TLS_EXPIRED;
        }
        if (now < nb_certificate_not_before(certificates, i)) {
                nb_time_format(nb_certificate_not_before(certificates, i), when);
                (void)snprintf(ret_reason, size, "%s is valid from %s on, and not yet", what, when);
                return NB_TLS_EXPIRED;
        }
        return NB_NONE;
}

/* By the signature: the CAs of all clusters that kubeadm makes have the same name. */
static enum nb_code explain_issuer(const struct nb_certificates *leaf, const char *ca, size_t ca_len, char *ret_reason, size_t size) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *bundle = NULL;
        char subject[NB_SUBJECT_SIZE], what[192];
        enum nb_code code = NB_NONE;

        if (!ca || nb_certificates_parse(ca, ca_len, false, &bundle) < 0)
                return NB_NONE;
        for (size_t i = 0; code == NB_NONE && i < nb_certificates_count(bundle); i++) {
                if (!nb_certificate_is_issued_by(leaf, 0, bundle, i))
                        continue;
                nb_certificate_subject(bundle, i, subject);
                (void)snprintf(what, sizeof(what), "the CA that issued the server's certificate, '%.100s',", subject);
                code = explain_time(bundle, i, what, ret_reason, size);
        }
        return code;
}

static enum nb_code explain(const char *pem, size_t len, const char *ca, size_t ca_len, const char *host, char *ret_reason, size_t size) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *chain = NULL;
        char names[160], issuer[NB_SUBJECT_SIZE];
        enum nb_code code;

        if (nb_certificates_parse(pem, len, false, &chain) < 0)
                return NB_TLS_UNTRUSTED;
        if (host) {
                nb_certificate_names(chain, 0, names, sizeof(names));
                (void)snprintf(ret_reason, size, "the server's certificate is for %s, and not for '%.64s'", names[0] ? names : "no name", host);
                return NB_TLS_NAME_MISMATCH;
        }
        code = explain_time(chain, 0, "the server's certificate", ret_reason, size);
        if (code == NB_NONE)
                code = explain_issuer(chain, ca, ca_len, ret_reason, size);
        if (code != NB_NONE)
                return code;
        nb_certificate_issuer(chain, 0, issuer);
        (void)snprintf(ret_reason, size, "the server's certificate was issued by '%.120s', and not by the proven CA", issuer);
        return NB_TLS_UNTRUSTED;
}

/* "Authorization: <scheme> <value>". */
static int make_authorization(const char *scheme, const char *value, size_t len, struct nb_secret *ret_line) {
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
                return make_authorization("Bearer ", identity->secret.data, identity->secret.len, ret_line);
        if (identity->kind != NB_IDENTITY_PASSWORD)
                return 0;
        r = nb_base64_encode(identity->secret.data, identity->secret.len, &basic);
        if (r >= 0)
                r = make_authorization("Basic ", basic.data, basic.len, ret_line);
        if (basic.data)
                explicit_bzero(basic.data, basic.allocated);
        return r;
}

int nb_api_init(struct nb_api *ret_api, const struct nb_cluster *cluster, const char *ca, size_t ca_len,
                const struct nb_identity *identity, struct nb_failure *f) {
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
        *ret_api = api;
        api.http = NULL;
        api.authorization = (struct nb_secret)NB_SECRET_INIT;
        return 0;
}

void nb_api_done(struct nb_api *api) {
        nb_http_free(api->http);
        nb_secret_done(&api->authorization);
        *api = (struct nb_api){ 0 };
}

static int get(struct nb_api *api, const char *path, const char *what, size_t max_body, const struct nb_secret *authorization,
               uint64_t until_ms, struct nb_http_answer *ret_answer, struct nb_failure *f) {
        char url[NB_URL_MAX + PATH_MAX_LEN];
        const struct nb_http_request request = {
                .what = what,
                .url = url,
                .authorization = authorization,
                .max_body = max_body,
                .timeout_ms = NB_HTTP_REQUEST_TIMEOUT_MS,
        };

        assert(strlen(path) < PATH_MAX_LEN);
        (void)snprintf(url, sizeof(url), "%s%s", api->base, path);
        return nb_http_perform(api->http, &request, until_ms, ret_answer, f);
}

int nb_api_get(struct nb_api *api, const char *path, const char *what, size_t max_body, uint64_t until_ms,
               struct nb_http_answer *ret_answer, struct nb_failure *f) {
        return get(api, path, what, max_body, &api->authorization, until_ms, ret_answer, f);
}

int nb_api_get_public(struct nb_api *api, const char *path, const char *what, size_t max_body, uint64_t until_ms,
                      struct nb_http_answer *ret_answer, struct nb_failure *f) {
        return get(api, path, what, max_body, NULL, until_ms, ret_answer, f);
}

int nb_api_start_unverified(struct nb_http *unverified, const struct nb_url *endpoint, const char *path, const char *what,
                            size_t max_body, struct nb_http_transfer **ret_transfer, struct nb_failure *f) {
        char base[NB_URL_MAX], url[NB_URL_MAX + PATH_MAX_LEN];
        const struct nb_http_request request = {
                .what = what,
                .url = url,
                .max_body = max_body,
                .timeout_ms = NB_HTTP_REQUEST_TIMEOUT_MS,
        };

        assert(strlen(path) < PATH_MAX_LEN);
        nb_url_format(endpoint, base);
        (void)snprintf(url, sizeof(url), "%s%s", base, path);
        return nb_http_start(unverified, &request, ret_transfer, f);
}
