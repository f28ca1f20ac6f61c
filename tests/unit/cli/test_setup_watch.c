/* SPDX-License-Identifier: Apache-2.0 */
#include "base/macro.h"
#include "case.h"
#include "cli/setup/setup_internal.h"

#define LONG NB_SETUP_REASON_LOOKS

/* Reasons, each in so many looks, and what is printed. */
static void reasons_are_printed(_unused_ void **state) {
        static const struct {
                enum nb_code code;
                const char *detail;
                unsigned n_looks, due; /* at this look, from 1; 0: never */
                const char *csr;       /* NULL: none */
        } rows[] = {
                { NB_ENDPOINT_UNREACHABLE, "a", 2 * LONG, 1 },
                { NB_TOKEN_UNKNOWN, "b", 1, 1 },
                /* They alternate. */
                { NB_ENDPOINT_UNREACHABLE, "a", LONG - 1, 0 },
                { NB_TOKEN_UNKNOWN, "b", LONG - 1, 0 },
                { NB_ENDPOINT_UNREACHABLE, "a", LONG - 1, 0 },
                { NB_NONE, "", 1, 0 },
                { NB_ENDPOINT_UNREACHABLE, "a", LONG - 1, 0 },
                /* What was printed is wrong by now. */
                { NB_TOKEN_UNKNOWN, "b", 2 * LONG, 0 },
                { NB_ENDPOINT_UNREACHABLE, "a", 3 * LONG, LONG },
                { NB_ENDPOINT_UNREACHABLE, "c", 3 * LONG, LONG },
                { NB_ENDPOINT_UNREACHABLE, "a", LONG - 1, 0 },
                { NB_ENDPOINT_UNREACHABLE, "c", 3 * LONG, 0 },
                { NB_TOKEN_UNKNOWN, "b", LONG, LONG },
                { NB_NONE, "", 2 * LONG, 0 },
                /* The first CSR, and another one after it was deleted. */
                { NB_CSR_PENDING, "d", 2, 1, "node-csr-a" },
                { NB_ENDPOINT_UNREACHABLE, "c", 2, 1 },
                { NB_CSR_PENDING, "d", 2, 0, "node-csr-a" },
                { NB_CSR_PENDING, "e", 2, 1, "node-csr-b" },
                { NB_ENDPOINT_UNREACHABLE, "c", 2, 1, "node-csr-b" },
                { NB_CSR_PENDING, "e", 2, 0, "node-csr-b" },
        };
        struct nb_setup_reasons reasons = { 0 };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                for (unsigned look = 1; look <= rows[i].n_looks; look++)
                        if (nb_setup_reason_is_due(&reasons, rows[i].code, rows[i].detail,
                                                   rows[i].csr ? rows[i].csr : "") !=
                            (look == rows[i].due))
                                fail_msg("row %zu, look %u", i, look);
}

int main(void) {
        CASE(reasons_are_printed);
        return case_run("setup watch");
}
