/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Private to http/.
 *
 * Each connection has a process of its own, a worker. The launcher forks the workers. It is a small
 * process that starts before this process reads any secret, so the memory of a worker has no secret
 * except those of the command line and the environment. Workers are children of this process
 * (CLONE_PARENT), which kills and reaps them. The open files of a worker are a socket to this
 * process, the memory files with the trusted CAs and the client certificate, and /dev/null.
 *
 * A worker resolves the name and connects in a first sandbox. Before the first byte of TLS, it
 * enters a second one, which leaves it only its open files (http_sandbox.c). A server that exploits
 * or blocks libcurl or GnuTLS therefore affects only a process that can be killed, and whose only
 * secret is the key of a client certificate, if one is used.
 *
 * http.c and http_wait.c run in this process, http_launcher.c in all three, http_sandbox.c and
 * http_outcome.c in this process and in the worker, http_setup.c, http_verify.c and http_worker.c
 * in the worker.
 *
 *      this process                       worker
 *      (struct nb_http_call: only   ->
 *      connect by TCP)              <-    (NB_HTTP_OPENED)
 *      struct nb_http_call, body    ->
 *                                   <-    NB_HTTP_CONNECTED: TLS is verified, if required
 *      the secret header lines      ->    (if there are any)
 *                                   <-    NB_HTTP_BODY, a piece at a time
 *                                   <-    NB_HTTP_DONE, or NB_HTTP_STALE: nothing was sent,
 *                                         use another worker
 *
 * A worker makes only one connection, and is reused as long as that connection is open. A worker
 * that connects early waits in the second step of the sandbox, without the CAs, which this process
 * writes into the memory file later.
 */

#include <curl/curl.h>
#include <sys/types.h>

#include "http/http.h"
#include "os/filter.h"

#define NB_HTTP_URL_MAX 2048
#define NB_HTTP_HOST_SIZE 256
#define NB_HTTP_REQUEST_BODY_MAX ((size_t)64 * 1024)
#define NB_HTTP_SECRETS_MAX ((size_t)64 * 1024)
#define NB_HTTP_GRACE_MS \
        2000 /* wait longer than libcurl, since its timeout errors are more precise */
#define NB_HTTP_PIECE_MAX ((size_t)64 * 1024)
#define NB_HTTP_CA_MAX ((size_t)16 * 1024 * 1024)
#define NB_HTTP_PEER_SIZE 64
#define NB_HTTP_CHAIN_MAX ((size_t)256 * 1024)

struct nb_http_worker {
        struct nb_http_worker *next;
        struct nb_http_transfer *transfer; /* NULL: idle */
        pid_t pid;
        int fd;
};

/* The configuration of a worker. The launcher and the workers are forks of this process, so
 * pointers to functions are valid in them. */
struct nb_http_config {
        bool is_verified;     /* the server is verified; the CAs are in NB_HTTP_CA_FD */
        bool is_metadata;     /* a cloud's metadata service: plain HTTP, no proxy */
        bool has_certificate; /* there is a client certificate, in NB_HTTP_CERTIFICATE_FD */
        bool has_proxy_ca;    /* the CAs that verify the proxy are in NB_HTTP_PROXY_CA_FD */
        bool has_landlock;
        uint32_t connect_timeout_ms;
        char tls_server_name[256];
        char proxy_url[256];
        nb_http_verify *verify;
};

struct nb_http {
        struct nb_http_config config;
        bool has_connected;
        struct nb_http_connection connection; /* for nb_http_take_connection() */
        int ca_fd;          /* sealed memory file with the CAs; -1 if the server is not verified */
        int ca_later_fd;    /* the same, to write, until there are CAs; -1 */
        int certificate_fd; /* the same for a client certificate with its key; -1 for none */
        int proxy_ca_fd;    /* the same for the CAs of an https proxy; -1 for none */
        struct nb_http_worker *workers;
        struct nb_http_transfer *first;
};

/* The descriptors of a worker. One without a file is a second descriptor of the socket. libcurl
 * gets paths, since with GnuTLS in Debian 12 it lacks CURLOPT_CAINFO_BLOB and ignores the blob of a
 * certificate. */
#define NB_HTTP_CALLS_FD 3
#define NB_HTTP_CA_FD 4
#define NB_HTTP_CERTIFICATE_FD 5
#define NB_HTTP_PROXY_CA_FD 6
#define NB_HTTP_CA_PATH "/proc/self/fd/4"
#define NB_HTTP_CERTIFICATE_PATH "/proc/self/fd/5"
#define NB_HTTP_PROXY_CA_PATH "/proc/self/fd/6"

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
        bool is_early; /* only connect by TCP, for the next call */
};

enum nb_http_reply_kind {
        NB_HTTP_OPENED, /* the only reply to an early call */
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
        struct nb_http *early;         /* connected when this transfer is; NULL: none, or done */
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

/* Waits until the launcher is prepared. NB_WORKER_UNSTARTABLE, NB_INTERNAL; -ECANCELED without a
 * failure if a stop was requested. */
int nb_http_await_launcher(struct nb_failure *f);

/* Lets the launcher fork a worker for the host of `url`. *ret_fd is the socket to the worker. 0,
 * -errno; -EAGAIN also if the kernel lacks memory: this is temporary, unlike a lack of memory in
 * this process. */
int nb_http_worker_start(const struct nb_http *http, const char *url, pid_t *ret_pid, int *ret_fd);

/* Kills a worker or the launcher, if it has not ended, and waits. Returns its wait status
 * (waitpid(2)). */
int nb_http_worker_end(pid_t pid);

/* Kills a worker. Does not wait until the kernel has taken down its memory, which takes about a
 * millisecond, unless the launcher has ended; nb_http_end() waits. */
void nb_http_worker_kill(pid_t pid);

/* Reaps the workers that were killed and have ended. */
void nb_http_workers_reap(void);

/* The system call filters of the two steps of the sandbox. */
struct nb_http_filters {
        struct nb_filter connect, exchange;
};

/* 0, -errno. */
int nb_http_sandbox_prepare(struct nb_http_filters *ret);

/* --- In the worker --- */

/* The first step refuses all files except those of the resolver, and new processes, and limits
 * memory. The second step also refuses sockets and threads. 0, -errno. */
int nb_http_sandbox_begin(const struct nb_http_filters *filters, bool has_landlock);
int nb_http_sandbox_finish(const struct nb_http_filters *filters);

/* Serves calls until the socket is closed. */
void nb_http_worker_run(const struct nb_http_config *config, const struct nb_http_filters *filters);

struct nb_http_exchange {
        /* The same for all requests of a worker. */
        const struct nb_http_config *config;
        const struct nb_http_filters *filters;
        CURL *easy;                   /* keeps the connection open */
        struct nb_secret secrets;     /* header lines, each with its NUL; empty until the worker has
                                         received them */
        int sandbox_r;                /* of nb_http_sandbox_begin() */
        int socket_fd;                /* the connection; -1 until there is one */
        bool is_socket_used;          /* libcurl has taken it */
        bool is_early;                /* the socket was connected by an earlier call */
        bool is_marked;               /* the name of the server resolves to NO_ADDRESS */
        bool is_direct;               /* NO_PROXY lists the name or address of the server */
        char peer[NB_HTTP_PEER_SIZE]; /* the address of the server or its proxy; "": none yet */
        bool has_connected;           /* and, if required, has verified the server */
        bool is_confined;             /* the worker has entered the second step of the sandbox */
        curl_off_t resolve_us;
        curl_off_t tcp_us;
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
        bool is_secured;              /* the TLS handshake is done */
        bool is_connected;            /* and, if required, the server is verified */
        bool is_socket_wanted; /* libcurl asked for a socket: it has the address of the server */
        bool is_stale;
        bool is_too_large;
        CURLcode result;
};

/* Sends a reply, followed by `len` bytes. Exits if this fails. */
void nb_http_reply_send(struct nb_http_exchange *exchange, enum nb_http_reply_kind kind,
                        const void *data, size_t len);

/* Whether libcurl uses GnuTLS, which returns the certificates that the server has sent. libcurl's
 * own CURLINFO_CERTINFO fails with GnuTLS if the key of one is Ed25519 (until 8.14, at least). */
bool nb_http_has_gnutls(CURL *easy);

/* Appends the chain of the server as PEM, even if it is not trusted; nothing if there is none. With
 * GnuTLS, only while there is a connection. */
void nb_http_read_chain(CURL *easy, struct nb_buffer *ret_pem);

/* Verifies the server of a connection whose handshake is done, by its chain.
 * nb_http_is_untrusted(), NB_INTERNAL. */
int nb_http_server_verify(const struct nb_http_exchange *exchange, const struct nb_buffer *chain,
                          struct nb_failure *f);

/* Bytes received on the connection so far, including headers and the framing of TLS and HTTP; 0 if
 * unknown. */
uint64_t nb_http_raw_received(const struct nb_http_exchange *exchange);

/* Connects to the server or its proxy, without sending or receiving a byte, and sets socket_fd. The
 * outcome is in `result`. 0; -EIO if libcurl does not support an option. */
int nb_http_exchange_connect(struct nb_http_exchange *exchange);

/* Sets all options of a transfer over that connection. 0; -EIO if libcurl does not support one. */
int nb_http_exchange_setup(struct nb_http_exchange *exchange);

/* Whether the host is an address, such as "169.254.169.254" or "fd00:ec2::254". */
bool nb_http_is_address(const char *host);

/* Whether the host of the URL, or of a proxy, may be a name. Also runs outside the worker. */
bool nb_http_needs_resolver(const struct nb_http_config *config, const char *url);

/* Returns the URL of the proxy that libcurl uses unless NO_PROXY lists the server; "" for none.
 * *ret_origin, if wanted: where it is set, for messages. */
const char *nb_http_find_proxy(const struct nb_http_config *config, const char **ret_origin);

/* What the proxy has to do with the connection; see struct nb_http_connection. */
void nb_http_describe_route(const struct nb_http_exchange *exchange,
                            char ret[static NB_HTTP_ROUTE_SIZE]);

/* Whether the connection is, or would be, to the proxy: NO_PROXY does not list the server. */
bool nb_http_has_proxy(const struct nb_http_exchange *exchange);

/* Sets the failure of a transfer that ended without an answer. */
int nb_http_outcome(const struct nb_http_exchange *exchange, struct nb_failure *f);

/* No connection, or no complete answer, in time. Both also run outside the worker. */
int nb_http_outcome_timeout(const struct nb_http_config *config, const struct nb_http_call *call,
                            bool is_connected, struct nb_failure *f);
int nb_http_outcome_too_large(const struct nb_http_call *call, struct nb_failure *f);
