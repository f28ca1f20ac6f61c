/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/file.h"
#include "case.h"
#include "folder.h"
#include "install/swap.h"

static struct folder folder;

static int set_up(void **state) {
        folder_make(&folder);
        return 0;
}

static int tear_down(void **state) {
        folder_remove(&folder);
        return 0;
}

static void expect(const char *name, const char *text) {
        struct nb_buffer found = NB_BUFFER_INIT(64);

        if (!text)
                assert_int_equal(faccessat(folder.fd, name, F_OK, AT_SYMLINK_NOFOLLOW), -1);
        else {
                assert_int_equal(nb_file_read(folder.fd, name, &found, NULL), 0);
                assert_string_equal(found.data, text);
        }
        nb_buffer_done(&found);
}

static struct nb_failure failure;

static struct nb_swap aside_of(const char *name) {
        failure = (struct nb_failure){ 0 };
        return (struct nb_swap){ .folder_fd = folder.fd, .name = name };
}

static void nothing_there(void **state) {
        struct nb_swap swap = aside_of("a");

        assert_int_equal(nb_swap_set_aside(&swap, &failure), 0);
        assert_string_equal(swap.old_name, "");
        assert_int_equal(nb_swap_put_back(&swap), 0);
        expect("a", NULL);
        expect("a.old", NULL);
}

static void none_overwrites_another(void **state) {
        static const char *const names[] = { "a.old", "a.old.2", "a.old.3" };
        static const char *const texts[] = { "one", "two", "three" };
        struct nb_swap swap = aside_of("a");

        for (size_t i = 0; i < N_ELEMENTS(names); i++) {
                folder_put(&folder, "/a", texts[i]);
                assert_int_equal(nb_swap_set_aside(&swap, &failure), 0);
                assert_string_equal(swap.old_name, names[i]);
        }
        expect("a", NULL);
        for (size_t i = 0; i < N_ELEMENTS(names); i++)
                expect(names[i], texts[i]);
}

static void first_free_name(void **state) {
        struct nb_swap swap = aside_of("a");

        folder_put(&folder, "/a.old", "old");
        folder_link(&folder, "/a.old.2", "nowhere");
        folder_put(&folder, "/a", "new");
        assert_int_equal(nb_swap_set_aside(&swap, &failure), 0);
        assert_string_equal(swap.old_name, "a.old.3");
        expect("a.old", "old");
}

/* A kubeconfig may be a link; what it leads to is somebody else's. */
static void link_as_such(void **state) {
        struct nb_swap swap = aside_of("a");
        char target[16] = "";

        folder_put(&folder, "/elsewhere", "text");
        folder_link(&folder, "/a", "elsewhere");
        assert_int_equal(nb_swap_set_aside(&swap, &failure), 0);
        assert_int_equal(readlinkat(folder.fd, "a.old", target, sizeof(target) - 1), 9);
        assert_string_equal(target, "elsewhere");
        expect("elsewhere", "text");
}

static void undone(void **state) {
        struct nb_swap swap = aside_of("a");

        folder_put(&folder, "/a.old", "old");
        folder_put(&folder, "/a", "new");
        assert_int_equal(nb_swap_set_aside(&swap, &failure), 0);
        assert_int_equal(nb_swap_put_back(&swap), 0);
        assert_int_equal(nb_swap_put_back(&swap), 0);
        expect("a", "new");
        expect("a.old", "old");
        expect("a.old.2", NULL);
}

static void undo_replaces_nothing(void **state) {
        struct nb_swap swap = aside_of("a");

        folder_put(&folder, "/a", "old");
        assert_int_equal(nb_swap_set_aside(&swap, &failure), 0);
        folder_put(&folder, "/a", "new");
        assert_int_equal(nb_swap_put_back(&swap), -EEXIST);
        expect("a", "new");
        expect("a.old", "old");
}

static void name_too_long(void **state) {
        char name[NAME_MAX] = "/";
        struct nb_swap swap = aside_of(name + 1);

        memset(name + 1, 'x', sizeof(name) - 2);
        name[sizeof(name) - 1] = '\0';
        folder_put(&folder, name, "text");
        assert_int_equal(nb_swap_set_aside(&swap, &failure), -ENAMETOOLONG);
        expect(name + 1, "text");
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(nothing_there, set_up, tear_down),
                cmocka_unit_test_setup_teardown(none_overwrites_another, set_up, tear_down),
                cmocka_unit_test_setup_teardown(first_free_name, set_up, tear_down),
                cmocka_unit_test_setup_teardown(link_as_such, set_up, tear_down),
                cmocka_unit_test_setup_teardown(undone, set_up, tear_down),
                cmocka_unit_test_setup_teardown(undo_replaces_nothing, set_up, tear_down),
                cmocka_unit_test_setup_teardown(name_too_long, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
