/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/macro.h"
#include "os/sources.h"

/* poll(2) fails if it gets more descriptors than the process may open. */
static void stream_that_cannot_be_awaited(void **state) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        struct pollfd two[] = { { .fd = -1 }, { .fd = -1 } };
        struct rlimit before, one;
        struct nb_failure f = { 0 };
        bool is_limited;
        int r = 0;

        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        one = (struct rlimit){ 1, before.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &one), 0);
        /* valgrind emulates this limit: the kernel does not know it. */
        is_limited = poll(two, N_ELEMENTS(two), 0) < 0;
        (void)alarm(60);
        if (is_limited)
                r = nb_sources_read_stream(STDIN_FILENO, "a test", 16, &text, &f);
        (void)alarm(0);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_int_equal(r, is_limited ? -EINVAL : 0);
        assert_int_equal(f.code, is_limited ? NB_INTERNAL : NB_NONE);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(stream_that_cannot_be_awaited),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
