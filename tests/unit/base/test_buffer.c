/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "base/macro.h"

static void grows_up_to_its_ceiling_and_not_above(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer buffer = NB_BUFFER_INIT(1000);
        char chunk[300];

        memset(chunk, 'x', sizeof(chunk));
        for (int i = 0; i < 3; i++)
                assert_int_equal(nb_buffer_append(&buffer, chunk, sizeof(chunk)), 0);
        assert_int_equal(nb_buffer_append(&buffer, chunk, 101), -E2BIG);
        assert_int_equal(buffer.len, 900);
        assert_int_equal(nb_buffer_append(&buffer, chunk, 100), 0);
        assert_int_equal(nb_buffer_append(&buffer, chunk, 1), -E2BIG);
        assert_int_equal(buffer.len, 1000);
        assert_int_equal(buffer.data[1000], '\0');
}

static void printf_past_the_ceiling_appends_nothing(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer buffer = NB_BUFFER_INIT(8);

        assert_int_equal(nb_buffer_printf(&buffer, "%s", "1234"), 0);
        assert_int_equal(nb_buffer_printf(&buffer, "%s", "56789"), -E2BIG);
        assert_string_equal(buffer.data, "1234");
        assert_int_equal(nb_buffer_printf(&buffer, "%d", 5678), 0);
        assert_string_equal(buffer.data, "12345678");
}

static void consume_keeps_what_follows(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer buffer = NB_BUFFER_INIT(64);

        assert_int_equal(nb_buffer_append_string(&buffer, "one\ntwo"), 0);
        nb_buffer_consume(&buffer, 4);
        assert_string_equal(buffer.data, "two");
        nb_buffer_consume(&buffer, 3);
        assert_int_equal(buffer.len, 0);
        nb_buffer_clear(&buffer);
        assert_int_equal(nb_buffer_append_string(&buffer, "three"), 0);
        assert_string_equal(buffer.data, "three");
}

static void an_empty_append_gives_an_empty_string(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer buffer = NB_BUFFER_INIT(0);

        assert_int_equal(nb_buffer_append(&buffer, NULL, 0), 0);
        assert_string_equal(buffer.data, "");
        assert_int_equal(nb_buffer_append(&buffer, "x", 1), -E2BIG);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(grows_up_to_its_ceiling_and_not_above),
                cmocka_unit_test(printf_past_the_ceiling_appends_nothing),
                cmocka_unit_test(consume_keeps_what_follows),
                cmocka_unit_test(an_empty_append_gives_an_empty_string),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
