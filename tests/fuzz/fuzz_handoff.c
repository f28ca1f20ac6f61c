/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"
#include "state_files/handoff.h"

void fuzz_one(const char *data, size_t len) {
        _cleanup_(nb_buffer_done) struct nb_buffer first = NB_BUFFER_INIT(8 * NB_HANDOFF_MAX),
                                                   second = NB_BUFFER_INIT(8 * NB_HANDOFF_MAX);
        _cleanup_(nb_handoff_done) struct nb_handoff handoff = {}, again = {};
        struct nb_failure f = {};
        int r;

        r = nb_state_file_parse(&nb_handoff_file, data, len, &handoff, &f);
        FUZZ_CHECK_FAILURE(f, r);
        FUZZ_CHECK(f.code == NB_NONE || f.code == NB_HANDOFF_MALFORMED ||
                   f.code == NB_HANDOFF_UNTRUSTED);
        if (r < 0)
                return;
        FUZZ_CHECK(handoff.certificate[0]);
        FUZZ_CHECK(fuzz_is_printable(handoff.provenance.token_source) &&
                   fuzz_is_printable(handoff.provenance.csr));
        FUZZ_CHECK(nb_state_file_format(&nb_handoff_file, &handoff, &first) == 0);
        if (first.len > NB_HANDOFF_MAX)
                return;
        FUZZ_CHECK(nb_state_file_parse(&nb_handoff_file, first.data, first.len, &again, &f) == 0);
        FUZZ_CHECK(nb_state_file_format(&nb_handoff_file, &again, &second) == 0);
        FUZZ_CHECK(strcmp(first.data, second.data) == 0);
}
