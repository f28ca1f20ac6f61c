/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/macro.h"
#include "crypto/certificate.h"
#include "join/report.h"
#include "join/stages.h"
#include "kube_api/k3s_calls.h"
#include "system/log.h"

/* The supervisor answers 400 to a certificate for another name. */
static bool can_present_previous(const struct nb_join *join) {
        const struct nb_identity *previous = &join->bootstrap->previous;
        _cleanup_(nb_certificates_freep) struct nb_certificates *chain = NULL;

        if (previous->kind != NB_IDENTITY_CERTIFICATE || join->is_previous_refused)
                return false;
        return nb_certificates_parse(previous->certificate.data, previous->certificate.len, true,
                                     &chain) >= 0 &&
               nb_certificate_is_for_node(chain, join->node_name, false);
}

/* Uses a separate connection for each identity: on a shared one, the client certificate would also
 * be presented with the token. */
static int ask_as(const struct nb_join *join, const struct nb_identity *identity,
                  const struct nb_buffer *csr, struct nb_buffer *ret_pem, struct nb_failure *f) {
        _cleanup_(nb_api_done) struct nb_api api = { 0 };
        struct nb_cluster supervisor = join->cluster;
        struct nb_k3s_request request = {
                .endpoint = &supervisor.server,
                .name = "client-kubelet",
                .node_ips = "",
                .node_name = join->node_name,
                .node_password = join->bootstrap->node_password.data,
                .csr = csr,
        };
        int r;

        r = nb_endpoint_parse(join->endpoint, strlen(join->endpoint), &supervisor.server);
        assert(r >= 0);
        r = nb_api_init(&api, &supervisor, identity, join->deadline_ms, f);
        if (r < 0)
                return r;
        nb_log_field(NB_FIELD_ENDPOINT, "%s", api.name);
        r = nb_k3s_verify_signing(&api, &supervisor.server, join->node_name, f);
        if (r < 0)
                return r;
        r = nb_k3s_sign(&api, &request, ret_pem, f);
        if (r >= 0)
                nb_report_new_connection(&api);
        return r;
}

static int ask_supervisor(struct nb_join *join, const struct nb_buffer *csr,
                          struct nb_buffer *ret_pem, struct nb_failure *f) {
        int r;

        if (!can_present_previous(join))
                return ask_as(join, &join->bootstrap->identity, csr, ret_pem, f);
        r = ask_as(join, &join->bootstrap->previous, csr, ret_pem, f);
        if (r >= 0 || f->http_status != 401 || join->bootstrap->identity.kind == NB_IDENTITY_NONE)
                return r;
        nb_log(LOG_NOTICE, NB_PREVIOUS_REFUSED, "%s; using the token instead", f->detail);
        nb_failure_clear(f);
        join->is_previous_refused = true;
        return ask_as(join, &join->bootstrap->identity, csr, ret_pem, f);
}

int nb_stage_request_supervisor(struct nb_join *join, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer csr = NB_BUFFER_INIT(NB_PKCS10_PEM_MAX),
                                                   pem = NB_BUFFER_INIT(NB_K3S_CERTIFICATE_MAX);
        int r;

        if (join->bootstrap->node_password.len == 0)
                return nb_failure_set(f, NB_NODE_PASSWORD_MISSING, ENOENT,
                                      "there is no usable node password in '" NB_NODE_PASSWORD_FILE
                                      "'");
        r = nb_pending_key_load(join, f);
        if (r < 0)
                return r;
        r = nb_pkcs10_create(join->key, join->node_name, false, &csr);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "the CSR cannot be created");
        r = ask_supervisor(join, &csr, &pem, f);
        if (r >= 0)
                r = nb_join_take_issued(join, pem.data ? pem.data : "", pem.len, f);
        if (r < 0 && (f->code == NB_CERTIFICATE_UNUSABLE || f->code == NB_SUPERVISOR_TOO_OLD))
                nb_pending_key_drop(join);
        return r;
}
