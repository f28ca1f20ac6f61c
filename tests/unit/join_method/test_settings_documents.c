/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "case.h"
#include "join_method/method.h"
#include "join_method/settings_documents.h"
#include "os/sources.h"

#define OURS "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n"
#define JOIN "apiVersion: kubeadm.k8s.io/v1beta3\nkind: JoinConfiguration\n"
#define JOIN4 "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\n"
#define HASH "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER_HASH "sha256:fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define TOKEN "abcdef.0123456789abcdef"
#define OTHER_TOKEN "fedcba.fedcba9876543210"
#define K3S_TOKEN \
        "K100123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef::server:password"
#define ORIGIN "the user data of a test"

static char folder[64];
static struct nb_sources sources;

/* The final value of a setting, and whether it is from metadata. */
struct merge_case {
        const char *name;
        const char *local, *metadata; /* without the header; NULL: there is none */
        enum nb_code code;
        const char *detail; /* a part of the message */
        enum nb_setting setting;
        const char *value;
        bool is_from_metadata;
};

static struct merge_case merges[] = {
        { "nothing on either side", "", NULL, NB_NONE, NULL, NB_SETTING_NODE_NAME, "\"\"", false },
        { "metadata alone", "", "node: {name: a}\n", NB_NONE, NULL, NB_SETTING_NODE_NAME, "\"a\"",
          true },
        { "the machine wins", "node: {name: b}\n", "node: {name: a}\n", NB_NONE, NULL,
          NB_SETTING_NODE_NAME, "\"b\"", false },
        { "key by key", "node: {name: b}\n", "node: {name: a, allowExisting: true}\n", NB_NONE,
          NULL, NB_SETTING_ALLOW_EXISTING, "true", true },
        { "a list is not added to", "discovery: {endpoints: [b]}\n",
          "discovery: {endpoints: [a, c]}\n", NB_NONE, NULL, NB_SETTING_ENDPOINTS, "[\"b:6443\"]",
          false },
        { "the machine may say no", "token: {discard: false}\n", "token: {discard: true}\n",
          NB_NONE, NULL, NB_SETTING_TOKEN_DISCARD, "false", false },
        { "pins of metadata", "", "discovery: {caCertHashes: [\"" HASH "\"]}\n", NB_NONE, NULL,
          NB_SETTING_CA_CERT_HASHES, "[\"" HASH "\"]", true },
        { "pins of the machine", "discovery: {caCertHashes: [\"" HASH "\"]}\n",
          "discovery: {caCertHashes: [\"" OTHER_HASH "\"]}\n", NB_NONE, NULL,
          NB_SETTING_CA_CERT_HASHES, "[\"" HASH "\"]", false },
        { "no pins, and metadata goes without", "", "discovery: {unsafeSkipCAVerification: true}\n",
          NB_NONE, NULL, NB_SETTING_UNSAFE_SKIP_CA_VERIFICATION, "true", true },
        { "metadata would go without pins of the machine",
          "discovery: {caCertHashes: [\"" HASH "\"]}\n",
          "discovery: {unsafeSkipCAVerification: true}\n", NB_NONE, NULL,
          NB_SETTING_UNSAFE_SKIP_CA_VERIFICATION, "false", false },
        { "metadata would trust more than pins of the machine",
          "discovery: {caCertHashes: [\"" HASH "\"]}\n", "discovery: {trustWholeBundle: true}\n",
          NB_NONE, NULL, NB_SETTING_TRUST_WHOLE_BUNDLE, "false", false },
        { "the machine trusts more than its pins",
          "discovery: {caCertHashes: [\"" HASH "\"], trustWholeBundle: true}\n",
          "node: {name: a}\n", NB_NONE, NULL, NB_SETTING_TRUST_WHOLE_BUNDLE, "true", false },
        { "metadata trusts more than its own pins", "",
          "discovery: {caCertHashes: [\"" HASH "\"], trustWholeBundle: true}\n", NB_NONE, NULL,
          NB_SETTING_TRUST_WHOLE_BUNDLE, "true", true },
        { "metadata would trust more than a document of the machine", "discovery: {file: /etc/a}\n",
          "discovery: {trustWholeBundle: true}\n", NB_NONE, NULL, NB_SETTING_TRUST_WHOLE_BUNDLE,
          "false", false },
        { "metadata would trust more than a URL of the machine",
          "discovery: {file: \"https://a/b\"}\n", "discovery: {trustWholeBundle: true}\n", NB_NONE,
          NULL, NB_SETTING_TRUST_WHOLE_BUNDLE, "false", false },
        { "metadata trusts more than its own URL", "",
          "discovery: {file: \"https://a/b\", trustWholeBundle: true}\n", NB_NONE, NULL,
          NB_SETTING_TRUST_WHOLE_BUNDLE, "true", true },
        { "a key that metadata may not set", "", "kubelet: {kubeconfig: /etc/shadow}\n",
          NB_SETTINGS_INVALID, "kubelet.kubeconfig" },
        { "which metadata is", "", "metadata: {provider: aws}\n", NB_SETTINGS_INVALID,
          "metadata.provider" },
};

static void put(const char *name, const char *text) {
        char path[256];
        FILE *file;

        (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
        (void)unlink(path);
        if (!text)
                return;
        file = fopen(path, "we");
        assert_non_null(file);
        assert_true(fputs(text, file) >= 0);
        assert_int_equal(fclose(file), 0);
        assert_int_equal(chmod(path, 0600), 0);
}

/* Merges the documents of the machine, and settles them with those of metadata. */
static int settle(const char *text, struct nb_settings_tokens *tokens, struct nb_settings *ret,
                  struct nb_failure *f) {
        const struct nb_settings_source source = { .origin = ORIGIN, .is_metadata = true };
        static struct nb_settings own, metadata;
        int r;

        r = nb_documents_merge(&sources, NULL, &own, f);
        nb_settings_init(&metadata);
        if (r >= 0)
                r = nb_settings_merge(&metadata, &source, text, strlen(text), f);
        if (r >= 0)
                nb_settings_settle(&sources, &own, &metadata, tokens, ret);
        return r;
}

static void merges_documents(void **state) {
        const struct merge_case *c = *state;
        struct nb_settings_tokens tokens = NB_SETTINGS_TOKENS_INIT;
        struct nb_buffer value = NB_BUFFER_INIT(1024);
        struct nb_settings settings;
        struct nb_failure f = { 0 };
        char local[1024], text[1024];
        int r;

        (void)snprintf(local, sizeof(local), OURS "%s", c->local);
        (void)snprintf(text, sizeof(text), OURS "%s", c->metadata ? c->metadata : "");
        put("config.yaml", local);
        r = c->metadata ? settle(text, &tokens, &settings, &f)
                        : nb_documents_merge(&sources, NULL, &settings, &f);
        assert_int_equal(f.code, c->code);
        assert_int_equal(r < 0, c->code != NB_NONE);
        if (r < 0) {
                if (!strstr(f.detail, c->detail) || !strstr(f.detail, ORIGIN))
                        fail_msg("'%s' or the origin is not in: %s", c->detail, f.detail);
                return;
        }
        nb_setting_format(&settings, c->setting, &value);
        assert_string_equal(value.data, c->value);
        assert_int_equal(nb_setting_is_from(&settings, c->setting, ORIGIN), c->is_from_metadata);
        nb_buffer_done(&value);
}

static void document_of_the_machine(void **state) {
        static const char text[] = OURS "discovery: {trustWholeBundle: true}\n";
        struct nb_settings_tokens tokens = NB_SETTINGS_TOKENS_INIT;
        struct nb_settings settings;
        struct nb_failure f = { 0 };

        put("config.yaml", OURS);
        assert_int_equal(settle(text, &tokens, &settings, &f), 0);
        assert_true(settings.trust_whole_bundle);
        put(NB_CREDENTIAL_CLUSTER_INFO_NAME, "apiVersion: v1\nkind: Config\n");
        assert_int_equal(settle(text, &tokens, &settings, &f), 0);
        assert_false(settings.trust_whole_bundle);
        put(NB_CREDENTIAL_CLUSTER_INFO_NAME, NULL);
}

struct want_case {
        const char *name;
        const char *local;                          /* a whole document */
        const char *token, *tls_token, *kubeconfig; /* credentials */
        bool is_wanted;
};

#define KUBECONFIG \
        "apiVersion: v1\nkind: Config\nclusters:\n- name: k\n  cluster: {server: " \
        "\"https://10.0.0.11:6443\", certificate-authority-data: UEVN}\n" \
        "contexts:\n- {name: c, context: {cluster: k, user: u}}\ncurrent-context: c\nusers:\n- " \
        "name: u\n  user: {token: abc}\n"

static struct want_case wants[] = {
        { "nothing", OURS, .is_wanted = true },
        { "endpoints alone", OURS "discovery: {endpoints: [a]}\n", .is_wanted = true },
        { "a cloud by its name", OURS "metadata: {provider: aws}\n", .is_wanted = true },
        { "metadata is not to be asked", OURS "metadata: {provider: none}\n" },
        { "a token", OURS, .token = TOKEN },
        { "a token and a cloud by its name", OURS "metadata: {provider: aws}\n", .token = TOKEN },
        { "a token of k3s", OURS, .token = K3S_TOKEN },
        { "a token for the request", OURS, .tls_token = TOKEN },
        { "a bootstrap kubeconfig", OURS, .kubeconfig = KUBECONFIG },
        { "a token in the settings", OURS "bootstrap: {token: " TOKEN "}\n" },
        { "a token of k3s in the settings", OURS "bootstrap: {token: \"" K3S_TOKEN "\"}\n" },
        { "a token in a JoinConfiguration",
          JOIN "discovery: {bootstrapToken: {token: " TOKEN
               ", apiServerEndpoint: \"10.0.0.1:6443\", unsafeSkipCAVerification: true}}\n" },
};

static void wants_metadata(void **state) {
        const struct want_case *c = *state;
        struct nb_settings_tokens tokens = NB_SETTINGS_TOKENS_INIT;
        struct nb_settings settings;
        struct nb_bootstrap bootstrap;
        struct nb_failure f = { 0 };

        put("config.yaml", c->local);
        put(NB_CREDENTIAL_TOKEN_NAME, c->token);
        put(NB_CREDENTIAL_TLS_BOOTSTRAP_TOKEN_NAME, c->tls_token);
        put(NB_CREDENTIAL_KUBECONFIG_NAME, c->kubeconfig);
        assert_int_equal(nb_documents_merge(&sources, &tokens, &settings, &f), 0);
        assert_int_equal(nb_bootstrap_load(&sources, &settings, &bootstrap, &f), 0);
        assert_int_equal(nb_bootstrap_wants_metadata(&settings, &bootstrap), c->is_wanted);
        nb_bootstrap_done(&bootstrap);
        nb_settings_tokens_done(&tokens);
}

/* Those of metadata stay unless a document on the machine says that there is none. */
static void tokens_stay(void **state) {
        struct nb_settings_tokens tokens = NB_SETTINGS_TOKENS_INIT;
        struct nb_settings settings;
        struct nb_bootstrap bootstrap;
        struct nb_failure f = { 0 };

        put(NB_CREDENTIAL_TOKEN_NAME, NULL);
        put("config.yaml", OURS);
        assert_int_equal(nb_secret_init(&tokens.discovery, 64), 0);
        assert_int_equal(nb_secret_append(&tokens.discovery, TOKEN, strlen(TOKEN)), 0);
        strcpy(tokens.discovery_origin, ORIGIN);
        assert_int_equal(settle("", &tokens, &settings, &f), 0);
        assert_int_equal(nb_bootstrap_load(&sources, &settings, &bootstrap, &f), 0);
        assert_string_equal(bootstrap.identity.source, ORIGIN);
        assert_string_equal(bootstrap.identity.token_id, "abcdef");
        nb_bootstrap_done(&bootstrap);

        put("config.yaml", OURS "bootstrap: {token: \"\"}\n");
        assert_int_equal(settle("", &tokens, &settings, &f), 0);
        assert_null(tokens.discovery.data);
}

/* Metadata is not quoted; the message names its place. */
static void malformed_tokens(void **state) {
        static const struct {
                const char *token, *detail;
        } rows[] = {
                { "hunter2-hunter2", "the token in " ORIGIN " (15 bytes) is not of the form" },
                { "K10hunter2-hunter2",
                  "the token in " ORIGIN " (18 bytes) begins like a k3s token" },
        };

        put("config.yaml", OURS);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct nb_settings_tokens tokens = NB_SETTINGS_TOKENS_INIT;
                struct nb_settings settings;
                struct nb_bootstrap bootstrap;
                struct nb_failure f = { 0 };

                assert_int_equal(nb_secret_init(&tokens.discovery, 64), 0);
                assert_int_equal(
                        nb_secret_append(&tokens.discovery, rows[i].token, strlen(rows[i].token)),
                        0);
                strcpy(tokens.discovery_origin, ORIGIN);
                assert_int_equal(nb_documents_merge(&sources, &tokens, &settings, &f), 0);
                assert_true(nb_bootstrap_load(&sources, &settings, &bootstrap, &f) < 0);
                assert_int_equal(f.code, NB_METADATA_MALFORMED);
                if (!strstr(f.detail, rows[i].detail) || strstr(f.detail, "hunter2"))
                        fail_msg("expected '%s' and no token, found: %s", rows[i].detail, f.detail);
                nb_settings_tokens_done(&tokens);
        }
}

/* Not what another document says, whose precedence depends on the refused one. */
static void documents_before_a_refused_one_are_kept(void **state) {
        struct nb_settings settings;
        struct nb_failure f = { 0 };

        put("config.yaml", OURS "node: {name: a}\nkubelet: {caFile: /a}\n");
        put(NB_CREDENTIAL_CONFIG_NAME, OURS "kubelet: {kubeconfig: /k}\nno: 1\n");
        assert_true(nb_documents_merge(&sources, NULL, &settings, &f) < 0);
        assert_int_equal(f.code, NB_SETTINGS_INVALID);
        assert_string_equal(settings.node_name, "a");
        assert_string_equal(settings.ca_file, "/a");
        assert_string_equal(settings.kubeconfig, "/etc/kubernetes/kubelet.conf");
        put(NB_CREDENTIAL_CONFIG_NAME, NULL);
        put("config.yaml", OURS);
}

/* Where the files of a join are, although `join` would refuse the documents. */
static void what_is_refused_is_skipped(void **state) {
        static const struct {
                const char *text, *more; /* config.yaml, and the credential; NULL: none */
                const char *directory, *name;
                const char *unread; /* part of the failure; NULL: no path is missing */
        } rows[] = {
                { OURS "kubelet: {certificateDirectory: /a}\nno: 1\nnode: {name: b}\n", NULL, "/a",
                  "b" },
                { OURS "kubelet: {certificateDirectory: a}\nnode: {name: b}\n", NULL,
                  "/var/lib/kubelet/pki", "b", "config.yaml:3: kubelet.certificateDirectory: " },
                { OURS "no: 1\nkubelet: 1\n", NULL, "/var/lib/kubelet/pki", "", ":4: kubelet: " },
                { JOIN "caCertPath: a\nnodeRegistration: {name: b}\n", NULL, "/var/lib/kubelet/pki",
                  "b", "caCertPath: " },
                { OURS "kubelet: {no: 1, certificateDirectory: /a}\nnode: []\n", NULL, "/a", "" },
                { "[", OURS "kubelet: {certificateDirectory: /a}\n", "/a", "", "config.yaml" },
                { OURS "kubelet: {certificateDirectory: /a}\n", "[", "/a", "", "credential" },
                { OURS "kubelet: {certificateDirectory: /a}\n",
                  OURS "kubelet: {certificateDirectory: /b, no: 1}\n", "/b", "" },
                { "kubelet: {certificateDirectory: /a}\n", NULL, "/var/lib/kubelet/pki", "",
                  "apiVersion" },
                { OURS "discovery: {token: " TOKEN "}\nkubelet: {certificateDirectory: /a}\n", NULL,
                  "/a", "" },
        };
        struct nb_settings settings;
        struct nb_failure unread;

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                put("config.yaml", rows[i].text);
                put(NB_CREDENTIAL_CONFIG_NAME, rows[i].more);
                nb_documents_merge_readable(&sources, &settings, &unread);
                assert_int_equal(unread.code != NB_NONE, rows[i].unread != NULL);
                if (rows[i].unread && !strstr(unread.detail, rows[i].unread))
                        fail_msg("expected '%s', found: %s", rows[i].unread, unread.detail);
                assert_string_equal(settings.certificate_directory, rows[i].directory);
                assert_string_equal(settings.node_name, rows[i].name);
                assert_null(settings.tokens);
        }
        put(NB_CREDENTIAL_CONFIG_NAME, NULL);
        put("config.yaml", OURS);
}

/* Not a part of a list, or of one of its items. */
static void refused_values_are_skipped_as_a_whole(void **state) {
        static const char *const rows[] = {
                OURS "node: {taints: ['a=b:NoSchedule', '=']}\n",
                JOIN "nodeRegistration: {taints: [{key: a, value: [], effect: NoSchedule}]}\n",
                JOIN "nodeRegistration: {taints: [{key: a, effect: NoSchedule, no: 1}]}\n",
                JOIN "nodeRegistration: {kubeletExtraArgs: {v: '2', max-pods: []}}\n",
                JOIN4 "nodeRegistration: {kubeletExtraArgs: [{name: v, value: '2'}, {no: a}]}\n",
        };
        struct nb_settings settings;
        struct nb_failure unread;

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                put("config.yaml", rows[i]);
                nb_documents_merge_readable(&sources, &settings, &unread);
                assert_int_equal(settings.n_taints, 0);
                assert_int_equal(settings.n_extra_args, 0);
                assert_false(nb_setting_is_set(&settings, NB_SETTING_TAINTS) ||
                             nb_setting_is_set(&settings, NB_SETTING_EXTRA_ARGS));
        }
        put("config.yaml", OURS);
}

static void documents_after_an_unreadable_one_are_read(void **state) {
        char path[128], config[128];
        struct nb_settings settings;
        struct nb_failure unread;

        (void)snprintf(path, sizeof(path), "%s/config.yaml.d", folder);
        (void)snprintf(config, sizeof(config), "%s/config.yaml", folder);
        assert_int_equal(mkdir(path, 0755), 0);
        put("config.yaml.d/10.yaml", OURS "node: {name: a}\n");
        assert_int_equal(unlink(config), 0);
        for (unsigned i = 0; i < 2; i++) {
                assert_int_equal(i == 0 ? symlink("none", config) : mkdir(config, 0755), 0);
                nb_documents_merge_readable(&sources, &settings, &unread);
                assert_int_equal(unread.code, NB_SETTINGS_UNREADABLE);
                assert_string_equal(settings.node_name, "a");
                assert_int_equal(remove(config), 0);
        }
        put("config.yaml.d/10.yaml", NULL);
        assert_int_equal(rmdir(path), 0);
        put("config.yaml", OURS);
}

static void refuses_without_a_look(const char *directory) {
        struct nb_sources linked = { .config_directory = directory };
        struct nb_settings settings;
        struct nb_failure f = { 0 };
        struct rlimit before, limit;
        int fd;

        assert_int_equal(nb_documents_merge(&linked, NULL, &settings, &f), 0);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        fd = dup(STDERR_FILENO);
        assert_int_equal(close(fd), 0);
        limit = (struct rlimit){ (rlim_t)fd + 1, before.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        assert_int_equal(nb_documents_merge(&linked, NULL, &settings, &f), -EMFILE);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_int_equal(f.code, NB_SETTINGS_UNREADABLE);
        assert_null(linked.config_directory);
}

/* The settings, or one of the documents, are on another file system, and no process can be started
 * that looks at it first: this one does not wait for it. One more descriptor could be opened, but a
 * pipe needs two. */
static void nobody_can_look_first(void **state) {
        char path[128], elsewhere[128];

        (void)snprintf(elsewhere, sizeof(elsewhere), "%s", folder);
        (void)snprintf(path, sizeof(path), "%s/link", folder);
        assert_int_equal(symlink(elsewhere, path), 0);
        refuses_without_a_look(path);
        assert_int_equal(unlink(path), 0);

        (void)snprintf(path, sizeof(path), "%s/config.yaml.d", folder);
        assert_int_equal(mkdir(path, 0755), 0);
        (void)snprintf(path, sizeof(path), "%s/config.yaml.d/10.yaml", folder);
        (void)snprintf(elsewhere, sizeof(elsewhere), "%s/config.yaml", folder);
        assert_int_equal(symlink(elsewhere, path), 0);
        refuses_without_a_look(folder);
        assert_int_equal(unlink(path), 0);
        (void)snprintf(path, sizeof(path), "%s/config.yaml.d", folder);
        assert_int_equal(rmdir(path), 0);
}

int main(void) {
        char command[128];
        int r;

        strcpy(folder, "/tmp/nb-test-documents-XXXXXX");
        if (!mkdtemp(folder))
                return 1;
        sources = (struct nb_sources){ .config_directory = folder,
                                       .credentials_directory = folder };
        CASES(merges, merges_documents);
        CASE(document_of_the_machine);
        CASES(wants, wants_metadata);
        CASE(tokens_stay);
        CASE(malformed_tokens);
        CASE(documents_before_a_refused_one_are_kept);
        CASE(what_is_refused_is_skipped);
        CASE(refused_values_are_skipped_as_a_whole);
        CASE(documents_after_an_unreadable_one_are_read);
        CASE(nobody_can_look_first);
        r = case_run("bootstrap documents");
        (void)snprintf(command, sizeof(command), "rm -r %s", folder);
        return system(command) != 0 ? 1 : r;
}
