/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A request to a server that accepts the connection and sends nothing. */

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "http/http_internal.h"

/* Accepts connections and sends nothing. */
static inline int listen_silently(char ret_url[static 64]) {
        struct sockaddr_in address = { .sin_family = AF_INET,
                                       .sin_addr = { htonl(INADDR_LOOPBACK) } };
        socklen_t len = sizeof(address);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        assert_true(fd >= 0);
        assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
        assert_int_equal(listen(fd, 8), 0);
        assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
        (void)snprintf(ret_url, 64, "https://127.0.0.1:%u/", ntohs(address.sin_port));
        return fd;
}

struct fixture {
        int fd;
        char url[64];
        struct nb_http *http;
        struct nb_http_transfer *transfer;
};

static inline void begin(struct fixture *fixture) {
        struct nb_failure f = { 0 };
        struct nb_http_request request = { .what = "a test",
                                           .max_body = 1024,
                                           .timeout_ms = 60000 };

        fixture->fd = listen_silently(fixture->url);
        request.url = fixture->url;
        assert_int_equal(nb_http_begin(false, &f), 0);
        assert_int_equal(nb_http_new(NULL, &fixture->http, &f), 0);
        assert_int_equal(nb_http_start(fixture->http, &request, &fixture->transfer, &f), 0);
}

static inline void end(struct fixture *fixture) {
        nb_http_free(fixture->http);
        (void)close(fixture->fd);
        nb_http_end();
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
        assert_int_equal(errno, ECHILD);
}

/* Takes the worker's place at its socket. */
static inline int play_worker(struct nb_http_transfer *transfer) {
        int pair[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        (void)close(transfer->worker->fd);
        transfer->worker->fd = pair[0];
        return pair[1];
}
