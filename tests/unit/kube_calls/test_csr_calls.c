/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "case.h"
#include "kube_calls/csr_calls.h"
#include "os/clock.h"
#include "server.h"

#define PATH "/apis/certificates.k8s.io/v1/certificatesigningrequests"
#define NAME "node-csr-x"
#define CSR(version) \
        "{\"kind\":\"CertificateSigningRequest\",\"apiVersion\":\"certificates.k8s.io/v1\"," \
        "\"metadata\":{\"name\":\"" NAME "\",\"uid\":\"u\",\"resourceVersion\":\"" version "\"}," \
        "\"spec\":{\"request\":\"UEVN\",\"signerName\":\"kubernetes.io/" \
        "kube-apiserver-client-kubelet\",\"usages\":[\"client auth\"]},\"status\":{}}"
#define STATUS(code, reason, message) \
        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\"reason\":\"" reason \
        "\",\"message\":\"" message "\",\"code\":" code "}"
#define NOBODY \
        STATUS("403", "Forbidden", "x is forbidden: User \\\"system:anonymous\\\" cannot create y")

static struct server server;
static struct nb_api api;
static struct nb_failure f;
static struct nb_identity identity = { .kind = NB_IDENTITY_TOKEN,
                                       .token_id = "abcdef",
                                       .source = "here" };

static void begin(struct server_answer *answers) {
        const struct nb_cluster cluster = server_cluster(&server);

        server_reset(&server, answers);
        f = (struct nb_failure){ 0 };
        assert_int_equal(nb_api_init(&api, &cluster, &identity, nb_now_ms() + 30000, &f), 0);
}

/* --- One request --- */

struct submit_case {
        const char *name;
        struct server_answer answers[4];
        int r; /* -1: any failure */
        enum nb_code code;
        const char *version; /* of the CSR that is returned */
};

#define POST "POST " PATH " "
#define GET "GET " PATH "/" NAME " "

static struct submit_case submits[] = {
        { "submit: created", { { POST, 201, CSR("1") } }, .version = "1" },
        { "submit: there already", { { POST, 409 }, { GET, 200, CSR("2") } }, 1, .version = "2" },
        { "submit: there already, and deleted",
          { { POST, 409 }, { GET, 404 } },
          -1,
          NB_SERVER_ERROR },
        { "submit: there already, and hidden",
          { { POST, 409 }, { GET, 403 } },
          -1,
          NB_CSR_FORBIDDEN },
        { "submit: the token is unknown", { { POST, 401 } }, -1, NB_TOKEN_REJECTED },
        { "submit: the token is ignored", { { POST, 403, NOBODY } }, -1, NB_TOKEN_REJECTED },
        { "submit: not permitted", { { POST, 403 } }, -1, NB_CSR_FORBIDDEN },
        { "submit: refused by a policy", { { POST, 422 } }, -1, NB_CSR_REJECTED },
        { "submit: not now", { { POST, 503 } }, -1, NB_SERVER_ERROR },
        { "submit: another object", { { POST, 201, "{}" } }, -1, NB_ANSWER_MALFORMED },
};

static void submits_csr(void **state) {
        struct submit_case *c = *state;
        const struct nb_csr_request request = { "PEM", 3, 3600 };
        struct nb_csr csr = { 0 };
        int r;

        begin(c->answers);
        r = nb_csr_submit(&api, NAME, &request, &csr, &f);
        assert_int_equal(f.code, c->code);
        assert_int_equal(r < 0 ? -1 : r, c->r);
        assert_string_equal(csr.resource_version, c->version ? c->version : "");
        assert_non_null(strstr(server_log(&server), "\"request\":\"UEVN\""));
        assert_non_null(strstr(server_log(&server), "\"expirationSeconds\":3600"));
        nb_csr_done(&csr);
        nb_api_done(&api);
}

struct read_case {
        const char *name;
        struct server_answer answers[2];
        int r; /* -1: any failure */
        enum nb_code code;
};

static struct read_case reads[] = {
        { "read: there", { { GET, 200, CSR("3") } }, 1 },
        { "read: not there", { { GET, 404 } }, 0 },
        { "read: not found by a proxy", { { GET, 404, "nothing" } }, -1, NB_ANSWER_FOREIGN },
        { "read: not permitted", { { GET, 403 } }, -1, NB_CSR_FORBIDDEN },
        { "read: the answer is cut",
          { { GET, 200, CSR("3"), .is_cut = true } },
          -1,
          NB_ENDPOINT_RESET },
};

static void reads_csr(void **state) {
        struct read_case *c = *state;
        struct nb_csr csr = { 0 };
        int r;

        begin(c->answers);
        r = nb_csr_read(&api, NAME, &csr, &f);
        assert_int_equal(f.code, c->code);
        assert_int_equal(r < 0 ? -1 : r, c->r);
        assert_string_equal(csr.resource_version, c->r > 0 ? "3" : "");
        nb_csr_done(&csr);
        nb_api_done(&api);
}

/* --- Watch --- */

#define WATCH "GET " PATH "?watch=true"
#define EVENT(type, object) "{\"type\":\"" type "\",\"object\":" object "}\n"

static int next(struct nb_csr_watch *watch, uint64_t until_ms, struct nb_csr_event *event) {
        nb_csr_event_done(event);
        *event = (struct nb_csr_event){ 0 };
        return nb_csr_watch_next(watch, until_ms, event, &f);
}

static void watches(void **state) {
        struct server_answer answers[] = {
                { WATCH, 200, EVENT("MODIFIED", CSR("5")) EVENT("DELETED", CSR("6")) }, { 0 }
        };
        struct nb_csr_watch watch = { 0 };
        struct nb_csr_event event = { 0 };

        begin(answers);
        assert_int_equal(nb_csr_watch_start(&watch, &api, NAME, "4", &f), 0);
        assert_int_equal(next(&watch, NB_TIME_INFINITE, &event), NB_WATCH_EVENT);
        assert_int_equal(event.type, NB_CSR_EVENT_MODIFIED);
        assert_string_equal(event.csr.resource_version, "5");
        assert_int_equal(next(&watch, NB_TIME_INFINITE, &event), NB_WATCH_EVENT);
        assert_int_equal(event.type, NB_CSR_EVENT_DELETED);
        assert_int_equal(next(&watch, NB_TIME_INFINITE, &event), NB_WATCH_ENDED);
        assert_null(watch.transfer);
        nb_csr_watch_done(&watch);
        /* What may be missed is between this version and the answer. */
        assert_non_null(strstr(server_log(&server), "&resourceVersion=4 "));
        assert_non_null(strstr(server_log(&server), "fieldSelector=metadata.name%3D" NAME "&"));
        nb_csr_event_done(&event);
        nb_api_done(&api);
}

static void a_watch_goes_on_after_a_while(void **state) {
        struct server_answer answers[] = { { WATCH, .is_silent = true }, { 0 } };
        struct nb_csr_watch watch = { 0 };
        struct nb_csr_event event = { 0 };

        begin(answers);
        assert_int_equal(nb_csr_watch_start(&watch, &api, NAME, "4", &f), 0);
        for (int i = 0; i < 2; i++)
                assert_int_equal(next(&watch, nb_now_ms() + 20, &event), NB_WATCH_TIME);
        assert_non_null(watch.transfer);
        nb_csr_watch_done(&watch);
        assert_null(watch.transfer);
        nb_csr_watch_done(&watch);
        nb_api_done(&api);
}

struct refusal_case {
        const char *name;
        struct server_answer answers[2];
        enum nb_code code;
};

static struct refusal_case refusals[] = {
        { "watch: not permitted", { { WATCH, 403 } }, NB_CSR_FORBIDDEN },
        { "watch: too old", { { WATCH, 410 } }, NB_ANSWER_MALFORMED },
        { "watch: the token is unknown", { { WATCH, 401 } }, NB_TOKEN_REJECTED },
        { "watch: no event", { { WATCH, 200, "hello\n" } }, NB_ANSWER_MALFORMED },
};

static void watch_is_refused(void **state) {
        struct refusal_case *c = *state;
        struct nb_csr_watch watch = { 0 };
        struct nb_csr_event event = { 0 };

        begin(c->answers);
        assert_int_equal(nb_csr_watch_start(&watch, &api, NAME, "4", &f), 0);
        assert_true(next(&watch, NB_TIME_INFINITE, &event) < 0);
        assert_int_equal(f.code, c->code);
        nb_csr_watch_done(&watch);
        nb_api_done(&api);
}

/* --- Rights --- */

struct right_case {
        const char *name;
        struct server_answer answers[2];
        int r; /* of nb_right_read(); -1: any failure */
        enum nb_code code;
        enum nb_code access; /* of nb_node_access_verify() */
};

#define REVIEW "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews "
#define ANSWER(status) \
        "{\"kind\":\"SelfSubjectAccessReview\",\"apiVersion\":\"authorization.k8s.io/v1\"," \
        "\"status\":{" status "}}"

static struct right_case rights[] = {
        { "right: granted", { { REVIEW, 201, ANSWER("\"allowed\":true") } }, NB_RIGHT_GRANTED },
        { "right: denied", { { REVIEW, 201, ANSWER("\"allowed\":false") } }, NB_RIGHT_DENIED },
        { "right: may not ask", { { REVIEW, 403 } }, NB_RIGHT_UNKNOWN },
        { "right: cannot be asked", { { REVIEW, 404 } }, NB_RIGHT_UNKNOWN },
        { "right: not found by a proxy",
          { { REVIEW, 404, "" } },
          -1,
          NB_ANSWER_FOREIGN,
          NB_ANSWER_FOREIGN },
        { "right: nobody",
          { { REVIEW, 403, NOBODY } },
          -1,
          NB_TOKEN_REJECTED,
          NB_NODE_ACCESS_REVOKED },
        { "right: not authenticated",
          { { REVIEW, 401 } },
          -1,
          NB_TOKEN_REJECTED,
          NB_NODE_ACCESS_REVOKED },
        { "right: not now", { { REVIEW, 500 } }, -1, NB_SERVER_ERROR, NB_SERVER_ERROR },
};

static void reads_right(void **state) {
        struct right_case *c = *state;
        int r;

        begin(c->answers);
        r = nb_right_read(&api, NB_RIGHT_NODECLIENT, &f);
        assert_int_equal(f.code, c->code);
        assert_int_equal(r < 0 ? -1 : r, c->r);
        assert_non_null(strstr(server_log(&server), "\"nodeclient\""));
        nb_api_done(&api);

        c->answers[0].is_given = false;
        begin(c->answers);
        r = nb_node_access_verify(&api, &f);
        assert_int_equal(f.code, c->access);
        assert_int_equal(r < 0, c->access != NB_NONE);
        assert_null(strstr(server_log(&server), "\"nodeclient\""));
        nb_api_done(&api);
}

int main(void) {
        int r;

        if (nb_http_begin(true, &f) < 0)
                return 1;
        server_start(&server, (struct server_answer[]){ { 0 } });
        assert_int_equal(nb_secret_copy(&identity.secret, "abc", 3), 0);
        CASES(submits, submits_csr);
        CASES(reads, reads_csr);
        CASE(watches);
        CASE(a_watch_goes_on_after_a_while);
        CASES(refusals, watch_is_refused);
        CASES(rights, reads_right);
        r = case_run("kube calls csr");
        nb_identity_done(&identity);
        server_stop(&server);
        nb_http_end();
        return r;
}
