/* SPDX-License-Identifier: Apache-2.0 */
#include "format/handoff.h"
#include "fuzz.h"

void fuzz_one(const char *data, size_t len) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        struct nb_inspection inspection = {}, again = {};
        struct nb_failure f = {};
        int r;

        r = nb_inspection_parse(data, len, &inspection, &f);
        FUZZ_CHECK_FAILURE(f, r);
        if (r < 0)
                return;
        FUZZ_CHECK(fuzz_is_printable(inspection.detail) && fuzz_is_printable(inspection.not_after));
        FUZZ_CHECK(nb_inspection_format(&inspection, &text) == 0);
        FUZZ_CHECK(nb_inspection_parse(text.data, text.len, &again, &f) == 0);
        FUZZ_CHECK(inspection.verdict == again.verdict && inspection.fallback == again.fallback && inspection.verify_access == again.verify_access);
        FUZZ_CHECK(strcmp(inspection.node, again.node) == 0 && strcmp(inspection.detail, again.detail) == 0);
}
