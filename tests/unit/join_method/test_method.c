/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/text.h"
#include "case.h"
#include "folder.h"
#include "join_method/cluster_identity.h"
#include "join_method/method.h"
#include "pki.h"

static struct pki_cert ca, other;

/* What the record of a join, `check` and the log say of each. */
static void methods_are_told_apart(void **state) {
        for (int i = NB_METHOD_NONE + 1; i < _NB_METHOD_N; i++) {
                const struct nb_method *method = nb_method((enum nb_method_id)i);
                struct nb_record record;

                assert_true(method->name[0] && strlen(method->name) < sizeof(record.join_method));
                assert_true(method->summary[0] && method->object[0] && method->verified[0]);
                assert_non_null(method->load);
                assert_non_null(method->select_ca);
                /* Only what `join` reads alone is remote, and only with a server of its own. */
                assert_true(method->has_origin || !method->is_document_remote);
                for (int j = NB_METHOD_NONE; j < i; j++)
                        assert_string_not_equal(method->name,
                                                nb_method((enum nb_method_id)j)->name);
        }
        assert_string_equal(nb_method(NB_METHOD_K3S)->name, NB_CLUSTER_IDENTITY_K3S);
        assert_string_equal(nb_method(NB_METHOD_NONE)->name, "");
}

/* --- Endpoints --- */

struct endpoint_case {
        const char *name;
        enum nb_method_id method;
        const char *endpoint;
        bool is_accepted;
};

/* The settings have a:6443 and b:6443, and the method's own server is o:8443. */
static struct endpoint_case endpoints[] = {
        { "endpoint: of the settings", NB_METHOD_TOKEN, "b:6443", true },
        { "endpoint: another port", NB_METHOD_TOKEN, "b:6444", false },
        { "endpoint: another host", NB_METHOD_TOKEN, "c:6443", false },
        { "endpoint: an origin that the method does not have", NB_METHOD_TOKEN, "o:8443", false },
        { "endpoint: of k3s", NB_METHOD_K3S, "a:6443", true },
        { "endpoint: the origin of a document", NB_METHOD_DOCUMENT, "o:8443", true },
        { "endpoint: one of the settings beside a document", NB_METHOD_DOCUMENT, "a:6443", false },
        { "endpoint: another port of the origin", NB_METHOD_URL, "o:443", false },
        { "endpoint: without a method", NB_METHOD_NONE, "a:6443", false },
};

static void accepts_endpoints(void **state) {
        const struct endpoint_case *c = *state;
        struct nb_bootstrap bootstrap = { .method = c->method };
        struct nb_settings settings;
        struct nb_url endpoint;

        nb_settings_init(&settings);
        assert_int_equal(nb_setting_parse(&settings, NB_SETTING_ENDPOINTS, "a:6443", 6), 0);
        assert_int_equal(nb_setting_parse(&settings, NB_SETTING_ENDPOINTS, "b:6443", 6), 0);
        assert_int_equal(nb_url_parse("https://o:8443/x", 16, &bootstrap.origin.server), 0);
        assert_int_equal(nb_endpoint_parse(c->endpoint, strlen(c->endpoint), &endpoint), 0);
        assert_int_equal(nb_bootstrap_accepts_endpoint(&bootstrap, &settings, &endpoint),
                         c->is_accepted);
        assert_ptr_equal(nb_bootstrap_origin(&bootstrap),
                         nb_method(c->method)->has_origin ? &bootstrap.origin.server : NULL);
}

/* --- CAs --- */

static void the_hash_is_that_of_exact_bytes(void **state) {
        struct nb_bootstrap bootstrap = { .method = NB_METHOD_K3S, .has_hash = true };
        size_t len = strlen(ca.pem);

        assert_int_equal(nb_sha256(ca.pem, len, bootstrap.hash), 0);
        assert_true(nb_bootstrap_has_hash_of(&bootstrap, ca.pem, len));
        assert_false(nb_bootstrap_has_hash_of(&bootstrap, ca.pem, len - 1));
        assert_false(nb_bootstrap_has_hash_of(&bootstrap, other.pem, strlen(other.pem)));
        bootstrap.has_hash = false;
        assert_false(nb_bootstrap_has_hash_of(&bootstrap, ca.pem, len));
}

static struct nb_settings settings;
static struct nb_bootstrap bootstrap;
static struct nb_buffer taken = NB_BUFFER_INIT(65536);
static struct nb_ca_selection selection;
static struct nb_failure f;

static struct nb_ca_request ask(enum nb_method_id method, const char *pem) {
        nb_settings_init(&settings);
        nb_buffer_clear(&taken);
        f = (struct nb_failure){ 0 };
        selection.n_taken = 9;
        bootstrap = (struct nb_bootstrap){ .method = method };
        return (struct nb_ca_request){ .bootstrap = &bootstrap,
                                       .settings = &settings,
                                       .pem = pem,
                                       .len = strlen(pem),
                                       .malformed = NB_ANSWER_MALFORMED,
                                       .mismatch = NB_CA_PIN_MISMATCH,
                                       .ret_pem = &taken,
                                       .ret_selection = &selection };
}

static void read_pin(const struct pki_cert *cert, uint8_t ret[static NB_PIN_SIZE]) {
        struct nb_certificates *certificates = NULL;

        assert_int_equal(nb_certificates_parse(cert->pem, strlen(cert->pem), false, &certificates),
                         0);
        memcpy(ret, nb_certificate_pin(certificates, 0), NB_PIN_SIZE);
        nb_certificates_free(certificates);
}

static void pins_choose(void **state) {
        char *both = PKI_JOIN(ca.pem, other.pem);
        struct nb_ca_request request;
        uint8_t pins[1][NB_PIN_SIZE];

        read_pin(&other, pins[0]);
        request = ask(NB_METHOD_TOKEN, both);
        assert_int_equal(nb_ca_choose(&request, pins, 1, &f), 0);
        assert_string_equal(taken.data, other.pem);
        assert_int_equal(selection.n_left_out, 1);
        request = ask(NB_METHOD_TOKEN, both);
        settings.trust_whole_bundle = true;
        assert_int_equal(nb_ca_choose(&request, pins, 1, &f), 0);
        assert_string_equal(taken.data, both);
        request = ask(NB_METHOD_TOKEN, both);
        assert_int_equal(nb_ca_choose(&request, NULL, 0, &f), 0);
        assert_string_equal(taken.data, both);
        request = ask(NB_METHOD_TOKEN, ca.pem);
        assert_true(nb_ca_choose(&request, pins, 1, &f) < 0);
        assert_int_equal(f.code, NB_CA_PIN_MISMATCH);
        free(both);
}

static void without_a_pin_somebody_else_vouches(void **state) {
        struct nb_ca_request request = ask(NB_METHOD_TOKEN, ca.pem);

        assert_true(nb_ca_choose_configured(&request, &f) < 0);
        assert_int_equal(f.code, NB_CA_PIN_MISMATCH);
        assert_int_equal(taken.len, 0);
        request = ask(NB_METHOD_TOKEN, ca.pem);
        settings.unsafe_skip_ca_verification = true;
        assert_int_equal(nb_ca_choose_configured(&request, &f), 0);
        assert_string_equal(taken.data, ca.pem);
        request = ask(NB_METHOD_URL, ca.pem);
        assert_int_equal(nb_ca_choose_configured(&request, &f), 0);
        assert_string_equal(taken.data, ca.pem);
        request = ask(NB_METHOD_URL, ca.pem);
        read_pin(&other, settings.pins[settings.n_pins++]);
        assert_true(nb_ca_choose_configured(&request, &f) < 0);
}

static void the_cas_of_the_system_are_no_bundle(void **state) {
        struct nb_ca_request request = ask(NB_METHOD_URL, "");

        assert_int_equal(nb_ca_choose_system(&request, &f), 0);
        assert_int_equal(selection.n_taken, 0);
        assert_int_equal(taken.len, 0);
        request = ask(NB_METHOD_URL, ca.pem);
        assert_true(nb_ca_choose_system(&request, &f) < 0);
        assert_non_null(strstr(f.detail, "the system's CAs, found a CA"));
        request = ask(NB_METHOD_URL, "");
        settings.n_pins = 1;
        assert_true(nb_ca_choose_system(&request, &f) < 0);
        assert_int_equal(f.code, NB_CA_PIN_MISMATCH);
        assert_non_null(strstr(f.detail, "discovery.caCertHashes"));
}

/* --- A node of k3s --- */

struct node_case {
        const char *name;
        const char *password, *certificate; /* files; NULL: none */
        const char *expected;               /* the password */
};

static struct node_case nodes[] = {
        { "node: both", "0123456789abcdef0123456789abcdef\n", "PEM",
          "0123456789abcdef0123456789abcdef" },
        { "node: a password alone", "secret", NULL, "secret" },
        { "node: a password that is none", "a\nb", "PEM", NULL },
        { "node: neither", NULL, NULL, NULL },
};

static void loads_node(void **state) {
        const struct node_case *c = *state;
        struct nb_bootstrap node = { 0 };
        struct nb_sources sources = { 0 };
        char path[NB_SETTINGS_PATH_MAX], password[64];
        const struct nb_secret put = { .data = password,
                                       .len = c->password ? strlen(c->password) : 0 };
        struct folder folder;

        folder_make(&folder);
        nb_settings_init(&settings);
        NB_TEXT_COPY(settings.certificate_directory, folder.path);
        (void)snprintf(path, sizeof(path), "%s/" NB_STORE_CURRENT, folder.path);
        if (c->certificate)
                folder_put(&folder, "/" NB_STORE_CURRENT, c->certificate);
        (void)snprintf(password, sizeof(password), "%s", c->password ? c->password : "");
        assert_int_equal(nb_sources_put(&sources, NB_SOURCE_FILE, NB_NODE_PASSWORD_FILE, 0600,
                                        c->password ? &put : NULL),
                         0);
        f = (struct nb_failure){ 0 };
        assert_int_equal(nb_bootstrap_load_node(&sources, &settings, &node, &f), 0);
        assert_int_equal(node.issuer, NB_ISSUER_SUPERVISOR);
        if (c->expected)
                assert_string_equal(node.node_password.data, c->expected);
        else
                assert_null(node.node_password.data);
        assert_int_equal(node.previous.kind,
                         c->certificate ? NB_IDENTITY_CERTIFICATE : NB_IDENTITY_NONE);
        if (c->certificate) {
                assert_string_equal(node.previous.certificate.data, c->certificate);
                assert_string_equal(node.previous.secret.data, c->certificate);
                assert_non_null(strstr(node.previous.source, path));
        }
        nb_bootstrap_done(&node);
        nb_sources_done(&sources);
        folder_remove(&folder);
}

int main(void) {
        int r;

        ca = pki_make(&(struct pki_options){ .dn = "CN=ca", .is_ca = true });
        other = pki_make(&(struct pki_options){ .dn = "CN=other", .is_ca = true });
        CASE(methods_are_told_apart);
        CASES(endpoints, accepts_endpoints);
        CASE(the_hash_is_that_of_exact_bytes);
        CASE(pins_choose);
        CASE(without_a_pin_somebody_else_vouches);
        CASE(the_cas_of_the_system_are_no_bundle);
        CASES(nodes, loads_node);
        r = case_run("join method");
        nb_buffer_done(&taken);
        pki_done(&ca);
        pki_done(&other);
        return r;
}
