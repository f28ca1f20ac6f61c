/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "settings/node_ips.h"
#include "settings/settings.h"

#include "case.h"

#define HEAD "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n"
#define TEN "aaaaaaaaaa"
#define SIXTY TEN TEN TEN TEN TEN TEN

/* A value of a key, in YAML. */
struct value_case {
        const char *name;
        const char *section;
        const char *key;
        const char *text;
        const char *detail; /* of the failure, after the key; NULL: accepted */
};

#define BOOLEAN "expected true or false, found "
#define FILE_ \
        "expected an absolute path without //, . and .. in it, or https://HOST[:PORT]/PATH, " \
        "found "
#define PATH "expected an absolute path without //, . and .. in it, found "
#define ID "expected an ID such as NAME://ID, without blanks, quotes, '\\' and '$' in it, found "
#define PROOF \
        "expected credential, tpm, tpm:0x81 and 6 hex digits, or tpm:nv:0x01 and 6 hex digits, " \
        "found "
#define PROVIDER "expected none, auto, or a provider that node-bootstrap.yaml(5) names, found "
#define TYPE "expected auto, kubernetes or k3s, found "
#define FROM "expected none or cluster, found "
#define SOCKET "expected unix:// and an absolute path, or the path alone, found "
#define TAINT \
        "expected KEY[=VALUE]:EFFECT with the effect NoSchedule, PreferNoSchedule or NoExecute, " \
        "found "
#define ARGUMENT \
        "expected NAME=VALUE without leading dashes, and without blanks, quotes, '\\' and '$' " \
        "in it, found "
#define OWNED "node-bootstrap sets this option; "
#define TOKEN_ "what may be a token; a token belongs in the credential node-bootstrap.token"

#define NAME "expected a DNS-1123 subdomain (letters, digits, '-' and '.', at most 253), found "
#define ENDPOINT "expected HOST:PORT without https://, an IPv6 address in brackets, found "

static struct value_case values[] = {
        /* Everybody can read these values, so none is a token, whole or cut. */
        { "name: a worker", "node", "name", "worker-1", NULL },
        { "name: of an instance", "node", "name", "ip-10-0-0-1", NULL },
        { "name: of Cluster API", "node", "name", "md-0-5d8f9c7b6d-x7k2m", NULL },
        { "name: letters and digits", "node", "name", "lon3k8sworker001", NULL },
        { "name: in a cluster", "node", "name", "node01.k8s01", NULL },
        { "name: a token", "node", "name", "g1h2i3.4k5l6m7n8o9p0q1r", NAME TOKEN_ },
        { "name: a token that is cut", "node", "name", "g1h2i3.4k5l6m7n", NAME TOKEN_ },
        { "name: a token without its first characters", "node", "name", "2i3.4k5l6m7n8o9p0q1r",
          NAME TOKEN_ },
        { "name: more than a token", "node", "name", "g1h2i3.4k5l6m7n8o9p0q1r.example.com", NULL },
        { "endpoint: a long name", "discovery", "endpoints",
          "['api.cluster1.mycompanyinternal.com:6443']", NULL },
        { "endpoint: a token that is cut", "discovery", "endpoints", "['g1h2i3.4k5l6m7n8:6443']",
          "[0]: " ENDPOINT TOKEN_ },
        { "endpoint: a token without a port", "discovery", "endpoints",
          "['a:1', g1h2i3.4k5l6m7n8o]", "[1]: " ENDPOINT TOKEN_ },
        { "taint: a token that is cut, as the key", "node", "taints",
          "['g1h2i3.4k5l6m7n:NoExecute']", "[0]: " TAINT TOKEN_ },
        { "taint: as the value", "node", "taints", "['a=g1h2i3.4k5l6m7n8:NoExecute']",
          "[0]: " TAINT TOKEN_ },
        { "criSocket: a token that is cut", "kubelet", "criSocket", "/run/g1h2i3.4k5l6m7n8o9",
          SOCKET TOKEN_ },
        { "file: a path", "discovery", "file", "/etc/cluster-info.yaml", NULL },
        { "file: none", "discovery", "file", "''", NULL },
        { "file: a URL", "discovery", "file", "https://info.example.com/a/cluster-info.yaml",
          NULL },
        { "file: a URL with a port", "discovery", "file", "https://[2001:db8::1]:8443/x", NULL },
        { "file: standard input", "discovery", "file", "'-'",
          FILE_ "'-'; only `node-bootstrap setup --discovery-file=-` reads standard input" },
        { "file: a URL without TLS", "discovery", "file", "http://a/x",
          FILE_ "10 characters; without TLS, anyone on the network could have written it" },
        { "file: a URL of another scheme", "discovery", "file", "ftp://a/x", FILE_ "'ftp://a/x'" },
        { "file: a relative path", "discovery", "file", "cluster-info.yaml",
          FILE_ "17 characters" },
        { "file: a path upwards", "discovery", "file", "/etc/../x", FILE_ "'/etc/../x'" },
        { "file: a URL with a password is not quoted", "discovery", "file", "https://u:secret@a/x",
          FILE_ "a URL with a user or a query" },
        { "file: a URL with a signature is not quoted", "discovery", "file", "https://a/x?secret=1",
          FILE_ "a URL with a user or a query" },
        { "file: a URL with a fragment", "discovery", "file", "'https://a/x#y'",
          FILE_ "13 characters" },
        { "file: nothing", "discovery", "file", "", FILE_ "nothing" },
        { "file: a list", "discovery", "file", "[/a]", FILE_ "a list" },
        { "urlCAFile: a path", "discovery", "urlCAFile", "/etc/ca.crt", NULL },
        { "urlCAFile: none", "discovery", "urlCAFile", "''", NULL },
        { "urlCAFile: a relative path", "discovery", "urlCAFile", "ca.crt", PATH "'ca.crt'" },
        { "urlCAFile: a URL", "discovery", "urlCAFile", "https://a/x", PATH "11 characters" },
        { "kubeconfig: a path", "bootstrap", "kubeconfig", "/etc/kubernetes/kubeconfig", NULL },
        { "kubeconfig: none", "bootstrap", "kubeconfig", "''", NULL },
        { "kubeconfig: a relative path", "bootstrap", "kubeconfig", "./kubeconfig",
          PATH "12 characters" },
        { "providerID: AWS's", "kubelet", "providerID", "aws:///eu-west-1a/i-0123456789abcdef0",
          NULL },
        { "providerID: OpenStack's", "kubelet", "providerID",
          "openstack:///8f1c3a52-0d1f-4a4d-9a55-3d7c0f3c5b11", NULL },
        { "providerID: Azure's", "kubelet", "providerID",
          "azure:///subscriptions/a/resourceGroups/b_c/providers/Microsoft.Compute/virtualMachines/"
          "d",
          NULL },
        { "providerID: none", "kubelet", "providerID", "''", NULL },
        { "providerID: no name", "kubelet", "providerID", "'://a'", ID "'://a'" },
        { "providerID: no ID", "kubelet", "providerID", "'aws://'", ID "'aws://'" },
        { "providerID: Oracle's", "kubelet", "providerID",
          "ocid1.instance.oc1.eu-frankfurt-1.antheljt", NULL },
        { "providerID: Alibaba's", "kubelet", "providerID", "cn-hangzhou.i-bp1a2b3c4d5e6f7g8h9i",
          NULL },
        { "providerID: followed by another option", "kubelet", "providerID", "'aws:///a --v=9'",
          ID "'aws:///a --v=9'" },
        { "providerID: a variable", "kubelet", "providerID", "'aws:///$X'", ID "'aws:///$X'" },
        { "providerID: a list", "kubelet", "providerID", "['aws:///a']", ID "a list" },
        { "proof: a credential", "proof", "key", "credential", NULL },
        { "proof: none", "proof", "key", "''", NULL },
        { "proof: a TPM", "proof", "key", "tpm", NULL },
        { "proof: a persistent key", "proof", "key", "'tpm:0x81000003'", NULL },
        { "proof: a template in NV", "proof", "key", "'tpm:nv:0x01C10001'", NULL },
        { "proof: a transient key", "proof", "key", "'tpm:0x80000000'", PROOF "14 characters" },
        { "proof: an NV index as a key", "proof", "key", "'tpm:0x01c10001'",
          PROOF "14 characters" },
        { "proof: too few digits", "proof", "key", "'tpm:0x8100003'", PROOF "13 characters" },
        { "proof: too many digits", "proof", "key", "'tpm:0x810000030'", PROOF "15 characters" },
        { "proof: another digit", "proof", "key", "'tpm:0x8100000g'", PROOF "14 characters" },
        { "proof: another word", "proof", "key", "credentials", PROOF "11 characters" },
        { "provider: none", "metadata", "provider", "none", NULL },
        { "provider: auto", "metadata", "provider", "auto", NULL },
        { "provider: a name", "metadata", "provider", "openstack", NULL },
        { "provider: a name in capitals", "metadata", "provider", "AWS", PROVIDER "'AWS'" },
        { "provider: an unknown one", "metadata", "provider", "ec2", PROVIDER "'ec2'" },
        { "provider: nothing", "metadata", "provider", "''", PROVIDER "''" },
        { "nodeName: true", "metadata", "nodeName", "true", NULL },
        { "nodeName: a name", "metadata", "nodeName", "node-1", BOOLEAN "6 characters (a string)" },
        { "metadata.providerID: true", "metadata", "providerID", "true", NULL },
        { "metadata.providerID: an ID", "metadata", "providerID", "aws:///a",
          BOOLEAN "'aws:///a' (a string)" },
        { "discard: true", "token", "discard", "true", NULL },
        { "discard: never", "token", "discard", "never", BOOLEAN "5 characters (a string)" },
        { "type: auto", "cluster", "type", "auto", NULL },
        { "type: kubernetes", "cluster", "type", "kubernetes", NULL },
        { "type: k3s", "cluster", "type", "k3s", NULL },
        { "type: another", "cluster", "type", "rke2", TYPE "4 characters" },
        { "type: upper case", "cluster", "type", "K3S", TYPE "'K3S'" },
        { "type: empty", "cluster", "type", "''", TYPE "''" },
        { "type: a k3s token is not quoted", "cluster", "type", "K10abc::server:secret",
          TYPE TOKEN_ },
        { "allowExisting: true", "node", "allowExisting", "true", NULL },
        { "allowExisting: yes", "node", "allowExisting", "yes", BOOLEAN "'yes' (a string)" },
        { "allowExisting: 1", "node", "allowExisting", "1", BOOLEAN "'1' (a number)" },
        { "restartKubelet: true", "refresh", "restartKubelet", "true", NULL },
        { "restartKubelet: on", "refresh", "restartKubelet", "on", BOOLEAN "'on' (a string)" },
        { "configFrom: none", "kubelet", "configFrom", "none", NULL },
        { "configFrom: cluster", "kubelet", "configFrom", "cluster", NULL },
        { "configFrom: a path", "kubelet", "configFrom", "/etc/x", FROM "'/etc/x'" },
        { "criSocket: a path", "kubelet", "criSocket", "/run/crio/crio.sock", NULL },
        { "criSocket: a URL", "kubelet", "criSocket", "unix:///run/crio/crio.sock", NULL },
        { "criSocket: none", "kubelet", "criSocket", "''", NULL },
        { "criSocket: only the scheme", "kubelet", "criSocket", "unix://", SOCKET "7 characters" },
        { "criSocket: a relative path", "kubelet", "criSocket", "crio.sock",
          SOCKET "9 characters" },
        { "criSocket: two slashes", "kubelet", "criSocket", "unix://run/crio.sock",
          SOCKET "20 characters" },
        { "criSocket: TCP", "kubelet", "criSocket", "tcp://10.0.0.1:1",
          SOCKET "'tcp://10.0.0.1:1'" },
        { "criSocket: a blank", "kubelet", "criSocket", "/run/a b", SOCKET "'/run/a b'" },
        { "criSocket: a quote", "kubelet", "criSocket", "/run/a\"b", SOCKET "'/run/a\"b'" },
        { "criSocket: a variable", "kubelet", "criSocket", "/run/$X", SOCKET "'/run/$X'" },

        { "taints: none", "node", "taints", "[]", NULL },
        { "taints: with a value", "node", "taints", "['a=b:NoSchedule']", NULL },
        { "taints: without a value", "node", "taints", "['a:NoExecute']", NULL },
        { "taints: with an empty value", "node", "taints", "['a=:PreferNoSchedule']", NULL },
        { "taints: kubeadm's", "node", "taints",
          "['node-role.kubernetes.io/control-plane:NoSchedule']", NULL },
        { "taints: every character", "node", "taints", "['example.com/A-b_c.d=A-b_c.d:NoSchedule']",
          NULL },
        { "taints: the longest names", "node", "taints", "['" SIXTY "aaa=" SIXTY "aaa:NoSchedule']",
          NULL },
        { "taints: one key, two effects", "node", "taints", "['a=b:NoSchedule', 'a=b:NoExecute']",
          NULL },
        { "taints: one key and effect twice", "node", "taints",
          "['a=b:NoSchedule', 'a=c:NoSchedule']",
          "[1]: expected each one once, found 14 characters" },
        { "taints: text", "node", "taints", "'a:NoSchedule'",
          "expected a list of strings, found 12 characters (a string)" },
        { "taints: a mapping, as kubeadm has it", "node", "taints", "[{key: a}]",
          "[0]: " TAINT "a mapping" },
        { "taints: no effect", "node", "taints", "['a=b']", "[0]: " TAINT "'a=b'" },
        { "taints: an empty effect", "node", "taints", "['a=b:']", "[0]: " TAINT "'a=b:'" },
        { "taints: an unknown effect", "node", "taints", "['a=b:NoScheduling']",
          "[0]: " TAINT "16 characters" },
        { "taints: two effects", "node", "taints", "['a=b:NoSchedule:NoExecute']",
          "[0]: " TAINT "24 characters" },
        { "taints: no key", "node", "taints", "[':NoSchedule']", "[0]: " TAINT "11 characters" },
        { "taints: no name", "node", "taints", "['example.com/:NoSchedule']",
          "[0]: " TAINT "23 characters" },
        { "taints: no prefix", "node", "taints", "['/a:NoSchedule']",
          "[0]: " TAINT "13 characters" },
        { "taints: two slashes", "node", "taints", "['a/b/c:NoSchedule']",
          "[0]: " TAINT "16 characters" },
        { "taints: a prefix in upper case", "node", "taints", "['Example/a:NoSchedule']",
          "[0]: " TAINT "20 characters" },
        { "taints: a name that ends with a dash", "node", "taints", "['a-:NoSchedule']",
          "[0]: " TAINT "13 characters" },
        { "taints: a name that is too long", "node", "taints", "['" SIXTY "aaaa:NoSchedule']",
          "[0]: " TAINT "75 characters" },
        { "taints: a value with a comma, which would begin another taint", "node", "taints",
          "['a=b,c:NoSchedule']", "[0]: " TAINT "16 characters" },
        { "taints: a value with a blank", "node", "taints", "['a=b c:NoSchedule']",
          "[0]: " TAINT "16 characters" },
        { "taints: a second value", "node", "taints", "['a=b=c:NoSchedule']",
          "[0]: " TAINT "16 characters" },

        { "arguments: none", "kubelet", "extraArgs", "[]", NULL },
        { "arguments: some", "kubelet", "extraArgs",
          "['node-ip=10.0.0.5', 'eviction-hard=memory.available<5%,nodefs.available<10%', 'v=4', "
          "'node-labels=a.b/c=d,e=f']",
          NULL },
        { "arguments: an empty value", "kubelet", "extraArgs", "['cloud-provider=']", NULL },
        { "arguments: an option that begins like one of ours", "kubelet", "extraArgs",
          "['cert-dir-x=1']", NULL },
        { "arguments: a name twice", "kubelet", "extraArgs", "['v=1', 'v=2', 'v=1']", NULL },
        { "arguments: no value", "kubelet", "extraArgs", "[rotate-certificates]",
          "[0]: " ARGUMENT "19 characters" },
        { "arguments: no name", "kubelet", "extraArgs", "['=a']", "[0]: " ARGUMENT "'=a'" },
        { "arguments: dashes", "kubelet", "extraArgs", "['--v=1']", "[0]: " ARGUMENT "'--v=1'" },
        { "arguments: an underscore", "kubelet", "extraArgs", "['hostname_override=a']",
          "[0]: " ARGUMENT "19 characters" },
        { "arguments: a digit at the beginning", "kubelet", "extraArgs", "['1a=b']",
          "[0]: " ARGUMENT "'1a=b'" },
        { "arguments: a capital letter", "kubelet", "extraArgs", "['nodeIP=b']",
          "[0]: " ARGUMENT "8 characters" },
        { "arguments: a blank", "kubelet", "extraArgs", "['a=b --c=d']",
          "[0]: " ARGUMENT "'a=b --c=d'" },
        { "arguments: a quote", "kubelet", "extraArgs", "[\"a=b'c\"]", "[0]: " ARGUMENT "'a=b'c'" },
        { "arguments: a double quote", "kubelet", "extraArgs", "['a=b\"c']",
          "[0]: " ARGUMENT "'a=b\"c'" },
        { "arguments: a backslash", "kubelet", "extraArgs", "['a=b\\c']",
          "[0]: " ARGUMENT "'a=b\\c'" },
        { "arguments: a variable", "kubelet", "extraArgs", "['a=$X']", "[0]: " ARGUMENT "'a=$X'" },
        { "arguments: a line end", "kubelet", "extraArgs", "[\"a=b\\nX=1\"]",
          "[0]: " ARGUMENT "'a=b?X=1'" },
        { "arguments: kubeconfig", "kubelet", "extraArgs", "['kubeconfig=/x']",
          "[0]: " OWNED "see kubelet.kubeconfig" },
        { "arguments: bootstrap-kubeconfig", "kubelet", "extraArgs", "['bootstrap-kubeconfig=/x']",
          "[0]: " OWNED "kubelet would join on its own, see bootstrap.kubeconfig" },
        { "arguments: cert-dir", "kubelet", "extraArgs", "['cert-dir=/x']",
          "[0]: " OWNED "see kubelet.certificateDirectory" },
        { "arguments: hostname-override", "kubelet", "extraArgs", "['hostname-override=x']",
          "[0]: " OWNED "see node.name (nodeRegistration.name of a JoinConfiguration)" },
        { "arguments: register-with-taints", "kubelet", "extraArgs",
          "['register-with-taints=a:NoSchedule']",
          "[0]: " OWNED "see node.taints "
          "(nodeRegistration.taints of a JoinConfiguration)" },
        { "arguments: container-runtime-endpoint", "kubelet", "extraArgs",
          "['container-runtime-endpoint=/x']",
          "[0]: " OWNED "see kubelet.criSocket (nodeRegistration.criSocket of a "
          "JoinConfiguration)" },
        { "arguments: a token is not quoted", "kubelet", "extraArgs",
          "['a= abcdef.0123456789abcdef']", "[0]: " ARGUMENT TOKEN_ },
};

static int merge(struct nb_settings *settings, const char *origin, const char *text, size_t len,
                 struct nb_failure *f) {
        const struct nb_settings_source source = { .origin = origin };

        return nb_settings_merge(settings, &source, text, len, f);
}

static void takes_value(void **state) {
        const struct value_case *c = *state;
        struct nb_settings settings;
        struct nb_failure f = {};
        char text[1024], detail[NB_FAILURE_DETAIL_MAX];
        int r;

        nb_settings_init(&settings);
        (void)snprintf(text, sizeof(text), HEAD "%s:\n  %s: %s\n", c->section, c->key, c->text);
        r = merge(&settings, "x.yaml", text, strlen(text), &f);
        if (!c->detail) {
                assert_string_equal(f.detail, "");
                assert_int_equal(r, 0);
                return;
        }
        assert_true(r < 0);
        assert_int_equal(f.code, NB_SETTINGS_INVALID);
        (void)snprintf(detail, sizeof(detail), "x.yaml:4: %s.%s%s%s", c->section, c->key,
                       c->detail[0] == '[' ? "" : ": ", c->detail);
        assert_string_equal(f.detail, detail);
        assert_null(strstr(f.detail, "secret"));
}

static void empty_values_remove_those_of_weaker_documents(void **state) {
        static const char first[] = HEAD
                "discovery: {file: /a, urlCAFile: /b}\nbootstrap: {kubeconfig: /c}\n"
                "node: {taints: ['a:NoExecute']}\nkubelet: {criSocket: /d, extraArgs: ['v=1']}\n";
        static const char second[] = HEAD
                "discovery: {file: '', urlCAFile: ''}\nbootstrap: {kubeconfig: ''}\n"
                "node: {taints: []}\nkubelet: {criSocket: '', extraArgs: []}\n";
        struct nb_settings settings;
        struct nb_failure f = {};

        nb_settings_init(&settings);
        assert_int_equal(merge(&settings, "a.yaml", first, strlen(first), &f), 0);
        assert_string_equal(settings.discovery_file, "/a");
        assert_int_equal(settings.n_taints + settings.n_extra_args, 2);
        assert_int_equal(merge(&settings, "b.yaml", second, strlen(second), &f), 0);
        assert_string_equal(settings.discovery_file, "");
        assert_string_equal(settings.url_ca_file, "");
        assert_string_equal(settings.bootstrap_kubeconfig, "");
        assert_string_equal(settings.cri_socket, "");
        assert_int_equal(settings.n_taints + settings.n_extra_args, 0);
        assert_string_equal(settings.origin[NB_SETTING_TAINTS], "b.yaml");
}

static void merge_numbered(const char *section, const char *key, const char *format_before,
                           const char *after, unsigned n, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(16384);
        struct nb_settings settings;

        nb_settings_init(&settings);
        nb_buffer_printf(&text, HEAD "%s:\n  %s:\n", section, key);
        for (unsigned i = 0; i < n; i++)
                nb_buffer_printf(&text, "  - %s%u%s\n", format_before, i, after);
        (void)merge(&settings, "x.yaml", text.data, text.len, f);
}

static void limits_lists(void **state) {
        struct nb_failure f = {};

        merge_numbered("node", "taints", "k", ":NoExecute", NB_SETTINGS_TAINTS_MAX, &f);
        assert_string_equal(f.detail, "");
        merge_numbered("node", "taints", "k", ":NoExecute", NB_SETTINGS_TAINTS_MAX + 1, &f);
        assert_string_equal(
                f.detail,
                "x.yaml:21: node.taints[16]: expected at most 16 entries, found 13 characters");
        nb_failure_clear(&f);
        merge_numbered("kubelet", "extraArgs", "a", "=b", NB_SETTINGS_EXTRA_ARGS_MAX, &f);
        assert_string_equal(f.detail, "");
        merge_numbered("kubelet", "extraArgs", "a", "=b", NB_SETTINGS_EXTRA_ARGS_MAX + 1, &f);
        assert_string_equal(
                f.detail,
                "x.yaml:37: kubelet.extraArgs[32]: expected at most 32 entries, found 'a32=b'");
}

static void limits_texts(void **state) {
        static const struct {
                const char *before;
                size_t max; /* bytes that may follow */
        } texts[] = {
                { HEAD "kubelet:\n  extraArgs:\n  - a=", NB_SETTINGS_EXTRA_ARG_SIZE - 3 },
                { HEAD "kubelet:\n  criSocket: /", NB_SETTINGS_PATH_MAX - 9 },
                { HEAD "discovery:\n  file: /", NB_SETTINGS_PATH_MAX - 2 },
        };
        char value[NB_SETTINGS_PATH_MAX + 1], text[1024];

        for (size_t i = 0; i < N_ELEMENTS(texts); i++)
                for (size_t more = 0; more < 2; more++) {
                        struct nb_settings settings;
                        struct nb_failure f = {};

                        nb_settings_init(&settings);
                        memset(value, 'a', texts[i].max + more);
                        value[texts[i].max + more] = '\0';
                        (void)snprintf(text, sizeof(text), "%s%s\n", texts[i].before, value);
                        assert_int_equal(merge(&settings, "x.yaml", text, strlen(text), &f) < 0,
                                         more);
                }
}

static void finds_node_ips(void **state) {
        static const struct {
                const char *value, *expected;
        } rows[] = {
                { "10.0.0.5", "10.0.0.5" },
                { "10.0.0.5,FD00:0::5", "10.0.0.5,fd00::5" },
                { "fd00::5,", "fd00::5" },
                { "0.0.0.0", "" },
                { "::", "" },
                { "node-1,010.0.0.5", "" },
                { "::ffff:10.0.0.5", "::ffff:10.0.0.5" },
                { "10.0.0.5,10.0.0.5,fd00::5,fd00:0::5", "10.0.0.5,fd00::5" },
                { "1111:1111:1111:1111:1111:1111:1111:1111,2222:2222:2222:2222:2222:2222:2222:2222,"
                  "3333:3333:3333:3333:3333:3333:3333:3333,4444:4444:4444:4444:4444:4444:4444:4444,"
                  "5555:5555:5555:5555:5555:5555:5555:5555,6666::",
                  "1111:1111:1111:1111:1111:1111:1111:1111,2222:2222:2222:2222:2222:2222:2222:2222,"
                  "3333:3333:3333:3333:3333:3333:3333:3333,4444:4444:4444:4444:4444:4444:4444:4444,"
                  "6666::" },
        };
        char ips[NB_NODE_IPS_SIZE];

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct nb_settings settings = { .n_extra_args = 3,
                                                .extra_args = { "v=2", "node-ip=192.0.2.9" } };

                (void)snprintf(settings.extra_args[2], sizeof(settings.extra_args[2]), "node-ip=%s",
                               rows[i].value);
                nb_settings_node_ips(&settings, ips);
                assert_string_equal(ips, rows[i].expected);
        }
}

static void lists_node_ips(void **state) {
        char list[NB_NODE_IPS_SIZE] = "", next[INET6_ADDRSTRLEN];
        const char *rest = list;

        assert_false(nb_node_ips_next(&rest, next));
        nb_node_ips_add("10.0.0.5", list);
        nb_node_ips_add("10.0.0.55", list);
        nb_node_ips_add("10.0.0.5", list);
        assert_string_equal(list, "10.0.0.5,10.0.0.55");
        assert_true(nb_node_ips_contain(list, "10.0.0.55"));
        assert_false(nb_node_ips_contain(list, "10.0.0"));
        assert_true(nb_node_ips_next(&rest, next));
        assert_string_equal(next, "10.0.0.5");
        assert_true(nb_node_ips_next(&rest, next));
        assert_string_equal(next, "10.0.0.55");
        assert_false(nb_node_ips_next(&rest, next));
}

static void client_ca_is_beside_the_ca(void **state) {
        struct nb_settings settings = { .ca_file = "/etc/kubernetes/pki/ca.crt" };
        char path[NB_CLIENT_CA_PATH_MAX];

        nb_settings_client_ca(&settings, path);
        assert_string_equal(path, "/etc/kubernetes/pki/client-ca.crt");
        memset(settings.ca_file, 'a', sizeof(settings.ca_file) - 1);
        settings.ca_file[0] = '/';
        nb_settings_client_ca(&settings, path);
        assert_int_equal(strlen(path), strlen(settings.ca_file) + strlen("client-"));
}

/* kubelet puts the name into a label, unless an argument sets that label. */
static void a_long_name_needs_a_label_of_its_own(void **state) {
        static const struct {
                size_t len;
                const char *argument;
                bool is_accepted;
        } cases[] = {
                { 63, "v=1", true },
                { 64, "v=1", false },
                { 64, "node-labels=kubernetes.io/hostname=a", true },
                { 64, "node-labels=b=c,kubernetes.io/hostname=a", true },
                { 64, "node-labels=x.kubernetes.io/hostname=a", false },
                { 64, "other=kubernetes.io/hostname=a", false },
        };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                struct nb_settings settings;
                struct nb_failure f = { 0 };
                char name[65] = "";

                nb_settings_init(&settings);
                assert_int_equal(nb_setting_parse(&settings, NB_SETTING_EXTRA_ARGS,
                                                  cases[i].argument, strlen(cases[i].argument)),
                                 0);
                memset(name, 'n', cases[i].len);
                assert_int_equal(nb_settings_verify_name(&settings, name, "the host name", &f) < 0,
                                 !cases[i].is_accepted);
                assert_int_equal(f.code, cases[i].is_accepted ? NB_NONE : NB_NODE_NAME_INVALID);
        }
}

static void no_machine_has_the_name_localhost(void **state) {
        static struct nb_settings settings;
        struct nb_failure f = { 0 };

        nb_settings_init(&settings);
        assert_true(nb_settings_verify_name(&settings, "localhost.a", "x.yaml", &f) < 0);
        assert_int_equal(f.code, NB_NODE_NAME_LOCALHOST);
}

int main(void) {
        CASES(values, takes_value);
        CASE(empty_values_remove_those_of_weaker_documents);
        CASE(limits_lists);
        CASE(limits_texts);
        CASE(finds_node_ips);
        CASE(lists_node_ips);
        CASE(client_ca_is_beside_the_ca);
        CASE(a_long_name_needs_a_label_of_its_own);
        CASE(no_machine_has_the_name_localhost);
        return case_run("settings_values");
}
