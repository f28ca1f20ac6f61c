/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/file.h"
#include "case.h"
#include "lookup.h"

static struct folder folder;

static int set_up(void **state) {
        folder_make(&folder);
        return 0;
}

static int tear_down(void **state) {
        folder_remove(&folder);
        return 0;
}

static void expect_mode(const char *path, mode_t mode) {
        struct stat st;

        assert_int_equal(fstatat(folder.fd, path, &st, AT_SYMLINK_NOFOLLOW), 0);
        assert_int_equal(st.st_mode, S_IFDIR | mode);
}

/* Whatever the umask is, as in the unit. */
static void folders_are_made(void **state) {
        mode_t before;
        int fd = -1;

        folder_skip_without_lookup();
        before = umask(0077);
        assert_int_equal(nb_path_make_folder(folder.fd, "/var/lib/kubelet", 0750, &fd), 0);
        assert_int_equal(close(fd), 0);
        assert_int_equal(nb_path_make_folder(folder.fd, "/var/lib/kubelet/pki", 0755, &fd), 0);
        assert_int_equal(close(fd), 0);
        (void)umask(before);
        expect_mode("var", 0755);
        expect_mode("var/lib", 0755);
        expect_mode("var/lib/kubelet", 0750);
        expect_mode("var/lib/kubelet/pki", 0755);
}

static void folders_inherit_no_mode(void **state) {
        int fd = -1;

        folder_skip_without_lookup();
        assert_int_equal(mkdirat(folder.fd, "group", 0755), 0);
        assert_int_equal(fchmodat(folder.fd, "group", 02755, 0), 0);
        assert_int_equal(nb_path_make_folder(folder.fd, "/group/pki", 0750, &fd), 0);
        assert_int_equal(close(fd), 0);
        expect_mode("group/pki", 0750);
}

static void folders_that_are_there_stay(void **state) {
        int fd = -1;

        folder_skip_without_lookup();
        assert_int_equal(mkdirat(folder.fd, "a", 0700), 0);
        assert_int_equal(nb_path_make_folder(folder.fd, "/a", 0755, &fd), 0);
        assert_int_equal(close(fd), 0);
        expect_mode("a", 0700);
}

static void links_stay_below_the_root(void **state) {
        int fd = -1;

        folder_skip_without_lookup();
        folder_link(&folder, "/etc/kubernetes", "/data/../../../kubernetes");
        assert_int_equal(mkdirat(folder.fd, "kubernetes", 0755), 0);
        assert_int_equal(mkdirat(folder.fd, "data", 0755), 0);
        assert_int_equal(nb_path_make_folder(folder.fd, "/etc/kubernetes/pki", 0755, &fd), 0);
        assert_int_equal(close(fd), 0);
        expect_mode("kubernetes/pki", 0755);
}

static void link_that_leads_nowhere(void **state) {
        int fd = -1;

        folder_skip_without_lookup();
        folder_link(&folder, "/a", "/nowhere");
        assert_int_equal(nb_path_make_folder(folder.fd, "/a/b", 0755, &fd), -EEXIST);
}

static void file_where_a_folder_should_be(void **state) {
        int fd = -1;

        folder_skip_without_lookup();
        folder_put(&folder, "/a", "");
        assert_int_equal(nb_path_make_folder(folder.fd, "/a", 0755, &fd), -ENOTDIR);
        assert_int_equal(nb_path_make_folder(folder.fd, "/a/b", 0755, &fd), -ENOTDIR);
}

static void reading(void **state) {
        struct nb_secret text = NB_SECRET_INIT;

        folder_skip_without_lookup();
        folder_put(&folder, "/file", "12345");
        folder_link(&folder, "/link", "/file");
        assert_int_equal(mkfifoat(folder.fd, "fifo", 0600), 0);
        assert_int_equal(nb_path_read(folder.fd, "/link", 5, &text), 0);
        assert_int_equal(text.len, 5);
        assert_string_equal(text.data, "12345");
        nb_secret_done(&text);
        assert_int_equal(nb_path_read(folder.fd, "/file", 4, &text), -EFBIG);
        assert_int_equal(nb_path_read(folder.fd, "/fifo", 4, &text), -EBADF);
        assert_int_equal(nb_path_read(folder.fd, "/", 4, &text), -EBADF);
        assert_int_equal(nb_path_read(folder.fd, "/none", 4, &text), -ENOENT);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(folders_are_made, set_up, tear_down),
                cmocka_unit_test_setup_teardown(folders_inherit_no_mode, set_up, tear_down),
                cmocka_unit_test_setup_teardown(folders_that_are_there_stay, set_up, tear_down),
                cmocka_unit_test_setup_teardown(links_stay_below_the_root, set_up, tear_down),
                cmocka_unit_test_setup_teardown(link_that_leads_nowhere, set_up, tear_down),
                cmocka_unit_test_setup_teardown(file_where_a_folder_should_be, set_up, tear_down),
                cmocka_unit_test_setup_teardown(reading, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
