/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "case.h"
#include "install/give.h"
#include "join_method/plan.h"
#include "lookup.h"
#include "os/sources.h"

#define CERTIFICATE "/var/lib/kubelet/pki/kubelet-client-current.pem"
#define KUBECONFIG "/etc/kubernetes/kubelet.conf"
#define CA_FILE "/etc/kubernetes/pki/ca.crt"

static struct folder folder;
static struct nb_install install = { .context = &install.own };
#define context install.own
static char config_directory[PATH_MAX];
static struct nb_sources sources;

static int set_up(void **state) {
        folder_make(&folder);
        (void)snprintf(config_directory, sizeof(config_directory), "%s/etc", folder.path);
        sources = (struct nb_sources){ .config_directory = config_directory, .is_keeping = true };
        context = (struct nb_context){ .root_fd = folder.fd,
                                       .node_name = "a",
                                       .sources = &sources };
        nb_settings_init(&context.settings);
        return 0;
}

static int tear_down(void **state) {
        nb_sources_done(&sources);
        folder_remove(&folder);
        return 0;
}

/* What `join` receives for a path on this machine; NULL for nothing. */
static void expect(const char *path, const char *text) {
        _cleanup_(nb_secret_done) struct nb_secret found = NB_SECRET_INIT;

        assert_int_equal(nb_sources_read(&sources, path, 1024, &found, NULL), text ? 0 : -ENOENT);
        if (text)
                assert_string_equal(found.data, text);
}

static void give(enum nb_node_state state) {
        struct nb_failure f = { 0 };

        folder_skip_without_lookup();
        install.node.inspection = (struct nb_inspection){ .state = state, .not_after = "2026" };
        NB_TEXT_COPY(install.name, "early");
        install.timeout_ms = 9;
        install.started_ms = 7;
        install.metadata_usec = 8;
        assert_int_equal(nb_give(&install, &f), 0);
        assert_int_equal(f.code, NB_NONE);
}

static void nothing_there(void **state) {
        context.bootstrap.issuer = NB_ISSUER_SUPERVISOR;
        give(NB_NODE_STATE_NOT_ROTATABLE);
        expect(CERTIFICATE, NULL);
        expect(CA_FILE, NULL);
}

static void client_of_kubelet(void **state) {
        static const char kubeconfig[] =
                "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
                "contexts: [{name: c, context: {cluster: k, user: u}}]\n"
                "clusters: [{name: k, cluster: {server: 'https://10.0.0.1', "
                "certificate-authority: other.crt}}]\n"
                "users: [{name: u, user: {client-certificate: " CERTIFICATE
                ", client-key: " CERTIFICATE "}}]\n";

        folder_put(&folder, "/var/lib/kubelet/pki/dated.pem", "certificate and key\n");
        folder_link(&folder, CERTIFICATE, "/var/lib/kubelet/pki/dated.pem");
        folder_put(&folder, CA_FILE, "ca\n");
        folder_put(&folder, "/etc/kubernetes/other.crt", "other\n");
        folder_put(&folder, KUBECONFIG, kubeconfig);
        context.bootstrap.issuer = NB_ISSUER_SUPERVISOR;
        give(NB_NODE_STATE_NOT_ROTATABLE);
        expect(CERTIFICATE, "certificate and key\n");
        expect(CA_FILE, "ca\n");
        expect("/etc/kubernetes/other.crt", "other\n");
        expect(KUBECONFIG, kubeconfig);
}

/* Not passed, even if loading the settings of a k3s node has read it. */
static void client_of_kubelet_that_is_not_needed(void **state) {
        folder_put(&folder, CERTIFICATE, "certificate and key\n");
        assert_int_equal(nb_sources_put(&sources, NB_SOURCE_FILE, CERTIFICATE, 0600,
                                        &(struct nb_secret){ .data = (char[]){ "key" }, .len = 3 }),
                         0);
        give(NB_NODE_STATE_EXPIRED);
        expect(CERTIFICATE, NULL);
        expect(KUBECONFIG, NULL);
}

static void node_password(void **state) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        int fd = -1;
        struct stat st;

        give(NB_NODE_STATE_EXPIRED);
        assert_int_equal(faccessat(folder.fd, "etc/rancher", F_OK, 0), -1);
        context.bootstrap.issuer = NB_ISSUER_SUPERVISOR;
        give(NB_NODE_STATE_EXPIRED);
        assert_int_equal(nb_path_make_folder(folder.fd, "/etc/rancher/node", 0755, &fd), 0);
        assert_int_equal(nb_file_read_secret(fd, "password", 64, &text, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
        assert_int_equal(text.len, 33);
        assert_int_equal(strspn(text.data, "0123456789abcdef"), 32);
        expect(NB_NODE_PASSWORD_FILE, text.data);

        give(NB_NODE_STATE_EXPIRED);
        expect(NB_NODE_PASSWORD_FILE, text.data);
        (void)close(fd);
}

/* The settled settings with the tokens. */
static void plan(void **state) {
        static struct nb_plan found;
        struct nb_settings_tokens tokens = NB_SETTINGS_TOKENS_INIT;
        struct nb_failure f = { 0 };

        NB_TEXT_COPY(context.settings.node_name, "settled");
        NB_TEXT_COPY(context.settings.origin[NB_SETTING_NODE_NAME], "x");
        assert_int_equal(nb_secret_copy(&context.tokens.discovery, "secret", 6), 0);
        NB_TEXT_COPY(context.tokens.discovery_origin, "the user data of a test");
        give(NB_NODE_STATE_EXPIRED);
        nb_context_forget_secrets(&context);
        assert_null(context.tokens.discovery.data);
        assert_int_equal(nb_plan_take(&sources, &found, &tokens, &f), 0);
        assert_string_equal(found.settings.node_name, "settled");
        assert_string_equal(found.settings.origin[NB_SETTING_NODE_NAME], "x");
        assert_ptr_equal(found.settings.tokens, &tokens);
        assert_string_equal(tokens.discovery.data, "secret");
        assert_string_equal(tokens.discovery_origin, "the user data of a test");
        assert_null(tokens.tls_bootstrap.data);
        assert_int_equal(found.settings.timeout_ms, 9);
        assert_int_equal(found.state, NB_NODE_STATE_EXPIRED);
        assert_string_equal(found.valid_until, "2026");
        assert_string_equal(found.name, "early");
        assert_int_equal(found.started_ms, 7);
        assert_int_equal(found.metadata_usec, 8);
        nb_settings_tokens_done(&tokens);
}

/* No token, no credential, and no settings but those about metadata. */
static void metadata(void **state) {
        _cleanup_(nb_sources_done) struct nb_sources passed = { 0 };
        static struct nb_plan found;
        struct nb_settings_tokens tokens = NB_SETTINGS_TOKENS_INIT;
        struct nb_failure f = { 0 };
        static const char settings[] = "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n"
                                       "discovery: {endpoints: [10.0.0.1]}\n"
                                       "metadata: {provider: aws, nodeName: true}\ntimeout: 5m\n";

        install.timeout_ms = 9;
        assert_int_equal(nb_sources_put(&sources, NB_SOURCE_FILE, "/etc/x", 0600,
                                        &(struct nb_secret){ .data = (char[]){ "x" }, .len = 1 }),
                         0);
        assert_int_equal(nb_settings_merge(&context.settings,
                                           &(struct nb_settings_source){ .origin = "x" }, settings,
                                           sizeof(settings) - 1, &f),
                         0);
        assert_int_equal(nb_secret_copy(&context.tokens.discovery, "secret", 6), 0);
        assert_int_equal(nb_give_for_metadata(&install, &passed, &f), 0);
        assert_int_equal(nb_plan_take(&passed, &found, &tokens, &f), 0);
        assert_int_equal(found.settings.metadata_provider, NB_PROVIDER_AWS);
        assert_true(found.settings.metadata_node_name);
        assert_int_equal(found.settings.timeout_ms, 9);
        assert_int_equal(found.settings.n_endpoints, 0);
        assert_null(tokens.discovery.data);
        assert_null(nb_sources_find(&passed, NB_SOURCE_FILE, "/etc/x"));
        nb_context_forget_secrets(&context);
}

/* Passes nothing else that was read before, such as a token. */
static void refresh(void **state) {
        _cleanup_(nb_secret_done) struct nb_secret found = NB_SECRET_INIT;
        static const char settings[] = "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n"
                                       "discovery: {endpoints: [10.0.0.1]}\n"
                                       "kubelet: {criSocket: /run/a.sock, caFile: /etc/ca}\n"
                                       "timeout: 5m\n";
        static struct nb_plan plan;
        struct nb_settings_tokens tokens = NB_SETTINGS_TOKENS_INIT;
        struct nb_failure f = { 0 };

        folder_skip_without_lookup();
        assert_int_equal(nb_settings_merge(&context.settings,
                                           &(struct nb_settings_source){ .origin = "x" }, settings,
                                           sizeof(settings) - 1, &f),
                         0);
        folder_put(&folder, CERTIFICATE, "certificate and key\n");
        folder_put(&folder, KUBECONFIG, "kubeconfig\n");
        folder_put(&folder, "/etc/ca", "ca\n");
        assert_int_equal(nb_sources_put(&sources, NB_SOURCE_CREDENTIAL, "node-bootstrap.token",
                                        0400,
                                        &(struct nb_secret){ .data = (char[]){ "x" }, .len = 1 }),
                         0);
        assert_int_equal(nb_give_for_refresh(&context, NB_REFRESH_CLUSTER, 1000, &f), 0);
        folder_remove(&folder);
        folder_make(&folder);
        assert_int_equal(nb_plan_take(&sources, &plan, &tokens, &f), 0);
        assert_int_equal(plan.settings.n_endpoints, 1);
        assert_string_equal(plan.settings.kubeconfig, KUBECONFIG);
        assert_string_equal(plan.settings.ca_file, "/etc/ca");
        assert_int_equal(plan.settings.timeout_ms, 1000);
        expect(KUBECONFIG, "kubeconfig\n");
        expect("/etc/ca", "ca\n");
        expect(CERTIFICATE, NULL);
        assert_int_equal(nb_sources_credential(&sources, "node-bootstrap.token", 64, &found, &f),
                         -ENOENT);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void) {
        static const struct CMUnitTest tests[] = {
                TEST(nothing_there),
                TEST(client_of_kubelet),
                TEST(client_of_kubelet_that_is_not_needed),
                TEST(node_password),
                TEST(plan),
                TEST(metadata),
                TEST(refresh),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
