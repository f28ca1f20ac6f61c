/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/macro.h"
#include "base/sources.h"
#include "crypto/certificate.h"
#include "kube/k3s_calls.h"
#include "stage/internal.h"

/* As one word of a header line, and never anything else: what follows a newline would be a header of its own. */
static int verify_password(const char *password, struct nb_failure *f) {
        if (!password[0])
                return nb_failure_set(f, NB_NODE_PASSWORD_MISSING, ENOENT, "there is no node password in '" NB_NODE_PASSWORD_FILE "'");
        for (const char *at = password; *at; at++)
                if (*at <= ' ' || *at > '~')
                        return nb_failure_set(f, NB_NODE_PASSWORD_MISSING, EINVAL, "'" NB_NODE_PASSWORD_FILE "' does not hold one word of printable characters");
        return 0;
}

/* One that is for another name would be answered with 400. */
static bool is_previous_worth_showing(const struct nb_join *join) {
        const struct nb_identity *previous = &join->bootstrap->previous;
        _cleanup_(nb_certificates_freep) struct nb_certificates *chain = NULL;

        if (previous->kind != NB_IDENTITY_CERTIFICATE || join->is_previous_refused)
                return false;
        return nb_certificates_parse(previous->certificate, previous->certificate_len, true, &chain) >= 0 &&
               nb_certificate_verify_identity(chain, join->node_name) >= 0;
}

/* A connection for each identity: a client certificate belongs to the connection, and would go along with the token. */
static int ask_as(const struct nb_join *join, const struct nb_identity *identity, const struct nb_buffer *csr, struct nb_buffer *ret_pem,
                  struct nb_failure *f) {
        _cleanup_(nb_api_done) struct nb_api api = { 0 };
        struct nb_cluster supervisor = { 0 };
        struct nb_k3s_request request = {
                .endpoint = &supervisor.server,
                .node_name = join->node_name,
                .node_password = join->bootstrap->node_password,
                .csr = csr,
        };
        int r;

        r = nb_endpoint_parse(join->endpoint, strlen(join->endpoint), &supervisor.server);
        assert(r >= 0);
        r = nb_api_init(&api, &supervisor, join->ca.data, join->ca.len, identity, f);
        if (r < 0)
                return r;
        nb_log_field(NB_FIELD_ENDPOINT, "%s", api.name);
        r = nb_join_blame_clock(join, nb_k3s_sign(&api, &request, join->deadline_ms, ret_pem, f), f);
        if (r >= 0)
                nb_report_new_connection(&api);
        return nb_join_name_identity(identity, r, f);
}

static int ask(struct nb_join *join, const struct nb_buffer *csr, struct nb_buffer *ret_pem, struct nb_failure *f) {
        int r;

        if (!is_previous_worth_showing(join))
                return ask_as(join, &join->bootstrap->identity, csr, ret_pem, f);
        r = ask_as(join, &join->bootstrap->previous, csr, ret_pem, f);
        if (r >= 0 || f->http_status != 401 || join->bootstrap->identity.kind == NB_IDENTITY_NONE)
                return r;
        nb_log(LOG_NOTICE, NB_PREVIOUS_REFUSED, "%s; going on with the token", f->detail);
        nb_failure_clear(f);
        join->is_previous_refused = true;
        return ask_as(join, &join->bootstrap->identity, csr, ret_pem, f);
}

/* Old servers sign no request: they answer with a key that all nodes share. */
static int verify_no_key(const struct nb_buffer *pem, struct nb_failure *f) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *chain = NULL, *mixed = NULL;

        if (nb_certificates_parse(pem->data ? pem->data : "", pem->len, false, &chain) >= 0 ||
            nb_certificates_parse(pem->data ? pem->data : "", pem->len, true, &mixed) < 0)
                return 0;
        return nb_failure_set(f, NB_CERTIFICATE_UNUSABLE, EBADMSG,
                              "what the supervisor issued holds more than certificates; a server that is too old to sign a request sends a private key along");
}

static int take(struct nb_join *join, const struct nb_buffer *pem, struct nb_failure *f) {
        struct nb_failure ignored = { 0 };
        int r;

        r = verify_no_key(pem, f);
        if (r >= 0)
                r = nb_join_take_issued(join, pem->data ? pem->data : "", pem->len, f);
        if (r < 0 && f->code == NB_CERTIFICATE_UNUSABLE)
                (void)nb_pending_key_drop(join, &ignored);
        return r;
}

int nb_stage_request_supervisor(struct nb_join *join, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer csr = NB_BUFFER_INIT(NB_REQUEST_PEM_MAX), pem = NB_BUFFER_INIT(NB_K3S_CERTIFICATE_MAX);
        int r;

        r = verify_password(join->bootstrap->node_password, f);
        if (r >= 0)
                r = nb_pending_key_take(join, f);
        if (r < 0)
                return r;
        r = nb_request_create_der(join->key, join->node_name, &csr);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, -r, "the certificate signing request cannot be made");
        r = ask(join, &csr, &pem, f);
        return r < 0 ? r : take(join, &pem, f);
}
