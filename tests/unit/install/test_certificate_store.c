/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <time.h>

#include "base/file.h"
#include "case.h"
#include "folder.h"
#include "install/certificate_store.h"

#define NOW ((time_t)1800000000) /* 2027-01-15T08:00:00Z */

static struct folder folder;
static struct nb_secret pem;

static int set_up(void **state) {
        assert_int_equal(setenv("TZ", "XYZ-05:30", 1), 0); /* east of Greenwich */
        folder_make(&folder);
        assert_int_equal(nb_secret_init(&pem, 16), 0);
        assert_int_equal(nb_secret_append(&pem, "pem", 3), 0);
        return 0;
}

static int tear_down(void **state) {
        nb_secret_done(&pem);
        folder_remove(&folder);
        return 0;
}

static void expect(const char *name, mode_t mode, const char *text) {
        struct nb_buffer found = NB_BUFFER_INIT(64);
        struct stat st;

        assert_int_equal(nb_file_read(folder.fd, name, &found, &st), 0);
        assert_string_equal(found.data, text);
        assert_int_equal(st.st_mode, S_IFREG | mode);
        nb_buffer_done(&found);
}

static void expect_link(const char *name, const char *target) {
        char found[PATH_MAX] = "";

        assert_int_equal(readlinkat(folder.fd, name, found, sizeof(found) - 1), strlen(target));
        assert_string_equal(found, target);
}

static void local_time_as_kubelet(void **state) {
        char name[NB_STORE_NAME_SIZE];

        assert_int_equal(nb_store_create(folder.fd, NOW, &pem, name), 0);
        assert_string_equal(name, "kubelet-client-2027-01-15-13-30-00.pem");
        expect(name, 0600, "pem");
}

static void next_second_when_taken(void **state) {
        char name[NB_STORE_NAME_SIZE];

        folder_put(&folder, "/kubelet-client-2027-01-15-13-30-00.pem", "old");
        folder_link(&folder, "/kubelet-client-2027-01-15-13-30-01.pem", "nowhere");
        assert_int_equal(nb_store_create(folder.fd, NOW, &pem, name), 0);
        assert_string_equal(name, "kubelet-client-2027-01-15-13-30-02.pem");
        expect("kubelet-client-2027-01-15-13-30-00.pem", 0644, "old");
        expect_link("kubelet-client-2027-01-15-13-30-01.pem", "nowhere");
        expect(name, 0600, "pem");
}

static void no_second_free(void **state) {
        char name[NB_STORE_NAME_SIZE], path[NB_STORE_NAME_SIZE];

        for (int i = 0; i < 60; i++) {
                (void)snprintf(path, sizeof(path), "/kubelet-client-2027-01-15-13-30-%02d.pem", i);
                folder_put(&folder, path, "old");
        }
        assert_int_equal(nb_store_create(folder.fd, NOW, &pem, name), -EEXIST);
}

static void leavings_of_a_crash(void **state) {
        char name[NB_STORE_NAME_SIZE];

        folder_put(&folder, "/.kubelet-client-2027-01-14-00-00-00.pem.tmp", "half a key");
        folder_put(&folder, "/.other.tmp", "kept");
        assert_int_equal(nb_store_create(folder.fd, NOW, &pem, name), 0);
        assert_int_equal(
                faccessat(folder.fd, ".kubelet-client-2027-01-14-00-00-00.pem.tmp", F_OK, 0), -1);
        expect(".other.tmp", 0644, "kept");
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(local_time_as_kubelet, set_up, tear_down),
                cmocka_unit_test_setup_teardown(next_second_when_taken, set_up, tear_down),
                cmocka_unit_test_setup_teardown(no_second_free, set_up, tear_down),
                cmocka_unit_test_setup_teardown(leavings_of_a_crash, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
