/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "allocation.h"
#include "case.h"
#include "install/accept.h"
#include "install/give.h"
#include "install/write.h"
#include "lookup.h"
#include "node_state/present.h"
#include "pki.h"

#define CURRENT "/var/lib/kubelet/pki/kubelet-client-current.pem"

static struct folder folder;
static struct pki_cert ca, leaf;
static struct nb_context context;

static int set_up(void **state) {
        folder_make(&folder);
        ca = pki_make(&(struct pki_options){ .dn = "CN=ca", .is_ca = true });
        leaf = pki_make(&(struct pki_options){ .dn = "O=system:nodes,CN=system:node:a",
                                               .issuer = &ca,
                                               .purpose = PKI_CLIENT_AUTH });
        context = (struct nb_context){
                .root_fd = folder.fd, .node_name = "a", .is_override_needed = true, .now = PKI_NOW
        };
        nb_settings_init(&context.settings);
        nb_kubelet_paths_get(&context.settings, &context.wanted_paths);
        context.settings.unsafe_skip_ca_verification = true;
        assert_int_equal(nb_endpoint_parse("10.0.0.1", 8, &context.settings.endpoints[0]), 0);
        context.settings.n_endpoints = 1;
        context.bootstrap.method = NB_METHOD_TOKEN;
        return 0;
}

static int tear_down(void **state) {
        pki_done(&leaf);
        pki_done(&ca);
        folder_remove(&folder);
        return 0;
}

static int look(const void *input) {
        struct nb_node node = { 0 };
        struct nb_failure f = { 0 };
        int r = nb_node_inspect(&context, &node, &f);

        nb_node_done(&node);
        return r;
}

static void what_is_there(void **state) {
        char *combined;

        folder_skip_without_lookup();
        combined = PKI_JOIN(leaf.pem, leaf.key_pem);
        folder_put(&folder, "/etc/kubernetes/kubelet.conf",
                   "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, "
                   "context: {cluster: k, user: u}}]\n"
                   "clusters: [{name: k, cluster: {certificate-authority: ca.crt}}]\n"
                   "users: [{name: u, user: {client-certificate: " CURRENT ", client-key: " CURRENT
                   "}}]\n");
        folder_put(&folder, CURRENT, combined);
        folder_put(&folder, "/etc/kubernetes/ca.crt", ca.pem);
        allocation_try_all(look, NULL);
        free(combined);
}

static int accept_and_write(const void *input) {
        struct nb_state state = { .fd = -1 };
        struct nb_accepted accepted = { 0 };
        struct nb_failure f = { 0 };
        int r;

        r = nb_state_open(&state, &f);
        if (r >= 0)
                r = nb_accept(&context, &state, &accepted, &f);
        if (r >= 0)
                r = nb_write(&context, &accepted, &f);
        nb_accepted_done(&accepted);
        nb_state_done(&state);
        return r;
}

static void what_is_written(void **state) {
        struct nb_buffer text = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        struct nb_handoff handoff = { .certificate = leaf.pem,
                                      .cluster.ca = ca.pem,
                                      .provenance.csr = "node-csr-x",
                                      .provenance.endpoint = "10.0.0.1:6443",
                                      .provenance.token_id = "abcdef",
                                      .provenance.token_source = "a test" };
        char path[96];

        folder_skip_without_lookup();
        assert_int_equal(nb_url_parse("https://10.0.0.1:6443", 21, &handoff.cluster.server), 0);
        assert_int_equal(nb_state_file_format(&nb_handoff_file, &handoff, &text), 0);
        folder_put(&folder, "/state/joined.json", text.data);
        folder_put(&folder, "/state/pending.key", leaf.key_pem);
        (void)snprintf(path, sizeof(path), "%s/state", folder.path);
        assert_int_equal(setenv("STATE_DIRECTORY", path, 1), 0);
        allocation_try_all(accept_and_write, NULL);
        nb_buffer_done(&text);
}

static int give(const void *input) {
        static struct nb_install install = { .context = &context,
                                             .node.inspection.state = NB_NODE_STATE_ABSENT };
        struct nb_failure f = { 0 };
        int r = nb_give(&install, &f);

        nb_sources_done(context.sources);
        return r;
}

static void what_is_given(void **state) {
        char path[96];

        folder_skip_without_lookup();
        folder_put(&folder, "/etc/token", "secret");
        folder_put(&folder, "/etc/ca.crt", ca.pem);
        folder_put(&folder, "/etc/bootstrap.conf",
                   "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, "
                   "context: {cluster: k, user: u}}]\n"
                   "clusters: [{name: k, cluster: {server: 'https://10.0.0.1', "
                   "certificate-authority: ca.crt}}]\n"
                   "users: [{name: u, user: {tokenFile: token}}]\n");
        folder_put(&folder, "/etc/config.yaml", "# nothing\n");
        folder_put(&folder, CURRENT, leaf.pem);
        (void)snprintf(path, sizeof(path), "%s/etc", folder.path);
        struct nb_sources sources = { .config_directory = path };
        context.sources = &sources;
        context.bootstrap.issuer = NB_ISSUER_SUPERVISOR;
        (void)snprintf(context.settings.bootstrap_kubeconfig,
                       sizeof(context.settings.bootstrap_kubeconfig), "%s/etc/bootstrap.conf",
                       folder.path);
        allocation_try_all(give, NULL);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(what_is_there, set_up, tear_down),
                cmocka_unit_test_setup_teardown(what_is_written, set_up, tear_down),
                cmocka_unit_test_setup_teardown(what_is_given, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
