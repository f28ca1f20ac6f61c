/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/encoding.h"
#include "case.h"
#include "lookup.h"
#include "node_state/present.h"
#include "pki.h"

#define KUBECONFIG "/etc/kubernetes/kubelet.conf"
#define PKI "/var/lib/kubelet/pki"
#define DATED PKI "/kubelet-client-2027-01-01-00-00-00.pem"
#define CURRENT PKI "/kubelet-client-current.pem"

static struct folder folder;
static struct pki_cert ca, leaf;
static char *combined;
static struct nb_kubelet_paths paths;

static int set_up(void **state) {
        folder_make(&folder);
        ca = pki_make(&(struct pki_options){ .dn = "CN=ca", .is_ca = true });
        leaf = pki_make(
                &(struct pki_options){ .dn = "O=system:nodes,CN=system:node:a", .issuer = &ca });
        combined = PKI_JOIN(leaf.pem, ca.pem, leaf.key_pem);
        nb_kubelet_env_find_paths("", 0, &paths);
        return 0;
}

static int tear_down(void **state) {
        free(combined);
        pki_done(&leaf);
        pki_done(&ca);
        folder_remove(&folder);
        return 0;
}

static char *make_kubeconfig(const char *cluster, const char *user) {
        return PKI_JOIN("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- name: c\n  "
                        "context: {cluster: k, user: u}\n"
                        "clusters:\n- name: k\n  cluster: {server: 'https://10.0.0.1:6443'",
                        cluster, "}\nusers:\n- name: u\n  user: {", user, "}\n");
}

static void put_kubeconfig(const char *cluster, const char *user) {
        char *text = make_kubeconfig(cluster, user);

        folder_put(&folder, KUBECONFIG, text);
        free(text);
}

static char *encode(const char *text) {
        struct nb_buffer buffer = NB_BUFFER_INIT(64 * 1024);

        nb_base64_encode(text, strlen(text), &buffer);
        return buffer.data;
}

/* The state after reading, and after classifying if reading succeeded. */
static enum nb_node_state look(char ret_detail[NB_FAILURE_DETAIL_MAX]) {
        struct nb_node node = { .root_fd = folder.fd, .now = PKI_NOW, .paths = paths };
        struct nb_failure f = { 0 };

        folder_skip_without_lookup();
        assert_int_equal(nb_present_read(folder.fd, &paths, &node.present, &f), 0);
        nb_node_classify(&node);
        if (ret_detail)
                memcpy(ret_detail, node.inspection.detail, NB_FAILURE_DETAIL_MAX);
        nb_node_done(&node);
        return node.inspection.state;
}

static void nothing_there(void **state) {
        assert_int_equal(look(NULL), NB_NODE_STATE_ABSENT);
}

static void kubelets_own(void **state) {
        put_kubeconfig(", certificate-authority: /etc/kubernetes/pki/ca.crt",
                       "client-certificate: " CURRENT ", client-key: " CURRENT);
        folder_put(&folder, DATED, combined);
        /* An absolute link, as kubelet creates it, is resolved below the root. */
        folder_link(&folder, CURRENT, DATED);
        assert_int_equal(look(NULL), NB_NODE_STATE_USABLE);
}

static void two_files_beside_the_kubeconfig(void **state) {
        put_kubeconfig("", "client-certificate: node.crt, client-key: sub/../node.key");
        folder_put(&folder, "/etc/kubernetes/node.crt", leaf.pem);
        folder_put(&folder, "/etc/kubernetes/node.key", leaf.key_pem);
        folder_put(&folder, "/etc/kubernetes/sub/x", "");
        assert_int_equal(look(NULL), NB_NODE_STATE_USABLE);
}

static void embedded(void **state) {
        char *certificate, *key, *user;

        folder_skip_without_lookup();
        certificate = encode(leaf.pem);
        key = encode(leaf.key_pem);
        /* Embedded data takes precedence over files. */
        user = PKI_JOIN("client-certificate: nowhere, client-certificate-data: ", certificate,
                        ", client-key: nowhere, client-key-data: ", key);
        put_kubeconfig("", user);
        assert_int_equal(look(NULL), NB_NODE_STATE_USABLE);
        free(user);
        free(key);
        free(certificate);
}

static void kubeconfig_through_a_link(void **state) {
        char *text;

        folder_skip_without_lookup();
        text = make_kubeconfig("", "client-certificate: " CURRENT ", client-key: " CURRENT);
        folder_put(&folder, "/data/kubelet.conf", text);
        folder_link(&folder, KUBECONFIG, "/data/kubelet.conf");
        folder_put(&folder, DATED, combined);
        folder_link(&folder, CURRENT, DATED);
        assert_int_equal(look(NULL), NB_NODE_STATE_USABLE);
        free(text);
}

/* kubelet loads it, and refuses to rotate it. */
static void file_where_the_link_should_be(void **state) {
        char detail[NB_FAILURE_DETAIL_MAX];

        put_kubeconfig("", "client-certificate: " CURRENT ", client-key: " CURRENT);
        folder_put(&folder, CURRENT, combined);
        assert_int_equal(look(detail), NB_NODE_STATE_NOT_ROTATABLE);
        assert_non_null(strstr(detail, "'" CURRENT "' is a file"));
}

/* Of no concern to kubelet: its kubeconfig names something else. */
static void file_that_the_kubeconfig_does_not_name(void **state) {
        put_kubeconfig("", "client-certificate: node.pem, client-key: node.pem");
        folder_put(&folder, "/etc/kubernetes/node.pem", combined);
        folder_put(&folder, CURRENT, "by hand");
        assert_int_equal(look(NULL), NB_NODE_STATE_USABLE);
}

struct broken {
        const char *name, *user;
        bool is_certificate, is_key; /* whether /c and /k hold something good */
        const char *detail;
};

static struct broken broken[] = {
        { "a token instead of a certificate", "token: x", false, false,
          "has no valid client certificate" },
        { "a certificate without key", "client-certificate: /c", true, false,
          "has no valid private key" },
        { "the certificate is not there", "client-certificate: /c, client-key: /k", false, true,
          "cannot read '/c', named in the kubeconfig: No such file" },
        { "the key is not there", "client-certificate: /c, client-key: /k", true, false,
          "cannot read '/k', named in the kubeconfig: No such file" },
        { "the certificate is empty", "client-certificate: /empty, client-key: /k", false, true,
          "'/empty' has no valid client certificate" },
        { "the key is empty", "client-certificate: /c, client-key: /empty", true, true,
          "'/empty' has no valid private key" },
        { "the certificate is a folder", "client-certificate: /folder, client-key: /k", true, true,
          "is not a regular file" },
        { "the certificate is NUL bytes", "client-certificate: /zero, client-key: /k", true, true,
          "has no valid client certificate" },
        { "certificate and key swapped", "client-certificate: /k, client-key: /c", true, true,
          "has no valid client certificate" },
        { "a link to itself", "client-certificate: /loop, client-key: /k", true, true,
          "cannot read '/loop'" },
};

static void unreadable(void **state) {
        const struct broken *c = *state;
        char detail[NB_FAILURE_DETAIL_MAX];
        int fd;

        folder_skip_without_lookup();
        (void)set_up(NULL);
        put_kubeconfig("", c->user);
        if (c->is_certificate)
                folder_put(&folder, "/c", leaf.pem);
        if (c->is_key)
                folder_put(&folder, "/k", leaf.key_pem);
        folder_put(&folder, "/empty", "");
        folder_put(&folder, "/folder/x", "");
        folder_link(&folder, "/loop", "loop");
        folder_put(&folder, "/zero", "");
        fd = openat(folder.fd, "zero", O_WRONLY | O_CLOEXEC);
        assert_int_equal(ftruncate(fd, 4096), 0);
        assert_int_equal(close(fd), 0);
        assert_int_equal(look(detail), NB_NODE_STATE_UNREADABLE);
        print_message("%s\n", detail);
        assert_non_null(strstr(detail, c->detail));
        (void)tear_down(NULL);
}

/* A power cut leaves such files; they contain nothing that could be lost. */
static void empty_kubeconfig(void **state) {
        folder_put(&folder, KUBECONFIG, "");
        assert_int_equal(look(NULL), NB_NODE_STATE_UNREADABLE);
}

static void expect_refused(void) {
        struct nb_present present = { 0 };
        struct nb_failure f = { 0 };

        folder_skip_without_lookup();
        assert_true(nb_present_read(folder.fd, &paths, &present, &f) < 0);
        assert_int_equal(f.code, NB_TARGET_NOT_KUBECONFIG);
}

static void kubelets_configuration(void **state) {
        folder_put(&folder, KUBECONFIG,
                   "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n");
        expect_refused();
}

static void folder_for_a_kubeconfig(void **state) {
        folder_put(&folder, KUBECONFIG "/x", "");
        expect_refused();
}

static void what_tells_clusters_apart(void **state) {
        struct nb_present present = { 0 };
        struct nb_failure f = { 0 };

        folder_skip_without_lookup();
        put_kubeconfig(", certificate-authority: my.crt",
                       "client-certificate: " CURRENT ", client-key: " CURRENT);
        folder_put(&folder, CURRENT, combined);
        folder_put(&folder, "/etc/kubernetes/my.crt", ca.pem);
        folder_put(&folder, PKI "/node-bootstrap.json", "{}");
        assert_int_equal(nb_present_read(folder.fd, &paths, &present, &f), 0);
        assert_non_null(present.ca);
        /* One that is damaged says nothing. */
        assert_false(present.has_record);
        nb_present_done(&present);
}

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER_HASH "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const char record[] =
        "{\"version\": 1, \"node\": \"a\", \"hostName\": \"a\", \"machineID\": \"" HASH
        "\", \"server\": \"https://10.0.0.1:6443\", \"csr\": \"node-csr-a\", \"endpoint\": "
        "\"10.0.0.1:6443\", \"tokenID\": \"\", \"tokenSource\": \"a file\", \"joinedAt\": "
        "\"2027-01-01T00:00:00Z\", \"certificate\": \"" DATED "\", \"kubeconfig\": \"" KUBECONFIG
        "\", \"caCertHashes\": [], \"fileHashes\": []}";

struct lost {
        const char *name;
        bool is_copy, is_linked, is_dated; /* the machine; what is left of the store */
        const char *kubeconfig;            /* NULL: lost */
        enum nb_node_state state;
};

#define NAMES_CURRENT "client-certificate: " CURRENT ", client-key: " CURRENT

static struct lost lost[] = {
        { "the store", false, false, false, NAMES_CURRENT, NB_NODE_STATE_UNREADABLE },
        { "the store of the original", true, false, false, NAMES_CURRENT,
          NB_NODE_STATE_UNREADABLE },
        { "the dated file", false, true, false, NAMES_CURRENT, NB_NODE_STATE_UNREADABLE },
        { "store and kubeconfig", false, false, false, NULL, NB_NODE_STATE_ABSENT },
        { "the link", false, false, true, NAMES_CURRENT, NB_NODE_STATE_WITHOUT_KUBECONFIG },
        { "the link of the original", true, false, true, NAMES_CURRENT, NB_NODE_STATE_UNREADABLE },
        { "link and kubeconfig", false, false, true, NULL, NB_NODE_STATE_WITHOUT_KUBECONFIG },
};

/* The record alone says under which name this machine has joined, and whether it is a copy. */
static void lost_beside_the_record(void **state) {
        const struct lost *c = *state;
        struct nb_node node = { .now = PKI_NOW, .facts = { .host_name = "b", .machine_id = HASH } };
        struct nb_failure f = { 0 };

        folder_skip_without_lookup();
        (void)set_up(NULL);
        node.root_fd = folder.fd;
        node.paths = paths;
        if (c->is_copy)
                memcpy(node.facts.machine_id, OTHER_HASH, sizeof(OTHER_HASH));
        folder_put(&folder, PKI "/node-bootstrap.json", record);
        if (c->kubeconfig)
                put_kubeconfig("", c->kubeconfig);
        if (c->is_linked)
                folder_link(&folder, CURRENT, DATED);
        if (c->is_dated)
                folder_put(&folder, DATED, combined);
        assert_int_equal(nb_present_read(folder.fd, &paths, &node.present, &f), 0);
        nb_node_classify(&node);
        assert_int_equal(node.inspection.state, c->state);
        assert_int_equal(node.inspection.is_copy, c->is_copy);
        assert_string_equal(nb_node_fixed_name(&node), c->is_copy ? "" : "a");
        nb_node_done(&node);
        (void)tear_down(NULL);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(nothing_there, set_up, tear_down),
                cmocka_unit_test_setup_teardown(kubelets_own, set_up, tear_down),
                cmocka_unit_test_setup_teardown(two_files_beside_the_kubeconfig, set_up, tear_down),
                cmocka_unit_test_setup_teardown(embedded, set_up, tear_down),
                cmocka_unit_test_setup_teardown(kubeconfig_through_a_link, set_up, tear_down),
                cmocka_unit_test_setup_teardown(file_where_the_link_should_be, set_up, tear_down),
                cmocka_unit_test_setup_teardown(file_that_the_kubeconfig_does_not_name, set_up,
                                                tear_down),
                cmocka_unit_test_setup_teardown(empty_kubeconfig, set_up, tear_down),
                cmocka_unit_test_setup_teardown(kubelets_configuration, set_up, tear_down),
                cmocka_unit_test_setup_teardown(folder_for_a_kubeconfig, set_up, tear_down),
                cmocka_unit_test_setup_teardown(what_tells_clusters_apart, set_up, tear_down),
        };

        for (size_t i = 0; i < N_ELEMENTS(tests); i++)
                case_list[n_cases++] = tests[i];
        CASES(broken, unreadable);
        CASES(lost, lost_beside_the_record);
        return case_run("install present");
}
