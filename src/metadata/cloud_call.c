/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "metadata/cloud_internal.h"
#include "os/sources.h"
#include "state_files/platform_note.h"

#define SESSION_MAX 1024 /* bytes of a session token; those of AWS have 56 */

/* One request and its answer. */
struct exchange {
        const char *path;
        const char *accept; /* NULL: anything */
        bool is_put;
        struct nb_secret *body;
        struct nb_http_answer answer;
        char what[NB_FAILURE_DETAIL_MAX]; /* for messages */
};

static void exchange_done(struct exchange *exchange) {
        nb_http_answer_done(&exchange->answer);
}

int nb_cloud_call_init(struct nb_cloud_call *ret_call, const struct nb_cloud_request *request,
                       struct nb_metadata *metadata, struct nb_failure *f) {
        const struct nb_cloud_row *row = &nb_cloud_rows[request->provider];

        *ret_call = (struct nb_cloud_call){
                .request = request,
                .metadata = metadata,
                .row = row,
                .title = nb_provider_titles[request->provider],
                .address = row->address,
                .address6 = row->address6,
        };
        return nb_http_new_metadata(NB_CLOUD_CONNECT_TIMEOUT_MS, &ret_call->http, f);
}

void nb_cloud_call_done(struct nb_cloud_call *call) {
        nb_secret_done(&call->session);
        nb_json_done(&call->document);
        nb_http_free(call->http);
        call->http = NULL;
}

static int perform_at(struct nb_cloud_call *call, const char *address, struct exchange *exchange,
                      struct nb_failure *f) {
        const struct nb_cloud_row *row = call->row;
        char url[NB_CLOUD_URL_MAX];
        const struct nb_http_request request = {
                .what = exchange->what,
                .url = url,
                .headers = { call->session.data ? &call->session : NULL },
                .lines = { exchange->is_put ? row->session_ttl : row->lines[0], row->lines[1] },
                .accept = exchange->accept ? exchange->accept : "*/*",
                .method = exchange->is_put ? "PUT" : NULL,
                .secret = exchange->body,
                .timeout_ms = NB_CLOUD_REQUEST_TIMEOUT_MS,
        };
        int r;

        snprintf(url, sizeof(url), "http://%s%s", address, exchange->path);
        snprintf(exchange->what, sizeof(exchange->what), "%s: %s %s", call->title,
                 exchange->is_put ? "PUT" : "GET", url);
        r = nb_http_perform(call->http, &request, call->request->until_ms, &exchange->answer, f);
        call->is_unverified = r >= 0 || f->is_unverified;
        return r;
}

/*
 * Uses the second address only if the first one has never accepted a connection, so that sessions
 * and answers of two servers are not mixed. Reports the failure of the first address, with the
 * codes of nb_cloud_read().
 */
static int perform_exchange(struct nb_cloud_call *call, struct exchange *exchange,
                            struct nb_failure *f) {
        struct nb_failure cause = { 0 }, other = { 0 };
        enum nb_code code;
        int r, r6;

        r = perform_at(call, call->address, exchange, &cause);
        if (r >= 0)
                return r;
        code = cause.code;
        /* A reset means that the first address has a server. */
        if (call->address6 && nb_http_is_unanswered(code) && code != NB_ENDPOINT_RESET &&
            !nb_http_has_connected(call->http)) {
                exchange->body->len = 0;
                r6 = perform_at(call, call->address6, exchange, &other);
                if (r6 == -ECANCELED && other.code == NB_NONE)
                        return r6;
                if (r6 >= 0) {
                        call->address = call->address6;
                        return r6;
                }
        }
        if (code == NB_NONE)
                return r;
        if (nb_http_is_unanswered(code))
                code = NB_METADATA_UNREACHABLE;
        else if (code == NB_ANSWER_MALFORMED || nb_http_is_untrusted(code))
                code = NB_METADATA_REFUSED;
        f->is_cut_short = cause.is_cut_short;
        return nb_failure_set(f, code, cause.errnum, "%s", cause.detail);
}

static int refuse_status(const struct exchange *exchange, struct nb_failure *f) {
        const struct nb_http_answer *answer = &exchange->answer;
        bool is_later = answer->status == 429 || answer->status >= 500;

        f->retry_after_ms = answer->retry_after_ms;
        return nb_failure_set_http(
                f, is_later ? NB_METADATA_UNREACHABLE : NB_METADATA_REFUSED, answer->status,
                "%s: expected an answer with status 200, found status %ld%s%s", exchange->what,
                answer->status, answer->location[0] ? "; redirects are not followed: " : "",
                answer->location);
}

/* Removes white space around the text. */
static void trim_space(struct nb_secret *text) {
        static const char space[] = " \t\r\n";
        size_t start;

        assert(text->data);
        start = strspn(text->data, space);
        while (text->len > start && strchr(space, text->data[text->len - 1]))
                text->len--;
        text->len -= start;
        memmove(text->data, text->data + start, text->len);
        text->data[text->len] = '\0';
}

static int open_session(struct nb_cloud_call *call, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret token = NB_SECRET_INIT;
        _cleanup_(exchange_done) struct exchange exchange = { .path = call->row->session,
                                                              .is_put = true,
                                                              .body = &token };
        int r;

        if (nb_secret_init(&token, SESSION_MAX) < 0)
                return nb_failure_set_memory(f);
        r = perform_exchange(call, &exchange, f);
        if (r < 0)
                return r;
        if (exchange.answer.status != 200)
                return refuse_status(&exchange, f);
        trim_space(&token);
        /* The token becomes part of a header line, and must not end it. */
        if (token.len == 0 || !nb_text_is_printable(token.data, token.len))
                return nb_failure_set(f, NB_METADATA_REFUSED, EBADMSG,
                                      "%s: expected a session token of printable characters, found "
                                      "something else",
                                      exchange.what);
        r = nb_secret_join(&call->session, call->row->session_header, token.data, token.len);
        return r < 0 ? nb_failure_set_memory(f) : 0;
}

/* Renews the session once if the cloud no longer accepts it. */
static int perform_in_session(struct nb_cloud_call *call, struct exchange *exchange,
                              struct nb_failure *f) {
        int r;

        if (call->row->session && !call->session.data) {
                r = open_session(call, f);
                if (r < 0)
                        return r;
        }
        r = perform_exchange(call, exchange, f);
        if (r < 0 || exchange->answer.status != 401 || !call->session.data ||
            call->is_session_renewed)
                return r;
        call->is_session_renewed = true;
        nb_secret_done(&call->session);
        exchange_done(exchange);
        return perform_in_session(call, exchange, f);
}

/* Returns the file of node-bootstrap-platform.service to read instead of a path; NULL if there is
 * none. A volume needs no network, and is all that some clouds have. */
static const char *find_file(const struct nb_cloud_call *call, const char *path) {
        static const char directory[] = NB_PLATFORM_DIRECTORY "/";
        const struct nb_cloud_row *row = call->row;

        if (strncmp(path, directory, strlen(directory)) == 0)
                return path;
        if (!row->volume || strcmp(row->volume, call->request->machine->platform.volume) != 0)
                return NULL;
        return path == row->document ? NB_PLATFORM_META_DATA : NB_PLATFORM_USER_DATA;
}

static int read_file(const struct nb_cloud_call *call, const char *path, size_t max,
                     struct nb_secret *ret, struct nb_failure *f) {
        int r = nb_sources_read(call->request->sources, path, max, ret, NULL);

        if (r == -ENOENT)
                return 0;
        return r < 0 ? nb_failure_set(
                               f, NB_PLATFORM_UNREADABLE, r,
                               "'%s' from node-bootstrap-platform.service cannot be read: %m", path)
                     : ret->len > 0;
}

int nb_cloud_get(struct nb_cloud_call *call, const char *path, const char *accept, size_t max,
                 struct nb_secret *ret, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret body = NB_SECRET_INIT;
        _cleanup_(exchange_done) struct exchange exchange = { .path = path,
                                                              .accept = accept,
                                                              .body = &body };
        const char *file = find_file(call, path);
        bool is_patient = call->row->is_patient;
        long status;
        int r;

        if (file)
                return read_file(call, file, max, ret, f);
        if (nb_secret_init(&body, max) < 0)
                return nb_failure_set_memory(f);
        r = perform_in_session(call, &exchange, f);
        if (r < 0)
                return r;
        status = exchange.answer.status;
        if (status == 204 || (status == 200 && body.len == 0))
                return 0;
        if (status == 200) {
                *ret = TAKE(body);
                return 1;
        }
        if (status != 404 && (status != 410 || !is_patient))
                return refuse_status(&exchange, f);
        if (!is_patient || call->request->is_patience_over)
                return 0;
        return nb_failure_set_http(f, NB_METADATA_UNREACHABLE, status,
                                   "%s: status %ld, which may mean that it is not ready yet",
                                   exchange.what, status);
}

/* Tools that write volumes add a byte order mark, and fill files up with NULs. */
int nb_cloud_get_document(struct nb_cloud_call *call, const char *path, const char *accept,
                          struct nb_secret *ret, struct nb_failure *f) {
        static const char byte_order_mark[] = "\xef\xbb\xbf";
        size_t mark_len = strlen(byte_order_mark);
        int r;

        r = nb_cloud_get(call, path, accept, NB_CLOUD_DOCUMENT_MAX, ret, f);
        if (r <= 0)
                return r;
        while (ret->len > 0 && !ret->data[ret->len - 1])
                ret->len--;
        if (ret->len >= mark_len && memcmp(ret->data, byte_order_mark, mark_len) == 0) {
                ret->len -= mark_len;
                memmove(ret->data, ret->data + mark_len, ret->len);
                ret->data[ret->len] = '\0';
        }
        return ret->len > 0;
}

/* Reads the row's `document`, once. */
static int load_document(struct nb_cloud_call *call, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        int r;

        if (call->is_document_read)
                return 0;
        call->is_document_read = true;
        r = nb_cloud_get_document(call, call->row->document, "application/json", &text, f);
        if (r <= 0)
                return r;
        snprintf(call->document_what, sizeof(call->document_what), "%s: %s", call->title,
                 call->row->document);
        call->document = nb_json_parse(text.data, text.len, call->document_what,
                                       NB_METADATA_MALFORMED, f);
        return call->document.r;
}

static int get_member(struct nb_cloud_call *call, const char *path, struct nb_secret *ret,
                      struct nb_failure *f) {
        const char *text;
        int r;

        r = load_document(call, f);
        if (r < 0 || !call->document.root)
                return r;
        text = nb_json_identifier(&call->document, path);
        if (!text)
                return call->document.r;
        return nb_secret_copy(ret, text, strlen(text)) < 0 ? nb_failure_set_memory(f) : 1;
}

int nb_cloud_get_value(struct nb_cloud_call *call, const char *value, struct nb_secret *ret,
                       struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        int r;

        r = value[0] == '/' ? nb_cloud_get(call, value, NULL, NB_CLOUD_VALUE_MAX, &text, f)
                            : get_member(call, value, &text, f);
        if (r <= 0)
                return r;
        trim_space(&text);
        if (text.len > NB_CLOUD_VALUE_MAX || !nb_text_is_printable(text.data, text.len))
                return nb_failure_set(
                        f, NB_METADATA_MALFORMED, EBADMSG,
                        "%s, %s: expected one line of at most %d printable characters", call->title,
                        value, NB_CLOUD_VALUE_MAX);
        if (text.len == 0)
                return 0;
        *ret = TAKE(text);
        return 1;
}
