/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "base/macro.h"
#include "base/sources.h"

static char folder[64];

static void put(const char *name, const char *text, mode_t mode) {
        char path[128];
        FILE *file;

        (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
        file = fopen(path, "w");
        assert_non_null(file);
        (void)fputs(text, file);
        (void)fclose(file);
        assert_int_equal(chmod(path, mode), 0);
}

static int setup(void **state) {
        char path[128];

        strcpy(folder, "/tmp/nb-test-sources-XXXXXX");
        if (!mkdtemp(folder))
                return -1;
        (void)snprintf(path, sizeof(path), "%s/config.yaml.d", folder);
        return mkdir(path, 0755);
}

static int teardown(void **state) {
        char command[128];

        (void)unsetenv("CREDENTIALS_DIRECTORY");
        (void)snprintf(command, sizeof(command), "rm -r %s", folder);
        return system(command);
}

static int collect(void *userdata, const struct nb_config_document *document, struct nb_failure *f) {
        return nb_buffer_printf(userdata, "[%s]", document->len > 0 ? document->data : "empty");
}

static void documents_come_weakest_first(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer order = NB_BUFFER_INIT(256);
        struct nb_failure f = { 0 };

        put("config.yaml", "main", 0644);
        put("config.yaml.d/20-b.yaml", "b", 0644);
        put("config.yaml.d/10-a.yaml", "a", 0644);
        put("config.yaml.d/30-c.yaml.bak", "backup", 0644);
        put("config.yaml.d/.40-hidden.yaml", "hidden", 0644);
        put("node-bootstrap.config", "credential", 0400);
        (void)setenv("CREDENTIALS_DIRECTORY", folder, 1);
        assert_int_equal(nb_sources_config(folder, collect, &order, &f), 0);
        assert_string_equal(order.data, "[main][a][b][credential]");
}

static void nothing_there_is_no_failure(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer order = NB_BUFFER_INIT(256);
        struct nb_failure f = { 0 };

        assert_int_equal(nb_sources_config("/nonexistent", collect, &order, &f), 0);
        assert_int_equal(order.len, 0);
}

static void a_document_that_is_too_large_is_named(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer order = NB_BUFFER_INIT(256);
        struct nb_failure f = { 0 };
        char path[128];

        put("config.yaml", "", 0644);
        (void)snprintf(path, sizeof(path), "%s/config.yaml", folder);
        assert_int_equal(truncate(path, NB_CONFIG_MAX + 1), 0);
        assert_int_equal(nb_sources_config(folder, collect, &order, &f), -EFBIG);
        assert_int_equal(f.code, NB_SETTINGS_UNREADABLE);
        assert_non_null(strstr(f.detail, "config.yaml"));
}

static void stores_are_looked_at_where_nothing_was_delivered(void **state) {
        const char *const stores[] = { "/nonexistent", folder, NULL };
        _cleanup_(nb_buffer_done) struct nb_buffer order = NB_BUFFER_INIT(256);
        _cleanup_(nb_secret_done) struct nb_secret secret = NB_SECRET_INIT, none = NB_SECRET_INIT;
        struct nb_failure f = { 0 };

        put("node-bootstrap.token", "secret", 0644);
        put("node-bootstrap.config", "stored", 0644);
        nb_sources_use_stores(stores);
        assert_int_equal(nb_sources_credential("node-bootstrap.token", 64, &secret, &f), 0);
        assert_string_equal(secret.data, "secret");
        assert_int_equal(nb_sources_credential("node-bootstrap.kubeconfig", 64, &none, &f), -ENOENT);
        assert_int_equal(nb_sources_config("/nonexistent", collect, &order, &f), 0);
        assert_string_equal(order.data, "[stored]");
        (void)setenv("CREDENTIALS_DIRECTORY", "/", 1);
        assert_int_equal(nb_sources_credential("node-bootstrap.token", 64, &none, &f), -ENOENT);
        (void)unsetenv("CREDENTIALS_DIRECTORY");
        nb_sources_use_stores(NULL);
        assert_int_equal(nb_sources_credential("node-bootstrap.token", 64, &none, &f), -ENOENT);
        assert_int_equal(f.code, NB_NONE);
}

static void credentials_that_others_can_read_are_refused(void **state) {
        static const struct {
                mode_t mode;
                int expected;
        } cases[] = { { 0400, 0 }, { 0440, 0 }, { 0600, 0 }, { 0444, -EPERM }, { 0602, -EPERM } };

        (void)setenv("CREDENTIALS_DIRECTORY", folder, 1);
        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                _cleanup_(nb_secret_done) struct nb_secret secret = NB_SECRET_INIT;
                struct nb_failure f = { 0 };
                char path[128];

                (void)snprintf(path, sizeof(path), "%s/node-bootstrap.token", folder);
                (void)unlink(path);
                put("node-bootstrap.token", "secret", cases[i].mode);
                assert_int_equal(nb_sources_credential("node-bootstrap.token", 64, &secret, &f), cases[i].expected);
                assert_int_equal(f.code, cases[i].expected < 0 ? NB_TOKEN_EXPOSED : NB_NONE);
        }
}

static void a_credential_that_is_not_there_is_told_apart(void **state) {
        _cleanup_(nb_secret_done) struct nb_secret secret = NB_SECRET_INIT;
        struct nb_failure f = { 0 };

        assert_int_equal(nb_sources_credential("node-bootstrap.token", 64, &secret, &f), -ENOENT);
        (void)setenv("CREDENTIALS_DIRECTORY", folder, 1);
        assert_int_equal(nb_sources_credential("node-bootstrap.token", 64, &secret, &f), -ENOENT);
        assert_int_equal(f.code, NB_NONE);
}

static void folders_of_systemd_must_be_set(void **state) {
        struct nb_failure f = { 0 };
        int fd;

        (void)unsetenv("STATE_DIRECTORY");
        assert_true(nb_sources_folder("STATE_DIRECTORY", &fd, &f) < 0);
        assert_int_equal(f.code, NB_USAGE);
        assert_non_null(strstr(f.detail, "$STATE_DIRECTORY"));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(documents_come_weakest_first),
                TEST(nothing_there_is_no_failure),
                TEST(a_document_that_is_too_large_is_named),
                TEST(stores_are_looked_at_where_nothing_was_delivered),
                TEST(credentials_that_others_can_read_are_refused),
                TEST(a_credential_that_is_not_there_is_told_apart),
                TEST(folders_of_systemd_must_be_set),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
