/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "admin/frame/monitor.h"
#include "os/clock.h"

#include "case.h"

#define PATIENCE_MS 30000

struct served {
        struct nb_monitor *monitor;
        struct sockaddr_in address;
        struct nb_buffer metrics;
};

/* At a port that the kernel does not choose for anybody else. */
static void start(struct served *served, uint64_t now_ms) {
        char listen_on[32];
        int r = -1;

        *served = (struct served){ .address = { .sin_family = AF_INET } };
        (void)inet_pton(AF_INET, "127.0.0.1", &served->address.sin_addr);
        for (unsigned i = 0; i < 100 && r < 0; i++) {
                const uint16_t port = (uint16_t)(10000 + nb_random() % 20000);
                struct nb_failure f = { 0 };

                snprintf(listen_on, sizeof(listen_on), ":%u", port);
                served->address.sin_port = htons(port);
                r = nb_monitor_start(listen_on, now_ms, &served->monitor, &f);
        }
        assert_int_equal(r, 0);
}

static void publish(struct served *served, uint64_t now_ms) {
        nb_monitor_publish(served->monitor, &served->metrics, NULL, now_ms);
}

static int connect_to(const struct served *served) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        assert_true(fd >= 0);
        assert_int_equal(
                connect(fd, (const struct sockaddr *)&served->address, sizeof(served->address)), 0);
        return fd;
}

static void ask(int fd) {
        static const char request[] = "GET /healthz HTTP/1.0\r\n\r\n";

        assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
}

/* Whether a byte, or the end, arrives in this time. */
static bool is_readable(int fd, int timeout_ms) {
        struct pollfd entry = { .fd = fd, .events = POLLIN };

        return poll(&entry, 1, timeout_ms) == 1;
}

static void assert_served(int fd) {
        char text[16] = "";

        assert_true(is_readable(fd, PATIENCE_MS));
        assert_true(recv(fd, text, sizeof(text) - 1, 0) > 0);
        assert_memory_equal(text, "HTTP/1.", strlen("HTTP/1."));
        assert_int_equal(close(fd), 0);
}

static void assert_ended(int fd) {
        char byte;

        assert_true(is_readable(fd, PATIENCE_MS));
        assert_true(recv(fd, &byte, 1, 0) <= 0);
        assert_int_equal(close(fd), 0);
}

/* Descriptors of this process, in which both ends of a connection are. */
static size_t count_descriptors(void) {
        DIR *directory = opendir("/proc/self/fd");
        size_t n = 0;

        assert_non_null(directory);
        while (readdir(directory))
                n++;
        assert_int_equal(closedir(directory), 0);
        return n;
}

static void await_descriptors(size_t n) {
        for (unsigned i = 0; i < PATIENCE_MS && count_descriptors() != n; i++)
                (void)poll(NULL, 0, 1);
        assert_int_equal(count_descriptors(), n);
}

/* Such connections never are silent for long: each sends a byte now and then. What was served
 * before does not count. */
static void slow_connections_do_not_keep_the_probes_out(void **state) {
        int slow[NB_MONITOR_CONNECTIONS_MAX], late;
        struct served served;
        size_t n;

        start(&served, 1000);
        n = count_descriptors();
        late = connect_to(&served);
        ask(late);
        assert_served(late);
        await_descriptors(n);
        publish(&served, 5000);
        for (size_t i = 0; i < N_ELEMENTS(slow); i++)
                slow[i] = connect_to(&served);
        await_descriptors(n + 2 * N_ELEMENTS(slow));
        late = connect_to(&served);
        ask(late);

        publish(&served, 5000 + NB_MONITOR_FULL_MS - 1);
        for (size_t i = 0; i < N_ELEMENTS(slow); i++)
                assert_false(is_readable(slow[i], 0));
        assert_int_equal(count_descriptors(), n + 2 * N_ELEMENTS(slow) + 1);

        publish(&served, 5000 + NB_MONITOR_FULL_MS);
        /* libmicrohttpd counts a connection a moment after it has accepted it. */
        if (!is_readable(slow[0], 0))
                publish(&served, 5000 + 2 * NB_MONITOR_FULL_MS);
        for (size_t i = 0; i < N_ELEMENTS(slow); i++)
                assert_ended(slow[i]);
        assert_served(late);
        nb_monitor_stop(served.monitor);
        nb_buffer_done(&served.metrics);
}

static void idle_connections_are_closed(_unused_ void **state) {
        struct served served;
        int idle;

        start(&served, 1000);
        idle = connect_to(&served);
        assert_ended(idle);
        nb_monitor_stop(served.monitor);
        nb_buffer_done(&served.metrics);
}

int main(void) {
        CASE(idle_connections_are_closed);
        CASE(slow_connections_do_not_keep_the_probes_out);
        return case_run("monitor");
}
