/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An HTTPS server on 127.0.0.1 for one test, in threads of it, which gives prepared answers.
 * Everything that goes wrong in here aborts the test.
 *
 * Call nb_http_begin() before server_start(), since the launcher is a fork of this process.
 */

#include <stdbool.h>
#include <stddef.h>

#include <gnutls/gnutls.h>
#include <pthread.h>

#include "kube_objects/kubeconfig.h"
#include "pki.h"

#define SERVER_CONNECTIONS_MAX 32
#define SERVER_LOG_SIZE (64 * 1024)

/* The answer to the first request that begins like this ("GET /version"); each is given once,
 * unless it is_repeated. */
struct server_answer {
        const char *request;
        int status;
        const char *body;    /* NULL: a Status object with this status */
        const char *headers; /* more lines, each with "\r\n"; NULL: none */
        bool is_repeated;
        bool is_cut;    /* closes the connection in the body */
        bool is_silent; /* never answers */
        bool is_given;  /* by the server */
};

struct server {
        struct pki_cert ca, own;
        struct server_answer *answers; /* up to one without `request` */
        int fd, port;
        gnutls_certificate_credentials_t credentials;
        pthread_mutex_t mutex;
        pthread_t acceptor, threads[SERVER_CONNECTIONS_MAX];
        int fds[SERVER_CONNECTIONS_MAX];
        unsigned n_connections; /* so far */
        char log[SERVER_LOG_SIZE];
};

/* Creates CA and certificate, and listens. `answers` must stay. */
void server_start(struct server *server, struct server_answer *answers);
void server_stop(struct server *server);

/* The requests so far, whole: method, path, headers, body. */
const char *server_log(struct server *server);
/* Begins another case with the same certificates. */
void server_reset(struct server *server, struct server_answer *answers);

/* As a verified cluster. `ca` is the server's. */
struct nb_cluster server_cluster(const struct server *server);
