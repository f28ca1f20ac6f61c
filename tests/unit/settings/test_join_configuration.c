/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "settings/settings.h"

#include "allocation.h"
#include "case.h"

#define V2 "apiVersion: kubeadm.k8s.io/v1beta2\nkind: JoinConfiguration\n"
#define ALONE "expected a JoinConfiguration, which is what is read of kubeadm, found "
#define BARE "expected HOST:PORT, found an IPv6 address without brackets; with them, it may be "
#define V3 "apiVersion: kubeadm.k8s.io/v1beta3\nkind: JoinConfiguration\n"
#define V4 "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\n"
#define OURS "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n"
#define TOKEN "abcdef.0123456789abcdef"
#define TLS_TOKEN "fedcba.fedcba9876543210"
#define HASH "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static int merge(struct nb_settings *settings, const char *text, bool is_exposed,
                 struct nb_failure *f) {
        const struct nb_settings_source source = { .origin = "x.yaml", .is_exposed = is_exposed };

        return nb_settings_merge(settings, &source, text, strlen(text), f);
}

/* Every value that a document can set, in one text:
 * "endpoints;pins;unsafe;file;name;taints;socket;arguments;ca;timeout". */
static void describe(const struct nb_settings *settings, struct nb_buffer *ret) {
        char text[NB_URL_MAX];

        for (unsigned i = 0; i < settings->n_endpoints; i++) {
                nb_endpoint_format(&settings->endpoints[i], text);
                nb_buffer_printf(ret, "%s ", text);
        }
        nb_buffer_printf(ret, "; %u;%s;%s;%s; ", settings->n_pins,
                         settings->unsafe_skip_ca_verification ? "unsafe" : "",
                         settings->discovery_file, settings->node_name);
        for (unsigned i = 0; i < settings->n_taints; i++)
                nb_buffer_printf(ret, "%s ", settings->taints[i]);
        nb_buffer_printf(ret, ";%s; ", settings->cri_socket);
        for (unsigned i = 0; i < settings->n_extra_args; i++)
                nb_buffer_printf(ret, "%s ", settings->extra_args[i]);
        nb_buffer_printf(ret, ";%s;", settings->ca_file);
        if (settings->timeout_ms != UINT64_MAX)
                nb_buffer_printf(ret, "%llu", (unsigned long long)settings->timeout_ms);
}

struct taken_case {
        const char *name;
        const char *text;
        const char *values;
        const char *discovery_token, *tls_token; /* NULL for none */
        const char *ignored;
};

#define CA "/etc/kubernetes/pki/ca.crt"
#define DEFAULTS "; 0;;;; ;; ;" CA ";"

static struct taken_case taken[] = {
        { "only the header", V3, DEFAULTS, NULL, NULL, "" },
        { "kubeadm config print join-defaults, v1beta3",
          "apiVersion: kubeadm.k8s.io/v1beta3\n"
          "caCertPath: /etc/kubernetes/pki/ca.crt\n"
          "discovery:\n"
          "  bootstrapToken:\n"
          "    apiServerEndpoint: kube-apiserver:6443\n"
          "    token: " TOKEN "\n"
          "    unsafeSkipCAVerification: true\n"
          "  timeout: 5m0s\n"
          "  tlsBootstrapToken: " TLS_TOKEN "\n"
          "kind: JoinConfiguration\n"
          "nodeRegistration:\n"
          "  criSocket: unix:///var/run/containerd/containerd.sock\n"
          "  imagePullPolicy: IfNotPresent\n"
          "  name: node\n"
          "  taints: null\n",
          "kube-apiserver:6443 ; 0;unsafe;;node; ;unix:///var/run/containerd/containerd.sock; ;" CA
          ";300000",
          TOKEN, TLS_TOKEN, "nodeRegistration.imagePullPolicy" },
        { "kubeadm config print join-defaults, v1beta4",
          V4 "caCertPath: /etc/ca.crt\n"
             "discovery:\n"
             "  bootstrapToken:\n"
             "    apiServerEndpoint: '[2001:db8::1]:6443'\n"
             "    caCertHashes: ['" HASH "', '" HASH "']\n"
             "    token: " TOKEN "\n"
             "nodeRegistration:\n"
             "  criSocket: /run/crio/crio.sock\n"
             "  imagePullPolicy: IfNotPresent\n"
             "  imagePullSerial: true\n"
             "  name: Node-1\n"
             "timeouts:\n"
             "  controlPlaneComponentHealthCheck: 4m0s\n"
             "  discovery: 5m0s\n"
             "  etcdAPICall: 2m0s\n"
             "  kubeletHealthCheck: 4m0s\n"
             "  kubernetesAPICall: 1m0s\n"
             "  tlsBootstrap: 2m30s\n"
             "  upgradeManifests: 5m0s\n",
          "[2001:db8::1]:6443 ; 1;;;node-1; ;unix:///run/crio/crio.sock; ;/etc/ca.crt;450000",
          TOKEN, NULL,
          "nodeRegistration.imagePullPolicy, nodeRegistration.imagePullSerial, "
          "timeouts.controlPlaneComponentHealthCheck, "
          "timeouts.etcdAPICall, timeouts.kubeletHealthCheck, timeouts.kubernetesAPICall, "
          "timeouts.upgradeManifests" },
        { "v1beta2, with every key for a worker",
          V2 "discovery:\n"
             "  bootstrapToken: {apiServerEndpoint: 'a:1', token: " TOKEN ", caCertHashes: ['" HASH
             "']}\n"
             "  timeout: 1h0m0s\n"
             "nodeRegistration:\n"
             "  taints: [{key: a, value: b, effect: NoSchedule}, {key: c, effect: NoExecute, "
             "timeAdded: x}]\n"
             "  kubeletExtraArgs: {node-ip: 10.0.0.5, v: '4', cloud-provider: ''}\n"
             "  ignorePreflightErrors: [Swap]\n",
          "a:1 ; 1;;;; a=b:NoSchedule c:NoExecute ;; node-ip=10.0.0.5 v=4 cloud-provider= ;" CA
          ";3600000",
          TOKEN, NULL, "nodeRegistration.ignorePreflightErrors" },
        { "v1beta4: arguments are a list",
          V4 "nodeRegistration:\n  kubeletExtraArgs:\n  - name: node-labels\n    value: a=b\n  - "
             "{name: v, value: '4'}\n",
          "; 0;;;; ;; node-labels=a=b v=4 ;" CA ";", NULL, NULL, "" },
        { "v1beta4: names that repeat, sorted by name and value",
          V4 "nodeRegistration:\n  kubeletExtraArgs:\n"
             "  - {name: v, value: '5'}\n  - {name: node-labels, value: c=d}\n"
             "  - {name: v, value: '10'}\n  - {name: node-labels, value: a=b}\n"
             "  - {name: v, value: '5'}\n",
          "; 0;;;; ;; node-labels=a=b node-labels=c=d v=10 v=5 ;" CA ";", NULL, NULL, "" },
        { "v1beta4: a name that another one begins with",
          V4 "nodeRegistration:\n  kubeletExtraArgs:\n"
             "  - {name: node-ip-x, value: '1'}\n  - {name: node-ip, value: 10.0.0.9}\n"
             "  - {name: node, value: z}\n",
          "; 0;;;; ;; node=z node-ip=10.0.0.9 node-ip-x=1 ;" CA ";", NULL, NULL, "" },
        { "a file",
          V3 "discovery: {file: {kubeConfigPath: /etc/info.yaml}, tlsBootstrapToken: " TLS_TOKEN
             "}\n",
          "; 0;;/etc/info.yaml;; ;; ;" CA ";", NULL, TLS_TOKEN, "" },
        { "a URL",
          V4
          "discovery: {file: {kubeConfigPath: 'https://a/info.yaml'}, tlsBootstrapToken: " TLS_TOKEN
          "}\n",
          "; 0;;https://a/info.yaml;; ;; ;" CA ";", NULL, TLS_TOKEN, "" },
        { "null and empty values are absent",
          V4 "caCertPath: ''\ncontrolPlane: null\ndiscovery: {bootstrapToken: {token: '', "
             "apiServerEndpoint: ''}, file: null}\n"
             "nodeRegistration: {name: '', criSocket: '', taints: null, kubeletExtraArgs: null, "
             "imagePullPolicy: ''}\n"
             "timeouts: null\nskipPhases: null\n",
          DEFAULTS, NULL, NULL, "" },
        { "keys of other phases",
          V4 "dryRun: true\npatches: {directory: /x}\nskipPhases: [preflight]\n", DEFAULTS, NULL,
          NULL, "dryRun, patches, skipPhases" },
        { "fractions of a duration", V3 "discovery: {timeout: 1.5m}\n", "; 0;;;; ;; ;" CA ";90000",
          NULL, NULL, "" },
        { "a duration in milliseconds", V3 "discovery: {timeout: 1500ms}\n",
          "; 0;;;; ;; ;" CA ";2000", NULL, NULL, "" },
        { "a duration below a second", V4 "timeouts: {discovery: 500ms}\n",
          "; 0;;;; ;; ;" CA ";1000", NULL, NULL, "" },
        { "two durations, rounded up once",
          V4 "timeouts: {discovery: 500ms, tlsBootstrap: 400ms}\n", "; 0;;;; ;; ;" CA ";1000", NULL,
          NULL, "" },
        { "one of the two timeouts", V4 "timeouts: {tlsBootstrap: 1m0s, discovery: 0s}\n",
          "; 0;;;; ;; ;" CA ";60000", NULL, NULL, "" },
        { "other documents of kubeadm in the file",
          "apiVersion: kubeadm.k8s.io/v1beta3\nkind: InitConfiguration\nlocalAPIEndpoint: "
          "{bindPort: 1}\n---\n"
          "apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\n---\n" V3
          "nodeRegistration: {name: n}\n---\n"
          "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n---\n"
          "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n---\n"
          "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ResetConfiguration\n---\n"
          "apiVersion: kubeadm.k8s.io/v1beta4\nkind: UpgradeConfiguration\n---\n",
          "; 0;;;n; ;; ;" CA ";", NULL, NULL,
          "InitConfiguration, ClusterConfiguration, KubeletConfiguration, KubeProxyConfiguration, "
          "ResetConfiguration, "
          "UpgradeConfiguration" },
        { "a kind is listed once",
          V3 "---\napiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\n"
             "---\napiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\n",
          DEFAULTS, NULL, NULL, "ClusterConfiguration" },
};

static const char *text_of(const struct nb_secret *secret) {
        return secret->data ? secret->data : "";
}

static void takes(void **state) {
        const struct taken_case *c = *state;
        _cleanup_(
                nb_settings_tokens_done) struct nb_settings_tokens tokens = NB_SETTINGS_TOKENS_INIT;
        _cleanup_(nb_buffer_done) struct nb_buffer values = NB_BUFFER_INIT(4096);
        struct nb_settings settings, without;
        struct nb_failure f = {};
        int r;

        nb_settings_init(&settings);
        without = settings;
        settings.tokens = &tokens;
        r = merge(&settings, c->text, false, &f);
        assert_string_equal(f.detail, "");
        assert_int_equal(r, 0);
        describe(&settings, &values);
        assert_string_equal(values.data, c->values);
        assert_string_equal(text_of(&tokens.discovery),
                            c->discovery_token ? c->discovery_token : "");
        assert_string_equal(text_of(&tokens.tls_bootstrap), c->tls_token ? c->tls_token : "");
        assert_string_equal(tokens.discovery_origin, c->discovery_token ? "x.yaml" : "");
        assert_string_equal(tokens.tls_bootstrap_origin, c->tls_token ? "x.yaml" : "");
        assert_string_equal(settings.ignored, c->ignored);

        /* Without tokens the settings are the same. */
        assert_int_equal(merge(&without, c->text, false, &f), 0);
        settings.tokens = NULL;
        assert_memory_equal(&without, &settings, sizeof(settings));
}

struct refused_case {
        const char *name;
        const char *text;
        const char *detail;
};

#define UNKNOWN "unknown key"
#define ENDPOINT "expected HOST:PORT without https://, an IPv6 address in brackets, found "
#define TAINT \
        "expected KEY[=VALUE]:EFFECT with the effect NoSchedule, PreferNoSchedule or NoExecute, " \
        "found "
#define ARGUMENT \
        "expected NAME=VALUE without leading dashes, and without blanks, quotes, '\\' and '$' " \
        "in it, found "
#define DURATION "expected a duration such as 5m0s, up to 87600h, found "
#define FORM "expected a token (six characters, a dot and sixteen characters of a-z and 0-9)"
#define VERSION \
        "expected kubeadm.k8s.io/v1beta2, v1beta3 or v1beta4 for a JoinConfiguration, found "
#define BESIDE \
        "expected a document of kubeadm, kubelet or kube-proxy beside the JoinConfiguration, " \
        "found "

static struct refused_case refused[] = {
        { "an older version", "apiVersion: kubeadm.k8s.io/v1beta1\nkind: JoinConfiguration\n",
          "x.yaml:1: apiVersion: " VERSION "22 characters" },
        { "a newer version", "apiVersion: kubeadm.k8s.io/v1\nkind: JoinConfiguration\n",
          "x.yaml:1: apiVersion: " VERSION "17 characters" },
        { "our version", "apiVersion: node-bootstrap/v1\nkind: JoinConfiguration\n",
          "x.yaml:1: apiVersion: " VERSION "17 characters" },
        { "no version", "kind: JoinConfiguration\n", "x.yaml:1: apiVersion: " VERSION "nothing" },
        { "a version that is a list", "apiVersion: [a]\nkind: JoinConfiguration\n",
          "x.yaml:1: apiVersion: " VERSION "a list" },
        { "another document of kubeadm alone",
          "apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\n",
          "x.yaml:1: kind: " ALONE "20 characters" },
        { "one for the first control plane node",
          "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n---\n"
          "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n",
          "x.yaml:1: kind: " ALONE "17 characters" },
        { "a join of old versions",
          "apiVersion: kubeadm.k8s.io/v1alpha2\nkind: NodeConfiguration\ntoken: a\n",
          "x.yaml:1: kind: " ALONE "17 characters" },
        { "a document of kubeadm without a kind", "apiVersion: kubeadm.k8s.io/v1beta4\n",
          "x.yaml:1: kind: " ALONE "''" },
        { "the name where other objects have it", V4 "metadata: {name: a}\n",
          "x.yaml:3: metadata.name: " UNKNOWN "; did you mean nodeRegistration.name?" },
        { "the name beside labels", V3 "metadata:\n  labels: {a: b}\n  name: a\n",
          "x.yaml:5: metadata.name: " UNKNOWN "; did you mean nodeRegistration.name?" },
        { "metadata without a name", V3 "metadata: {labels: {a: b}}\n",
          "x.yaml:3: " UNKNOWN " (8 characters)" },
        { "an argument for kubeconfig",
          V4 "nodeRegistration: {kubeletExtraArgs: [{name: kubeconfig, value: /a}]}\n",
          "x.yaml:3: nodeRegistration.kubeletExtraArgs[0]: node-bootstrap sets this option; see "
          "kubelet.kubeconfig" },
        { "an argument for taints, without a value",
          V3 "nodeRegistration: {kubeletExtraArgs: {register-with-taints: ''}}\n",
          "x.yaml:3: nodeRegistration.kubeletExtraArgs: node-bootstrap sets "
          "this option; see node.taints (nodeRegistration.taints of a JoinConfiguration)" },
        { "two JoinConfigurations", V3 "---\n" V4,
          "x.yaml:4: kind: a second JoinConfiguration; the first is on line 1" },
        { "our own document beside it", V3 "---\n" OURS,
          "x.yaml:4: kind: " BESIDE "13 characters" },
        { "an unknown kind beside it", V3 "---\napiVersion: v1\nkind: Secret\n",
          "x.yaml:4: kind: " BESIDE "6 characters" },
        { "a known kind of another group beside it",
          V3 "---\napiVersion: v1\nkind: ClusterConfiguration\n",
          "x.yaml:4: kind: " BESIDE "20 characters" },
        { "a list beside it", V3 "---\n- a\n", "x.yaml:4: kind: " BESIDE "''" },
        { "a token as kind beside it", V3 "---\nkind: " TOKEN "\n",
          "x.yaml:4: kind: " BESIDE
          "what may be a token; a token belongs in the credential node-bootstrap.token" },
        { "an unknown key", V3 "colour: red\n", "x.yaml:3: " UNKNOWN " (6 characters)" },
        { "a misspelt key", V3 "nodeRegistration:\n  taint: []\n",
          "x.yaml:4: nodeRegistration: " UNKNOWN
          " (5 characters); did you mean nodeRegistration.taints?" },
        { "a key of a later version", V3 "timeouts: {discovery: 5m0s}\n",
          "x.yaml:3: timeouts.discovery: " UNKNOWN " in this apiVersion" },
        { "a key of an earlier version", V4 "discovery: {timeout: 5m0s}\n",
          "x.yaml:3: discovery.timeout: " UNKNOWN " in this apiVersion" },
        { "a key with a dot", V3 "discovery.tlsBootstrapToken: " TOKEN "\n",
          "x.yaml:3: a key must not contain a dot; nest the mappings (27 characters)" },
        { "a key of NodeBootstrap", V3 "kubelet: {kubeconfig: /a}\n",
          "x.yaml:3: " UNKNOWN " (7 characters)" },
        { "a token as key is not quoted", V3 "discovery: {" TOKEN ": a}\n",
          "x.yaml:3: discovery: expected a key, found what may be a token; a token belongs in the "
          "credential node-bootstrap.token" },
        { "a control plane", V3 "controlPlane: {}\n",
          "x.yaml:3: controlPlane: only workers can join; use `kubeadm join` for a control plane "
          "node" },
        { "token and file",
          V3 "discovery:\n  bootstrapToken: {token: " TOKEN "}\n  file: {kubeConfigPath: /a}\n",
          "x.yaml:5: discovery.file: expected this or discovery.bootstrapToken (line 4), found "
          "both" },
        { "a section that is text", V3 "discovery: here\n",
          "x.yaml:3: discovery: expected a mapping, found 4 characters (a string)" },
        { "an endpoint with a scheme",
          V3 "discovery: {bootstrapToken: {apiServerEndpoint: 'https://a:1'}}\n",
          "x.yaml:3: discovery.bootstrapToken.apiServerEndpoint: " ENDPOINT
          "11 characters; leave out the scheme, such as https://" },
        { "an endpoint with a dot at the end",
          V3 "discovery: {bootstrapToken: {apiServerEndpoint: 'a.example.:1'}}\n",
          "x.yaml:3: discovery.bootstrapToken.apiServerEndpoint: " ENDPOINT
          "12 characters; leave out the dot at the end of the name" },
        { "IPv6 without brackets",
          V3 "discovery: {bootstrapToken: {apiServerEndpoint: 'fd00:20::2:6443'}}\n",
          "x.yaml:3: discovery.bootstrapToken.apiServerEndpoint: " BARE "[fd00:20::2]:6443" },
        { "IPv6 without brackets and without a port",
          V3 "discovery: {bootstrapToken: {apiServerEndpoint: 'fd00:20::2'}}\n",
          "x.yaml:3: discovery.bootstrapToken.apiServerEndpoint: " BARE "[fd00:20::2]:6443" },
        { "an endpoint that is a number",
          V3 "discovery: {bootstrapToken: {apiServerEndpoint: 1}}\n",
          "x.yaml:3: discovery.bootstrapToken.apiServerEndpoint: expected HOST:PORT without "
          "https://, an IPv6 address in brackets, found '1' (a "
          "number; quote it)" },
        { "a pin of another form", V3 "discovery: {bootstrapToken: {caCertHashes: [x]}}\n",
          "x.yaml:3: discovery.bootstrapToken.caCertHashes[0]: expected sha256: and 64 hex digits, "
          "found 'x'; it does not begin with 'sha256:'" },
        { "a boolean in quotes",
          V3 "discovery: {bootstrapToken: {unsafeSkipCAVerification: 'true'}}\n",
          "x.yaml:3: discovery.bootstrapToken.unsafeSkipCAVerification: expected true or false, "
          "found 4 characters (a string)" },
        { "a file on the web without TLS", V3 "discovery: {file: {kubeConfigPath: 'http://a'}}\n",
          "x.yaml:3: discovery.file.kubeConfigPath: expected an absolute path without //, . and .. "
          "in it, or "
          "https://HOST[:PORT]/PATH, found 8 characters; without TLS, anyone on the network could "
          "have written it" },
        { "a relative CA", V3 "caCertPath: ca.crt\n",
          "x.yaml:3: caCertPath: expected an absolute path without //, . and .. in it, found "
          "'ca.crt'" },
        { "a name with an underscore", V3 "nodeRegistration: {name: a_b}\n",
          "x.yaml:3: nodeRegistration.name: expected a DNS-1123 subdomain (letters, digits, '-' "
          "and '.', at most 253), found "
          "'a_b'" },
        { "a timeout that is a number", V3 "discovery: {timeout: 300}\n",
          "x.yaml:3: discovery.timeout: " DURATION "'300' (a number; quote it)" },
        { "a timeout in days", V3 "discovery: {timeout: 1d}\n",
          "x.yaml:3: discovery.timeout: " DURATION "'1d'" },
        { "a timeout without a unit", V3 "discovery: {timeout: '30'}\n",
          "x.yaml:3: discovery.timeout: " DURATION "'30'" },
        { "a negative timeout", V3 "discovery: {timeout: -5m}\n",
          "x.yaml:3: discovery.timeout: " DURATION "'-5m'" },
        { "a timeout of a point", V3 "discovery: {timeout: .s}\n",
          "x.yaml:3: discovery.timeout: " DURATION "'.s'" },
        { "a timeout that is too long", V3 "discovery: {timeout: 87601h}\n",
          "x.yaml:3: discovery.timeout: " DURATION "6 characters" },
        { "a timeout of many digits", V3 "discovery: {timeout: 99999999999s}\n",
          "x.yaml:3: discovery.timeout: " DURATION "12 characters" },
        { "a timeout of nothing", V3 "discovery: {timeout: 0s}\n",
          "x.yaml:3: timeout: the sum of the timeouts must be more than 0 and at most 87600h" },
        { "timeouts that are too long together",
          V4 "timeouts:\n  discovery: 87600h\n  tlsBootstrap: 1s\n",
          "x.yaml:5: tlsBootstrap: the sum of the timeouts must be more than 0 and at most "
          "87600h" },
        { "taints as a mapping", V3 "nodeRegistration: {taints: {a: b}}\n",
          "x.yaml:3: nodeRegistration.taints: expected a list, found a mapping" },
        { "a taint that is text", V3 "nodeRegistration: {taints: ['a:NoSchedule']}\n",
          "x.yaml:3: nodeRegistration.taints[0]: expected a mapping, found 12 characters (a "
          "string)" },
        { "a taint without an effect", V3 "nodeRegistration:\n  taints:\n  - {key: a}\n",
          "x.yaml:5: nodeRegistration.taints[0]: " TAINT "'a:'" },
        { "a taint without a key", V3 "nodeRegistration: {taints: [{effect: NoSchedule}]}\n",
          "x.yaml:3: nodeRegistration.taints[0]: " TAINT "11 characters" },
        { "a taint with another key",
          V3 "nodeRegistration: {taints: [{key: a, efect: NoSchedule}]}\n",
          "x.yaml:3: nodeRegistration.taints[0]: " UNKNOWN
          " (5 characters); did you mean effect?" },
        { "a taint whose value is a number",
          V3 "nodeRegistration: {taints: [{key: a, value: 1, effect: NoSchedule}]}\n",
          "x.yaml:3: nodeRegistration.taints[0].value: expected a string, found '1' (a number; "
          "quote it)" },
        { "a taint with the value in its key",
          V3 "nodeRegistration: {taints: [{key: a=b, effect: NoSchedule}]}\n",
          "x.yaml:3: nodeRegistration.taints[0]: expected a qualified name as key, found 'a=b'" },
        { "a taint with the effect in its value",
          V3 "nodeRegistration: {taints: [{key: a, value: 'b:NoExecute', effect: NoSchedule}]}\n",
          "x.yaml:3: nodeRegistration.taints[0]: " TAINT "24 characters" },
        { "arguments as a list before v1beta4", V3 "nodeRegistration: {kubeletExtraArgs: []}\n",
          "x.yaml:3: nodeRegistration.kubeletExtraArgs: expected a mapping of names to values, as "
          "before v1beta4, found a list" },
        { "arguments as a mapping in v1beta4",
          V4 "nodeRegistration: {kubeletExtraArgs: {v: '4'}}\n",
          "x.yaml:3: nodeRegistration.kubeletExtraArgs: expected a list of name and value, as of "
          "v1beta4, found a mapping" },
        { "an argument that is a number", V3 "nodeRegistration: {kubeletExtraArgs: {v: 4}}\n",
          "x.yaml:3: nodeRegistration.kubeletExtraArgs: expected a string, found '4' (a number; "
          "quote it)" },
        { "an argument with a blank", V3 "nodeRegistration: {kubeletExtraArgs: {a: 'b --c'}}\n",
          "x.yaml:3: nodeRegistration.kubeletExtraArgs: " ARGUMENT "'a=b --c'" },
        { "an argument with '=' in its name",
          V3 "nodeRegistration: {kubeletExtraArgs: {'a=b': c}}\n",
          "x.yaml:3: nodeRegistration.kubeletExtraArgs: expected the name of an option of "
          "kubelet, found 'a=b'" },
        { "an argument that a setting has",
          V3 "nodeRegistration: {kubeletExtraArgs: {hostname-override: a}}\n",
          "x.yaml:3: nodeRegistration.kubeletExtraArgs: "
          "node-bootstrap sets this option; see node.name (nodeRegistration.name of a "
          "JoinConfiguration)" },
        { "an argument in a list with another key",
          V4 "nodeRegistration: {kubeletExtraArgs: [{name: v, val: '4'}]}\n",
          "x.yaml:3: nodeRegistration.kubeletExtraArgs[0]: " UNKNOWN
          " ('val'); did you mean value?" },
        { "an argument in a list without a name",
          V4 "nodeRegistration: {kubeletExtraArgs: [{value: '4'}]}\n",
          "x.yaml:3: nodeRegistration.kubeletExtraArgs[0]: " ARGUMENT "'=4'" },
};

static void refuses(void **state) {
        const struct refused_case *c = *state;
        _cleanup_(
                nb_settings_tokens_done) struct nb_settings_tokens tokens = NB_SETTINGS_TOKENS_INIT;
        struct nb_settings settings, before;
        struct nb_failure f = {};

        nb_settings_init(&settings);
        settings.tokens = &tokens;
        before = settings;
        assert_true(merge(&settings, c->text, false, &f) < 0);
        assert_string_equal(f.detail, c->detail);
        assert_int_equal(f.code, NB_SETTINGS_INVALID);
        assert_memory_equal(&settings, &before, sizeof(settings));
}

struct token_case {
        const char *name;
        const char *value;
        bool is_exposed;
        enum nb_code code;
        const char *detail;
};

static struct token_case malformed[] = {
        { "token: good", TOKEN, false, NB_NONE, "" },
        { "token: one that looks like a number, in quotes", "'123456.0123456789012345'", false,
          NB_NONE, "" },
        { "token: in an exposed file", TOKEN, true, NB_TOKEN_EXPOSED,
          "other users can read this file; it must not contain a token" },
        { "token: too short", "abcdef.0123456789abcde", false, NB_TOKEN_MALFORMED,
          FORM ": 1 character is missing after the dot" },
        { "token: too long", "abcdef.0123456789abcdef0", false, NB_TOKEN_MALFORMED,
          FORM ": it has 6 characters before the dot and 17 after it, expected 6 and 16" },
        { "token: a capital letter", "Abcdef.0123456789abcdef", false, NB_TOKEN_MALFORMED,
          FORM ": its character 1 is a capital letter" },
        { "token: a number", "123456.1", false, NB_TOKEN_MALFORMED,
          FORM ": 15 characters are missing after the dot" },
        { "token: a list", "[" TOKEN "]", false, NB_TOKEN_MALFORMED, FORM ": it is a list" },
        { "token: the ciphertext of systemd-creds",
          "0123456789012345678901AAAAABAAAADAAAABAAAA0123", false, NB_TOKEN_MALFORMED,
          FORM ": it is encrypted" },
        { "token: one of k3s", "K10abc::server:0123456789", false, NB_TOKEN_MALFORMED,
          FORM ": it has 25 characters and no dot, expected 23 with one" },
};

static void verifies_token(void **state) {
        static const char *const paths[] = { "bootstrapToken", "tlsBootstrapToken" };
        const struct token_case *c = *state;

        for (size_t i = 0; i < N_ELEMENTS(paths); i++)
                for (unsigned are_wanted = 0; are_wanted < 2; are_wanted++) {
                        _cleanup_(nb_settings_tokens_done) struct nb_settings_tokens tokens =
                                NB_SETTINGS_TOKENS_INIT;
                        struct nb_settings settings;
                        struct nb_failure f = {};
                        char text[256], detail[256] = "";

                        nb_settings_init(&settings);
                        settings.tokens = are_wanted ? &tokens : NULL;
                        (void)snprintf(text, sizeof(text),
                                       i == 0 ? V3 "discovery: {%s: {token: %s}}\n"
                                              : V3 "discovery: {%s: %s}\n",
                                       paths[i], c->value);
                        if (c->code != NB_NONE)
                                (void)snprintf(detail, sizeof(detail),
                                               "x.yaml:3: discovery.%s%s: %s", paths[i],
                                               i == 0 ? ".token" : "", c->detail);
                        assert_int_equal(merge(&settings, text, c->is_exposed, &f) < 0,
                                         c->code != NB_NONE);
                        assert_string_equal(f.detail, detail);
                        assert_int_equal(f.code, c->code);
                        assert_null(strstr(f.detail, "0123456789"));
                }
}

static void without_a_token_it_may_be_exposed(void **state) {
        struct nb_settings settings;
        struct nb_failure f = {};

        nb_settings_init(&settings);
        assert_int_equal(merge(&settings, V3 "nodeRegistration: {name: n}\n", true, &f), 0);
}

static void a_stronger_document_wins_key_by_key(void **state) {
        _cleanup_(
                nb_settings_tokens_done) struct nb_settings_tokens tokens = NB_SETTINGS_TOKENS_INIT;
        struct nb_settings settings;
        struct nb_failure f = {};
        const char ours[] = OURS
                "discovery: {endpoints: ['a:1', 'b:2']}\nnode: {name: n, taints: ['a:NoExecute']}\n"
                "kubelet: {extraArgs: ['v=1']}\n";

        nb_settings_init(&settings);
        settings.tokens = &tokens;
        assert_int_equal(nb_settings_merge(&settings,
                                           &(const struct nb_settings_source){ .origin = "a.yaml" },
                                           ours, strlen(ours), &f),
                         0);
        assert_int_equal(
                merge(&settings,
                      V3 "discovery: {bootstrapToken: {apiServerEndpoint: 'c:3', token: " TLS_TOKEN
                         "}}\n",
                      false, &f),
                0);
        assert_int_equal(merge(&settings,
                               V3 "discovery: {bootstrapToken: {token: " TOKEN
                                  "}}\nnodeRegistration: {taints: []}\ndryRun: null\n",
                               false, &f) < 0,
                         true);
        nb_failure_clear(&f);
        assert_int_equal(merge(&settings,
                               V3 "discovery: {bootstrapToken: {token: " TOKEN
                                  "}}\nnodeRegistration: {taints: []}\n",
                               false, &f),
                         0);
        assert_int_equal(settings.n_endpoints, 1);
        assert_string_equal(settings.endpoints[0].host, "c");
        assert_string_equal(settings.origin[NB_SETTING_ENDPOINTS], "x.yaml");
        assert_string_equal(settings.node_name, "n");
        assert_string_equal(settings.origin[NB_SETTING_NODE_NAME], "a.yaml");
        assert_int_equal(settings.n_taints, 0);
        assert_string_equal(settings.origin[NB_SETTING_TAINTS], "x.yaml");
        assert_int_equal(settings.n_extra_args, 1);
        assert_string_equal(text_of(&tokens.discovery), TOKEN);
}

static void what_was_ignored_has_a_limit(void **state) {
        struct nb_settings settings;
        struct nb_failure f = {};
        size_t len;

        nb_settings_init(&settings);
        assert_int_equal(
                merge(&settings,
                      V4 "dryRun: true\npatches: {a: b}\nskipPhases: [x]\n"
                         "nodeRegistration: {ignorePreflightErrors: [x], imagePullPolicy: x, "
                         "imagePullSerial: true}\n"
                         "timeouts: {controlPlaneComponentHealthCheck: x, etcdAPICall: x, "
                         "kubeletHealthCheck: x, "
                         "kubernetesAPICall: x, upgradeManifests: x}\n"
                         "---\napiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\n",
                      false, &f),
                0);
        len = strlen(settings.ignored);
        assert_true(len < NB_SETTINGS_IGNORED_SIZE);
        assert_string_equal(settings.ignored + len - 5, ", ...");
        assert_int_equal(merge(&settings, V3 "skipPhases: [x]\n", false, &f), 0);
        assert_int_equal(strlen(settings.ignored), len);
}

static int run(const void *input) {
        _cleanup_(
                nb_settings_tokens_done) struct nb_settings_tokens tokens = NB_SETTINGS_TOKENS_INIT;
        struct nb_settings settings;
        struct nb_failure f = {};

        nb_settings_init(&settings);
        settings.tokens = &tokens;
        return merge(&settings, input, false, &f);
}

static void memory_runs_out(void **state) {
        allocation_try_all(run, taken[1].text);
}

int main(void) {
        CASES(taken, takes);
        CASES(refused, refuses);
        CASES(malformed, verifies_token);
        CASE(without_a_token_it_may_be_exposed);
        CASE(a_stronger_document_wins_key_by_key);
        CASE(what_was_ignored_has_a_limit);
        CASE(memory_runs_out);
        return case_run("join_configuration");
}
