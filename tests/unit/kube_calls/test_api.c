/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "case.h"
#include "kube_calls/api.h"
#include "os/clock.h"
#include "server.h"

#define STATUS(code, reason, message) \
        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\"reason\":\"" reason \
        "\",\"message\":\"" message "\",\"code\":" code "}"
#define ANONYMOUS "nodes is forbidden: User \\\"system:anonymous\\\" cannot list"

static const struct nb_answer_codes codes = { .unauthorized = NB_TOKEN_REJECTED,
                                              .forbidden = NB_CSR_FORBIDDEN,
                                              .invalid = NB_CSR_REJECTED,
                                              .anonymous = NB_TOKEN_REJECTED };
static const struct nb_answer_codes plain_codes = { .unauthorized = NB_TOKEN_REJECTED,
                                                    .forbidden = NB_SUPERVISOR_FORBIDDEN,
                                                    .has_plain_refusals = true };
static const struct nb_call call = { "things from", "/things/", 4096, &codes };

static struct nb_http_answer make_answer(long status, const char *body) {
        struct nb_http_answer answer = { .status = status, .body = NB_BUFFER_INIT(4096) };

        if (body)
                nb_buffer_append_string(&answer.body, body);
        return answer;
}

/* --- Answers --- */

struct failure_case {
        const char *name;
        long status;
        const char *body;
        const struct nb_answer_codes *codes;
        enum nb_code code;
        const char *detail; /* a part of it */
        bool is_not_found;
        const char *location;
};

static struct failure_case failures[] = {
        { "401", 401, STATUS("401", "Unauthorized", "no"), &codes, NB_TOKEN_REJECTED,
          "things from h:1: 401 Unauthorized: 'no'; the token with ID abcdef, from here, was "
          "presented" },
        { "403", 403, STATUS("403", "Forbidden", "no"), &codes, NB_CSR_FORBIDDEN, "403 Forbidden" },
        { "403 for nobody", 403, STATUS("403", "Forbidden", ANONYMOUS), &codes, NB_TOKEN_REJECTED,
          "the API server ignored the credential" },
        { "403 for nobody, where that is no matter", 403, STATUS("403", "Forbidden", ANONYMOUS),
          &plain_codes, NB_SUPERVISOR_FORBIDDEN, "403 Forbidden" },
        { "400", 400, STATUS("400", "BadRequest", "no"), &codes, NB_CSR_REJECTED, "400" },
        { "409", 409, STATUS("409", "AlreadyExists", "no"), &codes, NB_CSR_REJECTED, "409" },
        { "422", 422, STATUS("422", "Invalid", "no"), &codes, NB_CSR_REJECTED, "422 Invalid" },
        { "422 without codes", 422, STATUS("422", "Invalid", "no"), NULL, NB_ANSWER_MALFORMED,
          "422 Invalid" },
        { "404", 404, STATUS("404", "NotFound", "no"), &codes, NB_ANSWER_MALFORMED, "404 NotFound",
          .is_not_found = true },
        { "404 of a proxy", 404, "nothing here", &codes, NB_ANSWER_FOREIGN, "no Status object" },
        { "a Status with another code", 404, STATUS("403", "Forbidden", "no"), &codes,
          NB_ANSWER_MALFORMED, "404 Forbidden" },
        { "429", 429, STATUS("429", "TooManyRequests", "later"), &codes, NB_SERVER_ERROR, "later" },
        { "500", 500, STATUS("500", "InternalError", "no"), &codes, NB_SERVER_ERROR, "500" },
        { "503 of a load balancer", 503, "<html>", &codes, NB_SERVER_ERROR, "no Status object" },
        { "401 of a proxy", 401, "", &codes, NB_ANSWER_FOREIGN, "no Status object" },
        { "401 of a supervisor", 401, "no", &plain_codes, NB_TOKEN_REJECTED,
          "the token with ID abcdef" },
        { "403 of a supervisor", 403, NULL, &plain_codes, NB_SUPERVISOR_FORBIDDEN, "403" },
        { "a redirect", 302, "", &codes, NB_ANSWER_FOREIGN, "a redirect to https://other/",
          .location = "https://other/" },
};

static void sorts_answers(void **state) {
        const struct failure_case *c = *state;
        const struct nb_call here = { "things from", "/", 4096, c->codes };
        const struct nb_identity identity = { .token_id = "abcdef", .source = "here" };
        const struct nb_api api = { .identity = &identity, .name = "h:1" };
        struct nb_http_answer answer = make_answer(c->status, c->body);
        struct nb_failure f = { 0 };

        answer.retry_after_ms = 7;
        if (c->location)
                NB_TEXT_COPY(answer.location, c->location);
        assert_true(nb_answer_failure(&api, &here, &answer, &f) < 0);
        assert_int_equal(f.code, c->code);
        assert_int_equal(f.http_status, c->status);
        assert_int_equal(f.retry_after_ms, 7);
        if (!strstr(f.detail, c->detail))
                fail_msg("'%s' is not in '%s'", c->detail, f.detail);
        assert_int_equal(nb_answer_is_not_found(&answer), c->is_not_found);
        assert_string_equal(nb_answer_text(&answer), c->body ? c->body : "");
        nb_http_answer_done(&answer);
}

static void reads_the_status(void **state) {
        struct nb_http_answer answer = make_answer(422,
                                                   STATUS("422", "Invalid", "spec: Invalid value"));
        struct nb_status status = nb_answer_status(&answer);

        assert_int_equal(status.code, 422);
        assert_string_equal(status.reason, "Invalid");
        assert_string_equal(status.message, "spec: Invalid value");
        nb_http_answer_done(&answer);
        answer = make_answer(422, NULL);
        assert_int_equal(nb_answer_status(&answer).code, 0);
}

static void only_a_rejected_identity_is_named(void **state) {
        struct nb_identity identity = { .source = "credential 'c'" };
        struct nb_api api = { .identity = &identity };
        struct nb_failure f = { .code = NB_CSR_FORBIDDEN };

        assert_int_equal(nb_api_name_identity(&api, -EACCES, &f), -EACCES);
        assert_string_equal(f.detail, "");
        f.code = NB_TOKEN_REJECTED;
        assert_int_equal(nb_api_name_identity(&api, -EACCES, &f), -EACCES);
        assert_string_equal(f.detail, "; the identity in credential 'c' was presented");
        f.detail[0] = '\0';
        api.identity = NULL;
        assert_int_equal(nb_api_name_identity(&api, 0, &f), 0);
        assert_string_equal(f.detail, "");
}

/* --- Requests --- */

static struct server server;

static struct nb_identity make_identity(enum nb_identity_kind kind, const char *secret) {
        struct nb_identity identity = { .kind = kind };

        assert_int_equal(nb_secret_copy(&identity.secret, secret, strlen(secret)), 0);
        return identity;
}

struct identity_case {
        const char *name;
        enum nb_identity_kind kind;
        const char *secret, *line; /* "Authorization" */
};

static struct identity_case identities[] = {
        { "request: with a token", NB_IDENTITY_TOKEN, "abc", "Authorization: Bearer abc\r\n" },
        { "request: with a password", NB_IDENTITY_PASSWORD, "node:secret",
          "Authorization: Basic bm9kZTpzZWNyZXQ=\r\n" },
        { "request: with nothing", NB_IDENTITY_NONE, "abc", NULL },
};

static void sends_credential(void **state) {
        const struct identity_case *c = *state;
        struct server_answer answers[] = { { "GET /things/x ", 200, "one" },
                                           { "POST /things/ ", 201, "two" },
                                           { 0 } };
        struct nb_identity identity = make_identity(c->kind, c->secret);
        const struct nb_cluster cluster = server_cluster(&server);
        struct nb_http_answer answer = { 0 };
        struct nb_failure f = { 0 };
        struct nb_api api = { 0 };

        server_reset(&server, answers);
        assert_int_equal(nb_api_init(&api, &cluster, &identity, NB_TIME_INFINITE, &f), 0);
        assert_int_equal(nb_api_get(&api, &call, "x", &answer, &f), 0);
        assert_int_equal(answer.status, 200);
        assert_string_equal(nb_answer_text(&answer), "one");
        nb_http_answer_done(&answer);
        assert_int_equal(nb_api_perform(&api, &call,
                                        &(struct nb_http_request){ .body = "{}", .body_len = 2 },
                                        &answer, &f),
                         0);
        assert_int_equal(answer.status, 201);
        nb_http_answer_done(&answer);
        /* Both over one connection. */
        assert_int_equal(server.n_connections, 1);
        assert_non_null(strstr(server_log(&server), "Content-Type: application/json\r\n"));
        assert_int_equal(strstr(server_log(&server), "Authorization") != NULL, c->line != NULL);
        if (c->line)
                assert_non_null(strstr(server_log(&server), c->line));
        nb_api_done(&api);
        assert_null(api.authorization.data);
        nb_identity_done(&identity);
}

static void no_credential_for_another_server(void **state) {
        struct server_answer answers[] = { { 0 } };
        struct nb_identity identity = make_identity(NB_IDENTITY_TOKEN, "abc");
        struct pki_cert other = pki_make(&(struct pki_options){
                .dn = "CN=ca", .is_ca = true, .not_after = PKI_NOW + PKI_DAY });
        struct nb_cluster cluster = server_cluster(&server);
        struct nb_http_answer answer = { 0 };
        struct nb_failure f = { 0 };
        struct nb_api api = { 0 };

        server_reset(&server, answers);
        cluster.ca = other.pem;
        cluster.ca_len = strlen(other.pem);
        assert_int_equal(nb_api_init(&api, &cluster, &identity, NB_TIME_INFINITE, &f), 0);
        assert_true(nb_api_get(&api, &call, "x", &answer, &f) < 0);
        assert_int_equal(f.code, NB_TLS_UNTRUSTED);
        nb_api_done(&api);
        cluster = server_cluster(&server);
        NB_TEXT_COPY(cluster.tls_server_name, "another.example");
        nb_failure_clear(&f);
        assert_int_equal(nb_api_init(&api, &cluster, &identity, NB_TIME_INFINITE, &f), 0);
        assert_true(nb_api_get(&api, &call, "x", &answer, &f) < 0);
        assert_int_equal(f.code, NB_TLS_NAME_MISMATCH);
        assert_string_equal(server_log(&server), "");
        nb_api_done(&api);
        nb_identity_done(&identity);
        pki_done(&other);
}

static void a_call_ends_at_the_deadline(void **state) {
        struct server_answer answers[] = { { "GET", .is_silent = true }, { 0 } };
        const struct nb_cluster cluster = server_cluster(&server);
        struct nb_http_answer answer = { 0 };
        struct nb_failure f = { 0 };
        struct nb_api api = { 0 };

        server_reset(&server, answers);
        assert_int_equal(nb_api_init(&api, &cluster, NULL, nb_now_ms() + 500, &f), 0);
        assert_true(nb_api_get(&api, &call, "x", &answer, &f) < 0);
        assert_int_equal(f.code, NB_ENDPOINT_UNREACHABLE);
        assert_true(f.is_cut_short);
        nb_api_done(&api);
}

static void an_unverified_server_gets_no_credential(void **state) {
        struct server_answer answers[] = { { "GET /things/ ", 200, "anything" }, { 0 } };
        const struct nb_cluster cluster = server_cluster(&server);
        struct nb_unverified unverified;
        struct nb_http_transfer *transfer, *done;
        struct nb_failure f = { 0 };
        struct nb_api api = { 0 };

        server_reset(&server, answers);
        assert_int_equal(nb_api_init_unverified(&api, &cluster.server, &f), 0);
        assert_null(api.authorization.data);
        assert_int_equal(nb_api_start(&api, &call, NULL, &transfer, &f), 0);
        assert_int_equal(nb_http_wait(&api.http, 1, NB_TIME_INFINITE, &done, &f), 1);
        assert_ptr_equal(done, transfer);
        assert_int_equal(nb_http_finish_unverified(done, &unverified, &f), 0);
        assert_string_equal(nb_answer_text(&unverified.answer), "anything");
        assert_null(strstr(server_log(&server), "Authorization"));
        nb_unverified_done(&unverified);
        nb_api_done(&api);
}

static void await_connections(unsigned n) {
        for (unsigned i = 0; i < 1000 && server.n_connections < n; i++)
                (void)poll(NULL, 0, 10);
        assert_int_equal(server.n_connections, n);
}

/* An early connection is used for the same server, and closed for another one. */
static void early_connections(void **state) {
        for (int is_other = 0; is_other < 2; is_other++) {
                struct server_answer answers[] = { { "GET", 200, "x", .is_repeated = true },
                                                   { 0 } };
                struct nb_cluster cluster = server_cluster(&server);
                struct nb_api first = { 0 }, early = { 0 };
                struct nb_http_answer answer = { 0 };
                struct nb_failure f = { 0 };
                struct nb_http *http;

                server_reset(&server, answers);
                assert_int_equal(nb_api_init(&first, &cluster, NULL, NB_TIME_INFINITE, &f), 0);
                assert_int_equal(nb_api_init_early(&early, &cluster.server, &f), 0);
                http = early.http;
                assert_int_equal(nb_api_perform(&first, &call,
                                                &(struct nb_http_request){ .next = early.http },
                                                &answer, &f),
                                 0);
                nb_http_answer_done(&answer);
                await_connections(2);
                if (is_other)
                        NB_TEXT_COPY(cluster.tls_server_name, "127.0.0.1");
                assert_int_equal(nb_api_init(&early, &cluster, NULL, NB_TIME_INFINITE, &f), 0);
                if (!is_other)
                        assert_ptr_equal(early.http, http);
                assert_int_equal(nb_api_get(&early, &call, "x", &answer, &f), 0);
                assert_int_equal(server.n_connections, is_other ? 3 : 2);
                nb_http_answer_done(&answer);
                nb_api_done(&early);
                nb_api_done(&first);
        }
}

int main(void) {
        struct nb_failure f = { 0 };
        int r;

        if (nb_http_begin(true, &f) < 0)
                return 1;
        server_start(&server, (struct server_answer[]){ { 0 } });
        CASES(failures, sorts_answers);
        CASE(reads_the_status);
        CASE(only_a_rejected_identity_is_named);
        CASES(identities, sends_credential);
        CASE(no_credential_for_another_server);
        CASE(a_call_ends_at_the_deadline);
        CASE(an_unverified_server_gets_no_credential);
        CASE(early_connections);
        r = case_run("kube calls api");
        server_stop(&server);
        nb_http_end();
        return r;
}
