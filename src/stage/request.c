/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/macro.h"
#include "kube/csr_calls.h"
#include "stage/internal.h"

/*
 * A 409 means that an attempt before this one got further than we know, or that somebody took the name. Only the first is ours.
 */
static int verify_found(const struct nb_join *join, const struct nb_csr *csr, struct nb_failure *f) {
        const char *other = NULL;
        int r;

        r = csr->request ? nb_request_verify(csr->request, csr->request_len, join->key, join->node_name) : -EINVAL;
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r == -EKEYREJECTED)
                other = "another key";
        else if (r == -EPERM)
                other = "another subject";
        else if (r < 0)
                other = "something that is no valid request";
        else if (strcmp(csr->signer_name, NB_CSR_SIGNER) != 0)
                other = "another signer";
        if (other)
                return nb_failure_set(f, NB_CSR_CONFLICT, EEXIST, "the certificate signing request '%s' is there already, and is for %s",
                                      join->csr_name, other);
        return 0;
}

static int submit(struct nb_join *join, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer request = NB_BUFFER_INIT(NB_REQUEST_PEM_MAX);
        _cleanup_(nb_csr_done) struct nb_csr csr = { 0 };
        int r;

        r = nb_request_create(join->key, join->node_name, &request);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, -r, "the certificate signing request cannot be made");
        r = nb_csr_submit(&join->api, join->csr_name, request.data, request.len, join->settings->csr_expiration_seconds,
                          join->deadline_ms, &csr, f);
        if (r < 0)
                return nb_join_name_identity(&join->bootstrap->identity, nb_join_blame_clock(join, r, f), f);
        if (strcmp(csr.name, join->csr_name) != 0)
                return nb_failure_set(f, NB_ANSWER_MALFORMED, EBADMSG, "submitting the request to %s: the answer is the request '%s', not '%s'",
                                      join->api.name, csr.name, join->csr_name);
        join->is_csr_found = r == 1;
        if (join->is_csr_found) {
                r = verify_found(join, &csr, f);
                if (r < 0)
                        return r;
        }
        nb_log_field(NB_FIELD_USER, "%s", csr.username);
        nb_csr_done(&join->csr);
        join->csr = csr;
        csr = (struct nb_csr){ 0 };
        return 0;
}

int nb_stage_request(struct nb_join *join, struct nb_failure *f) {
        int r;

        r = nb_pending_key_take(join, f);
        if (r < 0)
                return r;
        r = nb_request_name(join->key, join->node_name, join->csr_name);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, -r, "the name of the certificate signing request cannot be computed");
        nb_log_field(NB_FIELD_CSR, "%s", join->csr_name);
        return submit(join, f);
}
