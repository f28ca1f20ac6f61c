/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/http.h"
#include "os/clock.h"

#include "case.h"

/* Answers one request, and keeps it. */
struct server {
        int fd;
        int port;
        const char *reply;
        size_t reply_len;
        char request[4096];
        pthread_t thread;
};

static void *serve(void *userdata) {
        struct server *server = userdata;
        size_t len = 0, sent = 0;
        int fd = accept(server->fd, NULL, NULL);

        if (fd < 0)
                return NULL;
        while (!strstr(server->request, "\r\n\r\n") && len < sizeof(server->request) - 1) {
                ssize_t n = read(fd, server->request + len, sizeof(server->request) - 1 - len);

                if (n <= 0)
                        break;
                len += (size_t)n;
        }
        while (sent < server->reply_len) {
                ssize_t n = send(fd, server->reply + sent, server->reply_len - sent, MSG_NOSIGNAL);

                if (n <= 0)
                        break;
                sent += (size_t)n;
        }
        (void)close(fd);
        return NULL;
}

static void server_start(struct server *server, const char *reply, size_t reply_len) {
        struct sockaddr_in address = { .sin_family = AF_INET,
                                       .sin_addr = { htonl(INADDR_LOOPBACK) } };
        socklen_t len = sizeof(address);

        *server = (struct server){ .reply = reply, .reply_len = reply_len };
        server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(server->fd >= 0);
        assert_int_equal(bind(server->fd, (struct sockaddr *)&address, len), 0);
        assert_int_equal(listen(server->fd, 1), 0);
        assert_int_equal(getsockname(server->fd, (struct sockaddr *)&address, &len), 0);
        server->port = ntohs(address.sin_port);
        assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

static void server_stop(struct server *server) {
        (void)shutdown(server->fd, SHUT_RDWR);
        assert_int_equal(pthread_join(server->thread, NULL), 0);
        (void)close(server->fd);
}

static int ask(const struct server *server, struct nb_http_request *request,
               struct nb_http_answer *answer, struct nb_failure *f) {
        _cleanup_(nb_http_freep) struct nb_http *http = NULL;
        char url[64];
        int r;

        (void)snprintf(url, sizeof(url), "http://127.0.0.1:%d/latest", server->port);
        request->what = "the metadata";
        request->url = url;
        request->timeout_ms = 20000;
        r = nb_http_begin(false, f);
        if (r >= 0)
                r = nb_http_new_metadata(2000, &http, f);
        if (r >= 0)
                r = nb_http_perform(http, request, nb_now_ms() + 30000, answer, f);
        nb_http_end();
        return r;
}

#define OK(body) "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" body

static void what_is_sent(void **state) {
        struct nb_secret session = NB_SECRET_INIT;
        struct nb_http_request request = { .headers = { &session },
                                           .lines = { "Metadata-Flavor: Google",
                                                      "Host: metadata.google.internal" },
                                           .accept = "*/*",
                                           .max_body = 100 };
        struct nb_http_answer answer = { 0 };
        struct nb_failure f = { 0 };
        struct server server;

        assert_int_equal(nb_secret_init(&session, 32), 0);
        assert_int_equal(nb_secret_append(&session, "X-Token: 123", 12), 0);
        server_start(&server, OK("data"), strlen(OK("data")));
        assert_int_equal(ask(&server, &request, &answer, &f), 0);
        server_stop(&server);
        assert_non_null(strstr(server.request, "GET /latest HTTP/1.1\r\n"));
        assert_non_null(strstr(server.request, "X-Token: 123\r\n"));
        assert_non_null(strstr(server.request, "Metadata-Flavor: Google\r\n"));
        assert_non_null(strstr(server.request, "Host: metadata.google.internal\r\n"));
        assert_null(strstr(server.request, "127.0.0.1"));
        assert_non_null(strstr(server.request, "Accept: */*\r\n"));
        assert_null(strstr(server.request, "Accept-Encoding"));
        assert_int_equal(answer.status, 200);
        assert_string_equal(answer.body.data, "data");
        nb_http_answer_done(&answer);
        nb_secret_done(&session);
}

static void put_has_no_body(void **state) {
        struct nb_http_request request = { .method = "PUT",
                                           .lines = { "X-ttl: 60" },
                                           .max_body = 100 };
        struct nb_http_answer answer = { 0 };
        struct nb_failure f = { 0 };
        struct server server;

        server_start(&server, OK("token"), strlen(OK("token")));
        assert_int_equal(ask(&server, &request, &answer, &f), 0);
        server_stop(&server);
        assert_non_null(strstr(server.request, "PUT /latest HTTP/1.1\r\n"));
        assert_non_null(strstr(server.request, "X-ttl: 60\r\n"));
        assert_non_null(strstr(server.request, "Content-Length: 0\r\n"));
        assert_null(strstr(server.request, "Content-Type"));
        assert_string_equal(answer.body.data, "token");
        nb_http_answer_done(&answer);
}

static void no_proxy_of_the_environment(void **state) {
        static const char *const names[] = { "http_proxy", "all_proxy", "ALL_PROXY" };
        struct nb_http_request request = { .max_body = 100 };
        struct nb_http_answer answer = { 0 };
        struct nb_failure f = { 0 };
        struct server server;
        int r;

        for (size_t i = 0; i < N_ELEMENTS(names); i++)
                assert_int_equal(setenv(names[i], "http://127.0.0.1:1", 1), 0);
        server_start(&server, OK("data"), strlen(OK("data")));
        r = ask(&server, &request, &answer, &f);
        for (size_t i = 0; i < N_ELEMENTS(names); i++)
                assert_int_equal(unsetenv(names[i]), 0);
        server_stop(&server);
        assert_int_equal(r, 0);
        nb_http_answer_done(&answer);
}

static void a_secret_takes_the_body(void **state) {
        struct nb_secret secret = NB_SECRET_INIT;
        struct nb_http_request request = { .secret = &secret };
        struct nb_http_answer answer = { 0 };
        struct nb_failure f = { 0 };
        struct server server;

        assert_int_equal(nb_secret_init(&secret, 4), 0);
        server_start(&server, OK("abcd"), strlen(OK("abcd")));
        assert_int_equal(ask(&server, &request, &answer, &f), 0);
        server_stop(&server);
        assert_string_equal(secret.data, "abcd");
        assert_int_equal(answer.body.len, 0);
        nb_http_answer_done(&answer);
        nb_secret_done(&secret);
}

static void its_size_is_the_ceiling(void **state) {
        struct nb_secret secret = NB_SECRET_INIT;
        struct nb_http_request request = { .secret = &secret };
        struct nb_http_answer answer = { 0 };
        struct nb_failure f = { 0 };
        struct server server;

        assert_int_equal(nb_secret_init(&secret, 4), 0);
        server_start(&server, OK("abcde"), strlen(OK("abcde")));
        assert_int_equal(ask(&server, &request, &answer, &f), -EMSGSIZE);
        server_stop(&server);
        assert_int_equal(f.code, NB_ANSWER_MALFORMED);
        nb_http_answer_done(&answer);
        nb_secret_done(&secret);
}

static void an_error_is_no_secret(void **state) {
        static const char reply[] =
                "HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\nnothing here";
        struct nb_secret secret = NB_SECRET_INIT;
        struct nb_http_request request = { .secret = &secret };
        struct nb_http_answer answer = { 0 };
        struct nb_failure f = { 0 };
        struct server server;

        assert_int_equal(nb_secret_init(&secret, 4), 0);
        server_start(&server, reply, strlen(reply));
        assert_int_equal(ask(&server, &request, &answer, &f), 0);
        server_stop(&server);
        assert_int_equal(answer.status, 404);
        assert_int_equal(secret.len, 0);
        assert_string_equal(answer.body.data, "nothing here");
        nb_http_answer_done(&answer);
        nb_secret_done(&secret);
}

static void a_redirect_is_reported(void **state) {
        static const char reply[] = "HTTP/1.1 302 Found\r\nLocation: "
                                    "https://10.0.0.1:6443/\r\nContent-Length: 0\r\n\r\n";
        struct nb_http_request request = { .max_body = 100 };
        struct nb_http_answer answer = { 0 };
        struct nb_failure f = { 0 };
        struct server server;

        server_start(&server, reply, strlen(reply));
        assert_int_equal(ask(&server, &request, &answer, &f), 0);
        server_stop(&server);
        assert_int_equal(answer.status, 302);
        assert_string_equal(answer.location, "https://10.0.0.1:6443/");
        nb_http_answer_done(&answer);
}

static void content_is_not_decoded(void **state) {
        static const char reply[] = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: "
                                    "4\r\n\r\n\x1f\x8b\x08\x01";
        struct nb_http_request request = { .max_body = 100 };
        struct nb_http_answer answer = { 0 };
        struct nb_failure f = { 0 };
        struct server server;

        server_start(&server, reply, strlen(reply));
        assert_int_equal(ask(&server, &request, &answer, &f), 0);
        server_stop(&server);
        assert_int_equal(answer.body.len, 4);
        assert_memory_equal(answer.body.data, "\x1f\x8b\x08\x01", 4);
        nb_http_answer_done(&answer);
}

static void nobody_listens(void **state) {
        struct nb_http_request request = { .max_body = 100 };
        struct nb_http_answer answer = { 0 };
        struct nb_failure f = { 0 };
        struct server server;

        server_start(&server, "", 0);
        server_stop(&server);
        assert_int_equal(ask(&server, &request, &answer, &f), -ECONNREFUSED);
        assert_int_equal(f.code, NB_ENDPOINT_REFUSED);
        assert_non_null(strstr(f.detail, "Connection refused"));
}

int main(void) {
        CASE(what_is_sent);
        CASE(put_has_no_body);
        CASE(no_proxy_of_the_environment);
        CASE(a_secret_takes_the_body);
        CASE(its_size_is_the_ceiling);
        CASE(an_error_is_no_secret);
        CASE(a_redirect_is_reported);
        CASE(content_is_not_decoded);
        CASE(nobody_listens);
        return case_run("http/metadata");
}
