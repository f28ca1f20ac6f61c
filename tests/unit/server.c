/* SPDX-License-Identifier: Apache-2.0 */
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "server.h"

#define REQUEST_MAX (32 * 1024)
#define MUST(condition) \
        if (!(condition)) \
        abort()

struct connection {
        struct server *server;
        unsigned number;
};

/* --- One connection --- */

/* Reads until the body is complete. Returns false at the end of the connection. */
static bool read_request(gnutls_session_t session, char request[static REQUEST_MAX]) {
        size_t len = 0, wanted = SIZE_MAX;

        while (len < wanted) {
                ssize_t n = gnutls_record_recv(session, request + len, REQUEST_MAX - 1 - len);
                const char *end, *length;

                if (n == GNUTLS_E_INTERRUPTED || n == GNUTLS_E_AGAIN)
                        continue;
                if (n <= 0)
                        return false;
                len += (size_t)n;
                request[len] = '\0';
                end = strstr(request, "\r\n\r\n");
                if (!end)
                        continue;
                length = strcasestr(request, "\r\nContent-Length:");
                wanted = (size_t)(end - request) + 4;
                if (length && length < end)
                        wanted += strtoul(length + strlen("\r\nContent-Length:"), NULL, 10);
        }
        return true;
}

static struct server_answer *choose(struct server *server, const char *request) {
        static struct server_answer none = { .status = 404 };
        struct server_answer *answer = server->answers;

        while (answer->request && (answer->is_given ||
                                   strncmp(request, answer->request, strlen(answer->request)) != 0))
                answer++;
        if (!answer->request)
                return &none;
        answer->is_given = !answer->is_repeated;
        return answer;
}

static void send_all(gnutls_session_t session, const char *data, size_t len) {
        while (len > 0) {
                ssize_t n = gnutls_record_send(session, data, len);

                if (n == GNUTLS_E_INTERRUPTED || n == GNUTLS_E_AGAIN)
                        continue;
                if (n <= 0)
                        return;
                data += n;
                len -= (size_t)n;
        }
}

/* Returns whether the connection goes on. */
static bool answer_request(struct server *server, gnutls_session_t session, const char *request) {
        struct server_answer answer; /* a copy: with the answer, the test may end */
        char status[256], *text;
        const char *body;
        int len;

        MUST(pthread_mutex_lock(&server->mutex) == 0);
        MUST(strlen(server->log) + strlen(request) < sizeof(server->log));
        strcat(server->log, request);
        answer = *choose(server, request);
        MUST(pthread_mutex_unlock(&server->mutex) == 0);
        if (answer.is_silent)
                return true;
        (void)snprintf(status, sizeof(status),
                       "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\","
                       "\"reason\":\"R\",\"message\":\"m\",\"code\":%d}",
                       answer.status);
        body = answer.body ? answer.body : status;
        len = asprintf(&text, "HTTP/1.1 %d x\r\nContent-Length: %zu\r\n%s\r\n%s", answer.status,
                       strlen(body), answer.headers ? answer.headers : "", body);
        MUST(len > 0);
        send_all(session, text, (size_t)len - answer.is_cut);
        free(text);
        return !answer.is_cut;
}

static void *serve(void *userdata) {
        struct connection *connection = userdata;
        struct server *server = connection->server;
        const int fd = server->fds[connection->number];
        static __thread char request[REQUEST_MAX];
        gnutls_session_t session;

        free(connection);
        MUST(gnutls_init(&session, GNUTLS_SERVER | GNUTLS_NO_SIGNAL) >= 0);
        MUST(gnutls_set_default_priority(session) >= 0);
        MUST(gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, server->credentials) >= 0);
        gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUEST);
        gnutls_transport_set_int(session, fd);
        if (gnutls_handshake(session) >= 0)
                while (read_request(session, request) && answer_request(server, session, request))
                        ;
        gnutls_deinit(session);
        (void)shutdown(fd, SHUT_RDWR);
        return NULL;
}

static void *accept_all(void *userdata) {
        struct server *server = userdata;

        for (;;) {
                int fd = accept4(server->fd, NULL, NULL, SOCK_CLOEXEC);
                struct connection *connection;
                unsigned n;

                if (fd < 0)
                        return NULL;
                MUST(connection = calloc(1, sizeof(*connection)));
                MUST(pthread_mutex_lock(&server->mutex) == 0);
                n = server->n_connections;
                MUST(n < SERVER_CONNECTIONS_MAX);
                *connection = (struct connection){ server, n };
                server->fds[n] = fd;
                MUST(pthread_create(&server->threads[n], NULL, serve, connection) == 0);
                server->n_connections++;
                MUST(pthread_mutex_unlock(&server->mutex) == 0);
        }
}

/* --- The server --- */

static gnutls_datum_t datum_of(char *text) {
        return (gnutls_datum_t){ (unsigned char *)text, (unsigned)strlen(text) };
}

static void make_certificates(struct server *server) {
        gnutls_datum_t pem, key;

        server->ca = pki_make(&(struct pki_options){ .dn = "CN=ca",
                                                     .is_ca = true,
                                                     .not_before = time(NULL) - PKI_DAY,
                                                     .not_after = time(NULL) + PKI_DAY });
        server->own = pki_make(&(struct pki_options){ .dn = "CN=server",
                                                      .issuer = &server->ca,
                                                      .names = "ip:127.0.0.1",
                                                      .purpose = PKI_SERVER_AUTH,
                                                      .not_before = time(NULL) - PKI_DAY,
                                                      .not_after = time(NULL) + PKI_DAY });
        pem = datum_of(server->own.pem);
        key = datum_of(server->own.key_pem);
        MUST(gnutls_certificate_allocate_credentials(&server->credentials) >= 0);
        MUST(gnutls_certificate_set_x509_key_mem(server->credentials, &pem, &key,
                                                 GNUTLS_X509_FMT_PEM) >= 0);
}

void server_start(struct server *server, struct server_answer *answers) {
        struct sockaddr_in address = { .sin_family = AF_INET,
                                       .sin_addr = { htonl(INADDR_LOOPBACK) } };
        socklen_t len = sizeof(address);

        *server = (struct server){ .answers = answers,
                                   .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };
        make_certificates(server);
        MUST(pthread_mutex_init(&server->mutex, NULL) == 0);
        MUST(bind(server->fd, (struct sockaddr *)&address, len) == 0);
        MUST(listen(server->fd, 8) == 0);
        MUST(getsockname(server->fd, (struct sockaddr *)&address, &len) == 0);
        server->port = ntohs(address.sin_port);
        MUST(pthread_create(&server->acceptor, NULL, accept_all, server) == 0);
}

static void end_connections(struct server *server) {
        MUST(pthread_mutex_lock(&server->mutex) == 0);
        for (unsigned i = 0; i < server->n_connections; i++)
                (void)shutdown(server->fds[i], SHUT_RDWR);
        MUST(pthread_mutex_unlock(&server->mutex) == 0);
        for (unsigned i = 0; i < server->n_connections; i++) {
                MUST(pthread_join(server->threads[i], NULL) == 0);
                (void)close(server->fds[i]);
        }
        server->n_connections = 0;
}

void server_stop(struct server *server) {
        (void)shutdown(server->fd, SHUT_RDWR);
        MUST(pthread_join(server->acceptor, NULL) == 0);
        (void)close(server->fd);
        end_connections(server);
        gnutls_certificate_free_credentials(server->credentials);
        MUST(pthread_mutex_destroy(&server->mutex) == 0);
        pki_done(&server->own);
        pki_done(&server->ca);
}

const char *server_log(struct server *server) {
        return server->log;
}

void server_reset(struct server *server, struct server_answer *answers) {
        end_connections(server);
        server->answers = answers;
        server->log[0] = '\0';
}

struct nb_cluster server_cluster(const struct server *server) {
        struct nb_cluster cluster = { .ca = server->ca.pem, .ca_len = strlen(server->ca.pem) };
        char url[64];
        int len = snprintf(url, sizeof(url), "https://127.0.0.1:%d", server->port);

        MUST(nb_url_parse(url, (size_t)len, &cluster.server) >= 0);
        return cluster;
}
