/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"
#include "state_files/handoff.h"

void fuzz_one(const char *data, size_t len) {
        _cleanup_(nb_buffer_done) struct nb_buffer first = NB_BUFFER_INIT(NB_HANDOFF_MAX),
                                                   second = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        _cleanup_(nb_record_done) struct nb_record record = {}, again = {};
        struct nb_failure f = {};
        int r;

        r = nb_state_file_parse(&nb_record_file, data, len, &record, &f);
        FUZZ_CHECK_FAILURE(f, r);
        if (r < 0)
                return;
        FUZZ_CHECK(record.n_pins <= NB_SETTINGS_PINS_MAX &&
                   record.n_hashes <= NB_SETTINGS_PINS_MAX);
        FUZZ_CHECK(fuzz_is_printable(record.provenance.token_source) &&
                   fuzz_is_printable(record.certificate) && fuzz_is_printable(record.server.host));
        FUZZ_CHECK(nb_state_file_format(&nb_record_file, &record, &first) == 0);
        FUZZ_CHECK(nb_state_file_parse(&nb_record_file, first.data, first.len, &again, &f) == 0);
        FUZZ_CHECK(nb_state_file_format(&nb_record_file, &again, &second) == 0);
        FUZZ_CHECK(strcmp(first.data, second.data) == 0);
}
