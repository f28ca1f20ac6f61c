/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/macro.h"
#include "stage/retry.h"

#define LONGEST 1023 /* the random value that gives the whole delay */

struct step {
        enum nb_code code;
        uint64_t now_ms;
        enum nb_retry_verdict verdict;
        uint64_t due_ms;
        bool is_new;
};

static void run(const char *name, uint64_t deadline_ms, uint32_t retry_after_ms, const struct step *steps, size_t n) {
        struct nb_retry retry = { 0 };

        for (size_t i = 0; i < n; i++) {
                struct nb_failure f = { .code = steps[i].code, .retry_after_ms = retry_after_ms };
                uint64_t due_ms = 0;
                bool is_new;
                enum nb_retry_verdict verdict =
                        nb_retry_next(&retry, &f, steps[i].now_ms, deadline_ms, LONGEST, &due_ms, &is_new);

                if (verdict != steps[i].verdict || due_ms != steps[i].due_ms || is_new != steps[i].is_new)
                        fail_msg("%s, step %zu: verdict %d, due %llu, new %d", name, i, (int)verdict, (unsigned long long)due_ms, is_new);
        }
}

#define RUN(name, deadline, server_delay, ...) \
        do { \
                const struct step steps[] = { __VA_ARGS__ }; \
                run(name, deadline, server_delay, steps, N_ELEMENTS(steps)); \
        } while (0)

static void classes_and_deadlines(void **state) {
        RUN("wait goes on without a deadline", NB_TIME_INFINITE, 0,
            { NB_ENDPOINT_UNREACHABLE, 1000, NB_RETRY_AGAIN, 1200, true },
            { NB_ENDPOINT_UNREACHABLE, 1200, NB_RETRY_AGAIN, 1600, false },
            { NB_TOKEN_UNKNOWN, 99999999, NB_RETRY_AGAIN, 99999999 + 800, true });
        RUN("the last attempt is made at the deadline", 1300, 0,
            { NB_TOKEN_UNKNOWN, 1000, NB_RETRY_AGAIN, 1200, true },
            { NB_TOKEN_UNKNOWN, 1200, NB_RETRY_AGAIN, 1300, false },
            { NB_TOKEN_UNKNOWN, 1300, NB_RETRY_OVER, 0, false });
        RUN("confirm ends after half a minute", NB_TIME_INFINITE, 0,
            { NB_SIGNATURE_INVALID, 1000, NB_RETRY_AGAIN, 1200, true },
            { NB_SIGNATURE_INVALID, 30900, NB_RETRY_AGAIN, 31000, false },
            { NB_SIGNATURE_INVALID, 31000, NB_RETRY_OVER, 0, false });
        RUN("a refusal hours after the last one is looked into again", NB_TIME_INFINITE, 0,
            { NB_CSR_FORBIDDEN, 1000, NB_RETRY_AGAIN, 1200, true },
            { NB_CSR_FORBIDDEN, 9000000, NB_RETRY_AGAIN, 9000400, true },
            { NB_CSR_FORBIDDEN, 9030000, NB_RETRY_OVER, 0, false });
        RUN("another reason to confirm does not begin anew", NB_TIME_INFINITE, 0,
            { NB_SIGNATURE_INVALID, 1000, NB_RETRY_AGAIN, 1200, true },
            { NB_TLS_UNTRUSTED, 31000, NB_RETRY_OVER, 0, true });
        RUN("a reason to wait in between does", NB_TIME_INFINITE, 0,
            { NB_SIGNATURE_INVALID, 1000, NB_RETRY_AGAIN, 1200, true },
            { NB_SERVER_ERROR, 30000, NB_RETRY_AGAIN, 30400, true },
            { NB_SIGNATURE_INVALID, 40000, NB_RETRY_AGAIN, 40800, false });
        RUN("reasons that take turns are told once each", NB_TIME_INFINITE, 0,
            { NB_SERVER_ERROR, 1000, NB_RETRY_AGAIN, 1200, true },
            { NB_CLUSTER_INFO_MISSING, 1200, NB_RETRY_AGAIN, 1600, true },
            { NB_SERVER_ERROR, 1600, NB_RETRY_AGAIN, 2400, false },
            { NB_CLUSTER_INFO_MISSING, 2400, NB_RETRY_AGAIN, 4000, false });
        RUN("fatal is over at once", NB_TIME_INFINITE, 0, { NB_CA_PIN_MISMATCH, 1000, NB_RETRY_OVER, 0, true });
        RUN("what the server asks for is a floor", NB_TIME_INFINITE, 7000, { NB_SERVER_ERROR, 1000, NB_RETRY_AGAIN, 8000, true });
        RUN("and does not outlast the deadline", 5000, 7000, { NB_SERVER_ERROR, 1000, NB_RETRY_AGAIN, 5000, true });
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(classes_and_deadlines),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
