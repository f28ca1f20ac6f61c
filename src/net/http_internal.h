/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files of net/ share.
 *
 * Each connection has a process of its own, a worker. It is forked without exec, and its only open
 * files are a socket to this process and the memory files with the trusted CAs. http.c runs in this
 * process, everything else in the worker. An unverified server that exploits or blocks libcurl or
 * GnuTLS therefore affects only a process that holds no secret and can be killed.
 *
 *      this process                       worker
 *      struct nb_http_call, body    ->
 *                                   <-    NB_HTTP_CONNECTED: TLS is verified, if required
 *      the secret header lines      ->    (if there are any)
 *                                   <-    NB_HTTP_BODY, a piece at a time
 *                                   <-    NB_HTTP_DONE, or NB_HTTP_STALE: nothing was sent, ask
 * another worker
 *
 * A worker makes one connection. It is used again as long as that connection lives.
 */

#include <curl/curl.h>
#include <sys/types.h>

#include "net/http.h"

#define NB_HTTP_URL_MAX 2048
#define NB_HTTP_HOST_SIZE 256
#define NB_HTTP_REQUEST_BODY_MAX ((size_t)64 * 1024)
#define NB_HTTP_SECRETS_MAX ((size_t)64 * 1024)
#define NB_HTTP_GRACE_MS \
        2000 /* lets libcurl detect a timeout first, since its error is more precise */
#define NB_HTTP_PIECE_MAX ((size_t)64 * 1024)

struct nb_http_worker {
        struct nb_http_worker *next;
        struct nb_http_transfer *transfer; /* NULL: idle */
        pid_t pid;
        int fd;
};

struct nb_http {
        bool is_verified; /* there is trust */
        bool is_metadata; /* a cloud's service: believed as far as the cloud is */
        bool has_connected;
        struct nb_http_connection connection; /* for nb_http_take_connection() */
        uint32_t connect_timeout_ms;
        int ca_fd;          /* sealed memfd with the CAs; -1 for those of the system */
        char ca_path[32];   /* "/proc/self/fd/N": CURLOPT_CAINFO_BLOB is not in Debian 12's GnuTLS
                               build */
        int certificate_fd; /* the same for a client certificate with its key; -1 for none: the
                               blobs of that build are taken and then ignored */
        char certificate_path[32];
        char tls_server_name[256];
        char proxy_url[256];
        nb_http_explain *explain;
        bool (*is_server)(const char *pem, size_t len);
        struct nb_http_worker *workers;
        struct nb_http_transfer *first;
};

/* A request as sent to a worker, without its secrets. `body_len` bytes follow. */
struct nb_http_call {
        char url[NB_HTTP_URL_MAX];
        char lines[2 + NB_HTTP_LINES_MAX][NB_HTTP_LINE_MAX + 1]; /* header lines; "" for none */
        size_t body_len;
        size_t max_body;
        uint32_t timeout_ms;
        uint32_t silence_sec;
        bool is_post;
        bool is_put;
        bool is_stream;
        bool is_certificate_kept;
        bool has_secrets;
};

enum nb_http_reply_kind {
        NB_HTTP_CONNECTED,
        NB_HTTP_BODY,
        NB_HTTP_DONE,
        NB_HTTP_STALE,
        _NB_HTTP_REPLY_N,
};

struct nb_http_transfer {
        struct nb_http *http;
        struct nb_http_transfer *next;
        struct nb_http_worker *worker; /* NULL once it is over */
        char what[320];
        struct nb_http_call call;
        const char *body;
        const struct nb_secret *secret_lines[1 + NB_HTTP_HEADERS_EXTRA]; /* up to the first NULL */
        struct nb_http_answer answer;
        struct nb_secret *secret;
        uint64_t begin_ms;
        uint64_t limit_ms;
        bool is_connected;
        bool is_moved; /* to another worker, since the connection of the first was gone */
        bool has_news; /* the stream received data since the last check */
        bool is_done;
        struct nb_failure failure;
};

/* A message of a worker. `len` bytes follow: a piece of the body, or with NB_HTTP_DONE the
 * certificate, if it was requested. */
struct nb_http_reply {
        uint32_t kind;
        size_t len;
        struct nb_http_connection connection; /* begin_usec 0: not a new one */
        long status;
        int64_t date;
        uint32_t retry_after_ms;
        char location[sizeof(((struct nb_http_answer *)NULL)->location)];
        struct nb_failure failure; /* code NB_NONE: there is an answer */
};

/* Validates a message of `size` bytes, since the server may have taken over the worker. 0,
 * -EBADMSG. */
int nb_http_reply_verify(const struct nb_http_reply *reply, size_t size);

/* Handles one message of its worker. */
void nb_http_transfer_take_reply(struct nb_http_transfer *transfer);

/* http_worker.c: forks one. 0, -errno. */
int nb_http_worker_start(const struct nb_http *http, pid_t *ret_pid, int *ret_fd);

/* --- In the worker --- */

/* Those of the connection: several only while addresses are tried. */
struct nb_http_sockets {
        int fds[16];
        unsigned n;
        bool is_any; /* libcurl asked for one */
};

struct nb_http_exchange {
        /* Of the worker, for all its requests. */
        const struct nb_http *http;
        int fd;
        CURL *easy;               /* keeps the connection */
        struct nb_secret secrets; /* header lines, each with its NUL; empty until the worker has
                                     received them */
        bool has_connected;
        struct nb_http_sockets sockets;
        struct nb_http_call call;
        char body[NB_HTTP_REQUEST_BODY_MAX];

        /* Of this request. */
        struct nb_http_reply reply;
        uint64_t begin_usec;
        /* Header lines: nodes of our own, since curl_slist_append() would copy a secret to a place
         * that nobody wipes. */
        struct curl_slist lines[2 + NB_HTTP_LINES_MAX + 1 + NB_HTTP_HEADERS_EXTRA];
        size_t n_lines;
        struct curl_slist *connect_to;
        char error[CURL_ERROR_SIZE];
        size_t body_len;
        size_t headers_len;
        uint64_t raw_begin; /* what the connection had received before, or up to the last end of a
                               line of a stream */
        char host[NB_HTTP_HOST_SIZE]; /* of the URL */
        bool is_connected;
        bool is_stale;
        bool is_too_large;
        bool is_no_server; /* its certificate is good, but not for servers */
        CURLcode result;
};

/* Sends a reply, followed by `len` bytes. Exits if this fails. */
void nb_http_reply_send(struct nb_http_exchange *exchange, enum nb_http_reply_kind kind,
                        const void *data, size_t len);

/* Certificate `i` in PEM of the chain that the server presented, also of one that does not verify;
 * NULL if there is none. Owned by the handle. */
const char *nb_http_certificate(CURL *easy, int i);

/* Bytes received on the connection so far, including headers and the framing of TLS and HTTP; 0 if
 * unknown. */
uint64_t nb_http_raw_received(const struct nb_http_exchange *exchange);

/* Sets every option of a transfer. 0; -errno if libcurl refuses one: a build problem. */
int nb_http_exchange_setup(struct nb_http_exchange *exchange);

/* "169.254.169.254" or "fd00:ec2::254". */
bool nb_http_is_address(const char *host);

/* The proxy's URL as libcurl finds it; "" for none. */
const char *nb_http_find_proxy(const struct nb_http *http);

/* Sorts the outcome of a transfer that did not end with an answer. */
int nb_http_outcome(const struct nb_http_exchange *exchange, struct nb_failure *f);

/* On both sides: no connection, or no whole answer in time. */
int nb_http_outcome_timeout(const struct nb_http *http, const struct nb_http_call *call,
                            bool is_connected, struct nb_failure *f);
int nb_http_outcome_too_large(const struct nb_http_call *call, struct nb_failure *f);
