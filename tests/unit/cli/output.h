/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a function prints on standard output. */

#include <stdio.h>
#include <unistd.h>

#include "case.h"

static FILE *output_file;
static int output_before;

static inline void output_begin(void) {
        (void)fflush(stdout);
        output_file = tmpfile();
        output_before = dup(STDOUT_FILENO);
        assert_non_null(output_file);
        assert_true(dup2(fileno(output_file), STDOUT_FILENO) >= 0);
}

static inline const char *output_end(void) {
        static char text[64 * 1024];

        (void)fflush(stdout);
        assert_true(dup2(output_before, STDOUT_FILENO) >= 0);
        (void)close(output_before);
        rewind(output_file);
        text[fread(text, 1, sizeof(text) - 1, output_file)] = '\0';
        (void)fclose(output_file);
        return text;
}
