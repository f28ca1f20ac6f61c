/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/macro.h"
#include "base/secret.h"

static void holds_up_to_its_size(void **state) {
        _cleanup_(nb_secret_done) struct nb_secret secret = NB_SECRET_INIT;

        assert_int_equal(nb_secret_init(&secret, 6), 0);
        assert_int_equal(nb_secret_append(&secret, "abc", 3), 0);
        assert_int_equal(nb_secret_append(&secret, "defg", 4), -E2BIG);
        assert_int_equal(nb_secret_append(&secret, "def", 3), 0);
        assert_string_equal(secret.data, "abcdef");
}

static void is_empty_when_done_and_may_be_done_twice(void **state) {
        struct nb_secret secret = NB_SECRET_INIT;

        nb_secret_done(&secret);
        assert_int_equal(nb_secret_init(&secret, 5000), 0);
        nb_secret_done(&secret);
        assert_null(secret.data);
        assert_int_equal(secret.len, 0);
        nb_secret_done(&secret);
}

static void a_forked_child_finds_zeroes(void **state) {
        _cleanup_(nb_secret_done) struct nb_secret secret = NB_SECRET_INIT;
        int status;
        pid_t child;

        assert_int_equal(nb_secret_init(&secret, 16), 0);
        assert_int_equal(nb_secret_append(&secret, "swordfish", 9), 0);
        child = fork();
        if (child == 0)
                _exit(secret.data[0] == '\0' ? 0 : 1);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
        assert_string_equal(secret.data, "swordfish");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(holds_up_to_its_size),
                cmocka_unit_test(is_empty_when_done_and_may_be_done_twice),
                cmocka_unit_test(a_forked_child_finds_zeroes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
