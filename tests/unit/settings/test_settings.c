/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "settings/settings.h"

#include "allocation.h"
#include "case.h"

#define HEAD "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n"
#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define PIN "sha256:" HASH

static int merge(struct nb_settings *settings, const char *origin, const char *text,
                 struct nb_failure *f) {
        const struct nb_settings_source source = { .origin = origin };

        return nb_settings_merge(settings, &source, text, strlen(text), f);
}

static void merge_good(struct nb_settings *settings, const char *origin, const char *text) {
        struct nb_failure f = {};
        int r;

        r = merge(settings, origin, text, &f);
        assert_string_equal(f.detail, "");
        assert_int_equal(r, 0);
}

static void defaults(void **state) {
        struct nb_settings settings;

        nb_settings_init(&settings);
        assert_int_equal(settings.n_endpoints, 0);
        assert_int_equal(settings.n_pins, 0);
        assert_false(settings.unsafe_skip_ca_verification);
        assert_false(settings.trust_whole_bundle);
        assert_string_equal(settings.discovery_file, "");
        assert_string_equal(settings.url_ca_file, "");
        assert_string_equal(settings.bootstrap_kubeconfig, "");
        assert_int_equal(settings.cluster_type, NB_CLUSTER_TYPE_AUTO);
        assert_string_equal(settings.node_name, "");
        assert_false(settings.allow_existing);
        assert_int_equal(settings.n_taints, 0);
        assert_string_equal(settings.cri_socket, "");
        assert_int_equal(settings.n_extra_args, 0);
        assert_false(settings.is_config_from_cluster);
        assert_false(settings.refresh_automatic || settings.restart_kubelet);
        assert_string_equal(settings.kubeconfig, "/etc/kubernetes/kubelet.conf");
        assert_string_equal(settings.certificate_directory, "/var/lib/kubelet/pki");
        assert_string_equal(settings.ca_file, "/etc/kubernetes/pki/ca.crt");
        assert_string_equal(settings.provider_id, "");
        assert_int_equal(settings.csr_expiration_seconds, 0);
        assert_int_equal(settings.metadata_provider, NB_PROVIDER_AUTO);
        assert_false(settings.metadata_node_name || settings.metadata_provider_id);
        assert_false(settings.token_discard);
        assert_false(settings.has_discovery_token);
        assert_true(settings.timeout_ms == UINT64_MAX);
        for (size_t i = 0; i < _NB_SETTING_N; i++)
                assert_string_equal(settings.origin[i], "default");
}

static const char everything[] = HEAD
        "discovery:\n"
        "  endpoints: [10.0.0.10:6443, api.example.com, \"[2001:db8::1]:443\"]\n"
        "  caCertHashes:\n"
        "  - " PIN "\n"
        "  - SHA256:FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF\n"
        "  unsafeSkipCAVerification: true\n"
        "  trustWholeBundle: true\n"
        "  file: https://info.example.com/cluster-info.yaml\n"
        "  urlCAFile: /etc/url-ca.crt\n"
        "bootstrap:\n"
        "  kubeconfig: /etc/kubernetes/bootstrap.conf\n"
        "  token: abcdef.0123456789abcdef\n"
        "cluster:\n"
        "  type: k3s\n"
        "node:\n"
        "  name: Worker-1.example.com\n"
        "  allowExisting: true\n"
        "  taints: [dedicated=gpu:NoSchedule, example.com/slow:PreferNoSchedule]\n"
        "kubelet:\n"
        "  criSocket: /run/containerd/containerd.sock\n"
        "  extraArgs: [node-ip=10.0.0.5, 'node-labels=a=b,c=d']\n"
        "  configFrom: cluster\n"
        "  kubeconfig: /var/lib/kubelet/kubeconfig\n"
        "  certificateDirectory: /srv/pki\n"
        "  caFile: \"/etc/ca file.crt\"\n"
        "  providerID: openstack:///8f1c3a52\n"
        "csr:\n"
        "  expirationSeconds: 3600\n"
        "proof:\n"
        "  key: tpm:nv:0x01c10001\n"
        "metadata:\n"
        "  provider: gce\n"
        "  nodeName: true\n"
        "  providerID: true\n"
        "token:\n"
        "  discard: true\n"
        "refresh:\n"
        "  automatic: true\n"
        "  restartKubelet: true\n"
        "timeout: 1h30m\n";

static void formatted_settings_parse_as_the_same(void **state) {
        struct nb_buffer text = NB_BUFFER_INIT(NB_SETTINGS_TEXT_MAX);
        struct nb_settings settings, again;

        nb_settings_init(&settings);
        merge_good(&settings, "a.yaml", everything);
        nb_settings_format(&settings, &text);
        assert_null(strstr(text.data, "abcdef."));
        assert_null(strstr(text.data, "  token:"));
        nb_settings_init(&again);
        merge_good(&again, "a.yaml", text.data);
        nb_settings_forget_tokens(&settings);
        /* The formatted name is in lower case. */
        assert_true(settings.is_node_name_lowered && !again.is_node_name_lowered);
        again.is_node_name_lowered = true;
        assert_memory_equal(&again, &settings, sizeof(settings));
        nb_buffer_clear(&text);
        nb_settings_init(&settings);
        nb_settings_format(&settings, &text);
        assert_string_equal(text.data, HEAD);
        nb_buffer_done(&text);
}

static void reads_every_key(void **state) {
        struct nb_settings settings;
        struct nb_failure f = {};
        char text[NB_URL_MAX], pin[NB_PIN_TEXT_SIZE];

        nb_settings_init(&settings);
        merge_good(&settings, "a.yaml", everything);
        assert_int_equal(settings.n_endpoints, 3);
        nb_endpoint_format(&settings.endpoints[1], text);
        assert_string_equal(text, "api.example.com:6443");
        nb_endpoint_format(&settings.endpoints[2], text);
        assert_string_equal(text, "[2001:db8::1]:443");
        assert_int_equal(settings.n_pins, 2);
        nb_pin_format(settings.pins[0], pin);
        assert_string_equal(pin, PIN);
        assert_int_equal(settings.pins[1][31], 0xff);
        assert_true(settings.unsafe_skip_ca_verification);
        assert_true(settings.trust_whole_bundle);
        assert_string_equal(settings.discovery_file, "https://info.example.com/cluster-info.yaml");
        assert_string_equal(settings.url_ca_file, "/etc/url-ca.crt");
        assert_string_equal(settings.bootstrap_kubeconfig, "/etc/kubernetes/bootstrap.conf");
        assert_int_equal(settings.cluster_type, NB_CLUSTER_TYPE_K3S);
        assert_true(settings.allow_existing);
        assert_int_equal(settings.n_taints, 2);
        assert_string_equal(settings.taints[0], "dedicated=gpu:NoSchedule");
        assert_string_equal(settings.taints[1], "example.com/slow:PreferNoSchedule");
        assert_string_equal(settings.cri_socket, "unix:///run/containerd/containerd.sock");
        assert_int_equal(settings.n_extra_args, 2);
        assert_string_equal(settings.extra_args[0], "node-ip=10.0.0.5");
        assert_string_equal(settings.extra_args[1], "node-labels=a=b,c=d");
        assert_true(settings.is_config_from_cluster);
        assert_string_equal(settings.provider_id, "openstack:///8f1c3a52");
        assert_string_equal(settings.proof_key, "tpm:nv:0x01c10001");
        assert_int_equal(settings.metadata_provider, NB_PROVIDER_GCE);
        assert_true(settings.metadata_node_name && settings.metadata_provider_id);
        assert_true(settings.token_discard);
        assert_true(settings.has_discovery_token);
        assert_true(settings.refresh_automatic && settings.restart_kubelet);
        assert_string_equal(settings.node_name, "worker-1.example.com");
        assert_string_equal(settings.kubeconfig, "/var/lib/kubelet/kubeconfig");
        assert_string_equal(settings.certificate_directory, "/srv/pki");
        assert_string_equal(settings.ca_file, "/etc/ca file.crt");
        assert_int_equal(settings.csr_expiration_seconds, 3600);
        assert_int_equal(settings.timeout_ms, 90 * 60 * 1000);
        for (size_t i = 0; i < _NB_SETTING_N; i++)
                assert_string_equal(settings.origin[i], "a.yaml");
        assert_int_equal(nb_settings_verify(&settings, &f), 0);
}

static void a_later_document_overrides_single_keys(void **state) {
        struct nb_settings settings;

        nb_settings_init(&settings);
        merge_good(&settings, "a.yaml", everything);
        merge_good(&settings, "b.yaml",
                   HEAD "discovery: {endpoints: [b:1], caCertHashes: [], trustWholeBundle: "
                        "false}\nnode: {name: ''}\n");
        merge_good(&settings, "c.yaml", HEAD "timeout: infinity\n");
        assert_int_equal(settings.n_endpoints, 1);
        assert_string_equal(settings.endpoints[0].host, "b");
        assert_int_equal(settings.n_pins, 0);
        assert_false(settings.trust_whole_bundle);
        assert_true(settings.unsafe_skip_ca_verification);
        assert_string_equal(settings.node_name, "");
        assert_true(settings.timeout_ms == UINT64_MAX);
        assert_string_equal(settings.origin[NB_SETTING_ENDPOINTS], "b.yaml");
        assert_string_equal(settings.origin[NB_SETTING_UNSAFE_SKIP_CA_VERIFICATION], "a.yaml");
        assert_string_equal(settings.origin[NB_SETTING_TIMEOUT], "c.yaml");
}

struct text_case {
        const char *name;
        const char *text;
};

static struct text_case empty[] = {
        { "nothing", "" },
        { "only comments", "# settings\n" },
        { "only the header", HEAD },
        { "a section with only comments", HEAD "discovery:\n  # endpoints: []\nnode: {}\n" },
};

static void changes_nothing(void **state) {
        const struct text_case *c = *state;
        struct nb_settings settings, before;

        nb_settings_init(&settings);
        before = settings;
        merge_good(&settings, "x.yaml", c->text);
        assert_memory_equal(&settings, &before, sizeof(settings));
}

struct refused_case {
        const char *name;
        const char *text;
        enum nb_code code;
        const char *detail;
};

#define MALFORMED NB_SETTINGS_MALFORMED
#define INVALID NB_SETTINGS_INVALID
#define ENDPOINT "expected HOST:PORT without https://, an IPv6 address in brackets, found "
#define PATH "expected an absolute path without //, . and .. in it, found "
#define NODE "expected a DNS-1123 subdomain (letters, digits, '-' and '.', at most 253), found "
#define DURATION \
        "expected infinity, or a duration such as 30s, 5m, 1h30m or 2d, up to 3650d, found "
#define SECONDS "expected 0, or a number from 600 to 2147483647, found "
#define UNKNOWN "unknown key"
#define QUOTES "; quote it)"

static struct refused_case refused[] = {
        { "a list", "- a\n", MALFORMED, "x.yaml:1: expected a mapping, found a list" },
        { "text", "hello\n", MALFORMED, "x.yaml:1: expected a mapping, found a string" },
        { "no YAML", HEAD "discovery: [\n", MALFORMED,
          "x.yaml:4:1: expected YAML: did not find expected node content" },
        { "a duplicate key", HEAD "timeout: 5m\ntimeout: 5m\n", MALFORMED,
          "x.yaml:4: expected each key once, found one twice (7 characters)" },
        { "a duplicate section", HEAD "node: {}\nnode: {}\n", MALFORMED,
          "x.yaml:4: expected each key once, found one twice (4 characters)" },
        { "an alias", HEAD "timeout: *a\n", MALFORMED,
          "x.yaml:3: expected plain YAML, found an alias (*)" },
        { "a tag", HEAD "timeout: !!str 5m\n", MALFORMED,
          "x.yaml:3: expected plain YAML, found a tag (!)" },
        { "a second document", HEAD "---\n" HEAD, MALFORMED,
          "x.yaml:4: expected one document, found a second one" },
        { "no apiVersion", "kind: NodeBootstrap\n", INVALID,
          "x.yaml: apiVersion: expected node-bootstrap/v1, found nothing" },
        { "no kind", "apiVersion: node-bootstrap/v1\n", INVALID,
          "x.yaml: kind: expected NodeBootstrap, found nothing" },
        { "another apiVersion", "apiVersion: node-bootstrap/v2\nkind: NodeBootstrap\n", INVALID,
          "x.yaml:1: apiVersion: expected node-bootstrap/v1, found 17 characters" },
        { "another kind", "apiVersion: node-bootstrap/v1\nkind: Config\n", INVALID,
          "x.yaml:2: kind: expected NodeBootstrap, found 6 characters" },
        { "a kind that is a list", "apiVersion: node-bootstrap/v1\nkind: [NodeBootstrap]\n",
          INVALID, "x.yaml:2: kind: expected NodeBootstrap, found a list" },
        { "an unknown key", HEAD "colour: red\n", INVALID, "x.yaml:3: " UNKNOWN " (6 characters)" },
        { "an unknown key in a section", HEAD "node:\n  labels: {}\n", INVALID,
          "x.yaml:4: node: " UNKNOWN " (6 characters)" },
        { "a misspelt key", HEAD "discovery:\n  endpoint: []\n", INVALID,
          "x.yaml:4: discovery: " UNKNOWN " (8 characters); did you mean discovery.endpoints?" },
        { "a misspelt section", HEAD "discvery:\n  endpoints: []\n", INVALID,
          "x.yaml:3: " UNKNOWN " (8 characters); did you mean discovery?" },
        { "a key in the wrong case", HEAD "kubelet:\n  cafile: /a\n", INVALID,
          "x.yaml:4: kubelet: " UNKNOWN " (6 characters); did you mean kubelet.caFile?" },
        { "a key in the wrong section", HEAD "caCertHashes: []\n", INVALID,
          "x.yaml:3: " UNKNOWN " (12 characters); did you mean discovery.caCertHashes?" },
        { "a key with a dot", HEAD "discovery.endpoints: []\n", INVALID,
          "x.yaml:3: a key must not contain a dot; nest the mappings (19 characters)" },
        { "a token in a value is not quoted", HEAD "node:\n  name: token=abcdef.0123456789abcdef\n",
          INVALID,
          "x.yaml:4: node.name: " NODE
          "what may be a token; a token belongs in the credential node-bootstrap.token" },
        { "a token as a key is not quoted", HEAD "abcdef.0123456789abcdef: x\n", INVALID,
          "x.yaml:3: expected a key, found what may be a token; a token belongs in the credential "
          "node-bootstrap.token" },
        { "a token as a key in a section is not quoted",
          HEAD "discovery:\n  abcdef.0123456789abcdef: x\n", INVALID,
          "x.yaml:4: discovery: expected a key, found what may be a token; a token belongs in the "
          "credential node-bootstrap.token" },
        { "a section that is a list", HEAD "node: [a]\n", INVALID,
          "x.yaml:3: node: expected a mapping, found a list" },
        { "a section that is text", HEAD "node: worker\n", INVALID,
          "x.yaml:3: node: expected a mapping, found 6 characters (a string)" },
        { "endpoints as text", HEAD "discovery: {endpoints: 'a:1'}\n", INVALID,
          "x.yaml:3: discovery.endpoints: expected a list of strings, found 'a:1' (a string)" },
        { "endpoints that are null", HEAD "discovery:\n  endpoints:\n", INVALID,
          "x.yaml:4: discovery.endpoints: expected a list of strings, found nothing" },
        { "an endpoint with a scheme",
          HEAD "discovery:\n  endpoints:\n  - a:1\n  - https://b:6443\n", INVALID,
          "x.yaml:6: discovery.endpoints[1]: " ENDPOINT
          "14 characters; leave out the scheme, such as https://" },
        { "an endpoint that is a number", HEAD "discovery: {endpoints: [6443]}\n", INVALID,
          "x.yaml:3: discovery.endpoints[0]: " ENDPOINT "4 characters (a number" QUOTES },
        { "an endpoint that is null", HEAD "discovery: {endpoints: [~]}\n", INVALID,
          "x.yaml:3: discovery.endpoints[0]: " ENDPOINT "nothing" },
        { "a pin of another type", HEAD "discovery: {caCertHashes: ['sha512:00']}\n", INVALID,
          "x.yaml:3: discovery.caCertHashes[0]: expected sha256: and 64 hex digits, found "
          "9 characters; it does not begin with 'sha256:'" },
        { "a pin that is too short", HEAD "discovery: {caCertHashes: ['" PIN "', 'sha256:1234']}\n",
          INVALID,
          "x.yaml:3: discovery.caCertHashes[1]: expected sha256: and 64 hex digits, found "
          "11 characters; it has 4 hex digits" },
        { "a pin followed by other characters", HEAD "discovery: {caCertHashes: ['" PIN "  -']}\n",
          INVALID,
          "x.yaml:3: discovery.caCertHashes[0]: expected sha256: and 64 hex digits, found 74 "
          "characters; it has 64 hex digits before the first other character" },
        { "a pin followed by a file name",
          HEAD "discovery: {caCertHashes: ['" PIN "  /etc/kubernetes/pki/ca.pub']}\n", INVALID,
          "x.yaml:3: discovery.caCertHashes[0]: expected sha256: and 64 hex digits, found 99 "
          "characters; it has 64 hex digits before the first other character" },
        { "a pin followed by a token is not quoted",
          HEAD "discovery: {caCertHashes: ['" PIN " --token abcdef.0123456789abcdef']}\n", INVALID,
          "x.yaml:3: discovery.caCertHashes[0]: expected sha256: and 64 hex digits, found what "
          "may be a token; a token belongs in the credential node-bootstrap.token; it has 64 hex "
          "digits before the first other character" },
        { "a pin with a letter beyond f", HEAD "discovery: {caCertHashes: ['sha256:01x']}\n",
          INVALID,
          "x.yaml:3: discovery.caCertHashes[0]: expected sha256: and 64 hex digits, found "
          "10 characters; it has 2 hex digits before the first other character" },
        { "a boolean in quotes", HEAD "discovery: {trustWholeBundle: 'true'}\n", INVALID,
          "x.yaml:3: discovery.trustWholeBundle: expected true or false, found 4 characters (a "
          "string)" },
        { "yes", HEAD "discovery: {unsafeSkipCAVerification: yes}\n", INVALID,
          "x.yaml:3: discovery.unsafeSkipCAVerification: expected true or false, found 'yes' (a "
          "string)" },
        { "True", HEAD "discovery: {unsafeSkipCAVerification: True}\n", INVALID,
          "x.yaml:3: discovery.unsafeSkipCAVerification: expected true or false, found 4 "
          "characters" },
        { "a node name with an underscore", HEAD "node: {name: my_node}\n", INVALID,
          "x.yaml:3: node.name: " NODE "7 characters" },
        { "a node name that is a number", HEAD "node: {name: 17}\n", INVALID,
          "x.yaml:3: node.name: " NODE "'17' (a number" QUOTES },
        { "a relative path", HEAD "kubelet: {caFile: ca.crt}\n", INVALID,
          "x.yaml:3: kubelet.caFile: " PATH "'ca.crt'" },
        { "an empty path", HEAD "kubelet: {caFile: ''}\n", INVALID,
          "x.yaml:3: kubelet.caFile: " PATH "''" },
        { "the root", HEAD "kubelet: {certificateDirectory: /}\n", INVALID,
          "x.yaml:3: kubelet.certificateDirectory: " PATH "'/'" },
        { "a path with a slash at the end", HEAD "kubelet: {certificateDirectory: /a/}\n", INVALID,
          "x.yaml:3: kubelet.certificateDirectory: " PATH "'/a/'" },
        { "a path with two slashes", HEAD "kubelet: {kubeconfig: /a//b}\n", INVALID,
          "x.yaml:3: kubelet.kubeconfig: " PATH "'/a//b'" },
        { "a path that begins with two slashes", HEAD "kubelet: {kubeconfig: //b}\n", INVALID,
          "x.yaml:3: kubelet.kubeconfig: " PATH "'//b'" },
        { "a path with a dot", HEAD "kubelet: {kubeconfig: /a/./b}\n", INVALID,
          "x.yaml:3: kubelet.kubeconfig: " PATH "'/a/./b'" },
        { "a path with ..", HEAD "kubelet: {kubeconfig: /a/../b}\n", INVALID,
          "x.yaml:3: kubelet.kubeconfig: " PATH "'/a/../b'" },
        { "a path that ends with ..", HEAD "kubelet: {kubeconfig: /a/..}\n", INVALID,
          "x.yaml:3: kubelet.kubeconfig: " PATH "'/a/..'" },
        { "a path with a line end", HEAD "kubelet: {kubeconfig: \"/a\\nb\"}\n", INVALID,
          "x.yaml:3: kubelet.kubeconfig: " PATH "'/a?b'" },
        { "a lifetime too short", HEAD "csr: {expirationSeconds: 599}\n", INVALID,
          "x.yaml:3: csr.expirationSeconds: " SECONDS "'599'" },
        { "a lifetime too long", HEAD "csr: {expirationSeconds: 2147483648}\n", INVALID,
          "x.yaml:3: csr.expirationSeconds: " SECONDS "10 characters" },
        { "a lifetime of many digits", HEAD "csr: {expirationSeconds: 99999999999999999999}\n",
          INVALID, "x.yaml:3: csr.expirationSeconds: " SECONDS "what may be a token" },
        { "a negative lifetime", HEAD "csr: {expirationSeconds: -600}\n", INVALID,
          "x.yaml:3: csr.expirationSeconds: " SECONDS "'-600'" },
        { "a lifetime that is a fraction", HEAD "csr: {expirationSeconds: 600.5}\n", INVALID,
          "x.yaml:3: csr.expirationSeconds: " SECONDS "'600.5'" },
        { "a lifetime in quotes", HEAD "csr: {expirationSeconds: '600'}\n", INVALID,
          "x.yaml:3: csr.expirationSeconds: " SECONDS "'600' (a string)" },
        { "a timeout without a unit", HEAD "timeout: 30\n", INVALID,
          "x.yaml:3: timeout: " DURATION "'30' (a number" QUOTES },
        { "a timeout that is null", HEAD "timeout:\n", INVALID,
          "x.yaml:3: timeout: " DURATION "nothing" },
};

static void refuses(void **state) {
        const struct refused_case *c = *state;
        struct nb_settings settings, before;
        struct nb_failure f = {};

        nb_settings_init(&settings);
        merge_good(&settings, "a.yaml", everything);
        before = settings;
        assert_true(merge(&settings, "x.yaml", c->text, &f) < 0);
        assert_string_equal(f.detail, c->detail);
        assert_int_equal(f.code, c->code);
        assert_memory_equal(&settings, &before, sizeof(settings));
}

struct duration_case {
        const char *name;
        const char *text;
        uint64_t expected_ms; /* 0: refused */
};

static struct duration_case durations[] = {
        { "timeout: seconds", "30s", 30000 },
        { "timeout: minutes", "5m", 300000 },
        { "timeout: hours and minutes", "1h30m", 5400000 },
        { "timeout: days", "2d", 172800000 },
        { "timeout: all units", "1d1h1m1s", 90061000 },
        { "timeout: 90 minutes", "90m", 5400000 },
        { "timeout: the longest", "3650d", 315360000000 },
        { "timeout: infinity", "infinity", UINT64_MAX },
        { "timeout: longer than the longest", "3651d", 0 },
        { "timeout: nothing", "''", 0 },
        { "timeout: zero", "0s", 0 },
        { "timeout: no unit", "'30'", 0 },
        { "timeout: no number", "s", 0 },
        { "timeout: an unknown unit", "30ms", 0 },
        { "timeout: units in the wrong order", "30m1h", 0 },
        { "timeout: a unit twice", "1m1m", 0 },
        { "timeout: a space", "1h 30m", 0 },
        { "timeout: a sign", "-5m", 0 },
        { "timeout: a fraction", "1.5h", 0 },
        { "timeout: too many digits", "99999999999s", 0 },
        { "timeout: upper case", "5M", 0 },
        { "timeout: Infinity", "Infinity", 0 },
};

static void reads_timeout(void **state) {
        const struct duration_case *c = *state;
        struct nb_settings settings;
        struct nb_failure f = {};
        char text[256];
        int r;

        nb_settings_init(&settings);
        (void)snprintf(text, sizeof(text), HEAD "timeout: %s\n", c->text);
        r = merge(&settings, "x.yaml", text, &f);
        assert_int_equal(r >= 0, c->expected_ms != 0);
        if (r >= 0)
                assert_true(settings.timeout_ms == c->expected_ms);
}

static void merge_many(const char *key, const char *entry, unsigned n, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(16384);
        struct nb_settings settings;

        nb_settings_init(&settings);
        nb_buffer_printf(&text, HEAD "discovery:\n  %s:\n", key);
        for (unsigned i = 0; i < n; i++)
                nb_buffer_printf(&text, "  - %s%02u\n", entry, 10 + i);
        (void)merge(&settings, "x.yaml", text.data, f);
}

#define PIN_START "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcd"

static void limits_lists(void **state) {
        struct nb_failure f = {};

        merge_many("endpoints", "a:1", NB_SETTINGS_ENDPOINTS_MAX, &f);
        assert_string_equal(f.detail, "");
        merge_many("endpoints", "a:1", NB_SETTINGS_ENDPOINTS_MAX + 1, &f);
        assert_string_equal(
                f.detail,
                "x.yaml:21: discovery.endpoints[16]: expected at most 16 entries, found 'a:126'");
        nb_failure_clear(&f);
        merge_many("caCertHashes", PIN_START, NB_SETTINGS_PINS_MAX, &f);
        assert_string_equal(f.detail, "");
        merge_many("caCertHashes", PIN_START, NB_SETTINGS_PINS_MAX + 1, &f);
        assert_string_equal(
                f.detail,
                "x.yaml:37: discovery.caCertHashes[32]: expected at most 32 entries, found 71 "
                "characters");
}

static void limits_paths(void **state) {
        struct nb_settings settings;
        struct nb_failure f = {};
        char path[NB_SETTINGS_PATH_MAX + 1] = "/", text[1024];

        nb_settings_init(&settings);
        memset(path + 1, 'a', NB_SETTINGS_PATH_MAX - 2);
        (void)snprintf(text, sizeof(text), HEAD "kubelet: {caFile: %s}\n", path);
        merge_good(&settings, "x.yaml", text);
        assert_int_equal(strlen(settings.ca_file), NB_SETTINGS_PATH_MAX - 1);
        path[NB_SETTINGS_PATH_MAX - 1] = 'a';
        (void)snprintf(text, sizeof(text), HEAD "kubelet: {caFile: %s}\n", path);
        assert_true(merge(&settings, "x.yaml", text, &f) < 0);
}

/* Of the path of a file, the end says more. */
static void keeps_the_end_of_a_long_origin(void **state) {
        struct nb_settings settings;
        char origin[300], expected[NB_SETTINGS_ORIGIN_SIZE];

        memset(origin, 'o', sizeof(origin));
        memcpy(origin + sizeof(origin) - sizeof("/60-site.yaml"), "/60-site.yaml",
               sizeof("/60-site.yaml"));
        nb_settings_init(&settings);
        merge_good(&settings, origin, HEAD "timeout: 5m\n");
        assert_int_equal(strlen(settings.origin[NB_SETTING_TIMEOUT]), NB_SETTINGS_ORIGIN_SIZE - 1);
        assert_memory_equal(settings.origin[NB_SETTING_TIMEOUT], "...ooo", 6);
        assert_non_null(strstr(settings.origin[NB_SETTING_TIMEOUT], "o/60-site.yaml"));
        nb_settings_copy_origin(origin + sizeof(origin) - NB_SETTINGS_ORIGIN_SIZE, expected);
        assert_string_equal(expected, origin + sizeof(origin) - NB_SETTINGS_ORIGIN_SIZE);
        /* In whole characters. */
        memcpy(origin + sizeof(origin) - NB_SETTINGS_ORIGIN_SIZE + 2, "\xc3\xa4", 2);
        nb_settings_copy_origin(origin, expected);
        assert_memory_equal(expected, "...ooo", 6);
}

static struct refused_case combinations[] = {
        { "together: the defaults", HEAD, NB_NONE, "" },
        { "together: inputs may share a path",
          HEAD "discovery: {file: /a, urlCAFile: /a}\nbootstrap: {kubeconfig: /a}\nkubelet: "
               "{caFile: /b}\n",
          NB_NONE, "" },
        { "together: two targets with one path", HEAD "kubelet: {caFile: /a, kubeconfig: /a}\n",
          INVALID, "kubelet.kubeconfig and kubelet.caFile: expected different paths" },
        { "together: a target is the bootstrap kubeconfig",
          HEAD "bootstrap: {kubeconfig: /a}\nkubelet: {kubeconfig: /a}\n", INVALID,
          "bootstrap.kubeconfig and kubelet.kubeconfig: expected different paths" },
        { "together: a target is the discovery file",
          HEAD "discovery: {file: /a}\nkubelet: {caFile: /a}\n", INVALID,
          "discovery.file and kubelet.caFile: expected different paths" },
        { "together: a target is the CA of the URL",
          HEAD "discovery: {urlCAFile: /a}\nkubelet: {caFile: /a}\n", INVALID,
          "discovery.urlCAFile and kubelet.caFile: expected different paths" },
        { "together: a provider ID only in the arguments",
          HEAD "kubelet: {extraArgs: [\"provider-id=a:///b\"]}\n", NB_NONE, "" },
        { "together: a provider ID twice",
          HEAD "kubelet: {providerID: \"a:///b\", extraArgs: [v=1, \"provider-id=a:///b\"]}\n",
          INVALID,
          "expected kubelet.providerID or 'provider-id' in kubelet.extraArgs, found both: the "
          "first in x.yaml, the other in x.yaml" },
};

static void verifies(void **state) {
        const struct refused_case *c = *state;
        struct nb_settings settings;
        struct nb_failure f = {};

        nb_settings_init(&settings);
        merge_good(&settings, "x.yaml", c->text);
        assert_int_equal(nb_settings_verify(&settings, &f) < 0, c->code != NB_NONE);
        assert_int_equal(f.code, c->code);
        assert_string_equal(f.detail, c->detail);
}

static void formats_keys(void **state) {
        assert_string_equal(nb_setting_key(NB_SETTING_CA_CERT_HASHES), "discovery.caCertHashes");
        assert_string_equal(nb_setting_key(NB_SETTING_TIMEOUT), "timeout");
}

static int run(const void *input) {
        struct nb_settings settings;
        struct nb_failure f = {};

        nb_settings_init(&settings);
        return merge(&settings, "x.yaml", input, &f);
}

static void reports_allocation_failures(void **state) {
        allocation_try_all(run, everything);
}

int main(void) {
        CASE(defaults);
        CASE(reads_every_key);
        CASE(formatted_settings_parse_as_the_same);
        CASE(a_later_document_overrides_single_keys);
        CASES(empty, changes_nothing);
        CASES(refused, refuses);
        CASES(durations, reads_timeout);
        CASE(limits_lists);
        CASE(limits_paths);
        CASE(keeps_the_end_of_a_long_origin);
        CASES(combinations, verifies);
        CASE(formats_keys);
        CASE(reports_allocation_failures);
        return case_run("settings");
}
