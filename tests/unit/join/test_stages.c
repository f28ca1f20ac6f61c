/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/file.h"
#include "join_server.h"
#include "os/addresses.h"
#include "state_files/handoff.h"

/* --- Texts of the API server --- */

/* The CSR of this node. `certificate`: NULL while it is pending. */
static char *make_csr(const char *conditions, const char *certificate) {
        struct nb_buffer request = NB_BUFFER_INIT(NB_PKCS10_PEM_MAX), json = NB_BUFFER_INIT(16384);
        struct nb_key *key = NULL;

        assert_int_equal(nb_key_import(node.key_pem, strlen(node.key_pem), &key), 0);
        assert_int_equal(nb_pkcs10_create(key, "a", true, &request), 0);
        nb_buffer_printf(&json,
                         "{\"kind\":\"CertificateSigningRequest\",\"apiVersion\":"
                         "\"certificates.k8s.io/v1\",\"metadata\":{\"name\":\"%s\",\"uid\":\"u\","
                         "\"resourceVersion\":\"4\"},\"spec\":{\"request\":\"",
                         csr_name);
        nb_base64_encode(request.data, request.len, &json);
        nb_buffer_printf(&json,
                         "\",\"signerName\":\"" NB_CSR_SIGNER
                         "\",\"usages\":[\"digital signature\",\"key encipherment\",\"client "
                         "auth\"],\"username\":\"system:bootstrap:abcdef\"},\"status\":{"
                         "\"conditions\":[%s]",
                         conditions);
        if (certificate) {
                nb_buffer_append_string(&json, ",\"certificate\":\"");
                nb_base64_encode(certificate, strlen(certificate), &json);
                nb_buffer_append_string(&json, "\"");
        }
        nb_buffer_append_string(&json, "}}");
        nb_buffer_done(&request);
        nb_key_free(key);
        return json.data;
}

static char *make_event(const char *type, char *object) {
        char *text;

        assert_true(asprintf(&text, "{\"type\":\"%s\",\"object\":%s}\n", type, object) > 0);
        free(object);
        return text;
}

#define APPROVED "{\"type\":\"Approved\",\"status\":\"True\",\"reason\":\"r\",\"message\":\"m\"}"
#define DENIED "{\"type\":\"Denied\",\"status\":\"True\",\"reason\":\"r\",\"message\":\"m\"}"

/* --- The Node --- */

struct node_case {
        const char *name;
        int status;
        const char *body;
        bool is_allowed, is_own;
        enum nb_code code;
};

#define NODE_OBJECT(ready) \
        "{\"kind\":\"Node\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\"},\"status\":{" \
        "\"conditions\":[{\"type\":\"Ready\",\"status\":\"" ready "\"}],\"nodeInfo\":{" \
        "\"kubeletVersion\":\"v1.30\"}}}"

static struct node_case nodes[] = {
        { "node: none", 404 },
        { "node: one that is not ready", 200, NODE_OBJECT("False") },
        { "node: one that is ready", 200, NODE_OBJECT("True"), .code = NB_NODE_NAME_TAKEN },
        { "node: one that is ready, and that is allowed", 200, NODE_OBJECT("True"),
          .is_allowed = true },
        { "node: this machine", 200, NODE_OBJECT("True"), .is_own = true },
        { "node: not told", 403 },
        { "node: not now", 500, .code = NB_SERVER_ERROR },
};

static void looks_for_the_node(void **state) {
        const struct node_case *c = *state;
        struct server_answer answers[] = { { GET_NODE, c->status, c->body }, { 0 } };

        begin(NB_METHOD_TOKEN, answers);
        connect_join();
        settings.allow_existing = c->is_allowed;
        join.is_name_own = c->is_own;
        assert_int_equal(nb_stage_node(&join, &f) < 0, c->code != NB_NONE);
        assert_int_equal(f.code, c->code);
        if (c->code == NB_NODE_NAME_TAKEN)
                assert_non_null(strstr(f.detail, "kubelet 'v1.30'"));
        assert_int_equal(server_log(&server)[0] == '\0', c->is_allowed || c->is_own);
        end();
}

/* --- The request --- */

#define POST "POST " CSRS " "

static void a_request_is_made(void **state) {
        char *csr = make_csr("", NULL), get[256];
        struct server_answer answers[] = { { POST, 201, csr }, { 0 } };
        struct server_answer again[] = { { POST, 409 }, { get, 200, csr }, { 0 } };

        begin(NB_METHOD_TOKEN, answers);
        connect_join();
        (void)snprintf(get, sizeof(get), "GET " CSRS "/%s ", csr_name);
        assert_int_equal(nb_stage_request(&join, &f), 0);
        assert_string_equal(join.csr_name, csr_name);
        assert_string_equal(join.csr.uid, "u");
        assert_false(join.is_csr_found);
        assert_non_null(strstr(server_log(&server), "Authorization: Bearer " TOKEN "\r\n"));
        /* The next start finds its own. */
        nb_api_done(&join.api);
        nb_cluster_done(&join.cluster);
        server_reset(&server, again);
        connect_join();
        assert_int_equal(nb_stage_request(&join, &f), 0);
        assert_true(join.is_csr_found);
        /* With another duration it is somebody else's: a new key, and another request. */
        nb_api_done(&join.api);
        nb_cluster_done(&join.cluster);
        again[0].is_given = again[1].is_given = false;
        server_reset(&server, again);
        connect_join();
        settings.csr_expiration_seconds = 3600;
        assert_int_equal(nb_stage_request(&join, &f), NB_REQUEST_AGAIN);
        assert_null(join.key);
        end();
        free(csr);
}

/* --- The certificate --- */

struct await_case {
        const char *name;
        const char *type;       /* of the event of the watch; NULL: there is none */
        const char *conditions; /* of the CSR in it */
        bool is_issued;
        int r; /* -1: any failure */
        enum nb_code code;
        bool is_key_kept;
};

static struct await_case awaits[] = {
        { "await: issued", "MODIFIED", APPROVED, true, 0, NB_NONE, true },
        { "await: deleted", "DELETED", "", false, NB_REQUEST_AGAIN, NB_NONE, true },
        { "await: denied", "MODIFIED", DENIED, false, -1, NB_CSR_DENIED, false },
        { "await: nothing until the deadline", NULL, "", false, -1, NB_CSR_PENDING, true },
};

static void awaits_certificate(void **state) {
        const struct await_case *c = *state;
        char *csr = make_csr("", NULL),
             *event = c->type ? make_event(c->type,
                                           make_csr(c->conditions, c->is_issued ? node.pem : NULL))
                              : NULL;
        struct server_answer answers[] = { { POST, 201, csr },
                                           { "GET " CSRS "?watch", c->type ? 200 : 0, event,
                                             .is_silent = !c->type },
                                           { 0 } };
        int r;

        begin(NB_METHOD_TOKEN, answers);
        connect_join();
        if (!c->type)
                join.deadline_ms = nb_now_ms() + 300;
        assert_int_equal(nb_stage_request(&join, &f), 0);
        r = nb_stage_await(&join, &f);
        assert_int_equal(f.code, c->code);
        assert_int_equal(r < 0 ? -1 : r, c->r);
        if (c->is_issued)
                assert_string_equal(join.certificate.data, node.pem);
        assert_int_equal(faccessat(folder.fd, NB_PENDING_KEY_FILE, F_OK, 0),
                         c->is_key_kept ? 0 : -1);
        end();
        free(csr);
        free(event);
}

static void the_reason_is_asked_for(void **state) {
#define REVIEW "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews "
#define ANSWER(allowed) \
        "{\"kind\":\"SelfSubjectAccessReview\",\"apiVersion\":\"authorization.k8s.io/v1\"," \
        "\"status\":{\"allowed\":" allowed "}}"
        struct server_answer answers[] = { { REVIEW, 201, ANSWER("false") },
                                           { REVIEW, 201, ANSWER("true") },
                                           { REVIEW, 403 },
                                           { 0 } };
        static const enum nb_pending_reason expected[] = { NB_PENDING_UNBOUND,
                                                           NB_PENDING_UNAPPROVED,
                                                           NB_PENDING_UNKNOWN };
        enum nb_pending_reason reason;

        begin(NB_METHOD_TOKEN, answers);
        connect_join();
        for (size_t i = 0; i < N_ELEMENTS(expected); i++) {
                assert_int_equal(nb_join_ask_reason(&join, &reason), 0);
                assert_int_equal(reason, expected[i]);
        }
        /* What the CSR itself says needs no question. */
        join.csr.is_for_controller = true;
        assert_int_equal(nb_join_ask_reason(&join, &reason), 0);
        assert_int_equal(reason, NB_PENDING_CONTROLLER);
        end();
}

/* --- The supervisor of k3s --- */

static void a_supervisor_issues(void **state) {
        struct pki_cert serving = pki_make(
                &(struct pki_options){ .dn = "CN=a",
                                       .issuer = &server.ca,
                                       .key_of = &node,
                                       .purpose = PKI_SERVER_AUTH,
                                       .names = "dns:a,dns:localhost",
                                       .not_before = time(NULL) - PKI_DAY,
                                       .not_after = time(NULL) + PKI_DAY });

        for (int is_wrong = 0; is_wrong < 2; is_wrong++) {
                struct server_answer answers[] = {
                        { "POST /v1-k3s/client-kube-proxy.crt ", 200, server.ca.pem },
                        { "POST /v1-k3s/client-kubelet.crt ", 200,
                          is_wrong ? server.own.pem : node.pem },
                        { "POST /v1-k3s/serving-kubelet.crt ", 200, serving.pem },
                        { 0 },
                };

                begin(NB_METHOD_K3S, answers);
                bootstrap.issuer = NB_ISSUER_SUPERVISOR;
                connect_join();
                assert_true(nb_stage_request_supervisor(&join, &f) < 0);
                assert_int_equal(f.code, NB_NODE_PASSWORD_MISSING);
                nb_failure_clear(&f);
                assert_string_equal(server_log(&server), "");
                assert_int_equal(nb_secret_copy(&bootstrap.node_password, "pw", 2), 0);
                assert_int_equal(nb_stage_request_supervisor(&join, &f) < 0, is_wrong);
                assert_int_equal(f.code, is_wrong ? NB_CERTIFICATE_UNUSABLE : NB_NONE);
                if (!is_wrong) {
                        assert_string_equal(join.certificate.data, node.pem);
                        assert_string_equal(join.serving.data, serving.pem);
                }
                /* With the same key, it would get the same certificate. */
                assert_int_equal(faccessat(folder.fd, NB_PENDING_KEY_FILE, F_OK, 0),
                                 is_wrong ? -1 : 0);
                end();
        }
        pki_done(&serving);
}

/* --- The handoff --- */

/* handoff ends all connections, and the launcher. */
static void begin_again(void) {
        nb_http_end();
        assert_int_equal(nb_http_begin(true, &f), 0);
}

static void the_handoff_is_what_install_reads(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        struct server_answer answers[] = { { 0 } };
        struct nb_handoff handoff = { 0 };

        begin(NB_METHOD_TOKEN, answers);
        connect_join();
        join.certificate = (struct nb_buffer)NB_BUFFER_INIT(NB_CSR_OBJECT_MAX);
        nb_buffer_append_string(&join.certificate, node.pem);
        NB_TEXT_COPY(join.endpoint, "10.0.0.2:6443");
        NB_TEXT_COPY(join.csr_name, "node-csr-x");
        NB_TEXT_COPY(bootstrap.token.token_id, "abcdef");
        bootstrap.identity.token_id[0] = '\0';
        join.usec[NB_STAGE_AWAIT] = 7;
        assert_int_equal(nb_stage_hand_over(&join, &f), 0);
        assert_int_equal(nb_file_read(folder.fd, NB_HANDOFF_FILE, &text, NULL), 0);
        assert_int_equal(nb_state_file_parse(&nb_handoff_file, text.data, text.len, &handoff, &f),
                         0);
        assert_string_equal(handoff.certificate, node.pem);
        assert_string_equal(handoff.cluster.ca, server.ca.pem);
        assert_string_equal(handoff.cluster.server.host, "127.0.0.1");
        assert_string_equal(handoff.provenance.endpoint, "10.0.0.2:6443");
        assert_string_equal(handoff.provenance.csr, "node-csr-x");
        assert_string_equal(handoff.provenance.token_id, "abcdef");
        assert_string_equal(handoff.provenance.token_source, "here");
        assert_int_equal(handoff.provenance.usec[NB_STAGE_AWAIT], 7);
        nb_handoff_done(&handoff);
        end();
        begin_again();
}

/* --- A whole join --- */

static void all_stages_run(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        char *info = make_info(&server.ca, "0123456789abcdef"), *csr = make_csr("", NULL),
             *event = make_event("MODIFIED", make_csr(APPROVED, node.pem));
        struct server_answer answers[] = { { INFO, 200, info },
                                           { GET_NODE, 404 },
                                           { POST, 201, csr },
                                           { "GET " CSRS "?watch", 200, event },
                                           { 0 } };
        struct nb_handoff handoff = { 0 };

        begin(NB_METHOD_TOKEN, answers);
        set_token(&bootstrap.token, NB_IDENTITY_TOKEN, TOKEN);
        assert_int_equal(nb_join_run(&join, &f), 0);
        assert_int_equal(nb_file_read(folder.fd, NB_HANDOFF_FILE, &text, NULL), 0);
        assert_int_equal(nb_state_file_parse(&nb_handoff_file, text.data, text.len, &handoff, &f),
                         0);
        assert_string_equal(handoff.certificate, node.pem);
        assert_string_equal(handoff.cluster.ca, server.ca.pem);
        assert_string_equal(handoff.provenance.csr, csr_name);
        assert_string_equal(handoff.provenance.token_id, "abcdef");
        assert_true(handoff.provenance.usec[NB_STAGE_DISCOVER] > 0);
        /* One for discovery, without the token, and one for everything else. */
        assert_int_equal(server.n_connections, 2);
        nb_handoff_done(&handoff);
        end();
        free(info);
        free(csr);
        free(event);
        begin_again();
}

/* Of what the name of the node resolves to, only what is this machine's. */
static void finds_its_own_addresses(void **state) {
        struct nb_buffer own = NB_BUFFER_INIT(NB_ADDRESSES_MAX);
        char address[INET6_ADDRSTRLEN] = "";

        begin(NB_METHOD_K3S, (struct server_answer[]){ { 0 } });
        join.node_name = "192.0.2.1"; /* of nobody (RFC 5737) */
        nb_join_find_named_ips(&join);
        assert_string_equal(join.named_ips, "");
        assert_int_equal(nb_addresses_read(&own), 0);
        if (own.len > 0)
                (void)snprintf(address, sizeof(address), "%.*s", (int)strcspn(own.data, "\n"),
                               own.data);
        join.node_name = address[0] ? address : "127.0.0.1";
        nb_join_find_named_ips(&join);
        assert_string_equal(join.named_ips, address);
        /* Not once there is a key, which the process that resolves could read. */
        join.named_ips[0] = '\0';
        assert_int_equal(nb_key_import(node.key_pem, strlen(node.key_pem), &join.key), 0);
        nb_join_find_named_ips(&join);
        assert_string_equal(join.named_ips, "");
        nb_buffer_done(&own);
        end();
}

int main(void) {
        int r;

        if (nb_http_begin(true, &f) < 0)
                return 1;
        server_start(&server, (struct server_answer[]){ { 0 } });
        make_node();
        CASES(nodes, looks_for_the_node);
        CASE(a_request_is_made);
        CASES(awaits, awaits_certificate);
        CASE(the_reason_is_asked_for);
        CASE(a_supervisor_issues);
        CASE(finds_its_own_addresses);
        CASE(the_handoff_is_what_install_reads);
        CASE(all_stages_run);
        r = case_run("join stages");
        server_stop(&server);
        pki_done(&node);
        nb_http_end();
        return r;
}
