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
static struct nb_sources sources;

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
        sources = (struct nb_sources){ .config_directory = folder, .runtime_fd = -1 };
        (void)snprintf(path, sizeof(path), "%s/config.yaml.d", folder);
        return mkdir(path, 0755);
}

static int teardown(void **state) {
        char command[128];

        nb_sources_done(&sources);
        (void)snprintf(command, sizeof(command), "rm -r %s", folder);
        return system(command);
}

static int collect(void *userdata, const struct nb_config_document *document,
                   struct nb_failure *f) {
        return nb_buffer_printf(userdata, "[%s]", document->len > 0 ? document->data : "empty");
}

static void documents_come_in_order_of_precedence(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer order = NB_BUFFER_INIT(256);
        struct nb_failure f = { 0 };

        put("config.yaml", "main", 0644);
        put("config.yaml.d/20-b.yaml", "b", 0644);
        put("config.yaml.d/10-a.yaml", "a", 0644);
        put("config.yaml.d/30-c.yaml.bak", "backup", 0644);
        put("config.yaml.d/.40-hidden.yaml", "hidden", 0644);
        put("node-bootstrap.config", "credential", 0400);
        sources.credentials_directory = folder;
        assert_int_equal(nb_sources_config(&sources, collect, &order, &f), 0);
        assert_string_equal(order.data, "[main][a][b][credential]");
}

static void missing_documents_are_skipped(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer order = NB_BUFFER_INIT(256);
        struct nb_failure f = { 0 };

        sources.config_directory = "/nonexistent";
        assert_int_equal(nb_sources_config(&sources, collect, &order, &f), 0);
        assert_int_equal(order.len, 0);
}

static void a_document_that_is_too_large_is_refused(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer order = NB_BUFFER_INIT(256);
        struct nb_failure f = { 0 };
        char path[128];

        put("config.yaml", "", 0644);
        (void)snprintf(path, sizeof(path), "%s/config.yaml", folder);
        assert_int_equal(truncate(path, NB_CONFIG_MAX + 1), 0);
        assert_int_equal(nb_sources_config(&sources, collect, &order, &f), -EFBIG);
        assert_int_equal(f.code, NB_SETTINGS_UNREADABLE);
        assert_non_null(strstr(f.detail, "config.yaml"));
}

static void stores_are_read_if_no_credential_was_delivered(void **state) {
        const char *const stores[] = { "/nonexistent", folder, NULL };
        _cleanup_(nb_buffer_done) struct nb_buffer order = NB_BUFFER_INIT(256);
        _cleanup_(nb_secret_done) struct nb_secret secret = NB_SECRET_INIT, none = NB_SECRET_INIT;
        struct nb_failure f = { 0 };

        put("node-bootstrap.token", "secret", 0644);
        put("node-bootstrap.config", "stored", 0644);
        sources.stores = stores;
        assert_int_equal(nb_sources_credential(&sources, "node-bootstrap.token", 64, &secret, &f),
                         0);
        assert_string_equal(secret.data, "secret");
        assert_int_equal(
                nb_sources_credential(&sources, "node-bootstrap.kubeconfig", 64, &none, &f),
                -ENOENT);
        sources.config_directory = "/nonexistent";
        assert_int_equal(nb_sources_config(&sources, collect, &order, &f), 0);
        assert_string_equal(order.data, "[stored]");
        sources.credentials_directory = "/";
        assert_int_equal(nb_sources_credential(&sources, "node-bootstrap.token", 64, &none, &f),
                         -ENOENT);
        sources.credentials_directory = NULL;
        sources.stores = NULL;
        assert_int_equal(nb_sources_credential(&sources, "node-bootstrap.token", 64, &none, &f),
                         -ENOENT);
        assert_int_equal(f.code, NB_NONE);
}

static void credentials_that_others_can_read_are_refused(void **state) {
        static const struct {
                mode_t mode;
                int expected;
        } cases[] = { { 0400, 0 }, { 0440, 0 }, { 0600, 0 }, { 0444, -EPERM }, { 0602, -EPERM } };

        sources.credentials_directory = folder;
        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                _cleanup_(nb_secret_done) struct nb_secret secret = NB_SECRET_INIT;
                struct nb_failure f = { 0 };
                char path[128];

                (void)snprintf(path, sizeof(path), "%s/node-bootstrap.token", folder);
                (void)unlink(path);
                put("node-bootstrap.token", "secret", cases[i].mode);
                assert_int_equal(
                        nb_sources_credential(&sources, "node-bootstrap.token", 64, &secret, &f),
                        cases[i].expected);
                assert_int_equal(f.code, cases[i].expected < 0 ? NB_TOKEN_EXPOSED : NB_NONE);
        }
}

static void a_missing_credential_is_no_failure(void **state) {
        _cleanup_(nb_secret_done) struct nb_secret secret = NB_SECRET_INIT;
        struct nb_failure f = { 0 };

        assert_int_equal(nb_sources_credential(&sources, "node-bootstrap.token", 64, &secret, &f),
                         -ENOENT);
        sources.credentials_directory = folder;
        assert_int_equal(nb_sources_credential(&sources, "node-bootstrap.token", 64, &secret, &f),
                         -ENOENT);
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

static void kept_files_are_read_from_memory(void **state) {
        _cleanup_(nb_secret_done) struct nb_secret first = NB_SECRET_INIT, second = NB_SECRET_INIT,
                                                   token = NB_SECRET_INIT;
        _cleanup_(nb_buffer_done) struct nb_buffer order = NB_BUFFER_INIT(256);
        struct nb_failure f = { 0 };
        char path[128];

        sources.credentials_directory = folder;
        put("config.yaml", "main", 0644);
        put("config.yaml.d/10-a.yaml", "a", 0644);
        put("node-bootstrap.token", "abcdef", 0400);
        (void)snprintf(path, sizeof(path), "%s/config.yaml", folder);
        sources.is_keeping = true;
        for (unsigned i = 0; i < 2; i++) {
                nb_secret_done(&first);
                nb_secret_done(&second);
                nb_secret_done(&token);
                order.len = 0;
                assert_int_equal(nb_sources_config(&sources, collect, &order, &f), 0);
                assert_string_equal(order.data, "[main][a]");
                assert_int_equal(nb_sources_read(&sources, path, 256, &first, NULL), 0);
                assert_string_equal(first.data, "main");
                assert_int_equal(nb_sources_read(&sources, "/nonexistent/file", 256, &second, NULL),
                                 -ENOENT);
                assert_int_equal(
                        nb_sources_credential(&sources, "node-bootstrap.token", 256, &token, &f),
                        0);
                assert_string_equal(token.data, "abcdef");
                /* The files are gone. */
                (void)snprintf(path, sizeof(path), "rm -r %s/*", folder);
                assert_true(i > 0 || system(path) == 0);
                (void)snprintf(path, sizeof(path), "%s/config.yaml", folder);
        }
        assert_int_equal(nb_sources_read(&sources, path, 3, &second, NULL), -EFBIG);
        nb_sources_done(&sources);
        assert_int_equal(nb_sources_read(&sources, path, 256, &second, NULL), -ENOENT);
}

static void a_credential_in_memory_replaces_the_delivered_one(void **state) {
        _cleanup_(nb_secret_done) struct nb_secret value = NB_SECRET_INIT, found = NB_SECRET_INIT;
        struct nb_failure f = { 0 };

        sources.credentials_directory = folder;
        put("node-bootstrap.token", "abcdef", 0400);
        put("node-bootstrap.kubeconfig", "delivered", 0400);
        assert_int_equal(nb_secret_init(&value, 16), 0);
        assert_int_equal(nb_secret_append(&value, "put", 3), 0);
        assert_int_equal(nb_sources_put(&sources, "node-bootstrap.token", &value), 0);
        assert_int_equal(nb_sources_put(&sources, "node-bootstrap.kubeconfig", NULL), 0);
        assert_int_equal(nb_sources_credential(&sources, "node-bootstrap.token", 256, &found, &f),
                         0);
        assert_string_equal(found.data, "put");
        nb_secret_done(&found);
        assert_int_equal(
                nb_sources_credential(&sources, "node-bootstrap.kubeconfig", 256, &found, &f),
                -ENOENT);
        nb_sources_done(&sources);
        assert_int_equal(
                nb_sources_credential(&sources, "node-bootstrap.kubeconfig", 256, &found, &f), 0);
}

/* `check --user-data` hides the settings of this machine, and adds those of another. */
static void files_in_memory_replace_those_on_disk(void **state) {
        _cleanup_(nb_secret_done) struct nb_secret value = NB_SECRET_INIT;
        _cleanup_(nb_buffer_done) struct nb_buffer order = NB_BUFFER_INIT(256);
        struct nb_failure f = { 0 };
        char path[128];

        put("config.yaml", "main", 0644);
        put("config.yaml.d/10-a.yaml", "a", 0644);
        put("config.yaml.d/30-c.yaml", "c", 0644);
        assert_int_equal(nb_secret_init(&value, 16), 0);
        assert_int_equal(nb_secret_append(&value, "put", 3), 0);
        (void)snprintf(path, sizeof(path), "%s/config.yaml", folder);
        assert_int_equal(nb_sources_put_file(&sources, path, 0, NULL), 0);
        (void)snprintf(path, sizeof(path), "%s/config.yaml.d/20-b.yaml", folder);
        assert_int_equal(nb_sources_put_file(&sources, path, 0644, &value), 0);
        assert_int_equal(nb_sources_config(&sources, collect, &order, &f), 0);
        assert_string_equal(order.data, "[a][put][c]");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(documents_come_in_order_of_precedence),
                TEST(missing_documents_are_skipped),
                TEST(a_document_that_is_too_large_is_refused),
                TEST(stores_are_read_if_no_credential_was_delivered),
                TEST(credentials_that_others_can_read_are_refused),
                TEST(a_missing_credential_is_no_failure),
                TEST(folders_of_systemd_must_be_set),
                TEST(kept_files_are_read_from_memory),
                TEST(a_credential_in_memory_replaces_the_delivered_one),
                TEST(files_in_memory_replace_those_on_disk),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
