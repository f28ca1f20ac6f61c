/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of net/ share; the only place where libcurl's types show. */

#include <curl/curl.h>

#include "net/http.h"

struct nb_http {
        CURLM *multi;
        bool is_verified; /* there is trust */
        bool is_metadata; /* a cloud's service: believed as far as the cloud is */
        bool is_low_port;
        bool has_connected;
        bool has_connection; /* nb_http_take_connection() was not called since */
        struct nb_http_connection connection;
        uint32_t connect_timeout_ms;
        int ca_fd;                 /* sealed memfd with the CAs; -1 for those of the system */
        char ca_path[32];          /* "/proc/self/fd/N": CURLOPT_CAINFO_BLOB is not in Debian 12's GnuTLS build */
        int certificate_fd;        /* the same for a client certificate and its key; -1 for none: the blobs of that build */
        char certificate_path[32]; /* are taken and then ignored */
        int key_fd;
        char key_path[32];
        char tls_server_name[256];
        char proxy_url[256];
        enum nb_code (*explain)(const char *pem, size_t len, const char *ca, size_t ca_len, const char *host, char *ret_reason, size_t size);
        bool (*is_server)(const char *pem, size_t len);
        struct nb_http_transfer *first;
};

struct nb_http_transfer {
        struct nb_http *http;
        struct nb_http_transfer *next;
        CURL *easy;
        uint64_t begin_usec;
        struct curl_slist accept;       /* header lines: nodes of our own, since curl_slist_append() would copy */
        struct curl_slist content_type; /* the secret to a place that nobody wipes */
        struct curl_slist authorization;
        struct curl_slist extra[NB_HTTP_HEADERS_EXTRA];
        struct curl_slist lines[NB_HTTP_LINES_MAX];
        struct curl_slist *connect_to;
        char type_line[80];
        char accept_line[80];
        char line[NB_HTTP_LINES_MAX][NB_HTTP_LINE_MAX + 1];
        char what[320];
        char error[CURL_ERROR_SIZE];
        struct nb_http_answer answer;
        struct nb_secret *secret;
        size_t max_body;
        size_t headers_len;
        uint32_t timeout_ms;
        uint32_t silence_sec;
        bool is_address; /* the URL's host is */
        bool is_stream;
        bool is_certificate_kept;
        bool has_news; /* a stream got bytes since the last look */
        bool is_too_large;
        bool is_no_server; /* its certificate is good, but not for servers */
        bool is_done;
        CURLcode result;
};

/* The server's own certificate, PEM; NULL when none was shown. Belongs to the transfer. */
const char *nb_http_leaf(CURL *easy);

/* Sets every option of a transfer. NB_INTERNAL when libcurl refuses one: a build problem. */
int nb_http_transfer_setup(struct nb_http_transfer *transfer, const struct nb_http_request *request, struct nb_failure *f);

/* "169.254.169.254" or "[fd00:ec2::254]", with or without a port. */
bool nb_http_is_address(const char *host, size_t len);

/* Name, TCP and TLS are behind it, now or on an earlier request. */
bool nb_http_is_connected(const struct nb_http_transfer *transfer);

/* Keeps how the connection of a transfer that is about to go was made, if it made one. */
void nb_http_note_connection(const struct nb_http_transfer *transfer);

/* Sorts the outcome of a transfer that did not end with an answer. */
int nb_http_outcome(struct nb_http_transfer *transfer, struct nb_failure *f);
