/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
        _cleanup_(nb_freep) char *copy = malloc(len);

        if (!copy && len > 0)
                abort();
        if (len > 0)
                memcpy(copy, data, len);
        fuzz_one(copy, len);
        return 0;
}
