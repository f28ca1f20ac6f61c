/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "api/cluster_calls.h"
#include "api/csr_calls.h"
#include "base/log.h"
#include "base/macro.h"
#include "join/stages.h"

/*
 * Two machines with one name would overwrite each other's Node with certificates that are equally
 * valid. A bootstrap token may read nodes (ClusterRole kubeadm:get-nodes); an identity that may not
 * joins without this check.
 */
int nb_stage_node(struct nb_join *join, struct nb_failure *f) {
        struct nb_node_object node = { 0 };
        int r;

        if (join->settings->allow_existing || join->is_name_own)
                return 0;
        r = nb_node_read(&join->api, join->node_name, &node, f);
        if (r == 401 || r == 403)
                nb_log(LOG_DEBUG, NB_NONE,
                       "cannot tell whether there is a Node '%s' already: %s answers %d",
                       join->node_name, join->api.name, r);
        if (r < 0 || !node.is_ready)
                return r < 0 ? r : 0;
        return nb_failure_set(f, NB_NODE_NAME_TAKEN, EEXIST,
                              "the cluster already has a Node '%s', and it is Ready%s%s%s%s",
                              node.name, node.ready_since[0] ? " since " : "", node.ready_since,
                              node.address[0] ? ", at the address " : "", node.address);
}

/* A 409: either an earlier attempt succeeded and its answer was lost, or somebody else used the
 * name. */
static int verify_found(const struct nb_join *join, const struct nb_csr *csr,
                        struct nb_failure *f) {
        int r;

        r = csr->request
                    ? nb_request_verify(csr->request, csr->request_len, join->key, join->node_name)
                    : -EINVAL;
        if (r >= 0 && strcmp(csr->signer_name, NB_CSR_SIGNER) == 0)
                return 0;
        return nb_failure_set(f, NB_CSR_CONFLICT, r < 0 ? r : EEXIST,
                              "the CSR '%s' already exists, with %s", join->csr_name,
                              r == -EKEYREJECTED ? "another key"
                              : r == -EPERM      ? "another subject"
                              : r < 0            ? "an invalid request"
                                                 : "another signer");
}

static int submit(struct nb_join *join, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer request = NB_BUFFER_INIT(NB_REQUEST_PEM_MAX);
        _cleanup_(nb_csr_done) struct nb_csr csr = { 0 };
        int r;

        r = nb_request_create(join->key, join->node_name, &request);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "the CSR cannot be created");
        r = nb_csr_submit(&join->api, join->csr_name,
                          &(struct nb_csr_request){ request.data, request.len,
                                                    join->settings->csr_expiration_seconds },
                          &csr, f);
        if (r < 0)
                return r;
        if (strcmp(csr.name, join->csr_name) != 0)
                return nb_failure_set(
                        f, NB_ANSWER_MALFORMED, EBADMSG,
                        "submitting the CSR to %s: expected the CSR '%s' in the answer, found '%s'",
                        join->api.name, join->csr_name, csr.name);
        join->is_csr_found = r == 1;
        if (join->is_csr_found) {
                r = verify_found(join, &csr, f);
                if (r < 0)
                        return r;
        }
        nb_log_field(NB_FIELD_USER, "%s", csr.username);
        nb_csr_done(&join->csr);
        join->csr = TAKE(csr);
        return 0;
}

int nb_stage_request(struct nb_join *join, struct nb_failure *f) {
        int r;

        r = nb_pending_key_load(join, f);
        if (r < 0)
                return r;
        r = nb_request_name(join->key, join->node_name, join->csr_name);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "the name of the CSR cannot be computed");
        nb_log_field(NB_FIELD_CSR, "%s", join->csr_name);
        return submit(join, f);
}
