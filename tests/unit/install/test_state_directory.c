/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "case.h"
#include "folder.h"
#include "install/state_directory.h"
#include "os/clock.h"
#include "state_files/platform_note.h"

static struct folder folder;
static struct nb_state opened;

static int set_up(void **state) {
        struct nb_failure f = { 0 };
        char link[96];

        folder_make(&folder);
        /* systemd makes $STATE_DIRECTORY a link to private/. */
        folder_put(&folder, "/private/other", "kept");
        folder_link(&folder, "/state", "private");
        (void)snprintf(link, sizeof(link), "%s/state", folder.path);
        assert_int_equal(setenv("STATE_DIRECTORY", link, 1), 0);
        assert_int_equal(nb_state_open(&opened, &f), 0);
        return 0;
}

static int tear_down(void **state) {
        nb_state_done(&opened);
        folder_remove(&folder);
        return 0;
}

static void expect_refused(const char *words) {
        struct nb_secret text = NB_SECRET_INIT;
        struct nb_failure f = { 0 };

        assert_true(nb_state_read(&opened, "joined.json", 8, &text, &f) < 0);
        assert_int_equal(f.code, NB_HANDOFF_MALFORMED);
        assert_non_null(strstr(f.detail, words));
        assert_null(text.data);
}

static void regular_file(void **state) {
        struct nb_secret text = NB_SECRET_INIT;
        struct nb_failure f = { 0 };

        folder_put(&folder, "/private/joined.json", "12345678");
        assert_int_equal(nb_state_read(&opened, "joined.json", 8, &text, &f), 0);
        assert_string_equal(text.data, "12345678");
        nb_secret_done(&text);
}

static void no_file(void **state) {
        struct nb_secret text = NB_SECRET_INIT;
        struct nb_failure f = { 0 };

        assert_int_equal(nb_state_read(&opened, "joined.json", 8, &text, &f), -ENOENT);
        assert_int_equal(f.code, NB_NONE);
}

static void link_to_a_file(void **state) {
        folder_link(&folder, "/private/joined.json", "other");
        expect_refused("not a regular file");
}

static void second_name_of_a_file(void **state) {
        folder_put(&folder, "/secret", "x");
        assert_int_equal(linkat(folder.fd, "secret", folder.fd, "private/joined.json", 0), 0);
        expect_refused("2 hard links");
}

static void file_of_another_user(void **state) {
        if (geteuid() != 0)
                skip();
        folder_put(&folder, "/private/joined.json", "x");
        assert_int_equal(fchownat(folder.fd, "private/joined.json", 12345, 12345, 0), 0);
        expect_refused("belongs to user 12345");
}

static void fifo(void **state) {
        assert_int_equal(mkfifoat(folder.fd, "private/joined.json", 0600), 0);
        expect_refused("not a regular file");
}

static void folder_of_that_name(void **state) {
        folder_put(&folder, "/private/joined.json/x", "");
        expect_refused("not a regular file");
}

static void larger_than_allowed(void **state) {
        folder_put(&folder, "/private/joined.json", "123456789");
        expect_refused("not a regular file of at most 8 bytes");
}

static void emptied_by_known_names(void **state) {
        static const char *const gone[] = { "joined.json", ".joined.json.tmp", "pending.key",
                                            ".pending.key.tmp" };

        folder_put(&folder, "/private/joined.json", "x");
        folder_put(&folder, "/private/.joined.json.tmp", "x");
        folder_put(&folder, "/private/.pending.key.tmp", "x");
        /* A link is removed, not what it leads to. */
        folder_link(&folder, "/private/pending.key", "other");
        assert_int_equal(nb_state_clear(&opened), 0);
        for (size_t i = 0; i < N_ELEMENTS(gone); i++)
                assert_int_equal(faccessat(opened.fd, gone[i], F_OK, AT_SYMLINK_NOFOLLOW), -1);
        assert_int_equal(faccessat(opened.fd, "other", F_OK, AT_SYMLINK_NOFOLLOW), 0);
        nb_state_discard(&opened);
}

static void a_planted_folder_holds_up_nothing(void **state) {
        folder_put(&folder, "/private/joined.json/x", "");
        folder_put(&folder, "/private/pending.key", "x");
        assert_int_equal(nb_state_clear(&opened), 0);
        assert_int_equal(faccessat(opened.fd, "joined.json", F_OK, AT_SYMLINK_NOFOLLOW), -1);
        assert_int_equal(faccessat(opened.fd, "pending.key", F_OK, AT_SYMLINK_NOFOLLOW), -1);
}

static void only_what_is_no_file_of_the_join_is_swept(void **state) {
        static const struct {
                const char *name;
                bool is_left;
        } rows[] = {
                { "joined.json", true },       { "pending.key", false },
                { ".joined.json.tmp", false }, { "kubelet-config.yaml", false },
                { "refreshed.json", false },   { "other", true },
        };

        folder_put(&folder, "/private/joined.json", "x");
        folder_link(&folder, "/private/pending.key", "other");
        folder_put(&folder, "/private/.joined.json.tmp/x", "");
        folder_put(&folder, "/secret", "x");
        assert_int_equal(linkat(folder.fd, "secret", folder.fd, "private/kubelet-config.yaml", 0),
                         0);
        assert_int_equal(mkfifoat(folder.fd, "private/refreshed.json", 0600), 0);
        nb_state_sweep(&opened);
        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                assert_int_equal(nb_state_has(&opened, rows[i].name), rows[i].is_left);
        assert_int_equal(faccessat(folder.fd, "secret", F_OK, 0), 0);
}

/* Deeper than the descriptors of a process reach. */
static void everything_else_is_emptied(void **state) {
        char deep[PATH_MAX] = "/private/joined.json.old";

        for (unsigned i = 0; i < 100; i++)
                (void)strcat(deep, "/d");
        folder_put(&folder, "/private/joined.json", "x");
        folder_put(&folder, "/secret/x", "");
        folder_put(&folder, strcat(deep, "/x"), "x");
        folder_put(&folder, "/private/pending.key/x", "");
        folder_link(&folder, "/private/link", "../secret");
        assert_int_equal(fchmodat(folder.fd, "private/pending.key", 0, 0), 0);
        nb_state_empty(&opened, nb_now_ms());
        assert_true(nb_state_has(&opened, "link"));
        nb_state_empty(&opened, NB_TIME_INFINITE);
        assert_true(nb_state_has(&opened, "joined.json"));
        assert_int_equal(unlinkat(folder.fd, "private/joined.json", 0), 0);
        assert_int_equal(unlinkat(folder.fd, "private", AT_REMOVEDIR), 0);
        assert_int_equal(faccessat(folder.fd, "secret/x", F_OK, 0), 0);
}

static void parsed(void **state) {
        struct nb_platform platform;
        struct nb_failure f = { 0 };

        assert_int_equal(nb_state_parse(&opened, "platform.json", &nb_platform_file, &platform, &f),
                         -ENOENT);
        assert_int_equal(f.code, NB_NONE);
        folder_put(&folder, "/private/platform.json", "{\"platformId\":\"aws\"}");
        assert_int_equal(nb_state_parse(&opened, "platform.json", &nb_platform_file, &platform, &f),
                         0);
        assert_string_equal(platform.platform_id, "aws");
        folder_put(&folder, "/private/platform.json", "{");
        assert_true(nb_state_parse(&opened, "platform.json", &nb_platform_file, &platform, &f) < 0);
        assert_int_equal(f.code, NB_METADATA_MALFORMED);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(regular_file, set_up, tear_down),
                cmocka_unit_test_setup_teardown(no_file, set_up, tear_down),
                cmocka_unit_test_setup_teardown(link_to_a_file, set_up, tear_down),
                cmocka_unit_test_setup_teardown(second_name_of_a_file, set_up, tear_down),
                cmocka_unit_test_setup_teardown(file_of_another_user, set_up, tear_down),
                cmocka_unit_test_setup_teardown(fifo, set_up, tear_down),
                cmocka_unit_test_setup_teardown(folder_of_that_name, set_up, tear_down),
                cmocka_unit_test_setup_teardown(larger_than_allowed, set_up, tear_down),
                cmocka_unit_test_setup_teardown(emptied_by_known_names, set_up, tear_down),
                cmocka_unit_test_setup_teardown(a_planted_folder_holds_up_nothing, set_up,
                                                tear_down),
                cmocka_unit_test_setup_teardown(only_what_is_no_file_of_the_join_is_swept, set_up,
                                                tear_down),
                cmocka_unit_test_setup_teardown(everything_else_is_emptied, set_up, tear_down),
                cmocka_unit_test_setup_teardown(parsed, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
