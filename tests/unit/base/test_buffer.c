/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "base/macro.h"

static const void *watched;
static size_t watched_size;
static bool was_zero;

/* The linker's --wrap: what the memory contains when it is freed. */
void __real_free(void *data);
void __wrap_free(void *data);
void __wrap_free(void *data) {
        if (data && data == watched) {
                was_zero = true;
                for (size_t i = 0; i < watched_size; i++)
                        was_zero = was_zero && ((const char *)data)[i] == '\0';
        }
        __real_free(data);
}

static void grows_up_to_its_ceiling_and_not_above(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer buffer = NB_BUFFER_INIT(1000);
        char chunk[300];

        memset(chunk, 'x', sizeof(chunk));
        for (int i = 0; i < 3; i++)
                nb_buffer_append(&buffer, chunk, sizeof(chunk));
        nb_buffer_append(&buffer, chunk, 100);
        assert_int_equal(buffer.error, 0);
        nb_buffer_append(&buffer, chunk, 1);
        assert_int_equal(buffer.error, -E2BIG);
        assert_int_equal(buffer.len, 1000);
        assert_int_equal(buffer.data[1000], '\0');
}

static void printf_past_the_ceiling_appends_nothing(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer buffer = NB_BUFFER_INIT(8);

        nb_buffer_printf(&buffer, "%s", "1234");
        nb_buffer_printf(&buffer, "%s", "56789");
        assert_int_equal(buffer.error, -E2BIG);
        assert_string_equal(buffer.data, "1234");
}

static void after_a_failure_nothing_is_appended(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer buffer = NB_BUFFER_INIT(8);

        nb_buffer_append_string(&buffer, "1234");
        nb_buffer_append_string(&buffer, "56789");
        nb_buffer_append_string(&buffer, "5");
        nb_buffer_printf(&buffer, "%d", 6);
        assert_int_equal(buffer.error, -E2BIG);
        assert_string_equal(buffer.data, "1234");
        nb_buffer_clear(&buffer);
        nb_buffer_append_string(&buffer, "5");
        assert_int_equal(buffer.error, 0);
        assert_string_equal(buffer.data, "5");
}

static void consume_keeps_what_follows(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer buffer = NB_BUFFER_INIT(64);

        nb_buffer_append_string(&buffer, "one\ntwo");
        nb_buffer_consume(&buffer, 4);
        assert_string_equal(buffer.data, "two");
        nb_buffer_consume(&buffer, 3);
        assert_int_equal(buffer.len, 0);
        nb_buffer_clear(&buffer);
        nb_buffer_append_string(&buffer, "three");
        assert_string_equal(buffer.data, "three");
}

static void an_empty_append_gives_an_empty_string(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer buffer = NB_BUFFER_INIT(0);

        nb_buffer_append(&buffer, NULL, 0);
        assert_string_equal(buffer.data, "");
        assert_int_equal(buffer.error, 0);
        nb_buffer_append(&buffer, "x", 1);
        assert_int_equal(buffer.error, -E2BIG);
}

/* Also what is behind its end since it was cut. */
static void a_wiped_buffer_leaves_no_secret(void **state) {
        struct nb_buffer buffer = NB_BUFFER_INIT(64);

        nb_buffer_append_string(&buffer, "sword,fish");
        nb_buffer_consume(&buffer, 6);
        watched = buffer.data;
        watched_size = buffer.allocated;
        nb_buffer_wipe(&buffer);
        watched = NULL;
        assert_true(was_zero);
        assert_null(buffer.data);
        assert_int_equal(buffer.len, 0);
        nb_buffer_wipe(&buffer);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(grows_up_to_its_ceiling_and_not_above),
                cmocka_unit_test(printf_past_the_ceiling_appends_nothing),
                cmocka_unit_test(after_a_failure_nothing_is_appended),
                cmocka_unit_test(consume_keeps_what_follows),
                cmocka_unit_test(an_empty_append_gives_an_empty_string),
                cmocka_unit_test(a_wiped_buffer_leaves_no_secret),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
