/* SPDX-License-Identifier: Apache-2.0 */
#include "case.h"
#include "lookup.h"
#include "node_state/present.h"
#include "pki.h"
#include "settings/kubelet_unit.h"

#define HEAD "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n"
#define ENV "/var/lib/kubelet/node-bootstrap.env"
#define PKI "/var/lib/kubelet/pki"

static struct folder folder;
static char *pem; /* certificate and key of node a */
static char config_directory[PATH_MAX];

static void set_up(void) {
        folder_skip_without_lookup();
        folder_make(&folder);
        (void)snprintf(config_directory, sizeof(config_directory), "%s/etc/node-bootstrap",
                       folder.path);
}

static void put_kubeconfig(const char *path, const char *store) {
        char text[4096];

        (void)snprintf(text, sizeof(text),
                       "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, "
                       "context: {cluster: k, user: u}}]\nclusters: [{name: k, cluster: {server: "
                       "'https://10.0.0.1:6443'}}]\nusers: [{name: u, user: {client-certificate: "
                       "%s/" NB_STORE_CURRENT ", client-key: %s/" NB_STORE_CURRENT "}}]\n",
                       store, store);
        folder_put(&folder, path, text);
}

static void put_certificate(const char *store) {
        char link[PATH_MAX], dated[PATH_MAX];

        (void)snprintf(link, sizeof(link), "%s/" NB_STORE_CURRENT, store);
        (void)snprintf(dated, sizeof(dated), "%s/kubelet-client-2027-01-01-00-00-00.pem", store);
        folder_put(&folder, dated, pem);
        folder_link(&folder, link, dated);
}

static void put_record(const char *path, const char *members) {
        char text[2048];

        (void)snprintf(
                text, sizeof(text),
                "{\"version\":1,\"node\":\"a\",\"server\":\"https://10.0.0.1:6443\","
                "\"endpoint\":\"10.0.0.1:6443\",\"csr\":\"\",\"tokenID\":\"\",\"tokenSource\""
                ":\"a test\",\"joinedAt\":\"2027-01-01T00:00:00Z\",\"certificate\":\"/x\","
                "\"kubeconfig\":\"/etc/kubernetes/kubelet.conf\",\"caCertHashes\":[],"
                "\"fileHashes\":[]%s}",
                members);
        folder_put(&folder, path, text);
}

/* --- What is on disk --- */

struct disk_case {
        const char *name;
        const char *kubeconfig, *store; /* where the files are; NULL: there are none */
        const char *env;                /* node-bootstrap.env; NULL: there is none */
        enum nb_node_state state;
        bool is_env_current;
};

#define DEFAULT_KUBECONFIG "/etc/kubernetes/kubelet.conf"

static struct disk_case disks[] = {
        { "nothing", NULL, NULL, NULL, NB_NODE_STATE_ABSENT, false },
        { "a join", DEFAULT_KUBECONFIG, PKI, NULL, NB_NODE_STATE_USABLE, false },
        { "a join with the file of its paths", DEFAULT_KUBECONFIG, PKI, "KUBELET_NODE_NAME=a\n",
          NB_NODE_STATE_USABLE, true },
        { "a join elsewhere, of which nobody knows", "/srv/kubelet.conf", "/srv/pki", NULL,
          NB_NODE_STATE_ABSENT, false },
        { "a certificate without a kubeconfig", NULL, PKI, NULL, NB_NODE_STATE_WITHOUT_KUBECONFIG,
          false },
        { "a kubeconfig without a certificate", DEFAULT_KUBECONFIG, NULL, NULL,
          NB_NODE_STATE_UNREADABLE, false },
};

static void inspects(void **state) {
        const struct disk_case *c = *state;
        struct nb_node node = { 0 };
        struct nb_failure f = { 0 };

        set_up();
        if (c->kubeconfig)
                put_kubeconfig(c->kubeconfig, c->store ? c->store : PKI);
        if (c->store)
                put_certificate(c->store);
        if (c->env)
                folder_put(&folder, ENV, c->env);
        assert_int_equal(nb_node_inspect_disk(folder.fd, &node, &f), 0);
        assert_int_equal(node.inspection.state, c->state);
        assert_int_equal(node.is_env_current, c->is_env_current);
        if (c->state == NB_NODE_STATE_USABLE)
                assert_string_equal(node.inspection.node, "a");
        nb_node_done(&node);
        folder_remove(&folder);
}

/* The paths that node-bootstrap.env has, as this program writes it. */
static void inspects_other_paths(void **state) {
        struct nb_kubelet_paths paths = { .kubeconfig = "/srv/kubelet.conf",
                                          .certificate_directory = "/srv/pki",
                                          .ca_file = "/srv/ca.crt" };
        struct nb_buffer env = NB_BUFFER_INIT(4096);
        struct nb_node node = { 0 };
        struct nb_failure f = { 0 };

        set_up();
        put_kubeconfig(paths.kubeconfig, paths.certificate_directory);
        put_certificate(paths.certificate_directory);
        nb_kubelet_env_format("a", &paths, &env);
        folder_put(&folder, ENV, env.data);
        assert_int_equal(nb_node_inspect_disk(folder.fd, &node, &f), 0);
        assert_int_equal(node.inspection.state, NB_NODE_STATE_USABLE);
        assert_true(node.is_env_current);
        assert_string_equal(node.paths.ca_file, "/srv/ca.crt");
        nb_node_done(&node);
        nb_buffer_done(&env);
        folder_remove(&folder);
}

static void no_kubeconfig(void **state) {
        struct nb_node node = { 0 };
        struct nb_failure f = { 0 };

        set_up();
        folder_put(&folder, DEFAULT_KUBECONFIG, "kind: Pod\n");
        assert_true(nb_node_inspect_disk(folder.fd, &node, &f) < 0);
        assert_int_equal(f.code, NB_TARGET_NOT_KUBECONFIG);
        nb_node_done(&node);
        folder_remove(&folder);
}

static void knows_what_is_kept(void **state) {
        static const bool kept[_NB_NODE_STATE_N] = {
                [NB_NODE_STATE_USABLE] = true,        [NB_NODE_STATE_NOT_YET_VALID] = true,
                [NB_NODE_STATE_OTHER_NODE] = true,    [NB_NODE_STATE_OTHER_CLUSTER] = true,
                [NB_NODE_STATE_NOT_ROTATABLE] = true,
        };

        for (unsigned i = 0; i < _NB_NODE_STATE_N; i++)
                assert_int_equal(nb_inspection_is_kept(&(struct nb_inspection){ .state = i }),
                                 kept[i]);
}

/* The rest of the record stays. */
static void records_facts(void **state) {
        struct nb_node node = { .facts = { .host_name = "b" } };
        struct nb_failure f = { 0 };
        struct nb_record after = { 0 };

        set_up();
        nb_kubelet_env_find_paths("", 0, &node.paths);
        node.root_fd = folder.fd;
        assert_true(nb_node_record_facts(&node) < 0);
        put_record(PKI "/" NB_RECORD_FILE, ",\"hostName\":\"a\",\"ca\":\"MA==\"");
        assert_int_equal(nb_record_read(folder.fd, PKI, &node.present.record, &f), 1);
        assert_int_equal(nb_node_record_facts(&node), 0);
        assert_int_equal(nb_record_read(folder.fd, PKI, &after, &f), 1);
        assert_string_equal(after.facts.host_name, "b");
        assert_string_equal(after.node, "a");
        assert_string_equal(after.ca, "MA==");
        nb_record_done(&after);
        nb_node_done(&node);
        folder_remove(&folder);
}

/* Each failure, and when the first of them was. */
static void records_a_failed_renewal(void **state) {
        static const enum nb_code codes[] = { NB_NODE_DELETED, NB_NODE_ACCESS_REVOKED };
        struct nb_node node = { .now = 1800000000 };
        struct nb_failure f = { 0 };

        set_up();
        nb_kubelet_env_find_paths("", 0, &node.paths);
        node.root_fd = folder.fd;
        put_record(PKI "/" NB_RECORD_FILE, "");
        for (size_t i = 0; i < N_ELEMENTS(codes); i++) {
                nb_record_done(&node.present.record);
                assert_int_equal(nb_record_read(folder.fd, PKI, &node.present.record, &f), 1);
                assert_int_equal(nb_node_record_renewal(&node, codes[i]), 0);
                node.now += 3600;
        }
        nb_record_done(&node.present.record);
        assert_int_equal(nb_record_read(folder.fd, PKI, &node.present.record, &f), 1);
        assert_string_equal(node.present.record.renewal_failure, "node-access-revoked");
        assert_string_equal(node.present.record.renewal_failed_at, "2027-01-15T08:00:00Z");
        assert_string_equal(node.present.record.node, "a");
        nb_node_done(&node);
        folder_remove(&folder);
}

/* --- What the settings want --- */

struct name_case {
        const char *name;
        const char *configured, *fixed; /* node.name; of the join */
        const char *node_name;          /* "": the host name */
};

static struct name_case names[] = {
        { "of the machine", "", "", "" },
        { "of the join", "", "old", "old" },
        { "of the settings", "new", "", "new" },
        { "of the settings, on a machine that has joined", "new", "old", "new" },
};

static void chooses_the_name(void **state) {
        const struct name_case *c = *state;
        struct nb_context context = { .root_fd = -1 };
        struct nb_failure f = { 0 };

        nb_settings_init(&context.settings);
        (void)snprintf(context.settings.node_name, sizeof(context.settings.node_name), "%s",
                       c->configured);
        assert_int_equal(nb_context_choose_name(&context, c->fixed, &f), 0);
        assert_string_equal(context.fixed_name, c->fixed);
        if (c->node_name[0]) {
                assert_string_equal(context.node_name, c->node_name);
                assert_true(context.is_override_needed);
        } else if (context.node_name[0]) {
                assert_int_equal(strcasecmp(context.node_name, context.host_name), 0);
                assert_false(context.is_override_needed);
        }
}

static void load(struct nb_context *context, struct nb_sources *sources) {
        struct nb_failure f = { 0 };

        *sources = (struct nb_sources){ .config_directory = config_directory };
        assert_int_equal(nb_context_load(context, folder.fd, sources, &f), 0);
}

/* Neither endpoints nor a token: a machine that has joined needs none. */
static void loads_settings(void **state) {
        _cleanup_(nb_sources_done) struct nb_sources sources;
        struct nb_context context;
        struct nb_failure f = { 0 };

        set_up();
        folder_put(&folder, "/etc/node-bootstrap/config.yaml",
                   HEAD "kubelet: {configFrom: cluster, kubeconfig: /srv/k}\n");
        load(&context, &sources);
        assert_string_equal(context.wanted_paths.kubeconfig, "/srv/k");
        assert_int_equal(nb_context_verify_bootstrap(&context, &f), 0);
        context.bootstrap_failure = (struct nb_failure){ .code = NB_TOKEN_EXPOSED,
                                                         .errnum = EPERM };
        assert_int_equal(nb_context_verify_bootstrap(&context, &f), -EPERM);
        assert_int_equal(f.code, NB_TOKEN_EXPOSED);
        assert_true(nb_config_is_wanted(&context));
        assert_false(nb_config_exists(folder.fd));
        folder_put(&folder, NB_KUBELET_CONFIG_PATH, "");
        assert_true(nb_config_exists(folder.fd));
        assert_false(nb_config_is_wanted(&context));
        nb_context_done(&context);
        folder_remove(&folder);
}

static void refuses_damaged_settings(void **state) {
        _cleanup_(nb_sources_done) struct nb_sources sources = {
                .config_directory = config_directory
        };
        struct nb_context context;
        struct nb_failure f = { 0 };

        set_up();
        folder_put(&folder, "/etc/node-bootstrap/config.yaml", "discovery: [");
        assert_true(nb_context_load(&context, folder.fd, &sources, &f) < 0);
        assert_int_equal(f.code, NB_SETTINGS_MALFORMED);
        nb_context_done(&context);
        folder_remove(&folder);
}

/* A reset finds the record by node-bootstrap.env, otherwise by the settings. */
static void finds_the_join(void **state) {
        static const struct nb_kubelet_paths paths = { .kubeconfig = "/srv/k",
                                                       .certificate_directory = "/srv/a",
                                                       .ca_file = "/srv/ca.crt" };
        static const char *const stores[] = { PKI, "/srv/b", "/srv/a" };
        struct nb_buffer env = NB_BUFFER_INIT(4096);

        set_up();
        nb_kubelet_env_format("a", &paths, &env);
        for (size_t i = 0; i < N_ELEMENTS(stores); i++) {
                _cleanup_(nb_sources_done) struct nb_sources sources = {
                        .config_directory = config_directory
                };
                _cleanup_(nb_record_done) struct nb_record record = { 0 };
                struct nb_context context;
                struct nb_failure f = { 0 };
                char path[PATH_MAX];

                if (i == 1)
                        folder_put(&folder, "/etc/node-bootstrap/config.yaml",
                                   HEAD "kubelet: {certificateDirectory: /srv/b}\n");
                if (i == 2)
                        folder_put(&folder, ENV, env.data);
                assert_int_equal(nb_context_find_join(&context, folder.fd, &sources, &record, &f),
                                 0);
                assert_int_equal(nb_context_read_record(&context, &record), 0);
                (void)snprintf(path, sizeof(path), "%s/" NB_RECORD_FILE, stores[i]);
                put_record(path, "");
                assert_int_equal(nb_context_find_join(&context, folder.fd, &sources, &record, &f),
                                 1);
                assert_string_equal(record.node, "a");
                assert_int_equal(nb_context_read_record(&context, &record), 1);
                folder_put(&folder, path, "{");
                assert_int_equal(nb_context_read_record(&context, &record), 0);
                assert_true(nb_context_find_join(&context, folder.fd, &sources, &record, &f) < 0);
                assert_int_equal(f.code, NB_INSTALLED_MALFORMED);
                nb_context_done(&context);
        }
        nb_buffer_done(&env);
        folder_remove(&folder);
}

int main(void) {
        struct pki_cert ca = pki_make(&(struct pki_options){ .dn = "CN=ca", .is_ca = true }),
                        leaf = pki_make(
                                &(struct pki_options){ .dn = "O=system:nodes,CN=system:node:a",
                                                       .issuer = &ca,
                                                       .purpose = PKI_CLIENT_AUTH,
                                                       .not_before = time(NULL) - PKI_DAY,
                                                       .not_after = time(NULL) + PKI_DAY });

        pem = PKI_JOIN(leaf.pem, leaf.key_pem);
        pki_done(&leaf);
        pki_done(&ca);
        CASES(disks, inspects);
        CASE(inspects_other_paths);
        CASE(no_kubeconfig);
        CASE(knows_what_is_kept);
        CASE(records_facts);
        CASE(records_a_failed_renewal);
        CASES(names, chooses_the_name);
        CASE(loads_settings);
        CASE(refuses_damaged_settings);
        CASE(finds_the_join);
        return case_run("node inspect");
}
