/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "kube_calls/csr_calls.h"

#define CSRS_PATH "/apis/certificates.k8s.io/v1/certificatesigningrequests"
#define QUERY_SIZE 256

static const struct nb_answer_codes csr_codes = {
        .unauthorized = NB_TOKEN_REJECTED,
        .forbidden = NB_CSR_FORBIDDEN,
        .anonymous = NB_TOKEN_REJECTED,
        .invalid = NB_CSR_REJECTED,
};

int nb_csr_submit(struct nb_api *api, const char *name, const struct nb_csr_request *request,
                  struct nb_csr *ret_csr, struct nb_failure *f) {
        static const struct nb_call call = { "creating the CSR at", CSRS_PATH, NB_CSR_OBJECT_MAX,
                                             &csr_codes };
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        _cleanup_(nb_buffer_done) struct nb_buffer body = NB_BUFFER_INIT(NB_CSR_OBJECT_MAX);
        int r;

        r = nb_csr_format(name, request, &body);
        if (r < 0)
                return nb_failure_set_memory(f);
        r = nb_api_perform(api, &call,
                           &(struct nb_http_request){ .body = body.data, .body_len = body.len },
                           &answer, f);
        if (r < 0)
                return r;
        if (answer.status == 200 || answer.status == 201)
                return nb_csr_parse(nb_answer_text(&answer), answer.body.len, ret_csr, f);
        if (answer.status != 409)
                return nb_answer_failure(api, &call, &answer, f);
        r = nb_csr_read(api, name, ret_csr, f);
        if (r != 0)
                return r;
        return nb_failure_set_http(f, NB_SERVER_ERROR, 404,
                                   "%s %s: CSR '%s' existed, and was deleted before it could be "
                                   "read",
                                   call.what, api->name, name);
}

int nb_csr_read(struct nb_api *api, const char *name, struct nb_csr *ret_csr,
                struct nb_failure *f) {
        static const struct nb_call call = { "reading the CSR from", CSRS_PATH "/",
                                             NB_CSR_OBJECT_MAX, &csr_codes };
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        int r;

        r = nb_api_get(api, &call, name, &answer, f);
        if (r < 0)
                return r;
        if (nb_answer_is_not_found(&answer))
                return 0;
        if (answer.status != 200)
                return nb_answer_failure(api, &call, &answer, f);
        r = nb_csr_parse(nb_answer_text(&answer), answer.body.len, ret_csr, f);
        return r < 0 ? r : 1;
}

/* --- Watch --- */

static const struct nb_call watch_call = { "watching the CSR at", CSRS_PATH, NB_WATCH_LINE_MAX,
                                           &csr_codes };

int nb_csr_watch_start(struct nb_csr_watch *watch, struct nb_api *api, const char *name,
                       const char *resource_version, struct nb_failure *f) {
        char query[QUERY_SIZE + NB_CSR_NAME_MAX];

        snprintf(query, sizeof(query),
                 "?watch=true&allowWatchBookmarks=true&timeoutSeconds=%d&"
                 "fieldSelector=metadata.name%%3D%s&resourceVersion=%s",
                 NB_WATCH_TIMEOUT_SEC, name, resource_version);
        watch->api = api;
        return nb_api_start(api, &watch_call,
                            &(struct nb_http_request){ .url = query,
                                                       .silence_sec = NB_WATCH_SILENCE_SEC,
                                                       .is_stream = true },
                            &watch->transfer, f);
}

/* 1; 0 if no complete line has arrived yet. */
static int take_event(struct nb_buffer *received, struct nb_csr_event *ret_event,
                      struct nb_failure *f) {
        const char *newline = received->len > 0 ? memchr(received->data, '\n', received->len)
                                                : NULL;
        size_t len;
        int r;

        if (!newline)
                return 0;
        len = (size_t)(newline - received->data);
        r = nb_csr_event_parse(received->data, len, ret_event, f);
        nb_buffer_consume(received, len + 1);
        return r < 0 ? r : 1;
}

/* An answer with another status than 200 is a refusal, and contains no events. */
static int finish_watch(struct nb_csr_watch *watch, struct nb_failure *f) {
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        int r;

        r = nb_http_finish(TAKE(watch->transfer), &answer, f);
        if (r < 0)
                return r;
        if (answer.status == 200)
                return NB_WATCH_ENDED;
        return nb_answer_failure(watch->api, &watch_call, &answer, f);
}

int nb_csr_watch_next(struct nb_csr_watch *watch, uint64_t until_ms, struct nb_csr_event *ret_event,
                      struct nb_failure *f) {
        for (;;) {
                struct nb_http_transfer *done;
                struct nb_buffer *received;
                long status;
                int r;

                assert(watch->transfer);
                received = nb_http_received(watch->transfer, &status);
                r = status == 200 ? take_event(received, ret_event, f) : 0;
                if (r != 0)
                        return r < 0 ? r : NB_WATCH_EVENT;
                r = nb_http_wait(&watch->api->http, 1, until_ms, &done, f);
                if (r < 0)
                        return r;
                if (r == 0)
                        return NB_WATCH_TIME;
                if (done)
                        return finish_watch(watch, f);
        }
}

void nb_csr_watch_done(struct nb_csr_watch *watch) {
        nb_http_cancel(watch->transfer);
        watch->transfer = NULL;
}

/* --- Rights --- */

static const struct nb_call review_call = {
        "reviewing access at", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        NB_ACCESS_REVIEW_MAX,
        &(const struct nb_answer_codes){ .unauthorized = NB_TOKEN_REJECTED,
                                         .anonymous = NB_TOKEN_REJECTED }
};

static int read_right(const struct nb_api *api, const struct nb_http_answer *answer,
                      struct nb_failure *f) {
        const struct nb_status status = nb_answer_status(answer);
        char user[sizeof(status.message)];
        bool is_allowed;
        int r;

        if (answer->status == 200 || answer->status == 201) {
                r = nb_access_review_parse(nb_answer_text(answer), answer->body.len, &is_allowed,
                                           f);
                return r < 0 ? r : is_allowed ? NB_RIGHT_GRANTED : NB_RIGHT_DENIED;
        }
        nb_status_user(&status, user, sizeof(user));
        /* By default, every authenticated user may submit this review. If the server names an
         * anonymous user, the credential is invalid. */
        if ((answer->status == 403 || answer->status == 404) && status.code == answer->status &&
            strcmp(user, "system:anonymous") != 0)
                return NB_RIGHT_UNKNOWN;
        return nb_answer_failure(api, &review_call, answer, f);
}

int nb_right_read(struct nb_api *api, enum nb_right right, struct nb_failure *f) {
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        const char *body = nb_access_review_body[right];
        int r;

        r = nb_api_perform(api, &review_call,
                           &(struct nb_http_request){ .body = body, .body_len = strlen(body) },
                           &answer, f);
        return r < 0 ? r : read_right(api, &answer, f);
}

int nb_node_access_verify(struct nb_api *api, struct nb_failure *f) {
        int r = nb_right_read(api, NB_RIGHT_CREATE_CSR, f);

        if (r < 0 && f->code == NB_TOKEN_REJECTED)
                f->code = NB_NODE_ACCESS_REVOKED;
        return r < 0 ? r : 0;
}
