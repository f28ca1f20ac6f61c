/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"
#include "metadata/kernel_line.h"

void fuzz_one(const char *data, size_t len) {
        struct nb_platform platform = {};

        nb_kernel_line_parse(data, len, &platform);
        FUZZ_CHECK(strlen(platform.platform_id) < sizeof(platform.platform_id) &&
                   strlen(platform.data_source) < sizeof(platform.data_source));
        FUZZ_CHECK(fuzz_is_printable(platform.platform_id) &&
                   fuzz_is_printable(platform.data_source));
        FUZZ_CHECK(!platform.volume[0] && !platform.has_guestinfo);
}
