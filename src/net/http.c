/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macro.h"
#include "base/stop.h"
#include "net/http_internal.h"

#define CONNECTING_POLL_MS 200 /* what libcurl gives IPv6 before it tries IPv4 */

void nb_http_answer_done(struct nb_http_answer *answer) {
        nb_buffer_done(&answer->body);
        free(answer->certificate);
        *answer = (struct nb_http_answer){ 0 };
}

void nb_unverified_done(struct nb_unverified *unverified) {
        nb_http_answer_done(&unverified->answer);
}

/* Sealed, so that nothing in this process can change what is trusted, or shown, between two connections. */
static int make_file(const char *name, const char *data, size_t len, int *ret_fd, char ret_path[static 32]) {
        size_t written = 0;
        int fd;

        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (fd < 0)
                return -errno;
        *ret_fd = fd;
        while (written < len) {
                ssize_t n = write(fd, data + written, len - written);

                if (n < 0 && errno != EINTR)
                        return -errno;
                if (n > 0)
                        written += (size_t)n;
        }
        if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
                return -errno;
        (void)snprintf(ret_path, 32, "/proc/self/fd/%d", fd);
        return 0;
}

static int set_trust(struct nb_http *http, const struct nb_http_trust *trust, struct nb_failure *f) {
        int r = 0;

        assert(trust->is_server);
        http->is_verified = true;
        http->is_server = trust->is_server;
        http->explain = trust->explain;
        (void)snprintf(http->tls_server_name, sizeof(http->tls_server_name), "%s", trust->tls_server_name);
        (void)snprintf(http->proxy_url, sizeof(http->proxy_url), "%s", trust->proxy_url);
        if (trust->ca) {
                assert(trust->ca_len > 0);
                r = make_file("ca", trust->ca, trust->ca_len, &http->ca_fd, http->ca_path);
        }
        if (r >= 0 && trust->client_certificate) {
                r = make_file("certificate", trust->client_certificate, trust->client_certificate_len, &http->certificate_fd,
                              http->certificate_path);
                if (r >= 0)
                        r = make_file("key", trust->client_key->data, trust->client_key->len, &http->key_fd, http->key_path);
        }
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, -r, "what a connection trusts or shows cannot be put into a memory file");
        return 0;
}

static int open_connections(struct nb_http *http, struct nb_failure *f) {
        http->ca_fd = http->certificate_fd = http->key_fd = -1;
        http->connect_timeout_ms = NB_HTTP_CONNECT_TIMEOUT_MS;
        if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
                return nb_failure_set(f, NB_INTERNAL, EIO, "libcurl does not initialise");
        http->multi = curl_multi_init();
        return http->multi ? 0 : nb_failure_set_memory(f);
}

int nb_http_new(const struct nb_http_trust *trust, struct nb_http **ret_http, struct nb_failure *f) {
        _cleanup_(nb_http_freep) struct nb_http *http = NULL;
        int r;

        http = calloc(1, sizeof(*http));
        if (!http)
                return nb_failure_set_memory(f);
        r = open_connections(http, f);
        if (r >= 0 && trust)
                r = set_trust(http, trust, f);
        if (r < 0)
                return r;
        *ret_http = TAKE(http);
        return 0;
}

int nb_http_new_metadata(const struct nb_http_metadata *metadata, struct nb_http **ret_http, struct nb_failure *f) {
        _cleanup_(nb_http_freep) struct nb_http *http = NULL;
        int r;

        http = calloc(1, sizeof(*http));
        if (!http)
                return nb_failure_set_memory(f);
        r = open_connections(http, f);
        if (r < 0)
                return r;
        http->is_metadata = true;
        http->is_verified = metadata->is_https;
        http->is_low_port = metadata->is_low_port;
        http->connect_timeout_ms = metadata->connect_timeout_ms;
        *ret_http = TAKE(http);
        return 0;
}

static void transfer_free(struct nb_http_transfer *transfer) {
        if (transfer->easy) {
                (void)curl_multi_remove_handle(transfer->http->multi, transfer->easy);
                curl_easy_cleanup(transfer->easy);
        }
        curl_slist_free_all(transfer->connect_to);
        nb_http_answer_done(&transfer->answer);
        free(transfer);
}

void nb_http_cancel(struct nb_http_transfer *transfer) {
        struct nb_http_transfer **p;

        if (!transfer)
                return;
        transfer->http->has_connected |= nb_http_is_connected(transfer);
        nb_http_note_connection(transfer);
        for (p = &transfer->http->first; *p; p = &(*p)->next)
                if (*p == transfer) {
                        *p = transfer->next;
                        break;
                }
        transfer_free(transfer);
}

bool nb_http_has_connected(const struct nb_http *http) {
        return http->has_connected;
}

void nb_http_free(struct nb_http *http) {
        if (!http)
                return;
        while (http->first)
                nb_http_cancel(http->first);
        if (http->multi)
                (void)curl_multi_cleanup(http->multi);
        nb_closep(&http->ca_fd);
        nb_closep(&http->certificate_fd);
        nb_closep(&http->key_fd);
        free(http);
}

void nb_http_freep(struct nb_http **http) {
        nb_http_free(*http);
}

int nb_http_start(struct nb_http *http, const struct nb_http_request *request, struct nb_http_transfer **ret_transfer,
                  struct nb_failure *f) {
        struct nb_http_transfer *transfer;
        int r;

        transfer = calloc(1, sizeof(*transfer));
        if (!transfer)
                return nb_failure_set_memory(f);
        transfer->http = http;
        transfer->secret = request->secret;
        transfer->max_body = request->secret ? request->secret->size : request->max_body;
        transfer->timeout_ms = request->timeout_ms;
        transfer->silence_sec = request->silence_sec;
        transfer->is_stream = request->is_stream;
        transfer->is_certificate_kept = request->is_certificate_kept;
        transfer->answer.body = (struct nb_buffer)NB_BUFFER_INIT(NB_HTTP_ERROR_BODY_MAX);
        (void)snprintf(transfer->what, sizeof(transfer->what), "%s", request->what);
        transfer->easy = curl_easy_init();
        r = transfer->easy ? nb_http_transfer_setup(transfer, request, f) : nb_failure_set_memory(f);
        transfer->begin_usec = nb_now_usec();
        if (r >= 0 && curl_multi_add_handle(http->multi, transfer->easy) != CURLM_OK)
                r = nb_failure_set(f, NB_INTERNAL, EIO, "libcurl does not take the request for %s", request->what);
        if (r < 0) {
                transfer_free(transfer);
                return r;
        }
        transfer->next = http->first;
        http->first = transfer;
        *ret_transfer = transfer;
        return 0;
}

static void collect_results(struct nb_http *http) {
        const CURLMsg *message;
        int n_left;

        while ((message = curl_multi_info_read(http->multi, &n_left))) {
                struct nb_http_transfer *transfer = NULL;

                if (message->msg != CURLMSG_DONE)
                        continue;
                (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
                transfer->result = message->data.result;
                transfer->is_done = true;
        }
}

/* News of a stream come before the end of any transfer, so that no last line is lost. */
static bool find_news(struct nb_http *http, struct nb_http_transfer **ret_done) {
        for (struct nb_http_transfer *t = http->first; t; t = t->next)
                if (t->has_news) {
                        t->has_news = false;
                        *ret_done = NULL;
                        return true;
                }
        for (struct nb_http_transfer *t = http->first; t; t = t->next)
                if (t->is_done) {
                        *ret_done = t;
                        return true;
                }
        return false;
}

/* libcurl 7.88 gives up an address of several in its own time, and then turns to the next one only when it is called again. */
static bool is_connecting(const struct nb_http *http) {
        for (const struct nb_http_transfer *t = http->first; t; t = t->next)
                if (!t->is_done && !nb_http_is_connected(t))
                        return true;
        return false;
}

static int poll_ms(const struct nb_http *http, uint64_t left_ms) {
        uint64_t max_ms = is_connecting(http) ? CONNECTING_POLL_MS : INT_MAX;

        return (int)(left_ms < max_ms ? left_ms : max_ms);
}

int nb_http_wait(struct nb_http *http, uint64_t until_ms, struct nb_http_transfer **ret_done, struct nb_failure *f) {
        struct curl_waitfd stop = { .fd = nb_stop_fd(), .events = CURL_WAIT_POLLIN };
        unsigned n_extra = stop.fd >= 0 ? 1 : 0;

        for (;;) {
                uint64_t now = nb_now_ms();
                int n_running;

                if (nb_stop_is_requested())
                        return -ECANCELED;
                if (curl_multi_perform(http->multi, &n_running) != CURLM_OK)
                        return nb_failure_set(f, NB_INTERNAL, EIO, "libcurl cannot go on");
                collect_results(http);
                if (find_news(http, ret_done))
                        return 1;
                if (now >= until_ms)
                        return 0;
                if (curl_multi_poll(http->multi, n_extra ? &stop : NULL, n_extra, poll_ms(http, until_ms - now), NULL) != CURLM_OK)
                        return nb_failure_set(f, NB_INTERNAL, EIO, "libcurl cannot wait");
        }
}

struct nb_buffer *nb_http_received(struct nb_http_transfer *transfer, long *ret_status) {
        *ret_status = transfer->answer.status;
        return &transfer->answer.body;
}

static int keep_certificate(struct nb_http_transfer *transfer, struct nb_failure *f) {
        const char *leaf = transfer->is_certificate_kept ? nb_http_leaf(transfer->easy) : NULL;

        if (!leaf)
                return 0;
        transfer->answer.certificate = strdup(leaf);
        return transfer->answer.certificate ? 0 : nb_failure_set_memory(f);
}

static int finish(struct nb_http_transfer *transfer, struct nb_http_answer *ret_answer, struct nb_failure *f) {
        int r = 0;

        assert(transfer->is_done);
        if (transfer->result != CURLE_OK)
                r = nb_http_outcome(transfer, f);
        else if ((r = keep_certificate(transfer, f)) >= 0) {
                (void)curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &transfer->answer.status);
                *ret_answer = transfer->answer;
                transfer->answer = (struct nb_http_answer){ 0 };
        }
        nb_http_cancel(transfer);
        return r;
}

int nb_http_finish(struct nb_http_transfer *transfer, struct nb_http_answer *ret_answer, struct nb_failure *f) {
        assert(transfer->http->is_verified || transfer->http->is_metadata);
        return finish(transfer, ret_answer, f);
}

int nb_http_finish_unverified(struct nb_http_transfer *transfer, struct nb_unverified *ret_unverified, struct nb_failure *f) {
        return finish(transfer, &ret_unverified->answer, f);
}

int nb_http_perform(struct nb_http *http, const struct nb_http_request *request, uint64_t until_ms,
                    struct nb_http_answer *ret_answer, struct nb_failure *f) {
        struct nb_http_transfer *transfer = NULL, *done = NULL;
        int r;

        r = nb_http_start(http, request, &transfer, f);
        if (r < 0)
                return r;
        r = nb_http_wait(http, until_ms, &done, f);
        if (r > 0 && done) {
                assert(done == transfer);
                return nb_http_finish(done, ret_answer, f);
        }
        nb_http_cancel(transfer);
        if (r >= 0)
                return nb_failure_set(f, NB_ENDPOINT_UNREACHABLE, NB_HTTP_CUT_SHORT, "%s: no answer until the deadline", request->what);
        return r;
}
