/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * HTTPS requests through libcurl: https only, TLS 1.2 or newer, no redirect followed, no netrc,
 * named time limits, ceilings for headers and bodies, status looked at before bytes are accepted.
 * Proxies come from the environment, as for kubelet.
 *
 * A struct nb_http is a set of connections under one trust. Without trust nothing is verified and
 * no credential can be sent: what such a request returns is a struct nb_unverified, and only who
 * has proven it may look inside. Several transfers can be under way at once; everything runs in
 * nb_http_wait(), which also ends when stopping is asked for (base/stop.h).
 *
 * A cloud's metadata service is the exception, with connections of its own kind: plain HTTP, to an
 * address alone, past every proxy.
 *
 * Status codes are not judged here: an answer with 500 is an answer.
 */

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/buffer.h"
#include "base/failure.h"
#include "base/secret.h"

/* For name resolution, TCP and TLS together. The C library tries the second name server after 5 s:
 * resolv.conf(5). */
#define NB_HTTP_CONNECT_TIMEOUT_MS 10000
#define NB_HTTP_REQUEST_TIMEOUT_MS 10000 /* kubeadm's for cluster-info */
#define NB_HTTP_HEADERS_MAX (64 * 1024)
#define NB_HTTP_ERROR_BODY_MAX (64 * 1024) /* a Status object is some hundred bytes */
#define NB_HTTP_RETRY_AFTER_MAX_MS 60000
#define NB_HTTP_CPU_MAX_SEC \
        1 /* until the server is verified; a handshake takes about 3 ms, 10 ms with RSA of 8192 \
             bits */
#define NB_HTTP_HEADERS_EXTRA 3
#define NB_HTTP_LINES_MAX 3
#define NB_HTTP_LINE_MAX 127
#define NB_HTTP_CUT_SHORT ETIME /* errnum of the failure of a request that `until_ms` ended */

struct nb_http;
struct nb_http_transfer;

/*
 * Finds out why a server's certificate chain (PEM) does not verify. `ca` are the trusted CAs, NULL
 * for those of the system; `host` is the name or address in the URL. Returns NB_TLS_UNTRUSTED,
 * NB_TLS_NAME_MISMATCH or NB_TLS_EXPIRED, and a reason for people.
 */
typedef enum nb_code nb_http_explain(const char *pem, size_t len, const char *ca, size_t ca_len,
                                     const char *host, char *ret_reason, size_t size);

/* What the server must prove, and how it is reached. */
struct nb_http_trust {
        const char *ca; /* PEM; copied. NULL: the CAs of the system */
        size_t ca_len;
        const char *client_certificate; /* PEM chain; copied. NULL for none */
        size_t client_certificate_len;
        const struct nb_secret *client_key; /* PEM; copied into a sealed memory file */
        nb_http_explain *explain;           /* may be NULL */
        bool (*is_server)(
                const char *pem,
                size_t len); /* asked of the server's own certificate before anything is sent:
                              * libcurl's GnuTLS build does not look at its extended key usage */
        const char *tls_server_name; /* "" for the name in the URL */
        const char *proxy_url;       /* "" for the environment's */
};

struct nb_http_request {
        const char *what; /* for messages: "cluster-info from 10.0.0.10:6443" */
        const char *url;
        const struct nb_secret *authorization; /* a whole "Authorization: Bearer ..." line; NULL or
                                                  empty for none; never without trust */
        const struct nb_secret
                *headers[NB_HTTP_HEADERS_EXTRA]; /* more whole lines; NULL for none; never without
                                                    trust, but for metadata */
        const char *lines[NB_HTTP_LINES_MAX];    /* more whole lines that are no secret, up to the
                                                    first NULL; copied */
        const char *accept;                      /* media type; NULL: application/json */
        const char *body;      /* to POST; NULL for a GET. Must stay until the transfer is over */
        const char *body_type; /* its media type; NULL: application/json */
        size_t body_len;
        bool is_put;              /* PUT without a body */
        struct nb_secret *secret; /* takes the body of a 2xx answer in the place of the answer's
                                     own, since it may hold secrets; its size is the ceiling */
        size_t max_body; /* ceiling for the body of a 2xx answer; of all of it, for a stream in one
                            piece */
        uint32_t timeout_ms;  /* for the whole request; 0 for none, then silence_sec */
        uint32_t silence_sec; /* ends the transfer when no byte arrived for so long; 0 for no such
                                 limit */
        bool is_stream;       /* the body is taken piece by piece with nb_http_received() */
        bool is_certificate_kept; /* answer.certificate is wanted */
};

struct nb_http_answer {
        long status;
        struct nb_buffer body;
        time_t date;             /* the Date header; 0 when there is none */
        uint32_t retry_after_ms; /* at most NB_HTTP_RETRY_AFTER_MAX_MS; 0 when the server names none
                                  */
        char location[128];      /* of a redirect, which is never followed; "" for none */
        char *certificate; /* PEM of the server's own, where it was to be kept and the connection is
                              a new one; else NULL */
};

/* How a connection over TLS was made. The steps follow each other. */
struct nb_http_connection {
        uint64_t begin_usec;   /* nb_now_usec() */
        uint64_t resolve_usec; /* of the name, or of the proxy's; 0 where that is an address */
        uint64_t tcp_usec;
        uint64_t tls_usec; /* through a proxy, with what that took to answer */
};

/* An answer of an unverified server. */
struct nb_unverified {
        struct nb_http_answer answer;
};

void nb_http_answer_done(struct nb_http_answer *answer);
void nb_unverified_done(struct nb_unverified *unverified);

/* trust NULL: nothing is verified. NB_INTERNAL. */
int nb_http_new(const struct nb_http_trust *trust, struct nb_http **ret_http, struct nb_failure *f);

/* For the metadata service of a cloud. `is_https`: at a name, certified by a CA of the system;
 * otherwise plain HTTP, to an address in the URL. No proxy, whatever the environment says.
 * NB_INTERNAL. */
int nb_http_new_metadata(bool is_https, uint32_t connect_timeout_ms, struct nb_http **ret_http,
                         struct nb_failure *f);

/* Ends what is under way, and closes the connections. */
void nb_http_free(struct nb_http *http);
void nb_http_freep(struct nb_http **http);

int nb_http_start(struct nb_http *http, const struct nb_http_request *request,
                  struct nb_http_transfer **ret_transfer, struct nb_failure *f);

/*
 * Runs all transfers of `n` sets of connections until one is over (1, in *ret_done), something
 * arrived on a stream (1, NULL in *ret_done), or `until_ms` (nb_now_ms(); NB_TIME_INFINITE) has
 * passed (0). -ECANCELED when stopping was asked for.
 */
int nb_http_wait(struct nb_http *const *https, size_t n, uint64_t until_ms,
                 struct nb_http_transfer **ret_done, struct nb_failure *f);

/* What arrived on a stream and was not consumed yet; status is 0 before the first byte of a body.
 */
struct nb_buffer *nb_http_received(struct nb_http_transfer *transfer, long *ret_status);

/*
 * The outcome of a transfer that is over; the transfer is gone then. Those of
 * nb_http_is_unanswered() (transient); NB_TLS_UNTRUSTED, NB_TLS_NAME_MISMATCH, NB_TLS_EXPIRED;
 * NB_ANSWER_MALFORMED (a ceiling, or no HTTP at all), NB_INTERNAL.
 */
int nb_http_finish(struct nb_http_transfer *transfer, struct nb_http_answer *ret_answer,
                   struct nb_failure *f);
int nb_http_finish_unverified(struct nb_http_transfer *transfer,
                              struct nb_unverified *ret_unverified, struct nb_failure *f);

/* Whether any finished transfer had a connection, even if the transfer failed. */
bool nb_http_has_connected(const struct nb_http *http);

/* The newest connection of transfers that are gone, once: false, with zeros, when none was made
 * since the last call. */
bool nb_http_take_connection(struct nb_http *http, struct nb_http_connection *ret_connection);

/* The server did not answer: NB_ENDPOINT_UNRESOLVED, _REFUSED, _RESET, _UNREACHABLE,
 * NB_PROXY_REFUSED, _UNUSABLE. */
bool nb_http_is_unanswered(enum nb_code code);

/* The server's certificate was rejected: NB_TLS_UNTRUSTED, _NAME_MISMATCH, _EXPIRED. */
bool nb_http_is_untrusted(enum nb_code code);

/* Ends a transfer that is under way. NULL is fine. */
void nb_http_cancel(struct nb_http_transfer *transfer);

/* start, wait and finish in one; -ECANCELED, or NB_ENDPOINT_UNREACHABLE when `until_ms` came first.
 */
int nb_http_perform(struct nb_http *http, const struct nb_http_request *request, uint64_t until_ms,
                    struct nb_http_answer *ret_answer, struct nb_failure *f);
