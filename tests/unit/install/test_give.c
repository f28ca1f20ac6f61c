/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/file.h"
#include "case.h"
#include "install/give.h"
#include "lookup.h"
#include "system/sources.h"

#define CERTIFICATE "/var/lib/kubelet/pki/kubelet-client-current.pem"
#define KUBECONFIG "/etc/kubernetes/kubelet.conf"
#define CA_FILE "/etc/kubernetes/pki/ca.crt"

static struct folder folder;
static struct nb_context context;
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

static void give(bool is_client_needed) {
        struct nb_failure f = { 0 };

        folder_skip_without_lookup();
        assert_int_equal(nb_give(&context, is_client_needed, &f), 0);
        assert_int_equal(f.code, NB_NONE);
}

static void nothing_there(void **state) {
        give(true);
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
        give(true);
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
        give(false);
        expect(CERTIFICATE, NULL);
        expect(KUBECONFIG, NULL);
}

static void node_password(void **state) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        int fd = -1;
        struct stat st;

        give(false);
        assert_int_equal(faccessat(folder.fd, "etc/rancher", F_OK, 0), -1);
        context.bootstrap.issuer = NB_ISSUER_SUPERVISOR;
        give(false);
        assert_int_equal(nb_path_make_folder(folder.fd, "/etc/rancher/node", 0755, &fd), 0);
        assert_int_equal(nb_file_read_secret(fd, "password", 64, &text, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
        assert_int_equal(text.len, 33);
        assert_int_equal(strspn(text.data, "0123456789abcdef"), 32);
        expect(NB_NODE_PASSWORD_FILE, text.data);

        give(false);
        expect(NB_NODE_PASSWORD_FILE, text.data);
        (void)close(fd);
}

/* Passes nothing else that was read before, such as a token. */
static void refresh(void **state) {
        _cleanup_(nb_secret_done) struct nb_secret found = NB_SECRET_INIT;
        static const char settings[] = "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n"
                                       "discovery: {endpoints: [10.0.0.1]}\n"
                                       "kubelet: {criSocket: /run/a.sock, caFile: /etc/ca}\n"
                                       "timeout: 5m\n";
        char path[PATH_MAX + 32];
        struct nb_failure f = { 0 };

        folder_skip_without_lookup();
        folder_put(&folder, "/etc/config.yaml", "damaged since\n");
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
        assert_int_equal(nb_give_for_refresh(&context, NB_REFRESH_CLUSTER, &f), 0);
        folder_remove(&folder);
        folder_make(&folder);
        (void)snprintf(path, sizeof(path), "%s/config.yaml", config_directory);
        expect(path, "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n"
                     "discovery:\n  endpoints: [\"10.0.0.1:6443\"]\n"
                     "kubelet:\n  kubeconfig: \"" KUBECONFIG "\"\n"
                     "  certificateDirectory: \"/var/lib/kubelet/pki\"\n  caFile: \"/etc/ca\"\n"
                     "timeout: 300s\n");
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
                TEST(refresh),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
