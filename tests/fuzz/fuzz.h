/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A target is one function that gets bytes and checks what has to hold for any bytes. With
 * -Dfuzz=true it becomes a libFuzzer program, otherwise a test that replays corpus/<target>/.
 */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"

/* `data` is a block of exactly `len` bytes, so that the address sanitizer sees any byte read past
 * it. */
void fuzz_one(const char *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define FUZZ_CHECK(condition) \
        do { \
                if (!(condition)) { \
                        (void)fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, \
                                      #condition); \
                        abort(); \
                } \
        } while (0)

/* What a refused document leaves behind: a code, and a sentence that is fit for a terminal. */
#define FUZZ_CHECK_FAILURE(f, r) \
        do { \
                FUZZ_CHECK(((r) < 0) == ((f).code != NB_NONE)); \
                FUZZ_CHECK(fuzz_is_printable((f).detail)); \
                FUZZ_CHECK(((r) < 0) == ((f).detail[0] != '\0')); \
        } while (0)

static inline int fuzz_is_printable(const char *text) {
        for (const char *p = text; *p; p++)
                if ((unsigned char)*p < 0x20 || *p == 0x7f)
                        return 0;
        return 1;
}
