/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * HTTPS requests through libcurl: https only, TLS 1.2 or newer, no redirects, no netrc, named time
 * limits, limits for headers and bodies, and the status is checked before bytes are accepted.
 * Proxies come from the environment, as for kubelet.
 *
 * A struct nb_http is a set of connections with the same trust. libcurl may use GnuTLS or OpenSSL,
 * which verify differently, so the caller verifies the server's certificates. Without trust, the
 * server is not verified and no credential can be sent. Such a request returns a struct
 * nb_unverified, whose contents must not be used before the caller has verified them. Several
 * transfers can run at once; all of them run in nb_http_wait(), which also ends if a stop is
 * requested (os/stop.h).
 *
 * Requests to a cloud's metadata service are different: plain HTTP to an address, without a proxy.
 *
 * This module does not judge status codes: an answer with status 500 is an answer.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/buffer.h"
#include "base/failure.h"
#include "base/secret.h"

/* For name resolution, TCP and TLS together. The C library tries the second name server after 5 s
 * (resolv.conf(5)). */
#define NB_HTTP_CONNECT_TIMEOUT_MS 10000
#define NB_HTTP_REQUEST_TIMEOUT_MS 10000 /* as kubeadm's for cluster-info */
#define NB_HTTP_HEADERS_MAX (64 * 1024)
#define NB_HTTP_ERROR_BODY_MAX (64 * 1024) /* a Status object is some hundred bytes */
#define NB_HTTP_RETRY_AFTER_MAX_MS 60000
#define NB_HTTP_DATE_MAX 253402300799 /* the end of the year 9999; Date has four digits */
#define NB_HTTP_CPU_MAX_SEC \
        1 /* until the server is verified; a handshake takes about 3 ms, or 10 ms with RSA of 8192 \
             bits */
#define NB_HTTP_HEADERS_EXTRA 3
#define NB_HTTP_LINES_MAX 3
#define NB_HTTP_LINE_MAX 127
/* A stream whose reader has not consumed this much is not read further, until it has. */
#define NB_HTTP_STREAM_AHEAD_MAX ((size_t)256 * 1024)

struct nb_http;
struct nb_http_transfer;

/*
 * Verifies a server's certificate chain (PEM) after the handshake, in which the server proved that
 * it has the key of the first one, and before anything is sent. `ca` are the trusted CAs; `host` is
 * the expected name or address. Returns NB_NONE if the server is verified; otherwise
 * NB_TLS_UNTRUSTED, NB_TLS_NAME_MISMATCH or NB_TLS_EXPIRED, and a reason for a message.
 */
typedef enum nb_code nb_http_verify(const char *pem, size_t len, const char *ca, size_t ca_len,
                                    const char *host, char *ret_reason, size_t size);

/* How a server is verified and reached. */
struct nb_http_trust {
        const char *ca; /* PEM; copied. NULL: the CAs of the system */
        size_t ca_len;
        bool is_ca_later; /* nb_http_set_ca() sets the CAs, before the first request */
        const char *client_certificate; /* PEM chain; copied. NULL for none */
        size_t client_certificate_len;
        const struct nb_secret *client_key; /* PEM; copied into a sealed memory file */
        nb_http_verify *verify;
        const char *tls_server_name; /* to verify and to send as SNI; "" for the name in the URL */
        const char *proxy_url;       /* "" for the proxy in the environment */
};

struct nb_http_request {
        const char *what; /* for messages: "cluster-info from 10.0.0.10:6443" */
        const char *url;
        /* a whole "Authorization: Bearer ..." line; NULL or empty for none; only with trust. Must
         * stay until the transfer is over */
        const struct nb_secret *authorization;
        /* more whole lines, up to the first NULL; only with trust or for metadata. Must stay until
         * the transfer is over */
        const struct nb_secret *headers[NB_HTTP_HEADERS_EXTRA];
        const char *lines[NB_HTTP_LINES_MAX]; /* more whole lines that are not secret, up to the
                                                 first NULL; copied */
        const char *accept;                   /* media type; NULL: application/json */
        const char *method;                   /* NULL: POST with a body, GET without */
        const char *body;                     /* NULL: none. Must stay until the transfer is over */
        const char *body_type;                /* media type; NULL: application/json */
        size_t body_len;
        struct nb_secret *secret; /* receives the body of a 2xx answer, instead of answer.body, if
                                     it may contain secrets; its size is the limit */
        size_t max_body; /* limit for the body of a 2xx answer; for a stream, limit for one line */
        uint32_t timeout_ms;  /* for the whole request; 0: no limit except silence_sec */
        uint32_t silence_sec; /* ends the transfer if no data arrives for this time; 0: no limit */
        bool is_stream; /* the caller reads the body while it arrives, with nb_http_received() */
        struct nb_http *next; /* connected to the same server by TCP as soon as the TLS of this
                                 request is done, for its first request; NULL for none. Must stay
                                 until the transfer is over */
        void (*meanwhile)(void *userdata); /* called by nb_http_perform() when the request has been
                                              started; NULL for none */
        void *userdata;
};

struct nb_http_answer {
        long status;
        struct nb_buffer body;
        time_t date; /* the Date header, at most NB_HTTP_DATE_MAX; 0 when there is none */
        uint32_t retry_after_ms; /* at most NB_HTTP_RETRY_AFTER_MAX_MS; 0 without the header */
        char location[128]; /* Location header of a redirect, which is not followed; "" for none */
};

#define NB_HTTP_ROUTE_SIZE 160

/* How long the steps of a TLS connection took, in their order, and how it was made. */
struct nb_http_connection {
        uint64_t begin_usec;   /* nb_now_usec() */
        uint64_t resolve_usec; /* of the host name, or the proxy's; 0 if it is an address */
        uint64_t tcp_usec;
        uint64_t tls_usec; /* through a proxy, includes its answer to CONNECT */
        /* "through the proxy at 192.0.2.1:3128 (HTTPS_PROXY)", or directly, and why, although a
         * proxy is set; "" if none is */
        char route[NB_HTTP_ROUTE_SIZE];
};

/* An answer of an unverified server. */
struct nb_unverified {
        struct nb_http_answer answer;
};

void nb_http_answer_done(struct nb_http_answer *answer);
void nb_unverified_done(struct nb_unverified *unverified);

/*
 * Starts the launcher, which forks a process for each connection. Must be called before this
 * process reads a secret, since those processes begin with a copy of its memory. Does nothing if
 * the launcher runs. Does not wait until the launcher has prepared itself, which takes
 * milliseconds: the first nb_http_new() does. NB_SANDBOX_REFUSED if the kernel has Landlock, which
 * is not optional, but a system call filter refuses it; NB_WORKER_UNSTARTABLE; NB_INTERNAL;
 * -ECANCELED without a failure if a stop was requested.
 */
int nb_http_begin(bool is_landlock_optional, struct nb_failure *f);

/* The first: whether Landlock restricts the processes of connections. The second logs if not. */
bool nb_http_has_landlock(void);
void nb_http_report_landlock(void);

/* For a process that a fork of this one has made, and that only resolves names: it enters the first
 * sandbox of a connection, which leaves it no file except those of the resolver. Call
 * nb_http_begin() before the fork. 0, -errno. */
int nb_http_confine_resolver(void);

/* Ends the launcher, so that this process leaves no other process behind. */
void nb_http_end(void);

/* Kills the launcher and the processes of `http` without waiting for them, which takes a while: no
 * connection can be made any more. nb_http_free() and nb_http_end() wait. */
void nb_http_dismiss(const struct nb_http *http);

/* `trust` NULL: the server is not verified. NB_WORKER_UNSTARTABLE; NB_TLS_UNTRUSTED if the CAs of
 * the system cannot be read; NB_INTERNAL; -ECANCELED without a failure if a stop was requested. */
int nb_http_new(const struct nb_http_trust *trust, struct nb_http **ret_http, struct nb_failure *f);

/* For the metadata service of a cloud: plain HTTP, and the URL has an address. Proxies in the
 * environment are ignored. NB_WORKER_UNSTARTABLE, NB_INTERNAL; -ECANCELED as above. */
int nb_http_new_metadata(uint32_t connect_timeout_ms, struct nb_http **ret_http,
                         struct nb_failure *f);

/* Sets the CAs if `is_ca_later`, once. NB_WORKER_UNSTARTABLE. */
int nb_http_set_ca(struct nb_http *http, const char *ca, size_t len, struct nb_failure *f);

/* Cancels all transfers and closes all connections. NULL is accepted. */
void nb_http_free(struct nb_http *http);
void nb_http_freep(struct nb_http **http);

/* Starts a request. nb_http_finish(), nb_http_finish_unverified() or nb_http_cancel() frees the
 * transfer. NB_WORKER_UNSTARTABLE, NB_INTERNAL. */
int nb_http_start(struct nb_http *http, const struct nb_http_request *request,
                  struct nb_http_transfer **ret_transfer, struct nb_failure *f);

/*
 * Runs all transfers of `n` sets of connections. 1 if a transfer is over (*ret_done) or a stream
 * received data (*ret_done is NULL); 0 at `until_ms` (as nb_now_ms(); or NB_TIME_INFINITE);
 * -ECANCELED without a failure if a stop was requested; NB_INTERNAL.
 */
int nb_http_wait(struct nb_http *const *https, size_t n, uint64_t until_ms,
                 struct nb_http_transfer **ret_done, struct nb_failure *f);

/* The data that a stream has received; the caller consumes it. *ret_status is 0 until the body
 * begins. */
struct nb_buffer *nb_http_received(struct nb_http_transfer *transfer, long *ret_status);

/*
 * Returns the outcome of a transfer that is over, and frees the transfer. Failures: those of
 * nb_http_is_unanswered() and nb_http_is_untrusted(); NB_ANSWER_MALFORMED (larger than a limit, or
 * not HTTP); NB_INTERNAL.
 */
int nb_http_finish(struct nb_http_transfer *transfer, struct nb_http_answer *ret_answer,
                   struct nb_failure *f);
int nb_http_finish_unverified(struct nb_http_transfer *transfer,
                              struct nb_unverified *ret_unverified, struct nb_failure *f);

/* Whether any transfer so far has connected, even if it failed later. */
bool nb_http_has_connected(const struct nb_http *http);

/* Returns the newest connection since the last call; false, and zeros, if there is none. */
bool nb_http_take_connection(struct nb_http *http, struct nb_http_connection *ret_connection);

/* The server did not answer: NB_ENDPOINT_UNRESOLVED, _REFUSED, _RESET, _UNREACHABLE, _COSTLY,
 * NB_PROXY_REFUSED, _UNREACHABLE, _UNUSABLE. */
bool nb_http_is_unanswered(enum nb_code code);

/* The server's certificate was rejected: NB_TLS_UNTRUSTED, _NAME_MISMATCH, _EXPIRED. */
bool nb_http_is_untrusted(enum nb_code code);

/* Ends a transfer and frees it. NULL is accepted. */
void nb_http_cancel(struct nb_http_transfer *transfer);

/* nb_http_start(), nb_http_wait() and nb_http_finish() for one request. Streams of the same `http`
 * continue meanwhile, and nb_http_wait() reports them later. NB_ENDPOINT_UNREACHABLE
 * with is_cut_short if there is no answer until `until_ms`. */
int nb_http_perform(struct nb_http *http, const struct nb_http_request *request, uint64_t until_ms,
                    struct nb_http_answer *ret_answer, struct nb_failure *f);
