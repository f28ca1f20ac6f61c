/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"
#include "kube_objects/csr.h"

static void check_csr(const struct nb_csr *csr) {
        FUZZ_CHECK(csr->name[0] && csr->uid[0] && csr->resource_version[0] && csr->signer_name[0]);
        FUZZ_CHECK(fuzz_is_printable(csr->name) && fuzz_is_printable(csr->uid) &&
                   fuzz_is_printable(csr->resource_version) &&
                   fuzz_is_printable(csr->signer_name) && fuzz_is_printable(csr->reason) &&
                   fuzz_is_printable(csr->message));
        FUZZ_CHECK(csr->state != NB_CSR_STATE_PENDING || !csr->reason[0]);
        FUZZ_CHECK(!csr->request || strlen(csr->request) == csr->request_len);
        FUZZ_CHECK(!csr->certificate || strlen(csr->certificate) == csr->certificate_len);
}

static void check_round_trip(const struct nb_csr *csr) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(2 * NB_CSR_OBJECT_MAX);
        struct nb_csr again = {};
        struct nb_failure f = {};

        /* The API server adds uid and resourceVersion: the submitted object has neither. */
        FUZZ_CHECK(nb_csr_format(csr->name,
                                 &(struct nb_csr_request){ csr->request, csr->request_len, 600 },
                                 &text) == 0);
        FUZZ_CHECK(nb_csr_parse(text.data, text.len, &again, &f) < 0);
        FUZZ_CHECK(strstr(f.detail, "metadata.uid: expected printable text"));
}

void fuzz_one(const char *data, size_t len) {
        _cleanup_(nb_csr_done) struct nb_csr csr = {};
        struct nb_status status;
        struct nb_failure f = {};
        int r;

        status = nb_status_parse(data, len);
        FUZZ_CHECK(fuzz_is_printable(status.reason) && fuzz_is_printable(status.message));
        r = nb_csr_parse(data, len, &csr, &f);
        FUZZ_CHECK_FAILURE(f, r);
        if (r < 0)
                return;
        check_csr(&csr);
        if (csr.request)
                check_round_trip(&csr);
}
