/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One cmocka test for each row of a table, under the row's own sentence. A row begins with `const
 * char *name`. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/macro.h"

#define CASES_MAX 512

static struct CMUnitTest case_list[CASES_MAX];
static size_t n_cases;

static inline void case_add(const char *name, CMUnitTestFunction run, void *row) {
        if (n_cases == CASES_MAX)
                abort();
        case_list[n_cases++] = (struct CMUnitTest){ .name = name,
                                                    .test_func = run,
                                                    .initial_state = row };
}

/* `run` finds its row in *state. */
#define CASES(table, run) \
        for (size_t _i = 0; _i < N_ELEMENTS(table); _i++) \
        case_add((table)[_i].name, (run), &(table)[_i])

#define CASE(run) case_add(#run, (run), NULL)

static inline int case_run(const char *module) {
        return _cmocka_run_group_tests(module, case_list, n_cases, NULL, NULL);
}
