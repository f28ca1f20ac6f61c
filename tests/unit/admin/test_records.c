/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "admin/frame/records.h"
#include "base/macro.h"

#define N_RECORDS 300

struct named {
        struct nb_record record;
        char key[16];
        unsigned n_drops;
};

static struct nb_records list;
static struct named entries[N_RECORDS];

/* Adds them in an order that is not sorted. */
static int fill(_unused_ void **state) {
        for (size_t i = 0; i < N_RECORDS; i++) {
                struct named *entry = &entries[i * 7 % N_RECORDS];

                *entry = (struct named){ 0 };
                snprintf(entry->key, sizeof(entry->key), "node%zu", i * 7 % N_RECORDS);
                entry->record.key = entry->key;
                assert_int_equal(nb_records_add(&list, &entry->record), 0);
        }
        return 0;
}

static int empty(_unused_ void **state) {
        nb_records_done(&list);
        return 0;
}

static void finds_each_record_and_no_other(_unused_ void **state) {
        for (size_t i = 0; i < N_RECORDS; i++)
                assert_ptr_equal(nb_records_find(&list, entries[i].key), &entries[i]);
        assert_null(nb_records_find(&list, ""));
        assert_null(nb_records_find(&list, "node"));
        assert_null(nb_records_find(&list, "zone"));
}

static void keeps_the_others_when_one_is_removed(_unused_ void **state) {
        nb_records_remove(&list, &entries[17].record);
        nb_records_remove(&list, &entries[17].record);
        assert_int_equal(list.n, N_RECORDS - 1);
        for (size_t i = 0; i < N_RECORDS; i++)
                assert_ptr_equal(nb_records_find(&list, entries[i].key),
                                 i == 17 ? NULL : &entries[i]);
}

static void drop(void *userdata, struct nb_record *record) {
        struct named *entry = (struct named *)record;

        assert_ptr_equal(userdata, &list);
        entry->n_drops++;
        nb_records_remove(&list, record);
}

static void sweeps_what_a_new_list_does_not_have(_unused_ void **state) {
        nb_records_begin(&list);
        for (size_t i = 0; i < N_RECORDS; i += 3)
                nb_records_touch(&list, &entries[i].record);
        nb_records_sweep(&list, drop, &list);
        for (size_t i = 0; i < N_RECORDS; i++) {
                assert_int_equal(entries[i].n_drops, i % 3 != 0);
                assert_ptr_equal(nb_records_find(&list, entries[i].key),
                                 i % 3 != 0 ? NULL : &entries[i]);
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
