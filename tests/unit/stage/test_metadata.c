/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "case.h"
#include "stage/metadata.h"

#define ATTEMPTS_MAX 8
#define NO_DEADLINE UINT64_MAX

/* What each attempt comes to; NB_NONE: it is read. */
struct wait_case {
        const char *name;
        enum nb_code outcomes[ATTEMPTS_MAX];
        unsigned n_attempts;
        enum nb_code code;
        bool is_deadline_over; /* at the first attempt already */
        const char *detail;    /* how it ends */
};

static struct wait_case waits[] = {
        { "at the first attempt", { NB_NONE }, 1, NB_NONE },
        { "nobody answered at first", { NB_METADATA_UNREACHABLE, NB_METADATA_UNREACHABLE, NB_NONE }, 3, NB_NONE },
        { "refused", { NB_METADATA_REFUSED }, 1, NB_METADATA_REFUSED, false, "attempt 1" },
        { "refused after a while", { NB_METADATA_UNREACHABLE, NB_METADATA_REFUSED }, 2, NB_METADATA_REFUSED, false, "attempt 2" },
        { "malformed", { NB_METADATA_MALFORMED }, 1, NB_METADATA_MALFORMED, false, "attempt 1" },
        { "nobody answered until the deadline", { NB_METADATA_UNREACHABLE }, 1, NB_METADATA_UNREACHABLE, true, "attempt 1; gave up after 5 s (timeout)" },
};

static const struct wait_case *current;
static unsigned n_attempts;
static uint64_t deadline_ms;

int __wrap_nb_cloud_read(const struct nb_cloud_request *request, struct nb_metadata *ret_metadata, struct nb_failure *f);
int __wrap_nb_cloud_read(const struct nb_cloud_request *request, struct nb_metadata *ret_metadata, struct nb_failure *f) {
        enum nb_code outcome;

        assert_true(n_attempts < current->n_attempts);
        assert_int_equal(request->provider, NB_PROVIDER_AWS);
        assert_true(request->wants_node_name);
        assert_false(request->is_patience_over);
        assert_int_equal(request->until_ms, deadline_ms);
        assert_int_equal(f->code, NB_NONE);
        outcome = current->outcomes[n_attempts++];
        if (outcome != NB_NONE)
                return nb_failure_set(f, outcome, EIO, "attempt %u", n_attempts);
        *ret_metadata = (struct nb_metadata)NB_METADATA_INIT;
        ret_metadata->provider = request->provider;
        return 0;
}

static void waits_for_metadata(void **state) {
        const struct nb_cloud_request request = { .provider = NB_PROVIDER_AWS, .wants_node_name = true };
        struct nb_metadata metadata = NB_METADATA_INIT;
        struct nb_failure f = { 0 };
        int r;

        current = *state;
        n_attempts = 0;
        deadline_ms = current->is_deadline_over ? nb_now_ms() : NO_DEADLINE;
        r = nb_metadata_wait(&request, deadline_ms, &metadata, &f);
        nb_metadata_add_limit(deadline_ms, 5000, "timeout", &f);
        assert_int_equal(n_attempts, current->n_attempts);
        assert_int_equal(f.code, current->code);
        assert_int_equal(r < 0, current->code != NB_NONE);
        assert_int_equal(metadata.provider, r < 0 ? NB_PROVIDER_NONE : NB_PROVIDER_AWS);
        if (current->detail)
                assert_string_equal(f.detail, current->detail);
}

int main(void) {
        CASES(waits, waits_for_metadata);
        return case_run("stage metadata");
}
