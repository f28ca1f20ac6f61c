/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
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

static void begins_with_the_prefix(void **state) {
        _cleanup_(nb_secret_done) struct nb_secret secret = NB_SECRET_INIT;

        assert_int_equal(nb_secret_join(&secret, "Bearer ", "a\0b", 3), 0);
        assert_int_equal(secret.len, 10);
        assert_memory_equal(secret.data, "Bearer a\0b", 11);
        assert_int_equal(nb_secret_append(&secret, "c", 1), -E2BIG);
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

#define FLAGS_SIZE 512

/* What /proc/self/smaps says of the mapping that begins at `data`, with a blank before and after
 * each. */
static void read_flags(const void *data, char ret[static FLAGS_SIZE]) {
        FILE *file = fopen("/proc/self/smaps", "re");
        bool is_found = false;
        char line[FLAGS_SIZE];

        assert_non_null(file);
        *ret = '\0';
        while (!*ret && fgets(line, sizeof(line), file)) {
                uintptr_t begin, end;

                if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) == 2)
                        is_found = begin <= (uintptr_t)data && (uintptr_t)data < end;
                else if (is_found && strncmp(line, "VmFlags:", 8) == 0)
                        (void)strcpy(ret, line + 8);
        }
        (void)fclose(file);
        assert_true(*ret);
}

static void is_neither_dumped_nor_swapped_nor_inherited(void **state) {
        _cleanup_(nb_secret_done) struct nb_secret secret = NB_SECRET_INIT;
        char flags[FLAGS_SIZE];

        assert_int_equal(nb_secret_init(&secret, 16), 0);
        read_flags(secret.data, flags);
        assert_non_null(strstr(flags, " dd "));
        assert_non_null(strstr(flags, " wf "));
#ifndef __SANITIZE_ADDRESS__ /* which makes mlock() do nothing */
        struct rlimit limit;

        assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
        if (limit.rlim_cur > 0 || geteuid() == 0)
                assert_non_null(strstr(flags, " lo "));
#endif
}

static bool is_watched, was_zero;
static size_t unmapped;

/* The linker's --wrap: what the pages contain when they are unmapped. */
int __real_munmap(void *data, size_t size);
int __wrap_munmap(void *data, size_t size);
int __wrap_munmap(void *data, size_t size) {
        if (is_watched) {
                was_zero = true;
                for (size_t i = 0; i < size; i++)
                        was_zero = was_zero && ((const char *)data)[i] == '\0';
                unmapped = size;
        }
        return __real_munmap(data, size);
}

static void is_zeroed_before_it_is_unmapped(void **state) {
        static const size_t sizes[] = { 1, 4095, 4096, 9000 };

        for (size_t i = 0; i < N_ELEMENTS(sizes); i++) {
                struct nb_secret secret = NB_SECRET_INIT;

                assert_int_equal(nb_secret_init(&secret, sizes[i]), 0);
                memset(secret.data, 'x', sizes[i] + 1);
                unmapped = 0;
                is_watched = true;
                nb_secret_done(&secret);
                is_watched = false;
                assert_true(unmapped > sizes[i]);
                assert_true(was_zero);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(holds_up_to_its_size),
                cmocka_unit_test(begins_with_the_prefix),
                cmocka_unit_test(is_empty_when_done_and_may_be_done_twice),
                cmocka_unit_test(a_forked_child_finds_zeroes),
                cmocka_unit_test(is_neither_dumped_nor_swapped_nor_inherited),
                cmocka_unit_test(is_zeroed_before_it_is_unmapped),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
