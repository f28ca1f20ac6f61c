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
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "base/macro.h"
#include "os/clock.h"
#include "os/sources.h"

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
        sources = (struct nb_sources){ .config_directory = folder };
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
        nb_buffer_printf(userdata, "[%s]", document->len > 0 ? document->data : "empty");
        return 0;
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
        _cleanup_(nb_buffer_done) struct nb_buffer order = NB_BUFFER_INIT(256);
        _cleanup_(nb_secret_done) struct nb_secret secret = NB_SECRET_INIT, none = NB_SECRET_INIT;
        struct nb_failure f = { 0 };

        put("node-bootstrap.token", "secret", 0644);
        put("node-bootstrap.config", "stored", 0644);
        sources.stores[0] = "/nonexistent";
        sources.stores[1] = folder;
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
        sources.stores[0] = NULL;
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
        assert_int_equal(nb_sources_put(&sources, NB_SOURCE_CREDENTIAL, "node-bootstrap.token",
                                        0400, &value),
                         0);
        assert_int_equal(nb_sources_put(&sources, NB_SOURCE_CREDENTIAL, "node-bootstrap.kubeconfig",
                                        0400, NULL),
                         0);
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

static void files_in_memory_replace_those_on_disk(void **state) {
        _cleanup_(nb_secret_done) struct nb_secret value = NB_SECRET_INIT;
        _cleanup_(nb_buffer_done) struct nb_buffer order = NB_BUFFER_INIT(256);
        struct nb_failure f = { 0 };
        char path[128];

        put("config.yaml.d/10-a.yaml", "a", 0644);
        put("config.yaml.d/30-c.yaml", "c", 0644);
        assert_int_equal(nb_secret_init(&value, 16), 0);
        assert_int_equal(nb_secret_append(&value, "put", 3), 0);
        (void)snprintf(path, sizeof(path), "%s/config.yaml.d/20-b.yaml", folder);
        assert_int_equal(nb_sources_put(&sources, NB_SOURCE_FILE, path, 0644, &value), 0);
        assert_int_equal(nb_sources_config(&sources, collect, &order, &f), 0);
        assert_string_equal(order.data, "[a][put][c]");
}

/* A parent keeps what it reads, and its child reads the same, wherever the files are. */
static void a_child_reads_what_its_parent_kept(void **state) {
        _cleanup_(nb_secret_done) struct nb_secret secret = NB_SECRET_INIT;
        _cleanup_(nb_buffer_done) struct nb_buffer order = NB_BUFFER_INIT(256);
        struct nb_sources child = { .config_directory = folder };
        struct nb_failure f = { 0 };
        char path[128];
        struct stat st;
        int fd;

        sources.credentials_directory = folder;
        sources.is_keeping = true;
        put("config.yaml.d/10-a.yaml", "a", 0644);
        put("config.yaml.d/20-b.yaml", "b", 0600);
        put("node-bootstrap.token", "abcdef", 0404);
        (void)snprintf(path, sizeof(path), "%s/empty", folder);
        put("empty", "", 0640);
        assert_int_equal(nb_sources_config(&sources, collect, &order, &f), 0);
        assert_int_equal(nb_sources_credential(&sources, "node-bootstrap.token", 256, &secret, &f),
                         -EPERM);
        assert_int_equal(nb_sources_read(&sources, path, 256, &secret, &st), 0);
        nb_secret_done(&secret);
        assert_int_equal(nb_sources_read(&sources, "/", 256, &secret, &st), -EBADF);
        assert_int_equal(nb_sources_put(&sources, NB_SOURCE_FILE, "/new", 0600, NULL), 0);
        put("new", "new", 0600);
        assert_int_equal(nb_sources_put(&sources, NB_SOURCE_FILE, "/new", 0600,
                                        &(struct nb_secret){ .data = (char[]){ "new" }, .len = 3 }),
                         0);
        assert_int_equal(nb_sources_pass(&sources, &fd), 0);
        assert_int_equal(write(fd, "x", 1), -1);
        assert_int_equal(dup2(fd, NB_SOURCES_FD), NB_SOURCES_FD);
        assert_true(fd == NB_SOURCES_FD || close(fd) == 0);
        (void)snprintf(path, sizeof(path), "rm -r %s/*", folder);
        assert_int_equal(system(path), 0);

        assert_int_equal(setenv(NB_SOURCES_VARIABLE, "1", 1), 0);
        assert_int_equal(nb_sources_receive(&child, &f), 0);
        assert_null(getenv(NB_SOURCES_VARIABLE));
        assert_int_equal(fcntl(NB_SOURCES_FD, F_GETFD), -1);
        order.len = 0;
        assert_int_equal(nb_sources_config(&child, collect, &order, &f), 0);
        assert_string_equal(order.data, "[a][b]");
        f = (struct nb_failure){ 0 };
        assert_int_equal(nb_sources_credential(&child, "node-bootstrap.token", 256, &secret, &f),
                         -EPERM);
        assert_int_equal(f.code, NB_TOKEN_EXPOSED);
        (void)snprintf(path, sizeof(path), "%s/empty", folder);
        assert_int_equal(nb_sources_read(&child, path, 256, &secret, &st), 0);
        assert_int_equal(secret.len, 0);
        assert_int_equal(st.st_mode & 0777, 0640);
        nb_secret_done(&secret);
        assert_int_equal(nb_sources_read(&child, "/", 256, &secret, NULL), -EBADF);
        assert_int_equal(nb_sources_read(&child, "/new", 256, &secret, NULL), 0);
        assert_string_equal(secret.data, "new");
        nb_sources_done(&child);
}

static int receive_from(const char build[static NB_BUILD_SIZE], const void *data, size_t len,
                        enum nb_code code) {
        struct nb_sources child = { 0 };
        struct nb_failure f = { 0 };
        int r, fd = memfd_create("test", MFD_CLOEXEC);

        assert_int_equal(write(fd, build, NB_BUILD_SIZE), NB_BUILD_SIZE);
        assert_int_equal(write(fd, data, len), len);
        assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
        assert_int_equal(dup2(fd, NB_SOURCES_FD), NB_SOURCES_FD);
        assert_true(fd == NB_SOURCES_FD || close(fd) == 0);
        assert_int_equal(setenv(NB_SOURCES_VARIABLE, "1", 1), 0);
        r = nb_sources_receive(&child, &f);
        assert_int_equal(f.code, r < 0 ? code : NB_NONE);
        nb_sources_done(&child);
        return r;
}

static int receive(const void *data, size_t len) {
        char build[NB_BUILD_SIZE];

        nb_build_format(build);
        return receive_from(build, data, len, NB_INTERNAL);
}

/* Compared before anything else is parsed. */
static void another_build_is_told_apart(void **state) {
        char build[NB_BUILD_SIZE];

        nb_build_format(build);
        build[NB_BUILD_SIZE - 1] = '0';
        assert_true(receive_from(build, "x", 1, NB_PROGRAM_REPLACED) < 0);
        (void)memset(build, 'x', sizeof(build));
        assert_true(receive_from(build, "", 0, NB_PROGRAM_REPLACED) < 0);
}

static void what_is_passed_is_parsed_with_limits(void **state) {
        static const struct {
                uint32_t kind, mode, name_size, len;
                int32_t r;
                int expected;
        } entries[] = {
                { 0, 0600, 2, 3, 0, 0 },
                { 0, 0600, 2, 4, 0, -EBADMSG },
                { 0, 0600, 2, UINT32_MAX, 0, -EBADMSG },
                { 0, 0600, 5, 0, 0, -EBADMSG },
                { 0, 0600, UINT32_MAX, 3, 0, -EBADMSG },
                { 0, 0600, 0, 5, 0, -EBADMSG },
                { 4, 0600, 2, 3, 0, -EBADMSG },
                { 0, 0600, 2, 3, 1, -EBADMSG },
                { 0, 0600, 2, 2, 0, -EBADMSG },
        };
        static char large[(size_t)NB_SOURCES_MAX + 1], many[257 * 22];
        char text[20 + 5] = { 0 };

        for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
                memcpy(text, &entries[i], 20);
                memcpy(text + 20, "a\0xyz", 5);
                assert_int_equal(receive(text, sizeof(text)), entries[i].expected);
        }
        memcpy(text, &entries[0], 20);
        assert_int_equal(receive(text, sizeof(text) - 1), -EBADMSG);
        assert_int_equal(receive(text, 0), 0);
        assert_int_equal(receive(text, 19), -EBADMSG);
        assert_int_equal(receive(large, sizeof(large)), -EFBIG);
        for (size_t i = 0; i < 257; i++) {
                memcpy(many + i * 22, &(uint32_t[]){ 0, 0600, 2, 0, 0 }, 20);
                memcpy(many + i * 22 + 20, "a", 2);
        }
        assert_int_equal(receive(many, sizeof(many) - 22), 0);
        assert_int_equal(receive(many, sizeof(many)), -E2BIG);
}

static void no_more_is_passed_than_fits(void **state) {
        _cleanup_(nb_secret_done) struct nb_secret large = NB_SECRET_INIT;
        int fd;

        assert_int_equal(nb_secret_init(&large, NB_SOURCES_MAX), 0);
        large.len = NB_SOURCES_MAX;
        assert_int_equal(nb_sources_put(&sources, NB_SOURCE_FILE, "/large", 0600, &large), 0);
        assert_int_equal(nb_sources_pass(&sources, &fd), -E2BIG);
}

static void nothing_is_received_without_a_parent(void **state) {
        struct nb_failure f = { 0 };

        assert_int_equal(nb_sources_receive(&sources, &f), 0);
        assert_null(sources.kept);
}

static void init_reads_where_credentials_are(void **state) {
        struct nb_sources found;

        assert_int_equal(setenv("CREDENTIALS_DIRECTORY", folder, 1), 0);
        nb_sources_init(&found, "/srv");
        assert_string_equal(found.config_directory, "/srv");
        assert_string_equal(found.credentials_directory, folder);
        assert_int_equal(unsetenv("CREDENTIALS_DIRECTORY"), 0);
        nb_sources_init(&found, "/srv");
        assert_null(found.credentials_directory);
}

/* Whatever this machine has: no store of encrypted credentials, none twice, and only those that can
 * be read. */
static void finds_stores_that_can_be_read(void **state) {
        size_t n = 0;

        nb_sources_find_stores(&sources);
        for (size_t i = 0; i < N_ELEMENTS(nb_stores); i++) {
                bool is_found = sources.stores[n] &&
                                !strcmp(sources.stores[n], nb_stores[i].folder);

                assert_int_equal(is_found, !nb_stores[i].is_sealed &&
                                                   nb_store_look(nb_stores[i].folder) >= 0);
                n += is_found;
        }
        assert_null(sources.stores[n]);
        sources.stores[0] = NULL;
        assert_int_equal(nb_store_look(folder), 0);
        put("file", "", 0600);
        assert_int_equal(nb_store_look("/no/such/store"), -ENOENT);
}

static void what_is_kept_is_not_sealed(void **state) {
        struct nb_secret value = NB_SECRET_INIT;

        assert_false(nb_sources_is_sealed(&sources, "node-bootstrap.no-such"));
        sources.is_keeping = true;
        assert_int_equal(nb_secret_copy(&value, "x", 1), 0);
        assert_int_equal(nb_sources_put(&sources, NB_SOURCE_CREDENTIAL, "node-bootstrap.token",
                                        0600, &value),
                         0);
        assert_false(nb_sources_is_sealed(&sources, "node-bootstrap.token"));
        nb_secret_done(&value);
}

struct stored_case {
        const char *text; /* NULL: there is no file */
        mode_t mode, folder_mode;
        int expected;
        bool is_exposed;
};

/* Only the bits for others matter, and only if the folder lets others through. */
static void reads_from_a_store(void **state) {
        static const struct stored_case cases[] = {
                { NULL, 0600, 0700, -ENOENT, false },
                { "token", 0600, 0755, 0, false },
                { "token", 0644, 0700, 0, false },
                { "token", 0644, 0755, 0, true },
                { "12345678901", 0600, 0755, -EFBIG, false },
        };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                const struct stored_case *c = &cases[i];
                struct nb_secret value = NB_SECRET_INIT;
                struct stat st = { 0 };

                if (c->text)
                        put("x", c->text, c->mode);
                assert_int_equal(chmod(folder, c->folder_mode), 0);
                assert_int_equal(nb_sources_read_stored(folder, "x", 10, &value, &st), c->expected);
                if (c->expected == 0) {
                        assert_string_equal(value.data, c->text);
                        assert_int_equal((st.st_mode & 0007) != 0, c->is_exposed);
                }
                nb_secret_done(&value);
        }
        assert_int_equal(nb_sources_read_stored("/no/such/store", "x", 10, NULL, NULL), -ENOENT);
}

static void reads_a_named_file(void **state) {
        struct nb_secret value = NB_SECRET_INIT;
        char path[128];

        put("named", "text", 0600);
        (void)snprintf(path, sizeof(path), "%s/named", folder);
        assert_int_equal(nb_sources_read_named(&sources, path, 10, &value, NULL), 0);
        assert_string_equal(value.data, "text");
        nb_secret_done(&value);
        assert_int_equal(nb_sources_read_named(&sources, folder, 10, &value, NULL), -EBADF);
}

/* It closes the descriptor in any case. */
static void receives_only_what_is_passed(void **state) {
        struct nb_failure f = { 0 };
        int fd;

        assert_int_equal(unsetenv(NB_SOURCES_VARIABLE), 0);
        assert_int_equal(nb_sources_receive(&sources, &f), 0);
        put("damaged", "no sources", 0600);
        fd = openat(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY);
        assert_true(fd >= 0);
        assert_int_equal(dup2(openat(fd, "damaged", O_RDONLY), NB_SOURCES_FD), NB_SOURCES_FD);
        assert_int_equal(setenv(NB_SOURCES_VARIABLE, "1", 1), 0);
        assert_true(nb_sources_receive(&sources, &f) < 0);
        assert_int_equal(f.code, NB_PROGRAM_REPLACED);
        assert_null(getenv(NB_SOURCES_VARIABLE));
        assert_int_equal(close(fd), 0);
}

static void knows_host_names(void **state) {
        static const struct {
                const char *name;
                bool is_localhost;
        } rows[] = {
                { "localhost", true },
                { "LocalHost", true },
                { "localhost.localdomain", true },
                { "localhost1", false },
                { "worker-1", false },
                { "", false },
                { "local", false },
                { "x.localhost", false },
        };
        char host[HOST_NAME_MAX + 1], kernel[HOST_NAME_MAX + 1];
        struct nb_failure f = { 0 };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                assert_int_equal(nb_host_name_is_localhost(rows[i].name), rows[i].is_localhost);
        assert_int_equal(nb_sources_host_name(host, &f), 0);
        assert_int_equal(gethostname(kernel, sizeof(kernel)), 0);
        assert_string_equal(host, kernel);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(init_reads_where_credentials_are),
                TEST(finds_stores_that_can_be_read),
                TEST(what_is_kept_is_not_sealed),
                TEST(reads_from_a_store),
                TEST(reads_a_named_file),
                TEST(receives_only_what_is_passed),
                cmocka_unit_test(knows_host_names),
                TEST(documents_come_in_order_of_precedence),
                TEST(missing_documents_are_skipped),
                TEST(a_document_that_is_too_large_is_refused),
                TEST(stores_are_read_if_no_credential_was_delivered),
                TEST(credentials_that_others_can_read_are_refused),
                TEST(a_missing_credential_is_no_failure),
                TEST(folders_of_systemd_must_be_set),
                TEST(kept_files_are_read_from_memory),
                TEST(a_child_reads_what_its_parent_kept),
                TEST(what_is_passed_is_parsed_with_limits),
                TEST(another_build_is_told_apart),
                TEST(no_more_is_passed_than_fits),
                TEST(nothing_is_received_without_a_parent),
                TEST(a_credential_in_memory_replaces_the_delivered_one),
                TEST(files_in_memory_replace_those_on_disk),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
