/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "cloud/internal.h"
#include "format/json.h"

#define URL_MAX 256
#define SESSION_MAX 1024 /* bytes of a session token; those of AWS have 56 */
#define SPACE " \t\r\n"

struct question {
        const char *path;
        const char *accept; /* NULL: anything */
        bool is_put;
        struct nb_secret *body;
};

int nb_cloud_call_init(struct nb_cloud_call *ret_call, const struct nb_cloud_request *request, struct nb_failure *f) {
        const struct nb_cloud_row *row = &nb_cloud_rows[request->provider];
        const struct nb_http_metadata metadata = {
                .connect_timeout_ms = NB_CLOUD_CONNECT_TIMEOUT_MS,
                .is_https = row->is_https,
                .is_low_port = row->is_low_port,
        };

        *ret_call = (struct nb_cloud_call){
                .request = request,
                .row = row,
                .title = nb_provider_title(request->provider),
                .address = row->address,
                .address6 = row->address6,
                .session = NB_SECRET_INIT,
                .document = NB_SECRET_INIT,
        };
        return nb_http_new_metadata(&metadata, &ret_call->http, f);
}

void nb_cloud_call_done(struct nb_cloud_call *call) {
        nb_secret_done(&call->session);
        nb_secret_done(&call->document);
        nb_http_free(call->http);
        call->http = NULL;
}

/* What a request failed of, in the codes that nb_cloud_read() promises. */
static int translate(const struct nb_cloud_call *call, int r, const struct nb_failure *cause, struct nb_failure *f) {
        enum nb_code code = cause->code;

        if (code == NB_NONE)
                return r;
        if (code == NB_METADATA_REFUSED)
                return nb_failure_set(f, code, cause->errnum,
                                      "%s; %s answers no other, and the sandbox of node-bootstrap.service forbids one without the drop-in scaleway.conf, which node-bootstrap.service(8) shows",
                                      cause->detail, call->title);
        if (nb_http_is_unanswered(code))
                code = NB_METADATA_UNREACHABLE;
        else if (code == NB_ANSWER_MALFORMED || nb_http_is_untrusted(code))
                code = NB_METADATA_REFUSED;
        return nb_failure_set(f, code, cause->errnum, "%s", cause->detail);
}

static int perform_at(const struct nb_cloud_call *call, const char *address, const struct question *question, struct nb_http_answer *ret_answer,
                      char ret_what[static NB_FAILURE_DETAIL_MAX], struct nb_failure *f) {
        char url[URL_MAX];
        struct nb_http_request request = {
                .what = ret_what,
                .url = url,
                .headers = { call->session.data ? &call->session : NULL },
                .lines = { call->row->lines[0], call->row->lines[1] },
                .accept = question->accept ? question->accept : "*/*",
                .is_put = question->is_put,
                .secret = question->body,
                .timeout_ms = NB_CLOUD_REQUEST_TIMEOUT_MS,
        };

        if (question->is_put) {
                request.headers[0] = NULL;
                for (size_t i = 0; i < N_ELEMENTS(request.lines); i++)
                        if (!request.lines[i]) {
                                request.lines[i] = call->row->session_ttl;
                                break;
                        }
        }
        (void)snprintf(url, sizeof(url), "%s://%s%s", call->row->is_https ? "https" : "http", address, question->path);
        (void)snprintf(ret_what, NB_FAILURE_DETAIL_MAX, "%s: %s %s", call->title, question->is_put ? "PUT" : "GET", url);
        return nb_http_perform(call->http, &request, call->request->until_ms, ret_answer, f);
}

/* At the other address only where nobody was ever reached at the first, so that no session and no answer of the one meets those of
 * the other; what is told is then said of the first. */
static int perform(struct nb_cloud_call *call, const struct question *question, struct nb_http_answer *ret_answer,
                   char ret_what[static NB_FAILURE_DETAIL_MAX], struct nb_failure *f) {
        struct nb_failure cause = { 0 }, other = { 0 };
        bool is_absent;
        int r, r6;

        r = perform_at(call, call->address, question, ret_answer, ret_what, &cause);
        if (r >= 0)
                return r;
        is_absent = nb_http_is_unanswered(cause.code) && cause.code != NB_ENDPOINT_RESET && cause.errnum != NB_HTTP_CUT_SHORT;
        if (call->address6 && is_absent && !nb_http_has_connected(call->http)) {
                assert(!call->session.data);
                question->body->len = 0;
                r6 = perform_at(call, call->address6, question, ret_answer, ret_what, &other);
                if (r6 == -ECANCELED && other.code == NB_NONE)
                        return r6;
                if (r6 >= 0) {
                        call->address = call->address6;
                        call->address6 = NULL;
                        return r6;
                }
        }
        return translate(call, r, &cause, f);
}

static int refuse(const struct nb_http_answer *answer, const char *what, struct nb_failure *f) {
        bool is_later = answer->status == 429 || answer->status >= 500;

        if (f->code == NB_NONE)
                f->retry_after_ms = answer->retry_after_ms;
        if (answer->status >= 300 && answer->status < 400)
                return nb_failure_set_http(f, NB_METADATA_REFUSED, answer->status, "%s: expected an answer, found a redirect (%ld) to '%s'; redirects are not followed",
                                           what, answer->status, answer->location);
        return nb_failure_set_http(f, is_later ? NB_METADATA_UNREACHABLE : NB_METADATA_REFUSED, answer->status, "%s: expected an answer with status 200, found status %ld",
                                   what, answer->status);
}

/* The header line that a session token goes into; so it must not end that line. */
static int set_session(struct nb_cloud_call *call, struct nb_secret *token, const char *what, struct nb_failure *f) {
        const char *header = call->row->session_header;

        while (token->len > 0 && strchr(SPACE, token->data[token->len - 1]))
                token->len--;
        for (size_t i = 0; i < token->len; i++)
                if (token->data[i] <= ' ' || token->data[i] >= 0x7f)
                        token->len = 0;
        if (token->len == 0)
                return nb_failure_set(f, NB_METADATA_REFUSED, EBADMSG, "%s: expected a session token of printable ASCII characters, found something else", what);
        if (nb_secret_init(&call->session, strlen(header) + token->len) < 0)
                return nb_failure_set_memory(f);
        (void)nb_secret_append(&call->session, header, strlen(header));
        (void)nb_secret_append(&call->session, token->data, token->len);
        return 0;
}

static int open_session(struct nb_cloud_call *call, struct nb_failure *f) {
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        _cleanup_(nb_secret_done) struct nb_secret token = NB_SECRET_INIT;
        const struct question question = { .path = call->row->session, .is_put = true, .body = &token };
        char what[NB_FAILURE_DETAIL_MAX];
        int r;

        if (nb_secret_init(&token, SESSION_MAX) < 0)
                return nb_failure_set_memory(f);
        r = perform(call, &question, &answer, what, f);
        if (r < 0)
                return r;
        return answer.status == 200 ? set_session(call, &token, what, f) : refuse(&answer, what, f);
}

/* 1 and an answer; a session token that is no longer taken is asked for anew, once. */
static int ask(struct nb_cloud_call *call, const struct question *question, struct nb_http_answer *ret_answer,
               char ret_what[static NB_FAILURE_DETAIL_MAX], struct nb_failure *f) {
        bool has_session = call->row->session;
        int r = 0;

        if (has_session && !call->session.data)
                r = open_session(call, f);
        if (r >= 0)
                r = perform(call, question, ret_answer, ret_what, f);
        if (r < 0 || !has_session || ret_answer->status != 401 || call->is_session_renewed)
                return r;
        call->is_session_renewed = true;
        nb_secret_done(&call->session);
        nb_http_answer_done(ret_answer);
        r = open_session(call, f);
        return r < 0 ? r : perform(call, question, ret_answer, ret_what, f);
}

static int judge(const struct nb_cloud_call *call, const struct nb_http_answer *answer, const char *what, size_t len, struct nb_failure *f) {
        bool is_gone = answer->status == 410 && call->row->is_patient;

        if (answer->status == 200)
                return len > 0;
        if (answer->status == 204)
                return 0;
        if (answer->status != 404 && !is_gone)
                return refuse(answer, what, f);
        if (!call->row->is_patient || call->request->is_patience_over)
                return 0;
        return nb_failure_set_http(f, NB_METADATA_UNREACHABLE, answer->status, "%s: status %ld, which may mean \"not yet\" there", what, answer->status);
}

int nb_cloud_get(struct nb_cloud_call *call, const char *path, const char *accept, size_t max, struct nb_secret *ret, struct nb_failure *f) {
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        _cleanup_(nb_secret_done) struct nb_secret body = NB_SECRET_INIT;
        const struct question question = { .path = path, .accept = accept, .body = &body };
        char what[NB_FAILURE_DETAIL_MAX];
        int r;

        if (nb_secret_init(&body, max) < 0)
                return nb_failure_set_memory(f);
        r = ask(call, &question, &answer, what, f);
        if (r < 0)
                return r;
        r = judge(call, &answer, what, body.len, f);
        if (r > 0) {
                *ret = body;
                body = (struct nb_secret)NB_SECRET_INIT;
        }
        return r;
}

static int take_line(const struct nb_cloud_call *call, const char *value, const char *text, size_t len, char ret[static NB_CLOUD_VALUE_MAX + 1],
                     struct nb_failure *f) {
        assert(text);
        while (len > 0 && strchr(SPACE, text[len - 1]))
                len--;
        while (len > 0 && strchr(SPACE, text[0])) {
                text++;
                len--;
        }
        if (len > NB_CLOUD_VALUE_MAX || !nb_text_is_printable(text, len))
                return nb_failure_set(f, NB_METADATA_MALFORMED, EBADMSG, "%s, %s: expected one line of at most %d printable characters", call->title, value,
                                      NB_CLOUD_VALUE_MAX);
        memcpy(ret, text, len);
        ret[len] = '\0';
        return len > 0;
}

/* A member that is a string or, as some clouds have their identifiers, a whole number. */
static int take_member(const struct nb_cloud_call *call, const char *key, char ret[static NB_CLOUD_VALUE_MAX + 1], struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        struct nb_failure ignored = { 0 };
        char what[URL_MAX];
        int64_t number = 0;
        const char *text;
        size_t len;
        int r;

        (void)snprintf(what, sizeof(what), "%s: %s", call->title, call->row->document);
        r = nb_json_parse(call->document.data, call->document.len, what, NB_METADATA_MALFORMED, &json, f);
        if (r < 0)
                return r;
        if (nb_json_integer(&json, key, &number, &ignored) > 0) {
                (void)snprintf(ret, NB_CLOUD_VALUE_MAX + 1, "%lld", (long long)number);
                return 1;
        }
        r = nb_json_string(&json, key, &text, &len, f);
        return r > 0 ? take_line(call, key, text, len, ret, f) : r;
}

int nb_cloud_load_document(struct nb_cloud_call *call, struct nb_failure *f) {
        int r;

        assert(call->row->document);
        if (call->is_document_read)
                return 0;
        r = nb_cloud_get(call, call->row->document, "application/json", NB_CLOUD_DOCUMENT_MAX, &call->document, f);
        call->is_document_read = r >= 0;
        return r;
}

int nb_cloud_get_value(struct nb_cloud_call *call, const char *value, char ret[static NB_CLOUD_VALUE_MAX + 1], struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        int r;

        if (value[0] == '/') {
                r = nb_cloud_get(call, value, NULL, NB_CLOUD_VALUE_MAX, &text, f);
                return r > 0 ? take_line(call, value, text.data, text.len, ret, f) : r;
        }
        r = nb_cloud_load_document(call, f);
        if (r < 0)
                return r;
        return call->document.data ? take_member(call, value, ret, f) : 0;
}
