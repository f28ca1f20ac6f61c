/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "systemd/log.h"

#define READ_AFTER_MS 60

static char path[64];
static int server;

static int setup(void **state) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        char folder[] = "/tmp/nb-journal-XXXXXX";

        assert_non_null(mkdtemp(folder));
        (void)snprintf(path, sizeof(path), "%s/socket", folder);
        (void)strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
        server = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        return bind(server, (struct sockaddr *)&address, sizeof(address));
}

static int teardown(void **state) {
        (void)close(server);
        (void)unlink(path);
        *strrchr(path, '/') = '\0';
        return rmdir(path);
}

static void returns_when_the_reader_has_read(void **state) {
        uint64_t start = nb_now_ms();
        pid_t reader = fork();
        char byte;

        if (reader == 0) {
                (void)usleep(READ_AFTER_MS * 1000);
                _exit(recv(server, &byte, 1, 0) != 0);
        }
        nb_journal_drain(path);
        assert_true(nb_now_ms() - start >= READ_AFTER_MS - 1);
        /* The reader has read everything, so it did not give up. */
        assert_int_equal(recv(server, &byte, 1, MSG_DONTWAIT), -1);
        assert_int_equal(waitpid(reader, NULL, 0), reader);
}

static void gives_up_when_nobody_reads(void **state) {
        uint64_t start = nb_now_ms();

        nb_journal_drain(path);
        assert_true(nb_now_ms() - start >= NB_JOURNAL_DRAIN_MAX_MS);
}

static void returns_at_once_without_a_journal(void **state) {
        uint64_t start = nb_now_ms();

        nb_journal_drain("/nonexistent/socket");
        assert_true(nb_now_ms() - start < NB_JOURNAL_DRAIN_MAX_MS);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(returns_when_the_reader_has_read, setup, teardown),
                cmocka_unit_test_setup_teardown(gives_up_when_nobody_reads, setup, teardown),
                cmocka_unit_test(returns_at_once_without_a_journal),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
