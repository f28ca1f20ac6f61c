/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"
#include "kube_objects/csr.h"

void fuzz_one(const char *data, size_t len) {
        _cleanup_(nb_csr_event_done) struct nb_csr_event event = {};
        struct nb_failure f = {};
        int r;

        r = nb_csr_event_parse(data, len, &event, &f);
        FUZZ_CHECK_FAILURE(f, r);
        if (r < 0)
                return;
        FUZZ_CHECK((unsigned)event.type <= NB_CSR_EVENT_ERROR);
        FUZZ_CHECK(event.type == NB_CSR_EVENT_ERROR || event.csr.resource_version[0]);
        FUZZ_CHECK(fuzz_is_printable(event.csr.resource_version) &&
                   fuzz_is_printable(event.csr.message));
        FUZZ_CHECK(fuzz_is_printable(event.status.reason) &&
                   fuzz_is_printable(event.status.message));
        FUZZ_CHECK(!event.csr.certificate ||
                   strlen(event.csr.certificate) == event.csr.certificate_len);
}
