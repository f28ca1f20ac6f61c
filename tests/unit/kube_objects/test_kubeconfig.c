/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kube_objects/kubeconfig_format.h"

#include "allocation.h"
#include "case.h"

#define HEAD "apiVersion: v1\nkind: Config\n"
#define CA "    certificate-authority-data: UEVN\n"
#define SERVER "    server: https://10.0.0.10:6443\n"
#define CLUSTERS(members) "clusters:\n- name: \"\"\n  cluster:\n" members

struct cluster_case {
        const char *name;
        const char *text;
        const char *server; /* NULL: refused */
        const char *detail; /* or "<tls-server-name> <proxy-url>" */
};

#define IN "kubeconfig in cluster-info: "
#define INSECURE "; remove the key, and set certificate-authority-data to the cluster's CA"

static struct cluster_case clusters[] = {
        { "kubeadm's",
          HEAD CLUSTERS(CA SERVER) "contexts: null\ncurrent-context: \"\"\npreferences: {}\nusers: "
                                   "null\n",
          "https://10.0.0.10:6443", " " },
        { "the least", HEAD CLUSTERS(CA SERVER), "https://10.0.0.10:6443", " " },
        { "an empty list of users", HEAD CLUSTERS(CA SERVER) "users: []\n",
          "https://10.0.0.10:6443", " " },
        { "in JSON",
          "{\"apiVersion\":\"v1\",\"kind\":\"Config\",\"clusters\":[{\"cluster\":{\"server\":"
          "\"https://"
          "a\",\"certificate-authority-data\":"
          "\"UEVN\"}}]}",
          "https://a:443", " " },
        { "a TLS server name", HEAD CLUSTERS(CA SERVER "    tls-server-name: kubernetes.default\n"),
          "https://10.0.0.10:6443", "kubernetes.default " },
        { "a proxy", HEAD CLUSTERS(CA SERVER "    proxy-url: http://proxy:3128\n"),
          "https://10.0.0.10:6443", " http://proxy:3128" },
        { "empty names are ignored",
          HEAD CLUSTERS(CA SERVER "    tls-server-name: \"\"\n    proxy-url: ''\n"),
          "https://10.0.0.10:6443", " " },
        { "TLS verification said to be on",
          HEAD CLUSTERS(CA SERVER "    insecure-skip-tls-verify: false\n"),
          "https://10.0.0.10:6443", " " },
        { "extensions are passed over",
          HEAD CLUSTERS(CA SERVER "    extensions:\n    - name: x\n      extension: {a: [1]}\n"),
          "https://10.0.0.10:6443", " " },
        { "a CA in several lines",
          HEAD CLUSTERS(SERVER "    certificate-authority-data: |\n      UE\n      VN\n"),
          "https://10.0.0.10:6443", " " },
        { "a CA with a blank, which Go refuses",
          HEAD CLUSTERS(SERVER "    certificate-authority-data: |\n      UE VN\n"), NULL,
          IN "clusters[0].cluster.certificate-authority-data: expected PEM in base64, found "
             "something else" },
        { "nothing", "", NULL,
          IN "expected a kubeconfig (kind: Config, apiVersion: v1), found kind nothing, apiVersion "
             "nothing" },
        { "text", "hello", NULL,
          IN "expected a kubeconfig (kind: Config, apiVersion: v1), found kind nothing, apiVersion "
             "nothing" },
        { "another kind", "apiVersion: v1\nkind: Secret\n", NULL,
          IN "expected a kubeconfig (kind: Config, apiVersion: v1), found kind 6 characters, "
             "apiVersion 'v1'" },
        { "another API version", "apiVersion: v2\nkind: Config\n", NULL,
          IN "expected a kubeconfig (kind: Config, apiVersion: v1), found kind 6 characters, "
             "apiVersion 'v2'" },
        { "no YAML", "a: [", NULL,
          "kubeconfig in cluster-info:2:1: expected YAML: did not find expected node content" },
        { "an alias", HEAD "a: &a 1\n" CLUSTERS(CA SERVER), NULL,
          "kubeconfig in cluster-info:3: expected plain YAML, found an anchor (&)" },
        { "two servers", HEAD CLUSTERS(CA SERVER SERVER), NULL,
          "kubeconfig in cluster-info:8: expected each key once, found one twice (6 characters)" },
        { "no clusters", HEAD, NULL, IN "clusters: expected one entry, found none" },
        { "an empty list of clusters", HEAD "clusters: []\n", NULL,
          IN "clusters: expected one entry, found none" },
        { "clusters that are a mapping", HEAD "clusters: {a: b}\n", NULL,
          IN "clusters: expected a list, found a mapping" },
        { "two clusters", HEAD CLUSTERS(CA SERVER) "- name: b\n  cluster:\n" CA SERVER, NULL,
          IN "clusters: expected one entry, found several" },
        { "a cluster that is a string", HEAD "clusters: [a]\n", NULL,
          IN "clusters[0].cluster: expected a mapping, found nothing" },
        { "a cluster of nothing", HEAD "clusters:\n- cluster:\n", NULL,
          IN "clusters[0].cluster: expected a mapping, found nothing" },
        { "a user", HEAD CLUSTERS(CA SERVER) "users:\n- name: a\n  user: {token: secret}\n", NULL,
          IN "users: expected none, found a list" },
        { "a user of nothing", HEAD CLUSTERS(CA SERVER) "users: [{name: a}]\n", NULL,
          IN "users: expected none, found a list" },
        { "users as text", HEAD CLUSTERS(CA SERVER) "users: secret\n", NULL,
          IN "users: expected none, found a string" },
        { "no CA", HEAD CLUSTERS(SERVER), NULL,
          IN "clusters[0].cluster.certificate-authority-data: expected the CA in base64, found "
             "nothing" },
        { "an empty CA", HEAD CLUSTERS("    certificate-authority-data: ''\n" SERVER), NULL,
          IN "clusters[0].cluster.certificate-authority-data: expected the CA in base64, found "
             "nothing" },
        { "a CA that is not base64",
          HEAD CLUSTERS("    certificate-authority-data: '-----BEGIN'\n" SERVER), NULL,
          IN "clusters[0].cluster.certificate-authority-data: expected PEM in base64, found "
             "something else" },
        { "a CA that is a list", HEAD CLUSTERS("    certificate-authority-data: [a]\n" SERVER),
          NULL,
          IN "clusters[0].cluster.certificate-authority-data: expected PEM in base64, found "
             "something else" },
        { "a CA with a NUL in it", HEAD CLUSTERS("    certificate-authority-data: AAAA\n" SERVER),
          NULL,
          IN "clusters[0].cluster.certificate-authority-data: expected PEM in base64, found "
             "something else" },
        { "the path of a CA", HEAD CLUSTERS(CA SERVER "    certificate-authority: /etc/shadow\n"),
          NULL,
          IN "clusters[0].cluster.certificate-authority: expected data instead of a file, found a "
             "path" },
        { "TLS verification off", HEAD CLUSTERS(CA SERVER "    insecure-skip-tls-verify: true\n"),
          NULL,
          IN "clusters[0].cluster.insecure-skip-tls-verify: expected false or no such key, found "
             "4 characters" INSECURE },
        { "TLS verification off by another word",
          HEAD CLUSTERS(CA SERVER "    insecure-skip-tls-verify: yes\n"), NULL,
          IN "clusters[0].cluster.insecure-skip-tls-verify: expected false or no such key, found "
             "'yes'" INSECURE },
        { "TLS verification off by a misplaced token",
          HEAD CLUSTERS(CA SERVER "    insecure-skip-tls-verify: abcdef.0123456789abcdef\n"), NULL,
          IN "clusters[0].cluster.insecure-skip-tls-verify: expected false or no such key, found "
             "what may be a token" INSECURE },
        { "no server", HEAD CLUSTERS(CA), NULL,
          IN "clusters[0].cluster.server: expected https://HOST[:PORT][/PREFIX], found nothing" },
        { "a server without TLS", HEAD CLUSTERS(CA "    server: http://10.0.0.10\n"), NULL,
          IN "clusters[0].cluster.server: expected https://HOST[:PORT][/PREFIX], found "
             "16 characters" },
        { "a server with a password is not quoted",
          HEAD CLUSTERS(CA "    server: https://user:secret@10.0.0.10\n"), NULL,
          IN "clusters[0].cluster.server: expected https://HOST[:PORT][/PREFIX], found a URL with "
             "a user or a query" },
        { "a server that is a list", HEAD CLUSTERS(CA "    server: [https://a]\n"), NULL,
          IN "clusters[0].cluster.server: expected https://HOST[:PORT][/PREFIX], found a list" },
        { "a TLS server name with a port", HEAD CLUSTERS(CA SERVER "    tls-server-name: a:443\n"),
          NULL, IN "clusters[0].cluster.tls-server-name: expected a host name, found a string" },
        { "a proxy with a password is not quoted",
          HEAD CLUSTERS(CA SERVER "    proxy-url: http://u:secret@proxy:3128\n"), NULL,
          IN "clusters[0].cluster.proxy-url: expected http, https or socks5 with host and port, "
             "without a user, found a string" },
};

static int parse_cluster(const char *text, struct nb_cluster *ret, struct nb_failure *f) {
        const struct nb_kubeconfig_input input = { .origin = "kubeconfig in cluster-info",
                                                   .text = text,
                                                   .len = strlen(text) };

        return nb_kubeconfig_parse(&nb_kubeconfig_cluster_info, &input, ret, NULL, f);
}

static void parses_cluster(void **state) {
        const struct cluster_case *c = *state;
        _cleanup_(nb_cluster_done) struct nb_cluster cluster = {};
        struct nb_failure f = {};
        char server[NB_URL_MAX], names[2 * NB_URL_MAX];
        int r;

        r = parse_cluster(c->text, &cluster, &f);
        if (!c->server) {
                assert_true(r < 0);
                assert_int_equal(f.code, NB_CLUSTER_INFO_UNACCEPTABLE);
                assert_string_equal(f.detail, c->detail);
                assert_null(strstr(f.detail, "secret"));
                assert_null(cluster.ca);
                return;
        }
        assert_string_equal(f.detail, "");
        assert_int_equal(r, 0);
        nb_url_format(&cluster.server, server);
        assert_string_equal(server, c->server);
        assert_string_equal(cluster.ca, "PEM");
        assert_int_equal(cluster.ca_len, 3);
        (void)snprintf(names, sizeof(names), "%s %s", cluster.tls_server_name, cluster.proxy_url);
        assert_string_equal(names, c->detail);
}

struct name_case {
        const char *name;
        const char *text;
        bool is_accepted;
};

static struct name_case server_names[] = {
        { "name: a name", "kubernetes.default.svc", true },
        { "name: an address", "10.0.0.1", true },
        { "name: upper case", "Kubernetes", true },
        { "name: nothing", "", false },
        { "name: a port", "a:443", false },
        { "name: an IPv6 address", "::1", false },
        { "name: brackets", "[::1]", false },
        { "name: a wildcard", "*.example.com", false },
        { "name: a space", "a b", false },
        { "name: a line end", "a\n", false },
        { "name: a quote", "a\"", false },
};

static void verifies_server_name(void **state) {
        const struct name_case *c = *state;

        assert_int_equal(nb_tls_server_name_verify(c->text), c->is_accepted ? 0 : -EINVAL);
}

static struct name_case proxies[] = {
        { "proxy: http", "http://proxy.example.com:3128", true },
        { "proxy: https", "https://10.0.0.1:443", true },
        { "proxy: socks5", "socks5://[::1]:1080", true },
        { "proxy: no port", "http://proxy", false },
        { "proxy: no port after an IPv6 address", "http://[::1]", false },
        { "proxy: an empty port", "http://proxy:", false },
        { "proxy: IPv6 without brackets", "http://fe80::1", false },
        { "proxy: a user", "http://user@proxy:3128", false },
        { "proxy: a user and a password", "http://user:1@proxy:3128", false },
        { "proxy: a path", "http://proxy:3128/x", false },
        { "proxy: another scheme", "ftp://proxy:21", false },
        { "proxy: socks4", "socks4://proxy:1080", false },
        { "proxy: no scheme", "proxy:3128", false },
        { "proxy: only the scheme", "http://", false },
        { "proxy: nothing", "", false },
        { "proxy: a line end", "http://proxy:3128\n", false },
};

static void verifies_proxy(void **state) {
        const struct name_case *c = *state;

        assert_int_equal(nb_proxy_url_verify(c->text), c->is_accepted ? 0 : -EINVAL);
}

static void formats(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_KUBECONFIG_MAX);
        struct nb_cluster cluster = {
                .server = { .host = "10.0.0.10", .port = 6443, .path = "/p" },
                .tls_server_name = "kubernetes",
                .proxy_url = "http://proxy:3128",
        };

        nb_kubeconfig_format(&cluster, "/etc/a \"b\".crt", "/var/c.pem", &text);
        assert_string_equal(text.data, "apiVersion: v1\n"
                                       "kind: Config\n"
                                       "clusters:\n"
                                       "- name: default-cluster\n"
                                       "  cluster:\n"
                                       "    certificate-authority: \"/etc/a \\\"b\\\".crt\"\n"
                                       "    server: \"https://10.0.0.10:6443/p\"\n"
                                       "    tls-server-name: \"kubernetes\"\n"
                                       "    proxy-url: \"http://proxy:3128\"\n"
                                       "contexts:\n"
                                       "- name: default-context\n"
                                       "  context:\n"
                                       "    cluster: default-cluster\n"
                                       "    namespace: default\n"
                                       "    user: default-auth\n"
                                       "current-context: default-context\n"
                                       "preferences: {}\n"
                                       "users:\n"
                                       "- name: default-auth\n"
                                       "  user:\n"
                                       "    client-certificate: \"/var/c.pem\"\n"
                                       "    client-key: \"/var/c.pem\"\n");
}

static void what_is_written_is_read(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_KUBECONFIG_MAX);
        _cleanup_(nb_kubeconfig_client_done) struct nb_kubeconfig_client client =
                NB_KUBECONFIG_CLIENT_INIT;
        struct nb_cluster cluster = {
                .server = { .host = "2001:db8::1", .is_ipv6 = true, .port = 443 }
        };
        static const char ca_file[] = "/etc/\\n: {}# \xc3\xa9\xc2\x85",
                          certificate[] = "/var/\"'.pem";
        struct nb_failure f = {};

        nb_kubeconfig_format(&cluster, ca_file, certificate, &text);
        assert_non_null(strstr(text.data, "server: \"https://[2001:db8::1]:443\"\n"));
        assert_null(strstr(text.data, "tls-server-name"));
        assert_null(strstr(text.data, "proxy-url"));
        assert_int_equal(nb_kubeconfig_parse_client("k", text.data, text.len, &client, &f), 0);
        assert_string_equal(client.ca_file, ca_file);
        assert_string_equal(client.certificate_file, certificate);
        assert_string_equal(client.key_file, certificate);
        assert_null(client.certificate.data);
        assert_null(client.key.data);
}

static void without_a_ca_the_systems_cas_are_used(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_KUBECONFIG_MAX);
        _cleanup_(nb_kubeconfig_client_done) struct nb_kubeconfig_client client =
                NB_KUBECONFIG_CLIENT_INIT;
        struct nb_cluster cluster = { .server = { .host = "api.example.com", .port = 443 } };
        struct nb_failure f = {};

        nb_kubeconfig_format(&cluster, NULL, "/c.pem", &text);
        assert_null(strstr(text.data, "certificate-authority"));
        assert_int_equal(nb_kubeconfig_parse_client("k", text.data, text.len, &client, &f), 0);
        assert_null(client.ca_file);
        assert_string_equal(client.certificate_file, "/c.pem");
}

struct client_case {
        const char *name;
        const char *text;
        size_t len;
        const char *ca_file, *certificate_file, *key_file, *certificate_data, *key_data;
};

#define TEXT(s) (s), sizeof(s) - 1
#define CONTEXT \
        HEAD "current-context: c\ncontexts:\n- {name: b, context: {cluster: z, user: z}}\n- " \
             "{name: c, context: " \
             "{cluster: k, user: u}}\n"
#define CLUSTER \
        "clusters:\n- {name: k, cluster: {server: \"https://a\", certificate-authority: /ca}}\n"

static struct client_case clients[] = {
        { "client: by the current context",
          TEXT(CONTEXT CLUSTER
               "users:\n- {name: z, user: {token: secret}}\n- {name: u, user: {client-certificate: "
               "/c, client-key: /k}}\n"),
          "/ca", "/c", "/k", NULL, NULL },
        { "client: with data",
          TEXT(CONTEXT CLUSTER "users: [{name: u, user: {client-certificate-data: UEVN, "
                               "client-key-data: S0VZ}}]\n"),
          "/ca", NULL, NULL, "PEM", "KEY" },
        { "client: malformed data is ignored",
          TEXT(CONTEXT CLUSTER
               "users: [{name: u, user: {client-certificate-data: '!', client-key-data: '!'}}]\n"),
          "/ca", NULL, NULL, NULL, NULL },
        { "client: a token", TEXT(CONTEXT CLUSTER "users: [{name: u, user: {token: secret}}]\n"),
          "/ca", NULL, NULL, NULL, NULL },
        { "client: an exec plugin",
          TEXT(CONTEXT CLUSTER "users: [{name: u, user: {exec: {command: aws, args: [a]}}}]\n"),
          "/ca", NULL, NULL, NULL, NULL },
        { "client: empty paths are ignored",
          TEXT(CONTEXT CLUSTER
               "users: [{name: u, user: {client-certificate: '', client-key: ~}}]\n"),
          "/ca", NULL, NULL, NULL, NULL },
        { "client: no such user", TEXT(CONTEXT CLUSTER), "/ca", NULL, NULL, NULL, NULL },
        { "client: no such context", TEXT(HEAD "current-context: x\n" CLUSTER), NULL, NULL, NULL,
          NULL, NULL },
        { "client: no current context", TEXT(HEAD CLUSTER), NULL, NULL, NULL, NULL, NULL },
        { "client: two users of one name",
          TEXT(CONTEXT CLUSTER "users:\n- {name: u, user: {client-certificate: /c}}\n- {name: u, "
                               "user: {client-certificate: /d}}\n"),
          "/ca", NULL, NULL, NULL, NULL },
        { "client: unknown keys are passed over", TEXT(CONTEXT CLUSTER "x: [1]\npreferences: {}\n"),
          "/ca", NULL, NULL, NULL, NULL },
        { "client: everything of a wrong type",
          TEXT(HEAD "current-context: [c]\ncontexts: {}\nclusters: a\nusers: [a, [b]]\n"), NULL,
          NULL, NULL, NULL, NULL },
        { "client: an empty file", TEXT(""), NULL, NULL, NULL, NULL, NULL },
        { "client: a file of NUL bytes, as a power cut leaves it", TEXT("\0\0\0\0\0\0\0"), NULL,
          NULL, NULL, NULL, NULL },
};

static void assert_text(const char *a, const char *b) {
        assert_int_equal(a == NULL, b == NULL);
        if (a)
                assert_string_equal(a, b);
}

static void parses_client(void **state) {
        const struct client_case *c = *state;
        _cleanup_(nb_kubeconfig_client_done) struct nb_kubeconfig_client client =
                NB_KUBECONFIG_CLIENT_INIT;
        struct nb_failure f = {};
        int r;

        r = nb_kubeconfig_parse_client("/etc/k", c->text, c->len, &client, &f);
        assert_string_equal(f.detail, "");
        assert_int_equal(r, 0);
        assert_text(client.ca_file, c->ca_file);
        assert_text(client.certificate_file, c->certificate_file);
        assert_text(client.key_file, c->key_file);
        assert_text(client.certificate.data, c->certificate_data);
        assert_text(client.key.data, c->key_data);
}

struct other_case {
        const char *name;
        const char *text;
        const char *detail;
};

static struct other_case others[] = {
        { "other: kubelet's configuration, as on OpenShift",
          "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n",
          "/etc/k: expected a kubeconfig (kind: Config, apiVersion: v1), found kind "
          "20 characters, apiVersion 29 characters" },
        { "other: no kind", "apiVersion: v1\n",
          "/etc/k: expected a kubeconfig (kind: Config, apiVersion: v1), found kind nothing, "
          "apiVersion "
          "'v1'" },
        { "other: a list", "- a\n",
          "/etc/k: expected a kubeconfig (kind: Config, apiVersion: v1), found kind nothing, "
          "apiVersion "
          "nothing" },
        { "other: only comments", "# hello\n",
          "/etc/k: expected a kubeconfig (kind: Config, apiVersion: v1), found kind nothing, "
          "apiVersion "
          "nothing" },
        { "other: no YAML", "a: {",
          "/etc/k:2:1: expected YAML: did not find expected node content" },
        { "other: a binary file",
          "\x7f"
          "ELF",
          "/etc/k:1: expected UTF-8 text: control characters are not allowed" },
};

static void refuses_client(void **state) {
        const struct other_case *c = *state;
        struct nb_kubeconfig_client client = NB_KUBECONFIG_CLIENT_INIT;
        struct nb_failure f = {};

        assert_true(nb_kubeconfig_parse_client("/etc/k", c->text, strlen(c->text), &client, &f) <
                    0);
        assert_int_equal(f.code, NB_TARGET_NOT_KUBECONFIG);
        assert_string_equal(f.detail, c->detail);
}

/* --- A kubeconfig that this program writes --- */

#define OWN_CA "/etc/kubernetes/pki/ca.crt"
#define OWN_CERTIFICATE "/var/lib/kubelet/pki/kubelet-client-current.pem"

static void make_own(const char *server_name, const char *proxy_url, const char *ca_file,
                     const char *certificate, struct nb_buffer *ret) {
        struct nb_cluster cluster = { .ca = NULL };

        assert_int_equal(nb_url_parse("https://10.0.0.1:6443/p", 23, &cluster.server), 0);
        strcpy(cluster.tls_server_name, server_name);
        strcpy(cluster.proxy_url, proxy_url);
        nb_kubeconfig_format(&cluster, ca_file, certificate, ret);
}

static int parse_own(const struct nb_buffer *text, struct nb_cluster *ret) {
        struct nb_failure f = {};
        int r = nb_kubeconfig_parse_own(&(struct nb_kubeconfig_input){ .origin = "k",
                                                                       .text = text->data,
                                                                       .len = text->len },
                                        OWN_CA, OWN_CERTIFICATE, ret, &f);

        assert_int_equal(f.code, r < 0 ? NB_REFRESH_INAPPLICABLE : NB_NONE);
        return r;
}

static void knows_its_own(void **state) {
        static const struct {
                const char *server_name, *proxy_url, *ca_file, *certificate;
                bool is_own;
        } rows[] = {
                { "", "", OWN_CA, OWN_CERTIFICATE, true },
                { "kubernetes", "http://proxy:3128", OWN_CA, OWN_CERTIFICATE, true },
                { "", "", "/etc/kubernetes/other.crt", OWN_CERTIFICATE, false },
                { "", "", NULL, OWN_CERTIFICATE, false },
                { "", "", OWN_CA, "/tmp/other.pem", false },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(8192);
                struct nb_cluster cluster = {};

                make_own(rows[i].server_name, rows[i].proxy_url, rows[i].ca_file,
                         rows[i].certificate, &text);
                assert_int_equal(parse_own(&text, &cluster) >= 0, rows[i].is_own);
                assert_string_equal(cluster.server.host, rows[i].is_own ? "10.0.0.1" : "");
                assert_string_equal(cluster.tls_server_name,
                                    rows[i].is_own ? rows[i].server_name : "");
                assert_string_equal(cluster.proxy_url, rows[i].is_own ? rows[i].proxy_url : "");
                assert_null(cluster.ca);
        }
}

static void an_edited_kubeconfig_is_not_its_own(void **state) {
        static const char *const endings[] = { "# mine\n", "\n", "extensions: []\n",
                                               "users: []\n" };

        for (size_t i = 0; i < N_ELEMENTS(endings); i++) {
                _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(8192);
                struct nb_cluster cluster = {};

                make_own("", "", OWN_CA, OWN_CERTIFICATE, &text);
                text.len--;
                assert_true(parse_own(&text, &cluster) < 0);
                text.len++;
                nb_buffer_append_string(&text, endings[i]);
                assert_true(parse_own(&text, &cluster) < 0);
        }
}

static int run_cluster(const void *input) {
        _cleanup_(nb_cluster_done) struct nb_cluster cluster = {};
        struct nb_failure f = {};

        return parse_cluster(input, &cluster, &f);
}

static int run_client(const void *input) {
        _cleanup_(nb_kubeconfig_client_done) struct nb_kubeconfig_client client =
                NB_KUBECONFIG_CLIENT_INIT;
        struct nb_failure f = {};

        return nb_kubeconfig_parse_client("k", input, strlen(input), &client, &f);
}

static int run_own(const void *input) {
        _cleanup_(nb_cluster_done) struct nb_cluster cluster = {};
        struct nb_failure f = {};

        return nb_kubeconfig_parse_own(
                &(struct nb_kubeconfig_input){ .origin = "k", .text = input, .len = strlen(input) },
                OWN_CA, OWN_CERTIFICATE, &cluster, &f);
}

static void memory_runs_out(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer own = NB_BUFFER_INIT(8192);

        make_own("", "", OWN_CA, OWN_CERTIFICATE, &own);
        allocation_try_all(run_own, own.data);
        allocation_try_all(run_cluster, clusters[0].text);
        allocation_try_all(run_client, clients[0].text);
        allocation_try_all(run_client, clients[1].text);
}

struct transport_case {
        const char *name, *server, *tls_server_name, *proxy_url;
        bool is_same;
};

static struct transport_case transports[] = {
        { "transport: the same", "https://10.0.0.1:6443", "a", "http://p:1", true },
        { "transport: another server", "https://10.0.0.2:6443", "a", "http://p:1", false },
        { "transport: another path", "https://10.0.0.1:6443/k", "a", "http://p:1", false },
        { "transport: another name", "https://10.0.0.1:6443", "b", "http://p:1", false },
        { "transport: no name", "https://10.0.0.1:6443", "", "http://p:1", false },
        { "transport: another proxy", "https://10.0.0.1:6443", "a", "http://p:2", false },
};

static void compares_transport(void **state) {
        const struct transport_case *c = *state;
        struct nb_cluster a = { .tls_server_name = "a", .proxy_url = "http://p:1" }, b = { 0 };
        static const char server[] = "https://10.0.0.1:6443";

        assert_int_equal(nb_url_parse(server, strlen(server), &a.server), 0);
        assert_int_equal(nb_url_parse(c->server, strlen(c->server), &b.server), 0);
        (void)strcpy(b.tls_server_name, c->tls_server_name);
        (void)strcpy(b.proxy_url, c->proxy_url);
        assert_int_equal(nb_cluster_has_same_transport(&a, &b), c->is_same);
}

static void takes_cas(void **state) {
        _cleanup_(nb_cluster_done) struct nb_cluster cluster = { .ca = strdup("old"), .ca_len = 3 };
        struct nb_buffer ca = NB_BUFFER_INIT(16);

        nb_buffer_append_string(&ca, "newer");
        nb_cluster_take_ca(&cluster, &ca);
        assert_string_equal(cluster.ca, "newer");
        assert_int_equal(cluster.ca_len, 5);
        assert_null(ca.data);
}

int main(void) {
        CASES(transports, compares_transport);
        CASE(takes_cas);
        CASES(clusters, parses_cluster);
        CASES(server_names, verifies_server_name);
        CASES(proxies, verifies_proxy);
        CASE(formats);
        CASE(what_is_written_is_read);
        CASE(without_a_ca_the_systems_cas_are_used);
        CASES(clients, parses_client);
        CASES(others, refuses_client);
        CASE(knows_its_own);
        CASE(an_edited_kubeconfig_is_not_its_own);
        CASE(memory_runs_out);
        return case_run("kubeconfig");
}
