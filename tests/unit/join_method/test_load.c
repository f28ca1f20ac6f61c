/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "case.h"
#include "join_method/method.h"
#include "os/sources.h"

/* In texts, '@' stands for the folder of the files. */
#define OURS "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n"
#define HASH "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ENDPOINTS "discovery: {endpoints: [10.0.0.10:6443], caCertHashes: [\"" HASH "\"]}\n"
#define JOIN \
        "apiVersion: kubeadm.k8s.io/v1beta3\nkind: JoinConfiguration\ndiscovery:\n  " \
        "bootstrapToken: {apiServerEndpoint: 10.0.0.10:6443, "
#define ID "abcdef"
#define TOKEN ID ".0123456789abcdef"
#define OTHER "fedcba.fedcba9876543210"
#define K10 "K100123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef::"
#define CLUSTER "clusters:\n- name: k\n  cluster: {server: \"https://10.0.0.11:6443\"}\n"
#define DOCUMENT "apiVersion: v1\nkind: Config\n" CLUSTER
#define CONTEXT "contexts:\n- {name: c, context: {cluster: k, user: u}}\ncurrent-context: c\n"
#define KUBECONFIG DOCUMENT CONTEXT "users:\n- name: u\n  user: {token: abc}\n"
#define BY_FILE "discovery: {file: @/document}\n"
#define BY_KUBECONFIG "bootstrap: {kubeconfig: @/kubeconfig}\n"

enum {
        CREDENTIAL_TOKEN,
        CREDENTIAL_TLS,
        CREDENTIAL_KUBECONFIG,
        CREDENTIAL_CLUSTER_INFO,
        _N_CREDENTIALS
};
static const char *const credential_names[] = { NB_CREDENTIAL_TOKEN_NAME,
                                                NB_CREDENTIAL_TLS_BOOTSTRAP_TOKEN_NAME,
                                                NB_CREDENTIAL_KUBECONFIG_NAME,
                                                NB_CREDENTIAL_CLUSTER_INFO_NAME };

struct load_case {
        const char *name;
        const char *settings; /* without the header; a whole document when it begins with
                                 "apiVersion" */
        const char *credentials[_N_CREDENTIALS];
        const char *document, *kubeconfig; /* files */
        mode_t kubeconfig_mode;            /* 0: 0600 */

        enum nb_code code;   /* of nb_bootstrap_load(&sources, ) */
        enum nb_code verify; /* of nb_bootstrap_verify(), after it */
        const char *detail;  /* a part of the message */
        enum nb_method_id method;
        enum nb_issuer issuer;
        const char *identity;        /* its source; NULL for none */
        const char *token_id;        /* of the identity; NULL: whatever */
        const char *discovery_token; /* the ID; NULL for none */
};

#define TOKEN_SOURCE "credential 'node-bootstrap.token'"
#define TLS_SOURCE "credential 'node-bootstrap.tls-bootstrap-token'"
#define KUBECONFIG_SOURCE "credential 'node-bootstrap.kubeconfig'"

static struct load_case cases[] = {
        { "nothing", "", .verify = NB_SETTINGS_INCOMPLETE,
          .detail = "discovery.endpoints: expected at least one HOST:PORT, or discovery.file" },
        { "endpoints and no token", ENDPOINTS, .method = NB_METHOD_TOKEN,
          .verify = NB_TOKEN_MISSING },
        { "endpoints and a token",
          ENDPOINTS,
          { TOKEN },
          .method = NB_METHOD_TOKEN,
          .identity = TOKEN_SOURCE,
          .token_id = ID,
          .discovery_token = ID },
        { "no hash",
          "discovery: {endpoints: [a]}\n",
          { TOKEN },
          .method = NB_METHOD_TOKEN,
          .identity = TOKEN_SOURCE,
          .discovery_token = ID,
          .verify = NB_SETTINGS_INCOMPLETE,
          .detail = "discovery.caCertHashes" },
        { "another token for the request",
          ENDPOINTS,
          { TOKEN, OTHER },
          .method = NB_METHOD_TOKEN,
          .identity = TLS_SOURCE,
          .token_id = "fedcba",
          .discovery_token = ID },
        { "a token for the request alone",
          ENDPOINTS,
          { NULL, OTHER },
          .method = NB_METHOD_TOKEN,
          .identity = TLS_SOURCE,
          .verify = NB_TOKEN_MISSING,
          .detail = "which discovery.endpoints requires" },
        { "a token that is none",
          ENDPOINTS,
          { "abc" },
          .code = NB_TOKEN_MALFORMED,
          .detail = "node-bootstrap.token' (3 bytes) is not of the form xxxxxx.yyyyyyyyyyyyyyyy "
                    "with a-z and 0-9: it has 3 characters and no dot, expected 23 with one" },
        { "a token for the request that is none",
          ENDPOINTS,
          { TOKEN, "abc" },
          .code = NB_TOKEN_MALFORMED,
          .detail = "tls-bootstrap-token' (3 bytes) is not of the form xxxxxx.yyyyyyyyyyyyyyyy "
                    "with a-z and 0-9: it has 3 characters and no dot" },

        { "a file",
          BY_FILE,
          { TOKEN },
          DOCUMENT,
          .method = NB_METHOD_DOCUMENT,
          .identity = TOKEN_SOURCE },
        { "a file and no token", BY_FILE, .document = DOCUMENT, .method = NB_METHOD_DOCUMENT,
          .verify = NB_TOKEN_MISSING },
        { "a file that is not there",
          BY_FILE,
          { TOKEN },
          .code = NB_DISCOVERY_FILE_UNREADABLE,
          .detail = "/document' cannot be read" },
        { "a file with a user",
          BY_FILE,
          { TOKEN },
          KUBECONFIG,
          .code = NB_DISCOVERY_FILE_UNACCEPTABLE,
          .detail = "users[0]: expected no credentials" },
        { "a credential for discovery",
          "",
          { TOKEN, [CREDENTIAL_CLUSTER_INFO] = DOCUMENT },
          .method = NB_METHOD_DOCUMENT,
          .identity = TOKEN_SOURCE },
        { "a credential beside a file that is not there",
          BY_FILE,
          { TOKEN, [CREDENTIAL_CLUSTER_INFO] = DOCUMENT },
          .method = NB_METHOD_DOCUMENT,
          .identity = TOKEN_SOURCE },
        { "a credential beside a URL",
          "discovery: {file: \"https://a/b\"}\n",
          { TOKEN, [CREDENTIAL_CLUSTER_INFO] = DOCUMENT },
          .method = NB_METHOD_DOCUMENT,
          .identity = TOKEN_SOURCE },
        { "a URL",
          "discovery: {file: \"https://a/b\"}\n",
          { TOKEN },
          .method = NB_METHOD_URL,
          .identity = TOKEN_SOURCE },
        { "a CA file of a URL that is not there",
          "discovery: {file: \"https://a/b\", urlCAFile: @/nowhere}\n",
          { TOKEN },
          .code = NB_DISCOVERY_FILE_UNREADABLE,
          .detail = "discovery.urlCAFile: " },
        { "a CA file of a URL that is empty",
          "discovery: {file: \"https://a/b\", urlCAFile: @/document}\n",
          { TOKEN },
          "",
          .code = NB_DISCOVERY_FILE_UNREADABLE,
          .detail = "an empty or binary one" },
        { "a file and endpoints",
          "discovery: {file: @/document, endpoints: [a]}\n",
          { TOKEN },
          DOCUMENT,
          .code = NB_SETTINGS_INVALID,
          .detail = "/document', which is discovery.file in main" },
        { "a URL and endpoints",
          "discovery: {file: \"https://a/b\", endpoints: [a]}\n",
          { TOKEN },
          .code = NB_SETTINGS_INVALID,
          .detail =
                  "discovery.endpoints in main, and https://a/b, which is discovery.file in main" },
        { "a credential and endpoints",
          ENDPOINTS,
          { TOKEN, [CREDENTIAL_CLUSTER_INFO] = DOCUMENT },
          .code = NB_SETTINGS_INVALID,
          .detail = "discovery.endpoints in main, and credential 'node-bootstrap.cluster-info'" },

        { "a bootstrap kubeconfig alone", BY_KUBECONFIG, .kubeconfig = KUBECONFIG,
          .method = NB_METHOD_KUBECONFIG, .identity = "'@/kubeconfig'" },
        { "a bootstrap kubeconfig as a credential",
          "",
          { [CREDENTIAL_KUBECONFIG] = KUBECONFIG },
          .method = NB_METHOD_KUBECONFIG,
          .identity = KUBECONFIG_SOURCE },
        { "the credential is stronger",
          BY_KUBECONFIG,
          { [CREDENTIAL_KUBECONFIG] = KUBECONFIG },
          .kubeconfig = "{[",
          .method = NB_METHOD_KUBECONFIG,
          .identity = KUBECONFIG_SOURCE },
        { "a bootstrap kubeconfig and tokens",
          BY_KUBECONFIG,
          { TOKEN, OTHER },
          .kubeconfig = KUBECONFIG,
          .method = NB_METHOD_KUBECONFIG,
          .identity = "'@/kubeconfig'" },
        { "a bootstrap kubeconfig beside endpoints",
          ENDPOINTS BY_KUBECONFIG,
          { TOKEN },
          .kubeconfig = KUBECONFIG,
          .method = NB_METHOD_TOKEN,
          .identity = "'@/kubeconfig'",
          .discovery_token = ID },
        { "a bootstrap kubeconfig beside endpoints, without a token", ENDPOINTS BY_KUBECONFIG,
          .kubeconfig = KUBECONFIG, .method = NB_METHOD_TOKEN, .identity = "'@/kubeconfig'",
          .verify = NB_TOKEN_MISSING, .detail = "remove discovery.endpoints" },
        { "a bootstrap kubeconfig beside a file",
          BY_FILE BY_KUBECONFIG,
          { NULL },
          DOCUMENT,
          KUBECONFIG,
          .method = NB_METHOD_DOCUMENT,
          .identity = "'@/kubeconfig'" },
        { "a bootstrap kubeconfig that others read", BY_KUBECONFIG, .kubeconfig = KUBECONFIG,
          .kubeconfig_mode = 0644, .code = NB_TOKEN_EXPOSED,
          .detail = "/kubeconfig' has mode 0644" },
        { "a bootstrap kubeconfig of a group", BY_KUBECONFIG, .kubeconfig = KUBECONFIG,
          .kubeconfig_mode = 0640, .method = NB_METHOD_KUBECONFIG, .identity = "'@/kubeconfig'" },
        { "a bootstrap kubeconfig without a user", BY_KUBECONFIG, .kubeconfig = DOCUMENT,
          .code = NB_BOOTSTRAP_KUBECONFIG_UNACCEPTABLE },
        { "a bootstrap kubeconfig that is not there", BY_KUBECONFIG,
          .code = NB_BOOTSTRAP_KUBECONFIG_UNREADABLE },

        { "a token of k3s",
          ENDPOINTS,
          { K10 TOKEN },
          .method = NB_METHOD_K3S,
          .issuer = NB_ISSUER_SUPERVISOR,
          .identity = TOKEN_SOURCE },
        { "a token of k3s for the CSR API",
          ENDPOINTS "cluster: {type: kubernetes}\n",
          { K10 TOKEN },
          .method = NB_METHOD_K3S,
          .identity = TOKEN_SOURCE },
        { "user and password for the CSR API",
          ENDPOINTS "cluster: {type: kubernetes}\n",
          { K10 "node:x" },
          .method = NB_METHOD_K3S,
          .identity = TOKEN_SOURCE,
          .verify = NB_SETTINGS_INVALID,
          .detail = "the API server accepts no passwords" },
        { "a token of k3s without endpoints",
          "",
          { K10 TOKEN },
          .method = NB_METHOD_K3S,
          .issuer = NB_ISSUER_SUPERVISOR,
          .identity = TOKEN_SOURCE,
          .verify = NB_SETTINGS_INCOMPLETE,
          .detail = "discovery.endpoints" },
        { "a token of k3s without a hash",
          ENDPOINTS,
          { "K10::" TOKEN },
          .method = NB_METHOD_K3S,
          .issuer = NB_ISSUER_SUPERVISOR,
          .identity = TOKEN_SOURCE,
          .verify = NB_SETTINGS_INCOMPLETE,
          .detail = "contains no hash" },

        { "a token in a document", ENDPOINTS "bootstrap: {token: " TOKEN "}\n",
          .method = NB_METHOD_TOKEN, .identity = "main", .token_id = ID, .discovery_token = ID },
        { "a credential before a token in a document",
          ENDPOINTS "bootstrap: {token: " TOKEN "}\n",
          { OTHER },
          .method = NB_METHOD_TOKEN,
          .identity = TOKEN_SOURCE,
          .discovery_token = "fedcba" },
        { "a token of k3s in a document", ENDPOINTS "bootstrap: {token: \"" K10 TOKEN "\"}\n",
          .method = NB_METHOD_K3S, .issuer = NB_ISSUER_SUPERVISOR, .identity = "main" },
        { "a token in a document for the supervisor of k3s",
          ENDPOINTS "cluster: {type: k3s}\nbootstrap: {token: " TOKEN "}\n",
          .method = NB_METHOD_K3S, .issuer = NB_ISSUER_SUPERVISOR, .identity = "main",
          .verify = NB_SETTINGS_INCOMPLETE, .detail = "contains no hash" },
        { "a token in a JoinConfiguration",
          JOIN "token: " TOKEN ", unsafeSkipCAVerification: true}\n", .method = NB_METHOD_TOKEN,
          .identity = "main", .token_id = ID, .discovery_token = ID },
        { "a credential before a JoinConfiguration",
          JOIN "token: " TOKEN ", unsafeSkipCAVerification: true}\n",
          { OTHER },
          .method = NB_METHOD_TOKEN,
          .identity = TOKEN_SOURCE,
          .token_id = "fedcba",
          .discovery_token = "fedcba" },
        { "two tokens in a JoinConfiguration",
          JOIN "token: " TOKEN ", unsafeSkipCAVerification: true}\n  tlsBootstrapToken: " OTHER
               "\n",
          .method = NB_METHOD_TOKEN, .identity = "main", .token_id = "fedcba",
          .discovery_token = ID },
};

static char folder[64];
static struct nb_sources sources;

static void expand(const char *text, char *ret, size_t size) {
        size_t n = 0;

        for (; *text; text++) {
                assert_true(n + sizeof(folder) < size);
                if (*text == '@')
                        n += (size_t)snprintf(ret + n, size - n, "%s", folder);
                else
                        ret[n++] = *text;
        }
        ret[n] = '\0';
}

static void put(const char *name, const char *text, mode_t mode) {
        char path[256];
        FILE *file;

        (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
        (void)unlink(path);
        if (!text)
                return;
        file = fopen(path, "w");
        assert_non_null(file);
        assert_true(fputs(text, file) >= 0);
        assert_int_equal(fclose(file), 0);
        assert_int_equal(chmod(path, mode), 0);
}

static void prepare(const struct load_case *c, struct nb_settings *settings,
                    struct nb_settings_tokens *tokens) {
        char text[4096], body[2048];
        struct nb_failure f = { 0 };

        for (size_t i = 0; i < _N_CREDENTIALS; i++)
                put(credential_names[i], c->credentials[i], 0400);
        put("document", c->document, 0644);
        put("kubeconfig", c->kubeconfig, c->kubeconfig_mode ? c->kubeconfig_mode : 0600);
        expand(c->settings, body, sizeof(body));
        (void)snprintf(text, sizeof(text), "%s%s", strncmp(body, "apiVersion", 10) == 0 ? "" : OURS,
                       body);
        nb_settings_init(settings);
        settings->tokens = tokens;
        assert_int_equal(nb_settings_merge(settings,
                                           &(const struct nb_settings_source){ .origin = "main" },
                                           text, strlen(text), &f),
                         0);
}

static void check_loaded(const struct load_case *c, const struct nb_bootstrap *bootstrap) {
        char source[256];

        assert_int_equal(bootstrap->method, c->method);
        assert_int_equal(bootstrap->issuer, c->issuer);
        assert_int_equal(bootstrap->identity.kind != NB_IDENTITY_NONE, c->identity != NULL);
        if (c->identity) {
                expand(c->identity, source, sizeof(source));
                assert_string_equal(bootstrap->identity.source, source);
        }
        if (c->token_id)
                assert_string_equal(bootstrap->identity.token_id, c->token_id);
        assert_int_equal(bootstrap->token.secret.data != NULL, c->discovery_token != NULL);
        if (c->discovery_token)
                assert_string_equal(bootstrap->token.token_id, c->discovery_token);
        if (bootstrap->method == NB_METHOD_DOCUMENT || bootstrap->method == NB_METHOD_KUBECONFIG)
                assert_string_equal(bootstrap->origin.server.host, "10.0.0.11");
}

static void loaded(void **state) {
        const struct load_case *c = *state;
        struct nb_settings_tokens tokens = NB_SETTINGS_TOKENS_INIT;
        struct nb_settings settings;
        struct nb_bootstrap bootstrap;
        struct nb_failure f = { 0 };
        int r;

        prepare(c, &settings, &tokens);
        r = nb_bootstrap_load(&sources, &settings, &bootstrap, &f);
        assert_int_equal(f.code, c->code);
        assert_int_equal(r < 0, c->code != NB_NONE);
        if (r >= 0) {
                check_loaded(c, &bootstrap);
                r = nb_bootstrap_verify(&bootstrap, &settings, &f);
                assert_int_equal(f.code, c->verify);
                assert_int_equal(r < 0, c->verify != NB_NONE);
                nb_bootstrap_done(&bootstrap);
        }
        if (c->detail && !strstr(f.detail, c->detail))
                fail_msg("'%s' is not in: %s", c->detail, f.detail);
        nb_settings_tokens_done(&tokens);
}

static void each_method_has_a_row(void **state) {
        bool has_row[_NB_METHOD_N] = { 0 };

        (void)state;
        for (size_t i = 0; i < N_ELEMENTS(cases); i++)
                has_row[cases[i].method] = true;
        for (size_t i = 0; i < _NB_METHOD_N; i++)
                assert_true(has_row[i]);
}

int main(void) {
        char command[128];
        int r;

        strcpy(folder, "/tmp/nb-test-bootstrap-XXXXXX");
        if (!mkdtemp(folder) || chmod(folder, 0711) < 0)
                return 1;
        sources = (struct nb_sources){ .config_directory = folder,
                                       .credentials_directory = folder };
        CASES(cases, loaded);
        CASE(each_method_has_a_row);
        r = case_run("bootstrap load");
        (void)snprintf(command, sizeof(command), "rm -r %s", folder);
        return system(command) != 0 ? 1 : r;
}
