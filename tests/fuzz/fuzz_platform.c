/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"
#include "state_files/platform_note.h"

void fuzz_one(const char *data, size_t len) {
        _cleanup_(nb_buffer_done) struct nb_buffer first = NB_BUFFER_INIT(NB_PLATFORM_NOTE_MAX),
                                                   second = NB_BUFFER_INIT(NB_PLATFORM_NOTE_MAX);
        struct nb_platform platform = {}, again = {};
        struct nb_failure f = {};
        int r;

        r = nb_state_file_parse(&nb_platform_file, data, len, &platform, &f);
        FUZZ_CHECK_FAILURE(f, r);
        if (r < 0)
                return;
        FUZZ_CHECK(fuzz_is_printable(platform.platform_id) &&
                   fuzz_is_printable(platform.data_source));
        FUZZ_CHECK(nb_state_file_format(&nb_platform_file, &platform, &first) == 0);
        FUZZ_CHECK(nb_state_file_parse(&nb_platform_file, first.data, first.len, &again, &f) == 0);
        FUZZ_CHECK(nb_state_file_format(&nb_platform_file, &again, &second) == 0);
        FUZZ_CHECK(strcmp(first.data, second.data) == 0);
}
