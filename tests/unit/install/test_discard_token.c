/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/stat.h>

#include "install/discard_token.h"
#include "lookup.h"
#include "os/sources.h"

#define TOKEN "abcdef.0123456789abcdef"
#define TOKEN_FILE "/etc/credstore/node-bootstrap.token"

static struct folder folder;
static struct nb_context context;

static int set_up(void **state) {
        folder_make(&folder);
        context = (struct nb_context){ .root_fd = folder.fd };
        nb_settings_init(&context.settings);
        context.settings.token_discard = true;
        snprintf(context.settings.origin[NB_SETTING_TOKEN_DISCARD],
                 sizeof(context.settings.origin[0]), "a file");
        folder_put(&folder, TOKEN_FILE, TOKEN);
        folder_put(&folder, "/etc/credstore/node-bootstrap.config", "kept");
        folder_put(&folder, "/run/credstore/node-bootstrap.tls-bootstrap-token", TOKEN);
        folder_put(&folder, "/etc/credstore.encrypted/node-bootstrap.token", "ciphertext");
        folder_put(&folder, "/run/node-bootstrap-platform/token", TOKEN);
        folder_put(&folder, "/run/node-bootstrap-platform/platform.json", "{}");
        return 0;
}

static int tear_down(void **state) {
        folder_remove(&folder);
        return 0;
}

static bool is_there(const char *name) {
        struct stat st;

        return fstatat(folder.fd, name + 1, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void removes_each_copy(void **state) {
        folder_skip_without_lookup();
        nb_discard_token(&context);
        assert_false(is_there(TOKEN_FILE));
        assert_false(is_there("/run/credstore/node-bootstrap.tls-bootstrap-token"));
        assert_false(is_there("/etc/credstore.encrypted/node-bootstrap.token"));
        assert_false(is_there("/run/node-bootstrap-platform/token"));
        assert_true(is_there("/etc/credstore/node-bootstrap.config"));
        assert_true(is_there("/run/node-bootstrap-platform/platform.json"));
        nb_discard_token(&context);
}

static void nothing_unless_the_settings_request_it(void **state) {
        folder_skip_without_lookup();
        context.settings.token_discard = false;
        nb_discard_token(&context);
        assert_true(is_there(TOKEN_FILE));
        assert_true(is_there("/run/node-bootstrap-platform/token"));
}

/* What is left does not keep the rest. */
static void expect_left(void) {
        nb_discard_token(&context);
        assert_true(is_there(TOKEN_FILE));
        assert_false(is_there("/run/credstore/node-bootstrap.tls-bootstrap-token"));
}

static void leaves_a_link(void **state) {
        folder_skip_without_lookup();
        folder_put(&folder, "/secret", TOKEN);
        assert_int_equal(unlinkat(folder.fd, &TOKEN_FILE[1], 0), 0);
        folder_link(&folder, TOKEN_FILE, "../../secret");
        expect_left();
        assert_true(is_there("/secret"));
}

static void leaves_a_file_with_a_second_name(void **state) {
        folder_skip_without_lookup();
        assert_int_equal(linkat(folder.fd, &TOKEN_FILE[1], folder.fd, "secret", 0), 0);
        expect_left();
}

static void leaves_a_folder(void **state) {
        folder_skip_without_lookup();
        assert_int_equal(unlinkat(folder.fd, &TOKEN_FILE[1], 0), 0);
        assert_int_equal(mkdirat(folder.fd, &TOKEN_FILE[1], 0700), 0);
        expect_left();
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void) {
        static const struct CMUnitTest tests[] = {
                TEST(removes_each_copy), TEST(nothing_unless_the_settings_request_it),
                TEST(leaves_a_link),     TEST(leaves_a_file_with_a_second_name),
                TEST(leaves_a_folder),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
