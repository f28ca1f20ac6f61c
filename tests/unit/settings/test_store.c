/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "settings/join_configuration.h"
#include "settings/store.h"

#include "case.h"

#define TOKEN "abcdef.0123456789abcdef"
#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define K3S_TOKEN "K10" HASH "::" TOKEN
#define SECRET "what may be a token; a token belongs in the credential node-bootstrap.token"
#define SIXTY "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

/* A document that is merged. */
struct document {
        struct nb_settings settings;
        struct nb_settings_tokens tokens;
        struct nb_settings_source source;
        struct nb_failure f;
        struct nb_settings_merge merge;
        struct nb_yaml_node *root;
        struct nb_buffer taken;
};

static void begin(struct document *document, const char *yaml) {
        *document = (struct document){ .tokens = NB_SETTINGS_TOKENS_INIT,
                                       .source = { .origin = "x.yaml" },
                                       .taken = NB_BUFFER_INIT(256) };
        document->merge = (struct nb_settings_merge){ &document->settings, &document->source,
                                                      &document->f };
        nb_settings_init(&document->settings);
        document->settings.tokens = &document->tokens;
        assert_int_equal(nb_yaml_parse("x.yaml", yaml, strlen(yaml), NB_SETTINGS_MALFORMED, 1,
                                       &document->root, &document->f),
                         0);
}

static void end(struct document *document) {
        nb_settings_tokens_done(&document->tokens);
        nb_buffer_done(&document->taken);
        nb_yaml_free(document->root);
}

/* --- Keys --- */

enum keys {
        KNOWN, /* alpha, section.beta, section.gamma */
        ALL,
        INNER, /* the known ones, in the mapping "list[0]" */
};

struct walk_case {
        const char *name;
        const char *text;
        enum keys keys;
        const char *taken;  /* "index:path ..." */
        const char *detail; /* "": accepted */
};

static struct walk_case walks[] = {
        { "keys: in the order of the document", "section: {gamma: 1, beta: 2}\nalpha: 3", KNOWN,
          "2:section.gamma 1:section.beta 0:alpha ", "" },
        { "keys: a section can be empty", "section:\nalpha: 1", KNOWN, "0:alpha ", "" },
        { "keys: a section that is no mapping", "section: 1", KNOWN, "",
          "x.yaml:1: section: expected a mapping, found '1' (a number)" },
        { "keys: the header is skipped", "apiVersion: x\nkind: [y]\nalpha: 1", KNOWN, "0:alpha ",
          "" },
        { "keys: a section has no header", "section: {kind: x}", KNOWN, "",
          "x.yaml:1: section: unknown key (4 characters)" },
        { "keys: two letters from a known one", "alhpa: 1", KNOWN, "",
          "x.yaml:1: unknown key (5 characters); did you mean alpha?" },
        { "keys: too far from any", "aaaaa: 1", KNOWN, "", "x.yaml:1: unknown key (5 characters)" },
        { "keys: a known one in the wrong place", "beta: 1", KNOWN, "",
          "x.yaml:1: unknown key (4 characters); did you mean section.beta?" },
        { "keys: a known one in the wrong section", "section: {alpha: 1}", KNOWN, "",
          "x.yaml:1: section: unknown key (5 characters); did you mean alpha?" },
        { "keys: a misspelled section", "sektion: {beta: 1}", KNOWN, "",
          "x.yaml:1: unknown key (7 characters); did you mean section?" },
        { "keys: the beginning of a section is none", "sect: {beta: 1}", KNOWN, "",
          "x.yaml:1: unknown key (4 characters)" },
        { "keys: a path as a key", "section.beta: 1", KNOWN, "",
          "x.yaml:1: a key must not contain a dot; nest the mappings (12 characters)" },
        { "keys: a token as a key", TOKEN ": 1", KNOWN, "",
          "x.yaml:1: expected a key, found " SECRET },
        { "keys: a token as a key, where all are taken", TOKEN ": 1", ALL, "",
          "x.yaml:1: expected a key, found " SECRET },
        { "keys: a long one", SIXTY "bbbb: 1", KNOWN, "", "x.yaml:1: unknown key (64 characters)" },
        { "keys: nothing follows a failure", "alpha: 1\nx: 2\nsection: {beta: 3}", KNOWN,
          "0:alpha ", "x.yaml:2: unknown key ('x')" },
        { "keys: all of them", "x: 1\nkind: {alpha: 1}", ALL, "0:x 0:kind ", "" },
        { "keys: of an entry of a list", "section: {beta: 1}\nalpha: 2", INNER,
          "1:list[0].section.beta 0:list[0].alpha ", "" },
        { "keys: unknown in an entry of a list", "section: {bet: 1}", INNER, "",
          "x.yaml:1: list[0].section: unknown key ('bet'); did you mean section.beta?" },
        { "keys: an entry of a list has no header", "kind: 1", INNER, "",
          "x.yaml:1: list[0]: unknown key (4 characters)" },
};

static const char *known_key(size_t i) {
        static const char *const keys[] = { "alpha", "section.beta", "section.gamma", NULL };

        return keys[i];
}

static int take(void *userdata, size_t i, const char *path, const struct nb_yaml_node *node) {
        struct document *document = userdata;

        nb_buffer_printf(&document->taken, "%zu:%s ", i, path);
        return 0;
}

static void walks_keys(void **state) {
        const struct walk_case *c = *state;
        const char *parent = c->keys == INNER ? "list[0]" : "";
        struct document document;
        const struct nb_settings_walk walk = {
                .merge = &document.merge,
                .known_key = c->keys == ALL ? NULL : known_key,
                .take = take,
                .userdata = &document,
                .base_len = c->keys == INNER ? strlen("list[0].") : 0,
        };
        int r;

        begin(&document, c->text);
        r = nb_settings_walk(&walk, document.root, parent);
        assert_string_equal(document.f.detail, c->detail);
        assert_int_equal(r < 0, c->detail[0] != '\0');
        assert_string_equal(document.taken.len > 0 ? document.taken.data : "", c->taken);
        end(&document);
}

/* --- Messages --- */

struct message_case {
        const char *name;
        const char *text;
        const char *type; /* NULL: only the value is wrong */
        const char *detail;
};

static struct message_case messages[] = {
        { "message: a value", "a: x", NULL, "expected E, found 'x'" },
        { "message: a list", "a: [x]", NULL, "expected E, found a list" },
        { "message: nothing", "a:", NULL, "expected E, found nothing" },
        { "message: no text", "a: ''", NULL, "expected E, found ''" },
        { "message: a number that is to be a string", "a: 10", "a string",
          "expected E, found '10' (a number; quote it)" },
        { "message: a string that is to be a boolean", "a: 'true'", "a boolean",
          "expected E, found 4 characters (a string)" },
        { "message: a number that is to be a list", "a: 10", "a list",
          "expected E, found '10' (a number)" },
        { "message: a token is not quoted", "a: " TOKEN, "a boolean", "expected E, found " SECRET },
        { "message: a k3s token is not quoted", "a: " K3S_TOKEN, NULL,
          "expected E, found " SECRET },
        { "message: a token inside of something is not quoted", "a: 'x " TOKEN " y'", NULL,
          "expected E, found " SECRET },
        { "message: a password is not quoted", "a: https://u:password@h/", NULL,
          "expected E, found a URL with a user or a query" },
        { "message: an '@' before the scheme is no password", "a: x@https://h/", NULL,
          "expected E, found 12 characters" },
        { "message: an escape sequence", "a: \"\\e[2J\"", NULL, "expected E, found '?[2J'" },
};

static void describes(void **state) {
        const struct message_case *c = *state;
        struct document document;
        char expected[256];

        begin(&document, c->text);
        assert_true(nb_settings_refuse_node(&document.merge, nb_yaml_get(document.root, "a"), "p.q",
                                            "E", c->type) < 0);
        assert_int_equal(document.f.code, NB_SETTINGS_INVALID);
        (void)snprintf(expected, sizeof(expected), "x.yaml:1: p.q: %s", c->detail);
        assert_string_equal(document.f.detail, expected);
        end(&document);
}

/* A command line has no lines, and its origin is in the path: "--node-name". */
static void a_command_line_has_no_lines(void **state) {
        struct document document;

        begin(&document, "a: 1");
        assert_true(nb_settings_refuse(&document.merge, 0, "--p", "%s", "%d") < 0);
        assert_string_equal(document.f.detail, "--p: %d");
        document.f = (struct nb_failure){ 0 };
        assert_true(nb_settings_refuse(&document.merge, 7, "p", "x") < 0);
        assert_string_equal(document.f.detail, "x.yaml:7: p: x");
        document.f = (struct nb_failure){ 0 };
        assert_true(nb_settings_refuse_text(&document.merge, 0, "--p", "E", "x", "; hint") < 0);
        assert_string_equal(document.f.detail, "--p: expected E, found 1 character; hint");
        document.f = (struct nb_failure){ 0 };
        assert_true(nb_settings_refuse_type(&document.merge, nb_yaml_get(document.root, "a"), "p",
                                            "a string") < 0);
        assert_string_equal(document.f.detail,
                            "x.yaml:1: p: expected a string, found '1' (a number; quote it)");
        assert_false(nb_settings_is_string(nb_yaml_get(document.root, "a")));
        end(&document);
}

/* --- Values --- */

struct store_case {
        const char *name;
        const char *text;
        enum nb_setting setting;
        bool is_metadata, is_entry; /* nb_settings_store_node() */
        const char *value;          /* afterwards, as in a document */
        bool is_origin_set;
        const char *detail; /* begins like this; "": stored */
};

static struct store_case stores[] = {
        { "store: a value", "a: 5m", NB_SETTING_TIMEOUT, false, false, "300s", true, "" },
        { "store: a value of another type", "a: [5m]", NB_SETTING_TIMEOUT, false, false, "infinity",
          false, "x.yaml:1: p: expected infinity, or a duration" },
        { "store: a value out of range", "a: 0s", NB_SETTING_TIMEOUT, false, false, "infinity",
          false, "x.yaml:1: p: expected infinity, or a duration" },
        { "store: a list replaces the list", "a: [a:1, b:2]", NB_SETTING_ENDPOINTS, false, false,
          "[\"a:1\", \"b:2\"]", true, "" },
        { "store: an empty list replaces the list", "a: []", NB_SETTING_ENDPOINTS, false, false,
          "[]", true, "" },
        { "store: a list that is none", "a: a:1", NB_SETTING_ENDPOINTS, false, false,
          "[\"old:6443\"]", false, "x.yaml:1: p: expected a list of strings, found 'a:1'" },
        { "store: an invalid entry", "a: [a:1, 'b:x']", NB_SETTING_ENDPOINTS, false, false,
          "[\"a:1\"]", true, "x.yaml:1: p[1]: expected HOST:PORT" },
        { "store: an entry is added", "a: b:2", NB_SETTING_ENDPOINTS, false, true,
          "[\"old:6443\", \"b:2\"]", true, "" },
        { "store: an entry is there already", "a: old:6443", NB_SETTING_ENDPOINTS, false, true,
          "[\"old:6443\"]", true, "" },
        { "store: a setting that metadata must not set", "a: /x", NB_SETTING_KUBECONFIG, true,
          false, "\"/etc/kubernetes/kubelet.conf\"", false,
          "x.yaml:1: p: metadata must not set this key" },
        { "store: it is refused before its value is looked at", "a: [x]", NB_SETTING_KUBECONFIG,
          true, false, "\"/etc/kubernetes/kubelet.conf\"", false,
          "x.yaml:1: p: metadata must not set this key" },
        { "store: a path in metadata", "a: /x", NB_SETTING_DISCOVERY_FILE, true, false, "\"\"",
          false, "x.yaml:1: p: expected an https URL in metadata, found '/x'; for a path, set" },
        { "store: a URL in metadata", "a: https://h/x", NB_SETTING_DISCOVERY_FILE, true, false,
          "\"https://h/x\"", true, "" },
        { "store: a harmless option in metadata", "a: [node-ip=10.0.0.1]", NB_SETTING_EXTRA_ARGS,
          true, false, "[\"node-ip=10.0.0.1\"]", true, "" },
        { "store: another option in metadata", "a: [max-pods=9, root-dir=/]", NB_SETTING_EXTRA_ARGS,
          true, false, "[\"max-pods=9\"]", true,
          "x.yaml:1: p[1]: expected cloud-provider, max-pods, node-ip or node-labels in metadata, "
          "found 8 characters" },
        { "store: an option that begins like a harmless one", "a: [node-ipx=1]",
          NB_SETTING_EXTRA_ARGS, true, false, "[]", true,
          "x.yaml:1: p[0]: expected cloud-provider" },
        { "store: a harmless option without a value", "a: [node-ip]", NB_SETTING_EXTRA_ARGS, true,
          false, "[]", true, "x.yaml:1: p[0]: expected NAME=VALUE" },
        { "store: no token removes the one of a weaker document", "a: ''",
          NB_SETTING_BOOTSTRAP_TOKEN, false, false, "\"\"", true, "" },
};

static void stores_value(void **state) {
        const struct store_case *c = *state;
        _cleanup_(nb_buffer_done) struct nb_buffer value = NB_BUFFER_INIT(1024);
        const struct nb_yaml_node *node;
        struct document document;
        int r;

        begin(&document, c->text);
        document.source.is_metadata = c->is_metadata;
        node = nb_yaml_get(document.root, "a");
        assert_int_equal(nb_setting_parse(&document.settings, NB_SETTING_ENDPOINTS, "old", 3), 0);
        assert_int_equal(nb_secret_copy(&document.tokens.discovery, TOKEN, strlen(TOKEN)), 0);
        document.settings.has_discovery_token = true;
        r = (c->is_entry ? nb_settings_store_node : nb_settings_store)(&document.merge, c->setting,
                                                                       node, "p");
        assert_int_equal(r < 0, c->detail[0] != '\0');
        assert_int_equal(strncmp(document.f.detail, c->detail, strlen(c->detail)), 0);
        nb_setting_format(&document.settings, c->setting, &value);
        assert_string_equal(value.data, c->value);
        assert_int_equal(nb_setting_is_set(&document.settings, c->setting), c->is_origin_set);
        assert_int_equal(document.tokens.discovery.len > 0,
                         c->setting != NB_SETTING_BOOTSTRAP_TOKEN);
        end(&document);
}

/* As kubeadm, which sees no port in it. */
static void an_address_without_brackets_is_refused(void **state) {
        static const struct {
                const char *text, *likely;
        } texts[] = {
                { "fd00::1:6443", "[fd00::1]:6443" },
                { "fd00::1", "[fd00::1]:6443" },
                { "[fd00::1]:6443", NULL },
                { "10.0.0.1:6443", NULL },
                { "host", NULL },
                { "no:port", NULL },
        };

        for (size_t i = 0; i < N_ELEMENTS(texts); i++) {
                struct document document;
                char expected[256] = "";

                begin(&document, "a: 1");
                if (texts[i].likely)
                        (void)snprintf(expected, sizeof(expected),
                                       "--p: expected HOST:PORT, found an IPv6 address without "
                                       "brackets; with them, it may be %s",
                                       texts[i].likely);
                assert_int_equal(
                        nb_settings_refuse_bare_ipv6(&document.merge, 0, "--p", texts[i].text) < 0,
                        texts[i].likely != NULL);
                assert_string_equal(document.f.detail, expected);
                end(&document);
        }
}

/* Of a command line: a list is emptied by the first word, and gets the others one by one. */
static void stores_words(void **state) {
        struct document document;

        begin(&document, "a: 1");
        assert_int_equal(nb_setting_parse(&document.settings, NB_SETTING_ENDPOINTS, "old", 3), 0);
        nb_settings_clear_list(&document.merge, NB_SETTING_ENDPOINTS);
        assert_int_equal(document.settings.n_endpoints, 0);
        assert_true(nb_setting_is_set(&document.settings, NB_SETTING_ENDPOINTS));
        assert_int_equal(nb_settings_store_text(&document.merge, NB_SETTING_PROVIDER_ID, 0, "--p",
                                                "aws:///x"),
                         0);
        assert_string_equal(document.settings.provider_id, "aws:///x");
        assert_string_equal(document.settings.origin[NB_SETTING_PROVIDER_ID], "x.yaml");
        assert_true(nb_settings_store_text(&document.merge, NB_SETTING_NODE_NAME, 0, "--p", TOKEN) <
                    0);
        assert_null(strstr(document.f.detail, TOKEN));
        assert_false(nb_setting_is_set(&document.settings, NB_SETTING_NODE_NAME));
        document.f = (struct nb_failure){ 0 };
        for (unsigned i = 0; i < NB_SETTINGS_TAINTS_MAX; i++)
                assert_int_equal(
                        nb_settings_store_text(&document.merge, NB_SETTING_TAINTS, 0, "--p",
                                               (char[]){ 'a' + (char)i, ':', 'N', 'o', 'E', 'x',
                                                         'e', 'c', 'u', 't', 'e', '\0' }),
                        0);
        assert_true(nb_settings_store_text(&document.merge, NB_SETTING_TAINTS, 0, "--p",
                                           "z:NoExecute") < 0);
        assert_string_equal(document.f.detail,
                            "--p: expected at most 16 entries, found 11 characters");
        end(&document);
}

/* Another reader takes them. */
static void documents_that_are_not_of_kubeadm_are_left(void **state) {
        static const struct nb_settings_source source = { .origin = "x.yaml" };
        static const struct {
                const char *text;
                int expected;
        } texts[] = {
                { "kind: NodeBootstrap\nnode: {name: n}\n", 0 },
                { "kind: NodeBootstrap\n---\nkind: NodeBootstrap\n", 0 },
                { "[]", 0 },
                { "apiVersion: kubeadm.k8s.io/v1beta3\nkind: JoinConfiguration\n"
                  "nodeRegistration: {name: m}\n",
                  1 },
        };

        for (size_t i = 0; i < N_ELEMENTS(texts); i++) {
                _cleanup_(nb_yaml_freep) struct nb_yaml_node *documents = NULL;
                struct nb_settings settings;
                struct nb_failure f = {};
                const struct nb_settings_merge merge = { &settings, &source, &f };

                nb_settings_init(&settings);
                assert_int_equal(nb_yaml_parse("x.yaml", texts[i].text, strlen(texts[i].text),
                                               NB_SETTINGS_MALFORMED, 2, &documents, &f),
                                 0);
                assert_int_equal(nb_join_configuration_merge(&merge, documents), texts[i].expected);
                assert_int_equal(f.code, NB_NONE);
                assert_string_equal(settings.node_name, texts[i].expected ? "m" : "");
        }
}

/* --- Tokens --- */

struct token_case {
        const char *name;
        const char *text;
        enum nb_settings_token kind;
        bool is_exposed, is_metadata;
        enum nb_code code;
        const char *detail;          /* ends like this */
        const char *discovery, *tls; /* what is kept; NULL: nothing */
};

static struct token_case tokens[] = {
        { "token: of any form", "a: " TOKEN, NB_SETTINGS_TOKEN_ANY, .discovery = TOKEN },
        { "token: k3s's where any is accepted", "a: " K3S_TOKEN, NB_SETTINGS_TOKEN_ANY,
          .discovery = K3S_TOKEN },
        { "token: k3s's in a file of kubeadm", "a: " K3S_TOKEN, NB_SETTINGS_TOKEN_DISCOVERY,
          .code = NB_TOKEN_MALFORMED },
        { "token: to request a certificate", "a: " TOKEN, NB_SETTINGS_TOKEN_TLS_BOOTSTRAP,
          .tls = TOKEN },
        { "token: a line end belongs to the block", "a: |\n  " TOKEN "\n",
          NB_SETTINGS_TOKEN_DISCOVERY, .discovery = TOKEN },
        { "token: a line end within", "a: \"abcdef\\n.0123456789abcdef\"", NB_SETTINGS_TOKEN_ANY,
          .code = NB_TOKEN_MALFORMED },
        { "token: a character too long", "a: " TOKEN "0", NB_SETTINGS_TOKEN_ANY,
          .code = NB_TOKEN_MALFORMED },
        { "token: upper case", "a: ABCDEF.0123456789abcdef", NB_SETTINGS_TOKEN_ANY,
          .code = NB_TOKEN_MALFORMED },
        { "token: a list", "a: [" TOKEN "]", NB_SETTINGS_TOKEN_ANY, .code = NB_TOKEN_MALFORMED,
          .detail = ": it is a list" },
        { "token: nothing", "a: ~", NB_SETTINGS_TOKEN_ANY, .code = NB_TOKEN_MALFORMED,
          .detail = "" },
        { "token: in a file that others can read", "a: " TOKEN, NB_SETTINGS_TOKEN_ANY,
          .is_exposed = true, .code = NB_TOKEN_EXPOSED,
          .detail = "x.yaml:1: p: other users can read this file; it must not contain a token" },
        { "token: that this is exposed is said first", "a: x", NB_SETTINGS_TOKEN_ANY,
          .is_exposed = true, .code = NB_TOKEN_EXPOSED },
        { "token: in metadata, which is always exposed", "a: " TOKEN, NB_SETTINGS_TOKEN_ANY,
          .is_exposed = true, .is_metadata = true, .discovery = TOKEN },
};

static void assert_kept(const struct nb_secret *secret, const char *origin, const char *expected) {
        assert_string_equal(secret->len > 0 ? secret->data : "(none)",
                            expected ? expected : "(none)");
        assert_string_equal(origin, expected ? "x.yaml" : "");
}

static void stores_token(void **state) {
        const struct token_case *c = *state;
        struct document document;
        size_t len, detail_len = c->detail ? strlen(c->detail) : 0;

        begin(&document, c->text);
        document.source.is_exposed = c->is_exposed;
        document.source.is_metadata = c->is_metadata;
        assert_int_equal(nb_settings_store_token(&document.merge, c->kind,
                                                 nb_yaml_get(document.root, "a"), "p") < 0,
                         c->code != NB_NONE);
        assert_int_equal(document.f.code, c->code);
        len = strlen(document.f.detail);
        assert_true(len >= detail_len);
        assert_string_equal(document.f.detail + len - detail_len, c->detail ? c->detail : "");
        /* No message has a part of it. */
        assert_null(strstr(document.f.detail, "0123456789"));
        assert_kept(&document.tokens.discovery, document.tokens.discovery_origin, c->discovery);
        assert_kept(&document.tokens.tls_bootstrap, document.tokens.tls_bootstrap_origin, c->tls);
        assert_int_equal(document.settings.has_discovery_token, c->discovery != NULL);
        assert_int_equal(nb_setting_is_set(&document.settings, NB_SETTING_BOOTSTRAP_TOKEN),
                         c->discovery != NULL);
        end(&document);
}

int main(void) {
        CASES(walks, walks_keys);
        CASES(messages, describes);
        CASE(a_command_line_has_no_lines);
        CASES(stores, stores_value);
        CASE(an_address_without_brackets_is_refused);
        CASE(stores_words);
        CASE(documents_that_are_not_of_kubeadm_are_left);
        CASES(tokens, stores_token);
        return case_run("settings store");
}
