/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "settings/settings.h"

#include "case.h"

#define HEAD "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n"
#define JOIN "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\n"
#define TOKEN "abcdef.0123456789abcdef"
#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

struct metadata_case {
        const char *name;
        const char *text;
        enum nb_code code;
        const char *detail; /* of the failure */
        const char *ignored;
};

#define FOREIGN \
        "metadata must not set this key (see METADATA in node-bootstrap.yaml(5)); set it in " \
        "config.yaml on the machine"
#define OPTION "expected cloud-provider, max-pods, node-ip or node-labels in metadata, found "
#define ELSEWHERE "; for another option, set it in config.yaml on the machine"
#define TOKEN_ "what may be a token; a token belongs in the credential node-bootstrap.token"
#define URL "expected an https URL in metadata, found "

static struct metadata_case cases[] = {
        { "metadata: everything that it may set", HEAD
          "discovery: {endpoints: [a], caCertHashes: ['sha256:" HASH
          "'], unsafeSkipCAVerification: true, trustWholeBundle: true, file: 'https://a/b'}\n"
          "bootstrap: {token: " TOKEN
          "}\ncluster: {type: k3s}\nnode: {name: n, allowExisting: true, taints: ['a:NoExecute']}\n"
          "kubelet: {providerID: 'a:///b', extraArgs: ['node-labels=a=b', 'node-ip=10.0.0.1', "
          "'max-pods=5', 'cloud-provider=external']}\n"
          "csr: {expirationSeconds: 3600}\ntimeout: 5m\ntoken: {discard: true}\nmetadata: "
          "{nodeName: true, providerID: true}\n" },
        { "metadata: no discovery file", HEAD "discovery: {file: ''}\n" },
        { "metadata: a path of a discovery file", HEAD "discovery: {file: /etc/shadow}\n",
          NB_SETTINGS_INVALID,
          "x:3: discovery.file: " URL
          "11 characters; for a path, set it in config.yaml on the machine" },
        { "metadata: a CA file of a URL", HEAD "discovery: {urlCAFile: /a}\n", NB_SETTINGS_INVALID,
          "x:3: discovery.urlCAFile: " FOREIGN },
        { "metadata: a bootstrap kubeconfig", HEAD "bootstrap: {kubeconfig: /a}\n",
          NB_SETTINGS_INVALID, "x:3: bootstrap.kubeconfig: " FOREIGN },
        { "metadata: kubelet's kubeconfig", HEAD "kubelet: {kubeconfig: /a}\n", NB_SETTINGS_INVALID,
          "x:3: kubelet.kubeconfig: " FOREIGN },
        { "metadata: kubelet's certificates", HEAD "kubelet: {certificateDirectory: /a}\n",
          NB_SETTINGS_INVALID, "x:3: kubelet.certificateDirectory: " FOREIGN },
        { "metadata: kubelet's CA", HEAD "kubelet:\n  caFile: /a\n", NB_SETTINGS_INVALID,
          "x:4: kubelet.caFile: " FOREIGN },
        { "metadata: the socket of the runtime", HEAD "kubelet: {criSocket: /a}\n",
          NB_SETTINGS_INVALID, "x:3: kubelet.criSocket: " FOREIGN },
        { "metadata: the key of the proof", HEAD "proof: {key: credential}\n", NB_SETTINGS_INVALID,
          "x:3: proof.key: " FOREIGN },
        { "metadata: kubelet's configuration", HEAD "kubelet: {configFrom: cluster}\n",
          NB_SETTINGS_INVALID, "x:3: kubelet.configFrom: " FOREIGN },
        { "metadata: refreshes", HEAD "refresh: {automatic: true}\n", NB_SETTINGS_INVALID,
          "x:3: refresh.automatic: " FOREIGN },
        { "metadata: restarts", HEAD "refresh: {restartKubelet: true}\n", NB_SETTINGS_INVALID,
          "x:3: refresh.restartKubelet: " FOREIGN },
        { "metadata: the provider", HEAD "metadata: {provider: aws}\n", NB_SETTINGS_INVALID,
          "x:3: metadata.provider: " FOREIGN },
        { "metadata: an option that gives root",
          HEAD "kubelet: {extraArgs: ['node-ip=10.0.0.1', 'config=/a']}\n", NB_SETTINGS_INVALID,
          "x:3: kubelet.extraArgs[1]: " OPTION "6 characters" ELSEWHERE },
        { "metadata: an option that an allowed one is a prefix of",
          HEAD "kubelet: {extraArgs: ['node-ip2=a']}\n", NB_SETTINGS_INVALID,
          "x:3: kubelet.extraArgs[0]: " OPTION "8 characters" ELSEWHERE },
        { "metadata: an option that is a prefix of an allowed one",
          HEAD "kubelet: {extraArgs: ['node=a']}\n", NB_SETTINGS_INVALID,
          "x:3: kubelet.extraArgs[0]: " OPTION "4 characters" ELSEWHERE },
        { "metadata: a k3s token in an option is not quoted",
          HEAD "kubelet: {extraArgs: ['foo=K10" HASH "::server:password']}\n", NB_SETTINGS_INVALID,
          "x:3: kubelet.extraArgs[0]: " OPTION "'foo'" ELSEWHERE },
        { "metadata: a k3s token as the name of an option is not quoted",
          HEAD "kubelet: {extraArgs: ['-K10" HASH "::server:password=a']}\n", NB_SETTINGS_INVALID,
          "x:3: kubelet.extraArgs[0]: " OPTION TOKEN_ ELSEWHERE },
        { "metadata: a k3s token in a path is not quoted",
          HEAD "discovery: {file: '/etc/K10" HASH "::server:password'}\n", NB_SETTINGS_INVALID,
          "x:3: discovery.file: " URL TOKEN_ "; for a path, set it in config.yaml on the machine" },
        { "metadata: an unknown key", HEAD "a: b\n", NB_SETTINGS_INVALID,
          "x:3: unknown key ('a')" },
        { "metadata: a JoinConfiguration",
          JOIN "caCertPath: /etc/kubernetes/pki/ca.crt\n"
               "discovery: {bootstrapToken: {token: " TOKEN
               ", apiServerEndpoint: a, caCertHashes: ['sha256:" HASH "']}}\n"
               "nodeRegistration: {name: n, criSocket: /run/x.sock, taints: [], kubeletExtraArgs: "
               "[{name: cloud-provider, value: external}]}\n"
               "timeouts: {discovery: 5m0s}\n",
          .ignored = "caCertPath, nodeRegistration.criSocket" },
        { "metadata: a path in a JoinConfiguration",
          JOIN "discovery: {file: {kubeConfigPath: /etc/info.yaml}, tlsBootstrapToken: " TOKEN
               "}\n",
          .ignored = "discovery.file.kubeConfigPath" },
        { "metadata: a URL in a JoinConfiguration", JOIN
          "discovery: {file: {kubeConfigPath: 'https://a/b'}, tlsBootstrapToken: " TOKEN "}\n" },
        { "metadata: an option in a JoinConfiguration that gives root",
          JOIN "nodeRegistration: {kubeletExtraArgs: [{name: config, value: /a}]}\n",
          NB_SETTINGS_INVALID,
          "x:3: nodeRegistration.kubeletExtraArgs[0]: " OPTION "6 characters" ELSEWHERE },
};

static int merge(struct nb_settings *settings, const struct nb_settings_source *source,
                 const char *text, struct nb_failure *f) {
        return nb_settings_merge(settings, source, text, strlen(text), f);
}

/* Anyone can read metadata, so that it is exposed; its tokens are accepted nevertheless. */
static const struct nb_settings_source metadata = { .origin = "x",
                                                    .is_exposed = true,
                                                    .is_metadata = true };

static void takes_from_metadata(void **state) {
        const struct metadata_case *c = *state;
        struct nb_settings settings, before;
        struct nb_failure f = {};
        int r;

        nb_settings_init(&settings);
        before = settings;
        r = merge(&settings, &metadata, c->text, &f);
        assert_string_equal(f.detail, c->detail ? c->detail : "");
        assert_int_equal(f.code, c->code);
        assert_int_equal(r < 0, c->code != NB_NONE);
        if (r < 0)
                assert_memory_equal(&settings, &before, sizeof(settings));
        else
                assert_string_equal(settings.ignored, c->ignored ? c->ignored : "");
}

static void metadata_sets_what_the_table_allows(void **state) {
        struct nb_settings settings;
        struct nb_failure f = {};

        nb_settings_init(&settings);
        assert_int_equal(merge(&settings, &metadata, cases[0].text, &f), 0);
        for (unsigned i = 0; i < _NB_SETTING_N; i++)
                assert_int_equal(strcmp(settings.origin[i], "x") == 0,
                                 nb_setting_rows[i].metadata != NB_SETTING_METADATA_NEVER);
}

static void a_document_on_the_machine_overrides_metadata(void **state) {
        _cleanup_(
                nb_settings_tokens_done) struct nb_settings_tokens tokens = NB_SETTINGS_TOKENS_INIT;
        const struct nb_settings_source source = { .origin = "config.yaml" };
        struct nb_settings settings;
        struct nb_failure f = {};

        nb_settings_init(&settings);
        settings.tokens = &tokens;
        assert_int_equal(merge(&settings, &metadata, cases[0].text, &f), 0);
        assert_string_equal(tokens.discovery.data, TOKEN);
        assert_string_equal(tokens.discovery_origin, "x");
        assert_int_equal(merge(&settings, &source,
                               HEAD
                               "node: {name: other}\nbootstrap: {token: fedcba.fedcba9876543210}\n",
                               &f),
                         0);
        assert_string_equal(settings.node_name, "other");
        assert_string_equal(settings.origin[NB_SETTING_NODE_NAME], "config.yaml");
        assert_string_equal(settings.origin[NB_SETTING_PROVIDER_ID], "x");
        assert_string_equal(tokens.discovery.data, "fedcba.fedcba9876543210");
        assert_string_equal(tokens.discovery_origin, "config.yaml");
}

struct key_case {
        const char *name, *text, *node_name, *detail;
};

static struct key_case key_cases[] = {
        { "key: settings without apiVersion and kind", "a: &x b\nkey: {node: {name: n}}\nc: *x\n",
          "n" },
        { "key: a whole document", "key:\n  apiVersion: node-bootstrap/v1\n  node: {name: n}\n",
          "n" },
        { "key: a JoinConfiguration",
          "key:\n  apiVersion: kubeadm.k8s.io/v1beta4\n  kind: JoinConfiguration\n"
          "  nodeRegistration: {name: n}\n",
          "n" },
        { "key: not in the document", "node: {name: n}\n", "" },
        { "key: another version", "key:\n  apiVersion: node-bootstrap/v9\n", "",
          "x:2: apiVersion: expected node-bootstrap/v1, found 17 characters" },
        { "key: an error, in the line of the whole document", "a: b\n\nkey:\n  timeout: true\n", "",
          "x:4: timeout: expected " },
};

static void takes_value_of_key(void **state) {
        const struct nb_settings_source source = { .origin = "x",
                                                   .key = "key",
                                                   .is_metadata = true };
        const struct key_case *c = *state;
        struct nb_settings settings;
        struct nb_failure f = {};

        nb_settings_init(&settings);
        assert_int_equal(merge(&settings, &source, c->text, &f) < 0, c->detail != NULL);
        assert_string_equal(settings.node_name, c->node_name);
        if (c->detail)
                assert_memory_equal(f.detail, c->detail, strlen(c->detail));
}

struct token_case {
        const char *name;
        const char *value;
        bool is_exposed;
        enum nb_code code;
        const char *detail;
        const char *token; /* what is kept; NULL for none */
};

#define FORM "expected a token (six characters, a dot and sixteen characters of a-z and 0-9)"
#define FORM_OF_K3S \
        "expected a token (K10<hash>::<id>.<secret> or K10<hash>" \
        "::<user>:<password>)"

static struct token_case tokens_of_documents[] = {
        { "bootstrap.token: a bootstrap token", TOKEN, .token = TOKEN },
        { "bootstrap.token: with a newline", "|\n    " TOKEN "\n", .token = TOKEN },
        { "bootstrap.token: only digits", "123456.0123456789012345",
          .token = "123456.0123456789012345" },
        { "bootstrap.token: one of k3s", "K10" HASH "::node:0123456789",
          .token = "K10" HASH "::node:0123456789" },
        { "bootstrap.token: one of k3s with a bootstrap token", "'K10" HASH "::" TOKEN "'",
          .token = "K10" HASH "::" TOKEN },
        { "bootstrap.token: empty", "''" },
        { "bootstrap.token: empty, in an exposed file", "''", true },
        { "bootstrap.token: in an exposed file", TOKEN, true, NB_TOKEN_EXPOSED,
          "other users can read this file; it must not contain a token" },
        { "bootstrap.token: too short", "abcdef.0123456789abcde", false, NB_TOKEN_MALFORMED,
          FORM ": 1 character is missing after the dot" },
        { "bootstrap.token: two newlines", "\"" TOKEN "\\n\\n\"", false, NB_TOKEN_MALFORMED,
          FORM ": its character 24 is a newline" },
        { "bootstrap.token: a list", "[" TOKEN "]", false, NB_TOKEN_MALFORMED,
          FORM ": it is a list" },
        { "bootstrap.token: a mapping", "{a: " TOKEN "}", false, NB_TOKEN_MALFORMED,
          FORM ": it is a mapping" },
        { "bootstrap.token: one of k3s with a short hash", "K100123456789abcdef::node:x", false,
          NB_TOKEN_MALFORMED,
          FORM_OF_K3S ": the part between K10 and '::' is not 64 hex digits; the full token of "
                      "`k3s token create` or "
                      "/var/lib/rancher/k3s/server/node-token begins with K10 and 64 hex digits" },
        { "bootstrap.token: the ciphertext of systemd-creds",
          "0123456789012345678901AAAAABAAAADAAAABAAAA0123", false, NB_TOKEN_MALFORMED,
          FORM ": it is encrypted" },
        { "bootstrap.token: null", "", false, NB_SETTINGS_INVALID,
          "expected a token, found nothing" },
};

static void takes_token(void **state) {
        const struct token_case *c = *state;

        for (unsigned are_wanted = 0; are_wanted < 2; are_wanted++) {
                _cleanup_(nb_settings_tokens_done) struct nb_settings_tokens tokens =
                        NB_SETTINGS_TOKENS_INIT;
                const struct nb_settings_source source = { .origin = "x",
                                                           .is_exposed = c->is_exposed };
                struct nb_settings settings;
                struct nb_failure f = {};
                char text[512], detail[512] = "";

                nb_settings_init(&settings);
                settings.tokens = are_wanted ? &tokens : NULL;
                (void)snprintf(text, sizeof(text), HEAD "bootstrap:\n  token: %s\n", c->value);
                if (c->detail)
                        (void)snprintf(detail, sizeof(detail), "x:4: bootstrap.token: %s",
                                       c->detail);
                assert_int_equal(merge(&settings, &source, text, &f) < 0, c->code != NB_NONE);
                assert_string_equal(f.detail, detail);
                assert_int_equal(f.code, c->code);
                assert_null(strstr(f.detail, "0123456789"));
                assert_int_equal(settings.has_discovery_token, c->token != NULL);
                assert_int_equal(tokens.discovery.data != NULL, are_wanted && c->token);
                if (tokens.discovery.data)
                        assert_string_equal(tokens.discovery.data, c->token);
        }
}

/* Nobody can correct it on the machine. */
static void a_token_in_metadata_is_malformed_metadata(_unused_ void **state) {
        const struct nb_settings_source source = { .origin = "x", .is_metadata = true };
        static const char *const texts[] = {
                HEAD "bootstrap: {token: abc}\n",
                HEAD "bootstrap: {token: K10abc}\n",
                JOIN "discovery: {tlsBootstrapToken: abc}\n",
                JOIN "discovery: {bootstrapToken: {token: [" TOKEN "]}}\n",
        };

        for (size_t i = 0; i < N_ELEMENTS(texts); i++) {
                struct nb_settings settings;
                struct nb_failure f = {};

                nb_settings_init(&settings);
                assert_true(merge(&settings, &source, texts[i], &f) < 0);
                assert_int_equal(f.code, NB_METADATA_MALFORMED);
        }
}

static void an_empty_token_removes_a_weaker_one(void **state) {
        _cleanup_(
                nb_settings_tokens_done) struct nb_settings_tokens tokens = NB_SETTINGS_TOKENS_INIT;
        const struct nb_settings_source source = { .origin = "a" },
                                        stronger = { .origin = "b", .is_exposed = true };
        struct nb_settings settings;
        struct nb_failure f = {};

        nb_settings_init(&settings);
        settings.tokens = &tokens;
        assert_int_equal(merge(&settings, &source, HEAD "bootstrap: {token: " TOKEN "}\n", &f), 0);
        assert_true(settings.has_discovery_token && tokens.discovery.data);
        assert_int_equal(merge(&settings, &stronger, HEAD "bootstrap: {token: ''}\n", &f), 0);
        assert_false(settings.has_discovery_token || tokens.discovery.data);
        assert_string_equal(settings.origin[NB_SETTING_BOOTSTRAP_TOKEN], "b");
}

static void forgets_tokens(void **state) {
        _cleanup_(
                nb_settings_tokens_done) struct nb_settings_tokens tokens = NB_SETTINGS_TOKENS_INIT;
        const struct nb_settings_source source = { .origin = "a" };
        struct nb_settings settings, before;
        struct nb_failure f = {};

        nb_settings_init(&settings);
        before = settings;
        settings.tokens = &tokens;
        assert_int_equal(merge(&settings, &source,
                               JOIN "discovery: {bootstrapToken: {token: " TOKEN
                                    "}, tlsBootstrapToken: " TOKEN "}\n",
                               &f),
                         0);
        assert_true(settings.has_discovery_token);
        nb_settings_forget_tokens(&settings);
        assert_null(tokens.discovery.data);
        assert_null(tokens.tls_bootstrap.data);
        assert_null(settings.tokens);
        assert_false(settings.has_discovery_token);
        assert_string_equal(settings.origin[NB_SETTING_BOOTSTRAP_TOKEN],
                            before.origin[NB_SETTING_BOOTSTRAP_TOKEN]);
}

int main(void) {
        CASES(cases, takes_from_metadata);
        CASE(metadata_sets_what_the_table_allows);
        CASE(a_document_on_the_machine_overrides_metadata);
        CASES(key_cases, takes_value_of_key);
        CASES(tokens_of_documents, takes_token);
        CASE(a_token_in_metadata_is_malformed_metadata);
        CASE(an_empty_token_removes_a_weaker_one);
        CASE(forgets_tokens);
        return case_run("settings_metadata");
}
