/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "admin/client/calls.h"
#include "admin/commands/cluster_info_requests.h"
#include "admin/policy/node_request.h"
#include "base/buffer.h"
#include "base/encoding.h"
#include "base/macro.h"
#include "codec/json.h"

#define CLIENT_CA_PATH \
        "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"

struct examination {
        struct nb_requests_found *found;
        time_t approved_before;
};

int nb_client_ca_read(struct nb_admin *admin, struct nb_certificates **ret_ca,
                      struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        const char *text;
        int r = nb_admin_get(admin, "reading the client CA of the API servers", CLIENT_CA_PATH,
                             &json, f);

        if (r <= 0)
                return r;
        text = nb_json_string(&json, "data.client-ca-file");
        if (json.r < 0 || !text)
                return json.r;
        r = nb_certificates_parse(text, strlen(text), false, ret_ca);
        return r == -ENOMEM ? nb_failure_set_memory(f) : 0;
}

static void count_issuer(struct nb_requests_found *found, struct nb_json *item) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *issued = NULL;
        _cleanup_(nb_buffer_done) struct nb_buffer pem = NB_BUFFER_INIT(NB_CSR_OBJECT_MAX);
        const char *text = nb_json_string(item, "status.certificate");

        if (!text || nb_base64_decode(text, strlen(text), &pem) < 0 ||
            nb_certificates_parse(pem.data, pem.len, false, &issued) < 0)
                return;
        found->n_issued++;
        if (!found->client_ca || nb_certificate_is_trusted(issued, found->client_ca))
                return;
        found->n_untrusted++;
        nb_certificate_issuer(issued, 0, found->issuer);
}

static int visit_request(void *userdata, struct nb_json *item) {
        const struct examination *examination = userdata;
        struct nb_requests_found *found = examination->found;
        _cleanup_(nb_node_request_done) struct nb_node_request request = { 0 };

        nb_node_request_read(item, &request);
        if (item->r < 0)
                return item->r;
        if (request.kind == NB_NODE_REQUEST_OTHER)
                return 0;
        if (request.kind == NB_NODE_REQUEST_CLIENT && request.has_certificate)
                count_issuer(found, item);
        found->n_unissued += request.state == NB_CSR_STATE_APPROVED && !request.has_certificate &&
                             (request.approved > 0 ? request.approved : request.created) <
                                     examination->approved_before;
        if (request.state != NB_CSR_STATE_PENDING)
                return 0;
        if (found->n_pending++ == 0 || request.created < found->oldest)
                found->oldest = request.created;
        return 0;
}

int nb_requests_examine(struct nb_admin *admin, time_t approved_before,
                        struct nb_requests_found *found, struct nb_failure *f) {
        struct examination examination = { found, approved_before };

        return nb_admin_list(admin, "listing the requests", NB_CSRS_PATH, visit_request,
                             &examination, NULL, f);
}

void nb_requests_found_done(struct nb_requests_found *found) {
        nb_certificates_free(found->client_ca);
        found->client_ca = NULL;
}
