/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "case.h"
#include "cloud_script.h"

static const struct exchange *script;
static int listen_fd;
static char complaint[512];
static pthread_t thread;

static void complain(const char *expected, const char *found) {
        if (!complaint[0])
                (void)snprintf(complaint, sizeof(complaint), "expected '%s', found '%.200s'",
                               expected ? expected : "nothing", found);
}

static void answer(int fd, const char *request, const struct exchange *exchange) {
        char head[256];
        int n;

        if (!exchange->request ||
            strncmp(request, exchange->request, strlen(exchange->request)) != 0)
                complain(exchange->request, request);
        else if (exchange->header && !strstr(request, exchange->header))
                complain(exchange->header, request);
        if (!exchange->request)
                return;
        n = snprintf(head, sizeof(head), "HTTP/1.1 %s\r\nContent-Length: %zu\r\n\r\n",
                     exchange->status, strlen(exchange->body));
        if (send(fd, head, (size_t)n, MSG_NOSIGNAL | MSG_MORE) < 0 ||
            send(fd, exchange->body, strlen(exchange->body), MSG_NOSIGNAL) < 0)
                complain("a client that listens", "none");
}

static void converse(int fd) {
        char request[4096];
        size_t len = 0;
        ssize_t n;

        while ((n = read(fd, request + len, sizeof(request) - 1 - len)) > 0) {
                len += (size_t)n;
                request[len] = '\0';
                if (!strstr(request, "\r\n\r\n"))
                        continue;
                answer(fd, request, script);
                if (!script->request)
                        return;
                script++;
                len = 0;
        }
}

static void *serve(void *userdata) {
        int fd;

        while ((fd = accept(listen_fd, NULL, NULL)) >= 0) {
                converse(fd);
                (void)close(fd);
        }
        return NULL;
}

void script_start(const struct exchange *exchanges, char ret_address[static SCRIPT_ADDRESS_SIZE]) {
        struct sockaddr_in address = { .sin_family = AF_INET,
                                       .sin_addr = { htonl(INADDR_LOOPBACK) } };
        socklen_t len = sizeof(address);

        script = exchanges;
        complaint[0] = '\0';
        listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(listen_fd >= 0);
        assert_int_equal(bind(listen_fd, (struct sockaddr *)&address, len), 0);
        assert_int_equal(listen(listen_fd, 8), 0);
        assert_int_equal(getsockname(listen_fd, (struct sockaddr *)&address, &len), 0);
        assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
        (void)snprintf(ret_address, SCRIPT_ADDRESS_SIZE, "127.0.0.1:%u", ntohs(address.sin_port));
}

void script_stop(void) {
        (void)shutdown(listen_fd, SHUT_RDWR);
        assert_int_equal(pthread_join(thread, NULL), 0);
        (void)close(listen_fd);
        assert_string_equal(complaint, "");
        assert_true(!script || !script->request);
}
