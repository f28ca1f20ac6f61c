/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "admin/client/records.h"
#include "base/macro.h"

#define N_RECORDS 300

struct counted {
        struct nb_record record;
        unsigned number;
};

static struct nb_records list;
static unsigned n_drops[N_RECORDS];

static const char *key_of(size_t i) {
        static char key[16];

        snprintf(key, sizeof(key), "node%zu", i);
        return key;
}

/* Adds them in an order that is not sorted. */
static int fill(_unused_ void **state) {
        for (size_t i = 0; i < N_RECORDS; i++) {
                const size_t number = i * 7 % N_RECORDS;
                struct counted *entry = nb_records_put(&list, key_of(number), sizeof(*entry));

                assert_non_null(entry);
                assert_int_equal(entry->number, 0);
                assert_string_equal(entry->record.key, key_of(number));
                entry->number = (unsigned)number;
        }
        memset(n_drops, 0, sizeof(n_drops));
        return 0;
}

static int empty(_unused_ void **state) {
        nb_records_done(&list);
        return 0;
}

static void finds_each_record_and_no_other(_unused_ void **state) {
        for (size_t i = 0; i < N_RECORDS; i++) {
                struct counted *entry = nb_records_find(&list, key_of(i));

                assert_non_null(entry);
                assert_int_equal(entry->number, i);
                assert_ptr_equal(nb_records_put(&list, key_of(i), sizeof(*entry)), entry);
        }
        assert_int_equal(list.n, N_RECORDS);
        assert_null(nb_records_find(&list, ""));
        assert_null(nb_records_find(&list, "node"));
        assert_null(nb_records_find(&list, "zone"));
}

static void keeps_the_others_when_one_is_removed(_unused_ void **state) {
        nb_records_drop(&list, nb_records_find(&list, key_of(17)));
        assert_int_equal(list.n, N_RECORDS - 1);
        for (size_t i = 0; i < N_RECORDS; i++)
                assert_int_equal(nb_records_find(&list, key_of(i)) != NULL, i != 17);
}

static void drop(void *userdata, struct nb_record *record) {
        assert_ptr_equal(userdata, &list);
        n_drops[((struct counted *)record)->number]++;
        nb_records_drop(&list, record);
}

static void sweeps_what_a_new_list_does_not_have(_unused_ void **state) {
        nb_records_list(&list, false, drop, &list);
        for (size_t i = 0; i < N_RECORDS; i += 3)
                assert_non_null(nb_records_put(&list, key_of(i), sizeof(struct counted)));
        nb_records_list(&list, true, drop, &list);
        for (size_t i = 0; i < N_RECORDS; i++) {
                assert_int_equal(n_drops[i], i % 3 != 0);
                assert_int_equal(nb_records_find(&list, key_of(i)) != NULL, i % 3 == 0);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(finds_each_record_and_no_other, fill, empty),
                cmocka_unit_test_setup_teardown(keeps_the_others_when_one_is_removed, fill, empty),
                cmocka_unit_test_setup_teardown(sweeps_what_a_new_list_does_not_have, fill, empty),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
