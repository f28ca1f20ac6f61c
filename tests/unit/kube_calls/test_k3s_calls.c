/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "case.h"
#include "kube_calls/k3s_calls.h"
#include "os/clock.h"
#include "server.h"

#define STATUS(code, message) \
        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\"reason\":\"R\"," \
        "\"message\":\"" message "\",\"code\":" code "}"

static struct server server;
static struct nb_api api;
static struct nb_failure f;
static struct nb_identity identity = { .kind = NB_IDENTITY_PASSWORD, .source = "here" };

/* --- /cacerts --- */

struct cacerts_case {
        const char *name;
        long status;
        const char *body;
        enum nb_code code;
};

static struct cacerts_case cacerts[] = {
        { "cacerts: there", 200, "PEM", NB_NONE },
        { "cacerts: of an API server", 401, STATUS("401", "m"), NB_SUPERVISOR_MISSING },
        { "cacerts: of another API server", 403, STATUS("403", "m"), NB_SUPERVISOR_MISSING },
        { "cacerts: of a web server", 404, "", NB_SUPERVISOR_MISSING },
        { "cacerts: not now", 503, "", NB_SERVER_ERROR },
        { "cacerts: a redirect", 301, "", NB_ANSWER_FOREIGN },
};

static void verifies_cacerts(void **state) {
        const struct cacerts_case *c = *state;
        const struct nb_api here = { .name = "h:1" };
        struct nb_http_answer answer = { .status = c->status, .body = NB_BUFFER_INIT(4096) };

        f = (struct nb_failure){ 0 };
        nb_buffer_append_string(&answer.body, c->body);
        assert_int_equal(nb_cacerts_verify(&here, &answer, &f) < 0, c->code != NB_NONE);
        assert_int_equal(f.code, c->code);
        if (c->code != NB_NONE)
                assert_int_equal(f.http_status, c->status);
        nb_http_answer_done(&answer);
}

/* --- Certificates --- */

struct sign_case {
        const char *name;
        int status;
        const char *body;
        bool has_password; /* the request has the password of the node */
        enum nb_code code;
        const char *detail;
};

#define KEY "-----BEGIN EC PRIVATE KEY-----\nAA\n-----END EC PRIVATE KEY-----\n"

static struct sign_case signs[] = {
        { "sign: a certificate", 200, "PEM", true },
        { "sign: a key of an old supervisor", 200, "PEM" KEY, true, NB_SUPERVISOR_TOO_OLD,
          "kube-system/a.node-password.k3s" },
        { "sign: a key of one that has stored nothing", 200, KEY, false, NB_SUPERVISOR_TOO_OLD,
          "stored nothing" },
        { "sign: the token is unknown", 401, "not authorized", true, NB_TOKEN_REJECTED,
          "rejected the token (401); the identity in here was presented" },
        { "sign: the password is another one", 403, STATUS("403", "hash does not match"), true,
          NB_NODE_PASSWORD_REJECTED, "hash does not match" },
        { "sign: the password is another one, says an old supervisor", 403,
          "Node password rejected", true, NB_NODE_PASSWORD_REJECTED, "Node password rejected" },
        { "sign: not with this token", 403, STATUS("403", "forbidden"), true,
          NB_SUPERVISOR_FORBIDDEN, "403 R: 'forbidden'" },
        { "sign: not at all", 403, "no", true, NB_SUPERVISOR_FORBIDDEN, "403" },
        { "sign: not without a password", 403, STATUS("403", "hash does not match"), false,
          NB_SUPERVISOR_FORBIDDEN, "hash does not match" },
        { "sign: the request is bad", 400, "bad", true, NB_ANSWER_FOREIGN, "400" },
        { "sign: the request is bad, says a Status", 400, STATUS("400", "bad"), true,
          NB_CSR_REJECTED, "400 R: 'bad'" },
        { "sign: not now", 503, "starting", true, NB_SERVER_ERROR, "503" },
};

static void begin(struct server_answer *answers) {
        const struct nb_cluster cluster = server_cluster(&server);

        server_reset(&server, answers);
        f = (struct nb_failure){ 0 };
        assert_int_equal(nb_api_init(&api, &cluster, &identity, nb_now_ms() + 30000, &f), 0);
}

static void expect_header(const char *name, const char *value) {
        char line[128];

        (void)snprintf(line, sizeof(line), "\r\n%s: ", name);
        if (!value) {
                assert_null(strstr(server_log(&server), line));
                return;
        }
        (void)snprintf(line, sizeof(line), "\r\n%s: %s\r\n", name, value);
        assert_non_null(strstr(server_log(&server), line));
}

static void signs_request(void **state) {
        const struct sign_case *c = *state;
        struct server_answer answers[] = {
                { "POST /v1-k3s/client-kubelet.crt ", c->status, c->body }, { 0 }
        };
        struct nb_buffer csr = NB_BUFFER_INIT(16), certificate = NB_BUFFER_INIT(4096);
        const struct nb_url endpoint = { .port = 6443 };
        const struct nb_k3s_request request = { .endpoint = &endpoint,
                                                .name = "client-kubelet",
                                                .node_name = "a",
                                                .node_password = c->has_password ? "pw" : NULL,
                                                .node_ips = "10.0.0.5,fd00::5",
                                                .csr = &csr };

        nb_buffer_append_string(&csr, "DER");
        begin(answers);
        assert_int_equal(nb_k3s_sign(&api, &request, &certificate, &f) < 0, c->code != NB_NONE);
        assert_int_equal(f.code, c->code);
        if (c->code == NB_NONE)
                assert_string_equal(certificate.data, "PEM");
        else {
                assert_int_equal(certificate.len, 0);
                if (!strstr(f.detail, c->detail))
                        fail_msg("'%s' is not in '%s'", c->detail, f.detail);
                assert_null(strstr(f.detail, "pw"));
        }
        expect_header("k3s-Node-Password", c->has_password ? "pw" : NULL);
        expect_header("k3s-Node-Name", c->has_password ? "a" : NULL);
        expect_header("k3s-Node-IP", c->has_password ? "10.0.0.5,fd00::5" : NULL);
        expect_header("Content-Type", "application/pkcs10");
        assert_non_null(strstr(server_log(&server), "\r\n\r\nDER"));
        nb_buffer_done(&csr);
        nb_buffer_done(&certificate);
        nb_api_done(&api);
}

/* Its port tells RKE2, and a client certificate has no address. */
static void rke2_has_names_of_its_own(void **state) {
        struct server_answer answers[] = { { "POST /v1-rke2/x.crt ", 200, "PEM" }, { 0 } };
        struct nb_buffer csr = NB_BUFFER_INIT(16), certificate = NB_BUFFER_INIT(4096);
        const struct nb_url endpoint = { .port = NB_RKE2_SUPERVISOR_PORT };
        const struct nb_k3s_request request = { .endpoint = &endpoint,
                                                .name = "x",
                                                .node_name = "a",
                                                .node_password = "pw",
                                                .node_ips = "",
                                                .csr = &csr };

        nb_buffer_append_string(&csr, "DER");
        begin(answers);
        assert_int_equal(nb_k3s_sign(&api, &request, &certificate, &f), 0);
        expect_header("rke2-Node-Password", "pw");
        expect_header("rke2-Node-IP", NULL);
        nb_buffer_done(&csr);
        nb_buffer_done(&certificate);
        nb_api_done(&api);
}

/* Nothing that the supervisor stores is sent. */
static void an_old_supervisor_is_found_out(void **state) {
        static const struct {
                const char *body;
                enum nb_code code;
        } rows[] = { { "PEM", NB_NONE }, { "PEM" KEY, NB_SUPERVISOR_TOO_OLD } };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct server_answer answers[] = {
                        { "POST /v1-k3s/client-kube-proxy.crt ", 200, rows[i].body }, { 0 }
                };
                const struct nb_url endpoint = { .port = 6443 };

                begin(answers);
                assert_int_equal(nb_k3s_verify_signing(&api, &endpoint, "a", &f) < 0,
                                 rows[i].code != NB_NONE);
                assert_int_equal(f.code, rows[i].code);
                expect_header("k3s-Node-Password", NULL);
                expect_header("k3s-Node-Name", NULL);
                nb_api_done(&api);
        }
}

static struct cacerts_case ready[] = {
        { "ready: yes", 200, "ok", NB_NONE },
        { "ready: the token is unknown", 401, "not authorized", NB_TOKEN_REJECTED },
        { "ready: not for an agent", 403, STATUS("403", "forbidden"), NB_SUPERVISOR_FORBIDDEN },
        { "ready: not now", 503, "starting", NB_SERVER_ERROR },
        { "ready: no such path", 404, "", NB_ANSWER_FOREIGN },
};

static void asks_whether_it_is_ready(void **state) {
        const struct cacerts_case *c = *state;
        const struct nb_url endpoints[] = { { .port = 6443 }, { .port = NB_RKE2_SUPERVISOR_PORT } };

        for (size_t i = 0; i < N_ELEMENTS(endpoints); i++) {
                struct server_answer answers[] = { { i == 0 ? "GET /v1-k3s/readyz "
                                                            : "GET /v1-rke2/readyz ",
                                                     (int)c->status, c->body },
                                                   { 0 } };

                begin(answers);
                assert_int_equal(nb_k3s_ask_ready(&api, &endpoints[i], &f) < 0, c->code != NB_NONE);
                assert_int_equal(f.code, c->code);
                expect_header("k3s-Node-Password", NULL);
                nb_api_done(&api);
        }
}

int main(void) {
        int r;

        if (nb_http_begin(true, &f) < 0)
                return 1;
        server_start(&server, (struct server_answer[]){ { 0 } });
        assert_int_equal(nb_secret_copy(&identity.secret, "node:secret", 11), 0);
        CASES(cacerts, verifies_cacerts);
        CASES(signs, signs_request);
        CASE(rke2_has_names_of_its_own);
        CASE(an_old_supervisor_is_found_out);
        CASES(ready, asks_whether_it_is_ready);
        r = case_run("kube calls k3s");
        nb_identity_done(&identity);
        server_stop(&server);
        nb_http_end();
        return r;
}
