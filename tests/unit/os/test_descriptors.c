/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macro.h"
#include "case.h"
#include "os/descriptors.h"

#define N NB_DESCRIPTORS_MAX

static int pair[2];

static int open_pair(void **state) {
        return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair);
}

static int close_pair(void **state) {
        return close(pair[0]) < 0 || close(pair[1]) < 0;
}

static bool is_same_file(int a, int b) {
        struct stat one, other;

        return fstat(a, &one) == 0 && fstat(b, &other) == 0 && one.st_dev == other.st_dev &&
               one.st_ino == other.st_ino;
}

/* Those that did not come, or for which there is no room, are -1, and nothing else is written. */
static void descriptors_arrive(void **state) {
        static const struct {
                const char *name;
                size_t n_sent, n_wanted;
        } rows[] = {
                { "none", 0, 1 },
                { "one", 1, 1 },
                { "fewer than wanted", 2, 3 },
                { "one more than wanted", 2, 1 },
                { "as many as possible", N, N },
                { "many more than wanted", N, 1 },
        };
        const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), fds[N] = { fd, fd, fd, fd };

        assert_true(fd >= 0);
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                const size_t n_sent = rows[i].n_sent, n_wanted = rows[i].n_wanted;
                int found[N + 1] = { -2, -2, -2, -2, -2 };
                char text[8];

                assert_int_equal(nb_descriptors_send(pair[0], "text", 5, fds, n_sent, 0), 0);
                assert_int_equal(
                        nb_descriptors_receive(pair[1], text, sizeof(text), found, n_wanted), 5);
                assert_string_equal(text, "text");
                for (size_t j = 0; j <= N; j++) {
                        bool has_come = j < n_sent && j < n_wanted;

                        if (has_come ? !is_same_file(found[j], fd) ||
                                               !(fcntl(found[j], F_GETFD) & FD_CLOEXEC)
                                     : found[j] != (j < n_wanted ? -1 : -2))
                                fail_msg("%s: %zu", rows[i].name, j);
                        if (has_come)
                                (void)close(found[j]);
                }
        }
        (void)close(fd);
}

static void the_end_of_the_channel(void **state) {
        int ends[2], found = 0;
        char byte;

        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
        (void)close(ends[0]);
        assert_int_equal(nb_descriptors_receive(ends[1], &byte, 1, &found, 1), 0);
        assert_int_equal(found, -1);
        assert_int_equal(nb_descriptors_send(ends[1], "", 1, NULL, 0, 0), -EPIPE);
        (void)close(ends[1]);
}

static void a_full_channel(void **state) {
        static const char text[4096];
        int r = 0;

        for (unsigned i = 0; r >= 0 && i < 10000; i++)
                r = nb_descriptors_send(pair[0], text, sizeof(text), NULL, 0, MSG_DONTWAIT);
        assert_int_equal(r, -EAGAIN);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(descriptors_arrive, open_pair, close_pair),
                cmocka_unit_test(the_end_of_the_channel),
                cmocka_unit_test_setup_teardown(a_full_channel, open_pair, close_pair),
        };

        return cmocka_run_group_tests_name("os/descriptors", tests, NULL, NULL);
}
