/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/macro.h"
#include "http/http.h"
#include "join/retry.h"
#include "os/clock.h"

#define LONGEST_MS 5000
#define LONGEST 1023 /* the random value that gives the whole delay */

struct step {
        enum nb_code code;
        uint64_t now_ms;
        bool is_repeated;
        uint64_t due_ms;
        bool is_new;
};

static void run(const char *name, uint64_t deadline_ms, uint32_t retry_after_ms,
                const struct step *steps, size_t n) {
        struct nb_retry retry = { .policy = NB_RETRY_STAGE, .deadline_ms = deadline_ms };

        for (size_t i = 0; i < n; i++) {
                struct nb_failure f = { .code = steps[i].code, .retry_after_ms = retry_after_ms };
                bool is_repeated = nb_retry_next(&retry, &f, steps[i].now_ms, LONGEST);

                if (is_repeated != steps[i].is_repeated || retry.is_new != steps[i].is_new ||
                    (is_repeated && retry.due_ms != steps[i].due_ms))
                        fail_msg("%s, step %zu: repeated %d, due %llu, new %d", name, i,
                                 is_repeated, (unsigned long long)retry.due_ms, retry.is_new);
        }
}

#define RUN(name, deadline, server_delay, ...) \
        do { \
                const struct step steps[] = { __VA_ARGS__ }; \
                run(name, deadline, server_delay, steps, N_ELEMENTS(steps)); \
        } while (0)

static void classes_and_deadlines(void **state) {
        RUN("wait goes on without a deadline", NB_TIME_INFINITE, 0,
            { NB_ENDPOINT_UNREACHABLE, 1000, true, 1200, true },
            { NB_ENDPOINT_UNREACHABLE, 1200, true, 1600, false },
            { NB_TOKEN_UNKNOWN, 99999999, true, 99999999 + 800, true });
        RUN("the last attempt is made at the deadline", 1300, 0,
            { NB_TOKEN_UNKNOWN, 1000, true, 1200, true },
            { NB_TOKEN_UNKNOWN, 1200, true, 1300, false },
            { NB_TOKEN_UNKNOWN, 1300, false, 0, false });
        RUN("confirm ends after half a minute", NB_TIME_INFINITE, 0,
            { NB_TOKEN_REJECTED, 1000, true, 1200, true },
            { NB_TOKEN_REJECTED, 30900, true, 31000, false },
            { NB_TOKEN_REJECTED, 31000, false, 0, false });
        RUN("a refusal hours after the last one is confirmed again", NB_TIME_INFINITE, 0,
            { NB_CSR_FORBIDDEN, 1000, true, 1200, true },
            { NB_CSR_FORBIDDEN, 9000000, true, 9000400, true },
            { NB_CSR_FORBIDDEN, 9030000, false, 0, false });
        RUN("another reason to confirm does not start over", NB_TIME_INFINITE, 0,
            { NB_TOKEN_REJECTED, 1000, true, 1200, true },
            { NB_CSR_FORBIDDEN, 31000, false, 0, true });
        RUN("a refusal after minutes of waiting for a name is confirmed", NB_TIME_INFINITE, 0,
            { NB_NODE_NAME_TAKEN, 1000, true, 1200, true },
            { NB_NODE_NAME_TAKEN, 30000, true, 30400, false },
            { NB_TOKEN_REJECTED, 40000, true, 40800, true },
            { NB_TOKEN_REJECTED, 70000, false, 0, false });
        RUN("nor does it start over the wait for the name", NB_TIME_INFINITE, 0,
            { NB_NODE_NAME_TAKEN, 1000, true, 1200, true },
            { NB_TOKEN_REJECTED, 30000, true, 30400, true },
            { NB_NODE_NAME_TAKEN, 60000, true, 60800, false },
            { NB_NODE_NAME_TAKEN, 89000, true, 90600, false },
            { NB_NODE_NAME_TAKEN, 119000, true, 122200, false },
            { NB_NODE_NAME_TAKEN, 150000, true, 155000, false },
            { NB_NODE_NAME_TAKEN, 180000, true, 185000, false },
            { NB_NODE_NAME_TAKEN, 210000, true, 215000, false },
            { NB_NODE_NAME_TAKEN, 240000, true, 245000, false },
            { NB_NODE_NAME_TAKEN, 270000, true, 275000, false },
            { NB_NODE_NAME_TAKEN, 301000, false, 0, false });
        RUN("a reason to wait in between starts over", NB_TIME_INFINITE, 0,
            { NB_TOKEN_REJECTED, 1000, true, 1200, true },
            { NB_SERVER_ERROR, 30000, true, 30400, true },
            { NB_TOKEN_REJECTED, 40000, true, 40800, false });
        RUN("alternating reasons are reported once each", NB_TIME_INFINITE, 0,
            { NB_SERVER_ERROR, 1000, true, 1200, true },
            { NB_CLUSTER_INFO_MISSING, 1200, true, 1600, true },
            { NB_SERVER_ERROR, 1600, true, 2400, false },
            { NB_CLUSTER_INFO_MISSING, 2400, true, 4000, false });
        RUN("fatal is over at once", NB_TIME_INFINITE, 0,
            { NB_CA_PIN_MISMATCH, 1000, false, 0, true });
        RUN("not before Retry-After", NB_TIME_INFINITE, 7000,
            { NB_SERVER_ERROR, 1000, true, 8000, true });
        RUN("Retry-After ends at the deadline", 5000, 7000,
            { NB_SERVER_ERROR, 1000, true, 5000, true });
}

/* A Node has five minutes to become not Ready, also after another reason to confirm. */
static void taken_name(void **state) {
        static const enum nb_code first[] = { NB_NODE_NAME_TAKEN, NB_TOKEN_REJECTED };

        for (size_t i = 0; i < N_ELEMENTS(first); i++) {
                struct nb_retry retry = { .policy = NB_RETRY_STAGE,
                                          .deadline_ms = NB_TIME_INFINITE };
                struct nb_failure f = { .code = first[i] };
                uint64_t now_ms = 1000;

                while (nb_retry_next(&retry, &f, now_ms, LONGEST)) {
                        now_ms = retry.due_ms;
                        f.code = NB_NODE_NAME_TAKEN;
                }
                assert_int_equal(now_ms, 1000 + 300000);
        }
}

/* A failure from an unverified peer is repeated until the deadline, whatever its class. */
static void unverified_peers(void **state) {
        for (int code = NB_NONE + 1; code < _NB_CODE_N; code++) {
                struct nb_failure f = { .code = (enum nb_code)code, .is_unverified = true };
                struct nb_retry retry = { .policy = NB_RETRY_STAGE,
                                          .deadline_ms = NB_TIME_INFINITE };
                uint64_t now_ms = 1000;

                for (unsigned i = 0; i < 100; i++) {
                        assert_true(nb_retry_next(&retry, &f, now_ms, LONGEST));
                        assert_true(retry.due_ms > now_ms && retry.due_ms <= now_ms + LONGEST_MS);
                        assert_int_equal(retry.is_new, i == 0);
                        now_ms = retry.due_ms;
                }
                retry.deadline_ms = now_ms;
                assert_false(nb_retry_next(&retry, &f, now_ms, LONGEST));
        }
}

/* An attempt that the deadline cuts short, of an endpoint or of the metadata, does not replace the
 * failure before it. */
/* As a failure of the TPM that is fatal otherwise. */
static void busy_device(void **state) {
        const struct nb_failure f = { .code = NB_TPM_ERROR, .is_temporary = true };
        struct nb_retry retry = { .policy = NB_RETRY_STAGE, .deadline_ms = NB_TIME_INFINITE };
        uint64_t now = 1000;

        for (int i = 0; i < 100; i++) {
                assert_true(nb_retry_next(&retry, &f, now, LONGEST));
                assert_true(retry.due_ms <= now + 60000);
                now = retry.due_ms;
        }
        assert_true(nb_retry_next(&retry, &f, now, LONGEST));
        assert_int_equal(retry.due_ms, now + 60000);
}

static void last_word(void **state) {
        static const enum nb_code cut_short[] = { NB_ENDPOINT_UNREACHABLE,
                                                  NB_METADATA_UNREACHABLE };
        const struct nb_failure none = { .code = NB_NONE }, before = { .code = NB_TOKEN_MISSING };

        for (size_t i = 0; i < N_ELEMENTS(cut_short); i++) {
                struct nb_failure f = { .code = cut_short[i], .is_cut_short = true };

                nb_retry_last_word(&none, &f);
                assert_int_equal(f.code, cut_short[i]);
                nb_retry_last_word(&before, &f);
                assert_int_equal(f.code, NB_TOKEN_MISSING);
                f = (struct nb_failure){ .code = cut_short[i], .errnum = ETIMEDOUT };
                nb_retry_last_word(&before, &f);
                assert_int_equal(f.code, cut_short[i]);
                f = (struct nb_failure){ .code = NB_CLOCK_WRONG, .errnum = ETIME };
                nb_retry_last_word(&before, &f);
                assert_int_equal(f.code, NB_CLOCK_WRONG);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(classes_and_deadlines),
                cmocka_unit_test(taken_name),
                cmocka_unit_test(unverified_peers),
                cmocka_unit_test(busy_device),
                cmocka_unit_test(last_word),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
