/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
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

#include "base/macro.h"
#include "os/clock.h"
#include "os/datagram.h"
#include "systemd/log.h"

#define READ_AFTER_MS 60
#define LARGE (48 * 1024) /* twice the largest entry of the journal */

static char address[64];
static int server;

static void bind_server(void) {
        struct sockaddr_un to = { .sun_family = AF_UNIX };
        size_t len = strlen(address);

        memcpy(to.sun_path, address, len);
        if (address[0] == '@')
                to.sun_path[0] = '\0';
        server = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        assert_int_equal(bind(server, (struct sockaddr *)&to,
                              (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)),
                         0);
}

static int set_up_path(void **state) {
        char folder[] = "/tmp/nb-datagram-XXXXXX";

        assert_non_null(mkdtemp(folder));
        (void)snprintf(address, sizeof(address), "%s/socket", folder);
        bind_server();
        return 0;
}

static int set_up_name(void **state) {
        (void)snprintf(address, sizeof(address), "@nb-datagram-%d", (int)getpid());
        bind_server();
        return 0;
}

static int tear_down(void **state) {
        (void)close(server);
        if (address[0] == '/') {
                (void)unlink(address);
                *strrchr(address, '/') = '\0';
                (void)rmdir(address);
        }
        return unsetenv("NOTIFY_SOCKET");
}

static int send_text(const char *to, const char *text) {
        const struct iovec part = { (void *)(uintptr_t)text, strlen(text) };

        return nb_datagram_send(to, &part, 1);
}

static void assert_arrived(const char *expected) {
        char text[64];
        ssize_t n = recv(server, text, sizeof(text), MSG_DONTWAIT);

        assert_int_equal(n, strlen(expected));
        assert_memory_equal(text, expected, (size_t)n);
}

static void parts_arrive_as_one(void **state) {
        const struct iovec parts[] = { { (char[]){ "A=1\n" }, 4 }, { (char[]){ "B=2\n" }, 4 } };

        assert_int_equal(nb_datagram_send(address, parts, N_ELEMENTS(parts)), 0);
        assert_arrived("A=1\nB=2\n");
}

static void large_one_arrives(void **state) {
        char *sent = calloc(1, LARGE), *received = calloc(1, LARGE);
        const struct iovec part = { sent, LARGE };

        assert_true(sent && received);
        memset(sent, 'x', LARGE);
        assert_int_equal(nb_datagram_send(address, &part, 1), 0);
        assert_int_equal(recv(server, received, LARGE, MSG_DONTWAIT), LARGE);
        assert_memory_equal(sent, received, LARGE);
        free(sent);
        free(received);
}

static void waits_for_a_full_queue(void **state) {
        uint64_t start = nb_now_ms();
        pid_t reader = fork();

        if (reader == 0) {
                char byte;

                (void)usleep(READ_AFTER_MS * 1000);
                for (;;)
                        (void)recv(server, &byte, 1, 0);
        }
        for (int i = 0; i < 2000; i++)
                assert_int_equal(send_text(address, "x"), 0);
        assert_true(nb_now_ms() - start >= READ_AFTER_MS - 1);
        (void)kill(reader, SIGKILL);
        assert_int_equal(waitpid(reader, NULL, 0), reader);
}

static void state_goes_to_the_notify_socket(void **state) {
        nb_notify("READY=1");
        assert_int_equal(setenv("NOTIFY_SOCKET", address, true), 0);
        nb_notify("STATUS=a");
        assert_arrived("STATUS=a");
}

static void unusable_addresses_are_refused(void **state) {
        static const struct {
                const char *address;
                int r;
        } cases[] = {
                { "/nonexistent/socket", -ENOENT },
                { "@nb-datagram-without-a-server", -ECONNREFUSED },
                { "vsock:2:1234", -EAFNOSUPPORT },
                { "socket", -EAFNOSUPPORT },
                { "", -EAFNOSUPPORT },
                { "@", -EAFNOSUPPORT },
        };
        char longest[sizeof(((struct sockaddr_un *)NULL)->sun_path) + 1];

        for (size_t i = 0; i < N_ELEMENTS(cases); i++)
                assert_int_equal(send_text(cases[i].address, "x"), cases[i].r);
        memset(longest, '/', sizeof(longest) - 1);
        longest[sizeof(longest) - 1] = '\0';
        assert_int_equal(send_text(longest, "x"), -ENAMETOOLONG);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(parts_arrive_as_one, set_up_path, tear_down),
                cmocka_unit_test_setup_teardown(parts_arrive_as_one, set_up_name, tear_down),
                cmocka_unit_test_setup_teardown(large_one_arrives, set_up_path, tear_down),
                cmocka_unit_test_setup_teardown(waits_for_a_full_queue, set_up_path, tear_down),
                cmocka_unit_test_setup_teardown(state_goes_to_the_notify_socket, set_up_path,
                                                tear_down),
                cmocka_unit_test_setup_teardown(state_goes_to_the_notify_socket, set_up_name,
                                                tear_down),
                cmocka_unit_test(unusable_addresses_are_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
