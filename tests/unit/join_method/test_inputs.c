/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/text.h"
#include "folder.h"
#include "join_method/inputs.h"

#define TOKEN "abcdef.0123456789abcdef"
#define OTHER "fedcba.fedcba9876543210"
#define K3S "K100123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef::node:password"
#define KUBECONFIG \
        "apiVersion: v1\nkind: Config\nclusters: [{name: k, cluster: {server: 'https://h:1'}}]\n" \
        "contexts: [{name: c, context: {cluster: k, user: u}}]\ncurrent-context: c\n" \
        "users: [{name: u, user: {token: abc}}]\n"

static struct folder folder;
static struct nb_sources sources;
static struct nb_settings settings;
static struct nb_settings_tokens tokens;
static struct nb_inputs inputs;
static struct nb_failure f;

static int set_up(void **state) {
        folder_make(&folder);
        sources = (struct nb_sources){ .credentials_directory = folder.path };
        nb_settings_init(&settings);
        settings.tokens = &tokens;
        f = (struct nb_failure){ 0 };
        inputs = (struct nb_inputs){ 0 };
        return 0;
}

static int tear_down(void **state) {
        nb_inputs_done(&inputs);
        nb_settings_tokens_done(&tokens);
        folder_remove(&folder);
        return 0;
}

static void put(const char *name, const char *text, mode_t mode) {
        char path[PATH_MAX];

        (void)snprintf(path, sizeof(path), "/%s", name);
        folder_put(&folder, path, text);
        assert_int_equal(fchmodat(folder.fd, name, mode, 0), 0);
}

static void set_token(struct nb_secret *token, const char *text) {
        assert_int_equal(nb_secret_copy(token, text, strlen(text)), 0);
        NB_TEXT_COPY(tokens.discovery_origin, "a document");
}

static void nothing(void **state) {
        assert_int_equal(nb_inputs_read(&sources, &settings, &inputs, &f), 0);
        assert_int_equal(inputs.identity.kind, NB_IDENTITY_NONE);
        assert_int_equal(inputs.token.kind, NB_IDENTITY_NONE);
        assert_false(inputs.has_k3s_token || inputs.has_kubeconfig);
}

static void a_token_serves_for_both(void **state) {
        set_token(&tokens.discovery, TOKEN);
        assert_int_equal(nb_inputs_read(&sources, &settings, &inputs, &f), 0);
        assert_string_equal(inputs.token.secret.data, TOKEN);
        assert_string_equal(inputs.identity.secret.data, TOKEN);
        assert_string_equal(inputs.token_source, "a document");
}

/* Credentials before documents; for the request: kubeconfig, TLS bootstrap token, token. */
static void a_credential_wins(void **state) {
        set_token(&tokens.discovery, OTHER);
        put(NB_CREDENTIAL_TOKEN_NAME, TOKEN "\n", 0400);
        put(NB_CREDENTIAL_TLS_BOOTSTRAP_TOKEN_NAME, OTHER, 0400);
        assert_int_equal(nb_inputs_read(&sources, &settings, &inputs, &f), 0);
        assert_string_equal(inputs.token.secret.data, TOKEN);
        assert_string_equal(inputs.token_source, "credential 'node-bootstrap.token'");
        assert_string_equal(inputs.identity.secret.data, OTHER);
}

static void a_kubeconfig_wins(void **state) {
        put(NB_CREDENTIAL_TOKEN_NAME, TOKEN, 0400);
        put(NB_CREDENTIAL_KUBECONFIG_NAME, KUBECONFIG, 0400);
        assert_int_equal(nb_inputs_read(&sources, &settings, &inputs, &f), 0);
        assert_true(inputs.has_kubeconfig);
        assert_string_equal(inputs.kubeconfig.server.host, "h");
        assert_string_equal(inputs.identity.secret.data, "abc");
        assert_string_equal(inputs.token.secret.data, TOKEN);
}

static void a_token_of_k3s(void **state) {
        put(NB_CREDENTIAL_TOKEN_NAME, K3S, 0400);
        assert_int_equal(nb_inputs_read(&sources, &settings, &inputs, &f), 0);
        assert_true(inputs.has_k3s_token && inputs.k3s.has_hash);
        assert_int_equal(inputs.identity.kind, NB_IDENTITY_PASSWORD);
        assert_int_equal(inputs.token.kind, NB_IDENTITY_NONE);
}

/* Not in part. */
static void what_is_no_token(void **state) {
        put(NB_CREDENTIAL_TOKEN_NAME, TOKEN, 0400);
        put(NB_CREDENTIAL_TLS_BOOTSTRAP_TOKEN_NAME, "swordfish", 0400);
        assert_true(nb_inputs_read(&sources, &settings, &inputs, &f) < 0);
        assert_int_equal(f.code, NB_TOKEN_MALFORMED);
        assert_null(strstr(f.detail, "swordfish"));
}

/* --- Kubeconfigs --- */

struct load_case {
        const char *name;
        const char *credential, *file; /* their texts; NULL: none */
        mode_t mode;                   /* of the file */
        bool is_installed;
        int r; /* -1: any failure */
        enum nb_code code;
        const char *source; /* "@": the path */
};

#define CREDENTIAL "credential 'node-bootstrap.kubeconfig'"

static struct load_case loads[] = {
        { "kubeconfig: none", .r = 0 },
        { "kubeconfig: a credential", KUBECONFIG, .r = 1, .source = CREDENTIAL },
        { "kubeconfig: a credential before a file", KUBECONFIG, "x", 0600, .r = 1,
          .source = CREDENTIAL },
        { "kubeconfig: a file", NULL, KUBECONFIG, 0600, .r = 1, .source = "@" },
        { "kubeconfig: a file that others can read", NULL, KUBECONFIG, 0644, .r = -1,
          .code = NB_TOKEN_EXPOSED, .source = "@" },
        { "kubeconfig: that of kubelet, which others can read", "x", KUBECONFIG, 0644,
          .is_installed = true, .r = 1, .source = "@" },
        { "kubeconfig: a file that is damaged", NULL, "x", 0600, .r = -1,
          .code = NB_BOOTSTRAP_KUBECONFIG_UNACCEPTABLE, .source = "@" },
};

static void loads_kubeconfig(void **state) {
        const struct load_case *c = *state;
        char path[PATH_MAX] = "", source[NB_IDENTITY_SOURCE_MAX + 1], expected[PATH_MAX + 2];
        struct nb_kubeconfig_source from = { NB_CREDENTIAL_KUBECONFIG_NAME, path,
                                             &nb_kubeconfig_bootstrap, c->is_installed };
        struct nb_identity identity = NB_IDENTITY_INIT;
        struct nb_cluster cluster = { 0 };

        (void)set_up(NULL);
        if (c->credential)
                put(NB_CREDENTIAL_KUBECONFIG_NAME, c->credential, 0400);
        if (c->file) {
                put("file", c->file, c->mode);
                assert_int_equal(fchmod(folder.fd, 0755), 0);
                (void)snprintf(path, sizeof(path), "%s/file", folder.path);
        }
        assert_int_equal(nb_kubeconfig_load(&sources, &from, &cluster, &identity, source, &f) < 0,
                         c->r < 0);
        assert_int_equal(f.code, c->code);
        if (c->source) {
                (void)snprintf(expected, sizeof(expected), "'%s'", path);
                assert_string_equal(source, c->source[0] == '@' ? expected : c->source);
        }
        assert_int_equal(cluster.server.port, c->r > 0 ? 1 : 0);
        assert_int_equal(identity.kind, c->r > 0 ? NB_IDENTITY_TOKEN : NB_IDENTITY_NONE);
        nb_identity_done(&identity);
        nb_cluster_done(&cluster);
        (void)tear_down(NULL);
}

static void a_kubeconfig_that_is_not_there(void **state) {
        const struct nb_kubeconfig_source from = { NB_CREDENTIAL_KUBECONFIG_NAME, "/nowhere/at/all",
                                                   &nb_kubeconfig_bootstrap };
        struct nb_identity identity = NB_IDENTITY_INIT;
        char source[NB_IDENTITY_SOURCE_MAX + 1];
        struct nb_cluster cluster = { 0 };

        assert_true(nb_kubeconfig_load(&sources, &from, &cluster, &identity, source, &f) < 0);
        assert_int_equal(f.code, NB_BOOTSTRAP_KUBECONFIG_UNREADABLE);
}

/* --- What excludes a discovery file --- */

static void a_discovery_file_is_alone(void **state) {
        inputs.settings = &settings;
        assert_int_equal(nb_inputs_verify_alone(&inputs, "'/x'", &f), 0);
        inputs.has_k3s_token = true; /* without a hash */
        assert_int_equal(nb_inputs_verify_alone(&inputs, "'/x'", &f), 0);
        inputs.k3s.has_hash = true;
        NB_TEXT_COPY(inputs.token_source, "credential 'c'");
        assert_true(nb_inputs_verify_alone(&inputs, "'/x'", &f) < 0);
        assert_int_equal(f.code, NB_SETTINGS_INVALID);
        assert_non_null(strstr(f.detail, "in credential 'c', and '/x'"));
        inputs.k3s.has_hash = false;
        settings.cluster_type = NB_CLUSTER_TYPE_K3S;
        f = (struct nb_failure){ 0 };
        assert_true(nb_inputs_verify_alone(&inputs, "'/x'", &f) < 0);
        assert_non_null(strstr(f.detail, "cluster.type: k3s"));
        settings.cluster_type = NB_CLUSTER_TYPE_KUBERNETES;
        settings.n_endpoints = 1;
        NB_TEXT_COPY(settings.discovery_file, "/x");
        NB_TEXT_COPY(settings.origin[NB_SETTING_DISCOVERY_FILE], "b.yaml");
        f = (struct nb_failure){ 0 };
        assert_true(nb_inputs_verify_alone(&inputs, "'/x'", &f) < 0);
        assert_non_null(strstr(f.detail, "discovery.endpoints in default, and '/x', which is "
                                         "discovery.file in b.yaml"));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(nothing),
                TEST(a_token_serves_for_both),
                TEST(a_credential_wins),
                TEST(a_kubeconfig_wins),
                TEST(a_token_of_k3s),
                TEST(what_is_no_token),
                TEST(a_kubeconfig_that_is_not_there),
                TEST(a_discovery_file_is_alone),
        };
        int r = cmocka_run_group_tests_name("join method inputs", tests, NULL, NULL);

        CASES(loads, loads_kubeconfig);
        return case_run("join method kubeconfigs") + r;
}
