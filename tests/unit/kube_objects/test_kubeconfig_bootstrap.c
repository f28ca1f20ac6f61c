/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kube_objects/kubeconfig.h"

#include "allocation.h"
#include "case.h"

#define HEAD "apiVersion: v1\nkind: Config\n"
#define CA "    certificate-authority-data: UEVN\n"
#define SERVER "    server: https://10.0.0.10:6443\n"
#define CLUSTER "clusters:\n- name: k\n  cluster:\n" CA SERVER
#define CONTEXT \
        "contexts:\n- {name: z, context: {cluster: z, user: z}}\n- {name: c, context: {cluster: " \
        "k, user: u}}\ncurrent-context: c\n"
#define USER(members) \
        "users:\n- name: z\n  user: {exec: {command: x}}\n- name: u\n  user: " members "\n"
#define TOKEN "abcdef.0123456789abcdef"

/* The files beside it. */
static const struct {
        const char *path;
        const char *text;
        size_t len;
} files[] = {
        { "/etc/x/ca.crt", "PEM", 3 },
        { "/abs/ca.crt", "PEM", 3 },
        { "/etc/x/leaf.crt", "LEAF", 4 },
        { "/etc/x/leaf.key", "KEY", 3 },
        { "/etc/x/token", TOKEN "\n", 24 },
        { "/etc/x/padded", " \t\r\n\v\fjwt.a-b_c~+/= \n\n", 22 },
        { "/etc/x/blank", " \n", 2 },
        { "/etc/x/two", "a\nb", 3 },
        { "/etc/x/empty", "", 0 },
        { "/etc/x/nul", "a\0b", 3 },
};

/* The context of the reader. */
static int marker;

static int read_here(void *userdata, const char *path, struct nb_secret *ret) {
        int r;

        assert_ptr_equal(userdata, &marker);
        if (strcmp(path, "/etc/x/folder") == 0)
                return -EBADF;
        if (strcmp(path, "/etc/x/big") == 0)
                return -EFBIG;
        for (size_t i = 0; i < N_ELEMENTS(files); i++) {
                if (strcmp(path, files[i].path) != 0)
                        continue;
                r = nb_secret_init(ret, files[i].len);
                return r < 0 ? r : nb_secret_append(ret, files[i].text, files[i].len);
        }
        return -ENOENT;
}

static struct nb_kubeconfig_input input_of(const char *origin, const char *text) {
        return (struct nb_kubeconfig_input){
                .origin = origin,
                .text = text,
                .len = strlen(text),
                .read = read_here,
                .userdata = &marker,
                .folder = "/etc/x",
        };
}

struct document_case {
        const char *name;
        const char *text;
        const char *summary; /* "server ca tls-server-name proxy-url"; NULL: refused */
        const char *detail;  /* of the refusal */
};

static struct document_case documents[] = {
        { "kubeadm's cluster-info",
          HEAD CLUSTER "contexts: null\ncurrent-context: \"\"\npreferences: {}\nusers: null\n",
          "https://10.0.0.10:6443 PEM  ", NULL },
        { "no kind and no version, as Go's types are marshalled", CLUSTER,
          "https://10.0.0.10:6443 PEM  ", NULL },
        { "no CA: the system's CAs are used", HEAD "clusters:\n- cluster:\n" SERVER,
          "https://10.0.0.10:6443   ", NULL },
        { "an empty CA is ignored",
          HEAD "clusters:\n- cluster:\n" SERVER
               "    certificate-authority-data: ''\n    certificate-authority: ''\n",
          "https://10.0.0.10:6443   ", NULL },
        { "a CA in a file beside it",
          HEAD "clusters:\n- cluster:\n" SERVER "    certificate-authority: ca.crt\n",
          "https://10.0.0.10:6443 PEM  ", NULL },
        { "a CA in a file elsewhere",
          HEAD "clusters:\n- cluster:\n" SERVER "    certificate-authority: /abs/ca.crt\n",
          "https://10.0.0.10:6443 PEM  ", NULL },
        { "data wins over a missing file", HEAD CLUSTER "    certificate-authority: none.crt\n",
          "https://10.0.0.10:6443 PEM  ", NULL },
        { "a path in the server, a TLS server name and a proxy",
          HEAD "clusters:\n- cluster:\n" CA
               "    server: https://rancher.example.com/k8s/clusters/c-1\n"
               "    tls-server-name: kubernetes\n    proxy-url: http://proxy:3128\n",
          "https://rancher.example.com:443/k8s/clusters/c-1 PEM kubernetes http://proxy:3128",
          NULL },
        { "users without anything in them",
          HEAD CLUSTER "users:\n- name: a\n- {name: b, user: {}}\n- {name: c, user: {token: ''}}\n",
          "https://10.0.0.10:6443 PEM  ", NULL },
        { "unknown keys in a cluster are passed over",
          HEAD CLUSTER "    disable-compression: true\n    extensions: [{name: a}]\n",
          "https://10.0.0.10:6443 PEM  ", NULL },
        { "the current context does not matter", HEAD CLUSTER "current-context: nowhere\n",
          "https://10.0.0.10:6443 PEM  ", NULL },
        { "nothing", "", NULL,
          "F: expected a kubeconfig (kind: Config, apiVersion: v1), found kind nothing, apiVersion "
          "nothing" },
        { "text", "hello\n", NULL,
          "F: expected a kubeconfig (kind: Config, apiVersion: v1), found kind nothing, apiVersion "
          "nothing" },
        { "a ConfigMap", "apiVersion: v1\nkind: ConfigMap\n", NULL,
          "F: expected a kubeconfig (kind: Config, apiVersion: v1), found kind 9 characters, "
          "apiVersion 'v1'" },
        { "another version", "apiVersion: v2\nkind: Config\n", NULL,
          "F: expected a kubeconfig (kind: Config, apiVersion: v1), found kind 6 characters, "
          "apiVersion 'v2'" },
        { "no YAML", "a: [\n", NULL, "F:2:1: expected YAML: did not find expected node content" },
        { "two documents", HEAD "---\n" HEAD, NULL,
          "F:3: expected one document, found a second one" },
        { "no clusters", HEAD, NULL, "F: clusters: expected one entry, found none" },
        { "clusters that are a mapping", HEAD "clusters: {a: b}\n", NULL,
          "F: clusters: expected a list, found a mapping" },
        { "two clusters", HEAD CLUSTER "- name: l\n  cluster:\n" CA SERVER, NULL,
          "F: clusters: expected one entry, found several" },
        { "a cluster of nothing", HEAD "clusters: [{name: k}]\n", NULL,
          "F: clusters[0].cluster: expected a mapping, found nothing" },
        { "no server", HEAD "clusters:\n- cluster:\n" CA, NULL,
          "F: clusters[0].cluster.server: expected https://HOST[:PORT][/PREFIX], found nothing" },
        { "a server without TLS", HEAD "clusters:\n- cluster:\n    server: http://a\n", NULL,
          "F: clusters[0].cluster.server: expected https://HOST[:PORT][/PREFIX], found "
          "8 characters" },
        { "a server with a password is not quoted",
          HEAD "clusters:\n- cluster:\n    server: https://a:secret@b\n", NULL,
          "F: clusters[0].cluster.server: expected https://HOST[:PORT][/PREFIX], found a URL with "
          "a user or a query" },
        { "TLS verification off", HEAD CLUSTER "    insecure-skip-tls-verify: true\n", NULL,
          "F: clusters[0].cluster.insecure-skip-tls-verify: expected false or no such key, found "
          "4 characters; remove the key, and set certificate-authority-data to the cluster's CA" },
        { "a TLS server name with a port", HEAD CLUSTER "    tls-server-name: a:1\n", NULL,
          "F: clusters[0].cluster.tls-server-name: expected a host name, found a string" },
        { "a proxy with a password is not quoted",
          HEAD CLUSTER "    proxy-url: http://a:secret@b:1\n", NULL,
          "F: clusters[0].cluster.proxy-url: expected http, https or socks5 with host and port, "
          "without a user, found a string" },
        { "a CA that is not base64",
          HEAD "clusters:\n- name: k\n  cluster:\n    certificate-authority-data: '!'\n" SERVER,
          NULL,
          "F: clusters[0].cluster.certificate-authority-data: expected PEM in base64, found "
          "something else" },
        { "a CA in a missing file",
          HEAD "clusters:\n- name: k\n  cluster:\n    certificate-authority: none.crt\n" SERVER,
          NULL,
          "U: clusters[0].cluster.certificate-authority: cannot read '/etc/x/none.crt': No such "
          "file or directory" },
        { "a CA in a folder",
          HEAD "clusters:\n- name: k\n  cluster:\n    certificate-authority: folder\n" SERVER, NULL,
          "U: clusters[0].cluster.certificate-authority: '/etc/x/folder' is not a regular file" },
        { "a CA in a file that is too large",
          HEAD "clusters:\n- name: k\n  cluster:\n    certificate-authority: big\n" SERVER, NULL,
          "U: clusters[0].cluster.certificate-authority: cannot read '/etc/x/big': File too "
          "large" },
        { "a CA in an empty file",
          HEAD "clusters:\n- name: k\n  cluster:\n    certificate-authority: empty\n" SERVER, NULL,
          "F: clusters[0].cluster.certificate-authority: expected a text file, found an empty or "
          "binary one" },
        { "a CA in a file with a NUL",
          HEAD "clusters:\n- name: k\n  cluster:\n    certificate-authority: nul\n" SERVER, NULL,
          "F: clusters[0].cluster.certificate-authority: expected a text file, found an empty or "
          "binary one" },
        { "a path that is a list",
          HEAD "clusters:\n- name: k\n  cluster:\n    certificate-authority: [a]\n" SERVER, NULL,
          "F: clusters[0].cluster.certificate-authority: expected a path, found a list" },
        { "credentials: a token",
          HEAD CLUSTER "users:\n- name: a\n- name: admin\n  user: {token: secret}\n", NULL,
          "F: users[1]: expected no credentials, found token" },
        { "credentials: a key",
          HEAD CLUSTER
          "users: [{name: admin, user: {client-certificate-data: '', client-key-data: secret}}]\n",
          NULL, "F: users[0]: expected no credentials, found client-key-data" },
        { "credentials: an exec plugin",
          HEAD CLUSTER "users: [{name: admin, user: {exec: {command: secret}}}]\n", NULL,
          "F: users[0]: expected no credentials, found exec" },
        { "credentials: a password", HEAD CLUSTER "users: [{user: {password: secret}}]\n", NULL,
          "F: users[0]: expected no credentials, found password" },
        { "credentials: something unknown",
          HEAD CLUSTER "users: [{name: a, user: {magic: secret}}]\n", NULL,
          "F: users[0]: expected no credentials, found an unknown key" },
        { "credentials: beside the user", HEAD CLUSTER "users: [{name: a, token: secret}]\n", NULL,
          "F: users[0]: expected no credentials, found token" },
        { "credentials: text for a user", HEAD CLUSTER "users: [secret]\n", NULL,
          "F: users[0]: expected no credentials, found a string" },
        { "credentials: text in a user", HEAD CLUSTER "users: [{name: a, user: secret}]\n", NULL,
          "F: users[0]: expected no credentials, found a string" },
        { "credentials: users that are a mapping", HEAD CLUSTER "users: {a: secret}\n", NULL,
          "F: users: expected none, found a mapping" },
        { "credentials: a token for a name is not quoted",
          HEAD CLUSTER "users: [{name: " TOKEN ", user: {token: secret}}]\n", NULL,
          "F: users[0]: expected no credentials, found token" },
        { "credentials: found before anything else is wrong",
          HEAD "users: [{name: a, user: {token: secret}}]\n", NULL,
          "F: users[0]: expected no credentials, found token" },
};

static void parses_document(void **state) {
        const struct document_case *c = *state;
        _cleanup_(nb_cluster_done) struct nb_cluster cluster = {};
        struct nb_kubeconfig_input input;
        struct nb_failure f = {};
        char server[NB_URL_MAX], summary[2 * NB_URL_MAX];
        int r;

        input = input_of(c->summary || c->detail[0] == 'F' ? "F" : "U", c->text);
        r = nb_kubeconfig_parse(&nb_kubeconfig_discovery_file, &input, &cluster, NULL, &f);
        assert_string_equal(f.detail, c->summary ? "" : c->detail);
        assert_int_equal(r < 0, !c->summary);
        assert_null(strstr(f.detail, "secret"));
        if (r < 0) {
                assert_int_equal(f.code, c->detail[0] == 'F' ? NB_DISCOVERY_FILE_UNACCEPTABLE
                                                             : NB_DISCOVERY_FILE_UNREADABLE);
                assert_null(cluster.ca);
                return;
        }
        nb_url_format(&cluster.server, server);
        (void)snprintf(summary, sizeof(summary), "%s %s %s %s", server,
                       cluster.ca ? cluster.ca : "", cluster.tls_server_name, cluster.proxy_url);
        assert_string_equal(summary, c->summary);
        assert_int_equal(cluster.ca_len, cluster.ca ? 3 : 0);
}

struct user_case {
        const char *name;
        const char *text;
        enum nb_identity_kind kind; /* NB_IDENTITY_NONE: refused */
        const char *secret;         /* or the detail of the refusal */
};

#define ENTRY "F: users[1] 'u': "
#define ALONE "expected a token, or a client certificate and key, alone; found "
#define EITHER "F: users[1] 'u': expected a token, or a client certificate and key, found "
#define IS_TOKEN "expected a token: printable characters without blanks, found something else"

static struct user_case users[] = {
        { "user: a bootstrap token", HEAD CLUSTER CONTEXT USER("{token: " TOKEN "}"),
          NB_IDENTITY_TOKEN, TOKEN },
        { "user: a service account's token, as OpenShift's server writes it",
          CLUSTER CONTEXT USER("{token: eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlIn0.c2ln}"),
          NB_IDENTITY_TOKEN, "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlIn0.c2ln" },
        { "user: a token in a file", HEAD CLUSTER CONTEXT USER("{tokenFile: token}"),
          NB_IDENTITY_TOKEN, TOKEN },
        { "user: a token in a file elsewhere",
          HEAD CLUSTER CONTEXT USER("{tokenFile: /etc/x/token}"), NB_IDENTITY_TOKEN, TOKEN },
        { "user: white space around a token in a file",
          HEAD CLUSTER CONTEXT USER("{tokenFile: padded}"), NB_IDENTITY_TOKEN, "jwt.a-b_c~+/=" },
        { "user: the file wins over the token",
          HEAD CLUSTER CONTEXT USER("{token: other, tokenFile: token}"), NB_IDENTITY_TOKEN, TOKEN },
        { "user: certificate and key as data",
          HEAD CLUSTER CONTEXT USER("{client-certificate-data: TEVBRg==, client-key-data: S0VZ}"),
          NB_IDENTITY_CERTIFICATE, "KEY" },
        { "user: certificate and key in files",
          HEAD CLUSTER CONTEXT USER("{client-certificate: leaf.crt, client-key: leaf.key}"),
          NB_IDENTITY_CERTIFICATE, "KEY" },
        { "user: one as data, one in a file",
          HEAD CLUSTER CONTEXT USER("{client-certificate-data: TEVBRg==, client-key: leaf.key}"),
          NB_IDENTITY_CERTIFICATE, "KEY" },
        { "user: data wins over missing files",
          HEAD CLUSTER CONTEXT USER("{client-certificate-data: TEVBRg==, client-certificate: a, "
                                    "client-key-data: S0VZ, client-key: b}"),
          NB_IDENTITY_CERTIFICATE, "KEY" },
        { "user: empty fields are ignored",
          HEAD CLUSTER CONTEXT USER(
                  "{token: " TOKEN
                  ", exec: null, auth-provider: {}, username: '', client-key: ''}"),
          NB_IDENTITY_TOKEN, TOKEN },
        { "user: extensions are passed over",
          HEAD CLUSTER CONTEXT USER("{token: " TOKEN ", extensions: [{name: a}]}"),
          NB_IDENTITY_TOKEN, TOKEN },
        { "user: the only one, where no context is named",
          HEAD CLUSTER "users: [{name: u, user: {token: " TOKEN "}}]\n", NB_IDENTITY_TOKEN, TOKEN },
        { "user: several, and no context is named", HEAD CLUSTER USER("{token: secret}"),
          NB_IDENTITY_NONE, "F: users: expected one entry, found several" },
        { "user: missing", HEAD CLUSTER, NB_IDENTITY_NONE,
          "F: users: expected one entry, found none" },
        { "user: the context does not exist",
          HEAD CLUSTER
          "contexts: [{name: d, context: {cluster: k, user: u}}]\ncurrent-context: c\n" USER(
                  "{token: secret}"),
          NB_IDENTITY_NONE,
          "F: contexts: expected one entry that the current context names, found none" },
        { "user: two contexts of this name",
          HEAD CLUSTER
          "contexts:\n- {name: c, context: {cluster: k, user: u}}\n- {name: c, context: {cluster: "
          "k, user: z}}\ncurrent-context: c\n" USER("{token: secret}"),
          NB_IDENTITY_NONE,
          "F: contexts: expected one entry that the current context names, found several" },
        { "user: no contexts", HEAD CLUSTER "current-context: c\n" USER("{token: secret}"),
          NB_IDENTITY_NONE,
          "F: contexts: expected one entry that the current context names, found none" },
        { "user: the context names no user",
          HEAD CLUSTER "contexts: [{name: c, context: {cluster: k}}]\ncurrent-context: c\n" USER(
                  "{token: secret}"),
          NB_IDENTITY_NONE, "F: contexts[0].context: expected a cluster and a user, found less" },
        { "user: the context names a missing cluster",
          HEAD CLUSTER
          "contexts: [{name: c, context: {cluster: l, user: u}}]\ncurrent-context: c\n" USER(
                  "{token: secret}"),
          NB_IDENTITY_NONE,
          "F: clusters: expected one entry that the current context names, found none" },
        { "user: the context names a missing user",
          HEAD CLUSTER
          "contexts: [{name: c, context: {cluster: k, user: v}}]\ncurrent-context: c\n" USER(
                  "{token: secret}"),
          NB_IDENTITY_NONE,
          "F: users: expected one entry that the current context names, found none" },
        { "user: text", HEAD CLUSTER CONTEXT USER("secret"), NB_IDENTITY_NONE,
          "F: users[1].user: expected a mapping, found a string" },
        { "user: nothing in it", HEAD CLUSTER CONTEXT USER("{}"), NB_IDENTITY_NONE,
          "F: users[1].user: expected either a token, or a client certificate and key, found "
          "neither" },
        { "user: a token and a certificate",
          HEAD CLUSTER CONTEXT USER("{token: secret, client-certificate: leaf.crt}"),
          NB_IDENTITY_NONE,
          "F: users[1].user: expected either a token, or a client certificate and key, found "
          "both" },
        { "user: an exec plugin", HEAD CLUSTER CONTEXT USER("{exec: {command: secret}}"),
          NB_IDENTITY_NONE,
          "F: users[1].user: expected either a token, or a client certificate and key, found "
          "exec" },
        { "user: an auth provider", HEAD CLUSTER CONTEXT USER("{auth-provider: {name: secret}}"),
          NB_IDENTITY_NONE,
          "F: users[1].user: expected either a token, or a client certificate and key, found "
          "auth-provider" },
        { "user: a user name", HEAD CLUSTER CONTEXT USER("{username: secret}"), NB_IDENTITY_NONE,
          "F: users[1].user: expected either a token, or a client certificate and key, found "
          "username" },
        { "user: a password", HEAD CLUSTER CONTEXT USER("{password: secret}"), NB_IDENTITY_NONE,
          "F: users[1].user: expected either a token, or a client certificate and key, found "
          "password" },
        { "user: a token and an exec plugin",
          HEAD CLUSTER CONTEXT USER("{token: secret, exec: {command: a}}"), NB_IDENTITY_NONE,
          "F: users[1].user: expected either a token, or a client certificate and key, found "
          "exec" },
        { "user: impersonation", HEAD CLUSTER CONTEXT USER("{token: secret, as: admin}"),
          NB_IDENTITY_NONE,
          "F: users[1].user: expected either a token, or a client certificate and key, found "
          "as" },
        { "user: impersonated groups", HEAD CLUSTER CONTEXT USER("{token: secret, as-groups: [a]}"),
          NB_IDENTITY_NONE,
          "F: users[1].user: expected either a token, or a client certificate and key, found "
          "as-groups" },
        { "user: something unknown", HEAD CLUSTER CONTEXT USER("{token: secret, magic: a}"),
          NB_IDENTITY_NONE,
          "F: users[1].user: expected either a token, or a client certificate and key, found "
          "an unknown key" },
        { "user: a certificate without its key",
          HEAD CLUSTER CONTEXT USER("{client-certificate: leaf.crt}"), NB_IDENTITY_NONE,
          "F: users[1].user.client-key: expected certificate and key together, found nothing" },
        { "user: a key without its certificate",
          HEAD CLUSTER CONTEXT USER("{client-key-data: S0VZ}"), NB_IDENTITY_NONE,
          "F: users[1].user.client-certificate: expected certificate and key together, found "
          "nothing" },
        { "user: a certificate that is no base64",
          HEAD CLUSTER CONTEXT USER("{client-certificate-data: '!', client-key-data: S0VZ}"),
          NB_IDENTITY_NONE,
          "F: users[1].user.client-certificate-data: expected PEM in base64, found something "
          "else" },
        { "user: a key that is no base64",
          HEAD CLUSTER CONTEXT USER(
                  "{client-certificate-data: TEVBRg==, client-key-data: 'secret!'}"),
          NB_IDENTITY_NONE,
          "F: users[1].user.client-key-data: expected PEM in base64, found something else" },
        { "user: a key that is a list",
          HEAD CLUSTER CONTEXT USER(
                  "{client-certificate-data: TEVBRg==, client-key-data: [secret]}"),
          NB_IDENTITY_NONE,
          "F: users[1].user.client-key-data: expected PEM in base64, found something else" },
        { "user: a certificate in a missing file",
          HEAD CLUSTER CONTEXT USER("{client-certificate: none, client-key: leaf.key}"),
          NB_IDENTITY_NONE,
          "U: users[1].user.client-certificate: cannot read '/etc/x/none': No such file or "
          "directory" },
        { "user: a missing token file",
          HEAD CLUSTER CONTEXT USER("{token: secret, tokenFile: none}"), NB_IDENTITY_NONE,
          "U: users[1].user.tokenFile: cannot read '/etc/x/none': No such file or directory" },
        { "user: a token file that is a list", HEAD CLUSTER CONTEXT USER("{tokenFile: [token]}"),
          NB_IDENTITY_NONE, "F: users[1].user.tokenFile: expected a path, found a list" },
        { "user: an empty token file", HEAD CLUSTER CONTEXT USER("{tokenFile: empty}"),
          NB_IDENTITY_NONE,
          "F: users[1].user.tokenFile: expected a token: printable characters without blanks, "
          "found something else" },
        { "user: a token file of white space", HEAD CLUSTER CONTEXT USER("{tokenFile: blank}"),
          NB_IDENTITY_NONE,
          "F: users[1].user.tokenFile: expected a token: printable characters without blanks, "
          "found something else" },
        { "user: a token file of two lines", HEAD CLUSTER CONTEXT USER("{tokenFile: two}"),
          NB_IDENTITY_NONE,
          "F: users[1].user.tokenFile: expected a token: printable characters without blanks, "
          "found something else" },
        { "user: a token with a line end",
          HEAD CLUSTER CONTEXT USER("{token: \"secret\\r\\nX-Header: 1\"}"), NB_IDENTITY_NONE,
          "F: users[1].user.token: expected a token: printable characters without blanks, found "
          "something else" },
        { "user: a token with a trailing blank", HEAD CLUSTER CONTEXT USER("{token: 'secret '}"),
          NB_IDENTITY_NONE,
          "F: users[1].user.token: expected a token: printable characters without blanks, found "
          "something else" },
        { "user: a token that is not ASCII", HEAD CLUSTER CONTEXT USER("{token: secr\xc3\xa9t}"),
          NB_IDENTITY_NONE,
          "F: users[1].user.token: expected a token: printable characters without blanks, found "
          "something else" },
        { "user: a token that is a list", HEAD CLUSTER CONTEXT USER("{token: [secret]}"),
          NB_IDENTITY_NONE,
          "F: users[1].user.token: expected a token: printable characters without blanks, found "
          "something else" },
};

static void parses_user(void **state) {
        const struct user_case *c = *state;
        _cleanup_(nb_cluster_done) struct nb_cluster cluster = {};
        _cleanup_(nb_identity_done) struct nb_identity identity = NB_IDENTITY_INIT;
        const bool is_unreadable = c->kind == NB_IDENTITY_NONE && c->secret[0] == 'U';
        const struct nb_kubeconfig_input input = input_of(is_unreadable ? "U" : "F", c->text);
        struct nb_failure f = {};
        int r;

        r = nb_kubeconfig_parse(&nb_kubeconfig_bootstrap, &input, &cluster, &identity, &f);
        assert_null(strstr(f.detail, "secret"));
        if (c->kind == NB_IDENTITY_NONE) {
                assert_string_equal(f.detail, c->secret);
                assert_true(r < 0);
                assert_int_equal(f.code, is_unreadable ? NB_BOOTSTRAP_KUBECONFIG_UNREADABLE
                                                       : NB_BOOTSTRAP_KUBECONFIG_UNACCEPTABLE);
                assert_null(identity.secret.data);
                return;
        }
        assert_string_equal(f.detail, "");
        assert_int_equal(r, 0);
        assert_string_equal(cluster.ca, "PEM");
        assert_int_equal(identity.kind, c->kind);
        assert_string_equal(identity.secret.data, c->secret);
        assert_string_equal(identity.source, "F");
        assert_string_equal(identity.token_id, strcmp(c->secret, TOKEN) == 0 ? "abcdef" : "");
        assert_int_equal(identity.certificate.len, c->kind == NB_IDENTITY_CERTIFICATE ? 4 : 0);
        if (identity.certificate.data)
                assert_string_equal(identity.certificate.data, "LEAF");
}

static int parse(const char *folder, bool can_read, const char *text, struct nb_failure *f) {
        _cleanup_(nb_cluster_done) struct nb_cluster cluster = {};
        struct nb_kubeconfig_input input = input_of("k", text);

        input.folder = folder;
        if (!can_read)
                input.read = NULL;
        return nb_kubeconfig_parse(&nb_kubeconfig_discovery_file, &input, &cluster, NULL, f);
}

/* A document from a credential has no folder; one from elsewhere may not name files here. */
static void paths_need_a_folder(void **state) {
        static const char relative[] = HEAD "clusters:\n- name: k\n  cluster:\n" SERVER
                                            "    certificate-authority: ca.crt\n";
        static const char absolute[] = HEAD "clusters:\n- name: k\n  cluster:\n" SERVER
                                            "    certificate-authority: /abs/ca.crt\n";
        struct nb_failure f = {};

        assert_int_equal(parse(NULL, true, absolute, &f), 0);
        assert_true(parse(NULL, true, relative, &f) < 0);
        assert_string_equal(f.detail, "k: clusters[0].cluster.certificate-authority: expected an "
                                      "absolute path, found a relative one");
        nb_failure_clear(&f);
        assert_true(parse("/etc/x", false, absolute, &f) < 0);
        assert_string_equal(f.detail, "k: clusters[0].cluster.certificate-authority: expected data "
                                      "instead of a file, found a path");
        nb_failure_clear(&f);
        assert_int_equal(parse(NULL, false, HEAD CLUSTER, &f), 0);
}

static void size_has_a_limit(void **state) {
        struct nb_kubeconfig_input input = input_of("k", "");
        struct nb_cluster cluster = {};
        struct nb_failure f = {};

        input.len = NB_KUBECONFIG_MAX + 1;
        assert_true(nb_kubeconfig_parse(&nb_kubeconfig_discovery_file, &input, &cluster, NULL, &f) <
                    0);
        assert_string_equal(f.detail, "k: expected at most 1048576 bytes, found 1048577");
}

static int run(const void *text) {
        const struct nb_kubeconfig_input input = input_of("k", text);
        _cleanup_(nb_cluster_done) struct nb_cluster cluster = {};
        _cleanup_(nb_identity_done) struct nb_identity identity = NB_IDENTITY_INIT;
        struct nb_failure f = {};

        return nb_kubeconfig_parse(&nb_kubeconfig_bootstrap, &input, &cluster, &identity, &f);
}

static void memory_runs_out(void **state) {
        allocation_try_all(run, HEAD CLUSTER CONTEXT USER("{tokenFile: token}"));
        allocation_try_all(run,
                           HEAD CLUSTER CONTEXT USER(
                                   "{client-certificate-data: TEVBRg==, client-key-data: S0VZ}"));
        allocation_try_all(run, HEAD CLUSTER CONTEXT USER(
                                        "{client-certificate: leaf.crt, client-key: leaf.key}"));
}

int main(void) {
        CASES(documents, parses_document);
        CASES(users, parses_user);
        CASE(paths_need_a_folder);
        CASE(size_has_a_limit);
        CASE(memory_runs_out);
        return case_run("kubeconfig_bootstrap");
}
