/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "case.h"
#include "join/retry.h"
#include "os/clock.h"

#define ATTEMPTS_MAX 8
#define NO_DEADLINE UINT64_MAX

/* The result of each attempt; NB_NONE: the metadata is read. */
struct wait_case {
        const char *name;
        enum nb_code outcomes[ATTEMPTS_MAX];
        unsigned n_attempts;
        enum nb_code code;
        bool is_deadline_over; /* at the first attempt already */
        const char *detail;    /* how it ends */
        bool is_unverified, is_rehearsal;
};

static struct wait_case waits[] = {
        { "at the first attempt", { NB_NONE }, 1, NB_NONE },
        { "nobody answered at first",
          { NB_METADATA_UNREACHABLE, NB_METADATA_UNREACHABLE, NB_NONE },
          3,
          NB_NONE },
        { "refused", { NB_METADATA_REFUSED }, 1, NB_METADATA_REFUSED, false, "attempt 1" },
        { "refused after a while",
          { NB_METADATA_UNREACHABLE, NB_METADATA_REFUSED },
          2,
          NB_METADATA_REFUSED,
          false,
          "attempt 2" },
        { "malformed", { NB_METADATA_MALFORMED }, 1, NB_METADATA_MALFORMED, false, "attempt 1" },
        { "nobody answered until the deadline",
          { NB_METADATA_UNREACHABLE },
          1,
          NB_METADATA_UNREACHABLE,
          true,
          "attempt 1; gave up after 5 s (timeout)" },
        { "malformed, by anybody",
          { NB_METADATA_MALFORMED, NB_METADATA_REFUSED, NB_NONE },
          3,
          NB_NONE,
          .is_unverified = true },
        { "malformed until the deadline, by anybody",
          { NB_METADATA_MALFORMED },
          1,
          NB_METADATA_MALFORMED,
          true,
          "attempt 1; gave up after 5 s (timeout)",
          .is_unverified = true },
        { "malformed, by anybody, in a rehearsal",
          { NB_METADATA_MALFORMED },
          1,
          NB_METADATA_MALFORMED,
          .is_unverified = true,
          .is_rehearsal = true },
        { "nobody answered at first in a rehearsal",
          { NB_METADATA_UNREACHABLE, NB_NONE },
          2,
          NB_NONE,
          .is_rehearsal = true },
};

static const struct wait_case *current;
static unsigned n_attempts;

static int run(void *userdata, struct nb_failure *f) {
        enum nb_code outcome;

        assert_true(n_attempts < current->n_attempts);
        assert_ptr_equal(userdata, &n_attempts);
        assert_int_equal(f->code, NB_NONE);
        outcome = current->outcomes[n_attempts++];
        if (outcome == NB_NONE)
                return 0;
        f->is_unverified = current->is_unverified;
        return nb_failure_set(f, outcome, EIO, "attempt %u", n_attempts);
}

static void repeats_attempts(void **state) {
        struct nb_failure f = { 0 };
        uint64_t deadline_ms;
        int r;

        current = *state;
        n_attempts = 0;
        deadline_ms = current->is_deadline_over ? nb_now_ms() : NO_DEADLINE;
        if (current->is_rehearsal)
                r = nb_retry_run(&(struct nb_retry_loop){ .retry = { NB_RETRY_STAGE, deadline_ms },
                                                          .attempt = run,
                                                          .userdata = &n_attempts,
                                                          .is_rehearsal = true },
                                 &f);
        else
                r = nb_retry_until(NB_RETRY_STAGE, deadline_ms, run, &n_attempts, &f);
        nb_retry_given_up(deadline_ms, 5000, "timeout", &f);
        assert_int_equal(n_attempts, current->n_attempts);
        assert_int_equal(f.code, current->code);
        assert_int_equal(r < 0, current->code != NB_NONE);
        if (current->detail)
                assert_string_equal(f.detail, current->detail);
}

/* The first attempt does not wait, and nobody waits past the deadline. */
static void waits_before_a_retry(void **state) {
        uint64_t begin_ms = nb_now_ms();

        assert_int_equal(nb_retry_wait(NB_RETRY_POLL, 0, NO_DEADLINE), 0);
        assert_int_equal(nb_retry_wait(NB_RETRY_POLL, 0, begin_ms), 1);
        assert_true(nb_now_ms() < begin_ms + 200);
        begin_ms = nb_now_ms();
        assert_int_equal(nb_retry_wait(NB_RETRY_STAGE, 1, NO_DEADLINE), 0);
        assert_true(nb_now_ms() > begin_ms);
        begin_ms = nb_now_ms();
        assert_int_equal(nb_retry_wait(NB_RETRY_RESUBMIT, 9, begin_ms + 30), 1);
        assert_in_range(nb_now_ms() - begin_ms, 29, 5000);
}

int main(void) {
        CASES(waits, repeats_attempts);
        CASE(waits_before_a_retry);
        return case_run("retry loop");
}
