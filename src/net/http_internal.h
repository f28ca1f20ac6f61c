/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Private to net/.
 *
 * Each connection has a process of its own, a worker. It is forked without exec, and its only open
 * files besides the standard streams are a socket to this process and the memory files with the
 * trusted CAs and the client certificate. http.c and http_wait.c run in this process, http_setup.c
 * and http_worker.c in the worker, http_outcome.c in both. An unverified server that exploits or
 * blocks libcurl or GnuTLS therefore affects only a process that can be killed, and whose only
 * secret is the key of a client certificate, if one is used.
 *
 *      this process                       worker
 *      struct nb_http_call, body    ->
 *                                   <-    NB_HTTP_CONNECTED: TLS is verified, if required
 *      the secret header lines      ->    (if there are any)
 *                                   <-    NB_HTTP_BODY, a piece at a time
 *                                   <-    NB_HTTP_DONE, or NB_HTTP_STALE: nothing was sent,
 *                                         use another worker
 *
 * A worker makes only one connection, and is reused as long as that connection is open.
 */

#include <curl/curl.h>
#include <sys/types.h>

#include "net/http.h"

#define NB_HTTP_URL_MAX 2048
#define NB_HTTP_HOST_SIZE 256
#define NB_HTTP_REQUEST_BODY_MAX ((size_t)64 * 1024)
#define NB_HTTP_SECRETS_MAX ((size_t)64 * 1024)
#define NB_HTTP_GRACE_MS \
        2000 /* wait longer than libcurl, since its timeout errors are more precise */
#define NB_HTTP_PIECE_MAX ((size_t)64 * 1024)

struct nb_http_worker {
        struct nb_http_worker *next;
        struct nb_http_transfer *transfer; /* NULL: idle */
        pid_t pid;
        int fd;
};

struct nb_http {
        bool is_verified; /* the server is verified */
        bool is_metadata; /* a cloud's metadata service: plain HTTP, no proxy */
        bool has_connected;
        struct nb_http_connection connection; /* for nb_http_take_connection() */
        uint32_t connect_timeout_ms;
        int ca_fd;          /* sealed memory file with the CAs; -1 for those of the system */
        char ca_path[32];   /* "/proc/self/fd/N", since libcurl with GnuTLS in Debian 12 lacks
                               CURLOPT_CAINFO_BLOB */
        int certificate_fd; /* the same for a client certificate with its key, since that libcurl
                               ignores such blobs; -1 for none */
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
        bool has_body;
        char method[8]; /* "" for libcurl's own: POST with a body, GET without */
        bool is_stream;
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
        bool is_moved; /* to another worker, since the connection of the first one was closed */
        bool has_news; /* the stream received data since the last check */
        bool is_done;
        struct nb_failure failure;
};

/* A message from a worker. With NB_HTTP_BODY, `len` bytes of the body follow. */
struct nb_http_reply {
        uint32_t kind;
        size_t len;
        struct nb_http_connection connection; /* begin_usec is 0 if it is not new */
        long status;
        int64_t date;
        uint32_t retry_after_ms;
        char location[sizeof(((struct nb_http_answer *)NULL)->location)];
        struct nb_failure failure; /* code is NB_NONE if there is an answer */
};

/* Validates a message of `size` bytes, since the server may have taken over the worker. 0,
 * -EBADMSG. */
int nb_http_reply_verify(const struct nb_http_reply *reply, size_t size);

/* Handles one message from the transfer's worker. */
void nb_http_transfer_take_reply(struct nb_http_transfer *transfer);

/* Ends a transfer whose time limit has passed. */
void nb_http_transfer_fail_late(struct nb_http_transfer *transfer);

/* Forks a worker. *ret_fd is the socket to it. 0, -errno; -EAGAIN also if the kernel lacks memory,
 * which passes, unlike a lack of memory in this process. */
int nb_http_worker_start(const struct nb_http *http, pid_t *ret_pid, int *ret_fd);

/* --- In the worker --- */

/* The connection's sockets: several only while libcurl tries several addresses. */
struct nb_http_sockets {
        int fds[16];
        unsigned n;
        bool is_any; /* libcurl asked for a socket */
};

struct nb_http_exchange {
        /* The same for all requests of a worker. */
        const struct nb_http *http;
        int fd;
        CURL *easy;               /* keeps the connection open */
        struct nb_secret secrets; /* header lines, each with its NUL; empty until the worker has
                                     received them */
        bool has_connected;
        struct nb_http_sockets sockets;
        struct nb_http_call call;
        char body[NB_HTTP_REQUEST_BODY_MAX];

        /* Reset for each request. */
        struct nb_http_reply reply;
        uint64_t begin_usec;
        /* Header lines. Not from curl_slist_append(), which copies secrets to memory that is not
         * wiped. */
        struct curl_slist lines[2 + NB_HTTP_LINES_MAX + 1 + NB_HTTP_HEADERS_EXTRA];
        size_t n_lines;
        struct curl_slist *connect_to;
        char error[CURL_ERROR_SIZE];
        size_t body_len;
        size_t headers_len;
        uint64_t raw_begin; /* bytes that the connection had received before this request, or before
                               the current line of a stream */
        char host[NB_HTTP_HOST_SIZE]; /* of the URL */
        bool is_connected;
        bool is_stale;
        bool is_too_large;
        bool is_no_server; /* the server's certificate is trusted, but is not for TLS servers */
        CURLcode result;
};

/* Sends a reply, followed by `len` bytes. Exits if this fails. */
void nb_http_reply_send(struct nb_http_exchange *exchange, enum nb_http_reply_kind kind,
                        const void *data, size_t len);

/* Certificate `i` of the server's chain as PEM, even if the chain is not trusted; NULL if there is
 * none. Owned by the handle. */
const char *nb_http_certificate(CURL *easy, int i);

/* Bytes received on the connection so far, including headers and the framing of TLS and HTTP; 0 if
 * unknown. */
uint64_t nb_http_raw_received(const struct nb_http_exchange *exchange);

/* Sets all options of a transfer. 0; -errno if libcurl does not support one. */
int nb_http_exchange_setup(struct nb_http_exchange *exchange);

/* Whether the host is an address, such as "169.254.169.254" or "fd00:ec2::254". */
bool nb_http_is_address(const char *host);

/* Returns the URL of the proxy that libcurl uses; "" for none. */
const char *nb_http_find_proxy(const struct nb_http *http);

/* Sets the failure of a transfer that ended without an answer. */
int nb_http_outcome(const struct nb_http_exchange *exchange, struct nb_failure *f);

/* No connection, or no complete answer, in time. Both also run outside the worker. */
int nb_http_outcome_timeout(const struct nb_http *http, const struct nb_http_call *call,
                            bool is_connected, struct nb_failure *f);
int nb_http_outcome_too_large(const struct nb_http_call *call, struct nb_failure *f);
