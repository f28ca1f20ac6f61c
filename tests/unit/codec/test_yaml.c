/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "codec/yaml.h"

#include "allocation.h"
#include "case.h"

#define TEXT(s) (s), sizeof(s) - 1

struct yaml_case {
        const char *name;
        const char *text;
        size_t len;
        const char *expected; /* the tree in one line, or what stands in `detail` */
        bool is_refused;
};

static struct yaml_case documents[] = {
        { "a mapping", TEXT("a: 1\nb: two words\n"), "{1 a=1:1 b=2:two words}", false },
        { "a list", TEXT("- a\n- b\n"), "[1 1:a 2:b]", false },
        { "flow style", TEXT("{a: [1, \"2\"]}"), "{1 a=[1 1:1 1:\"2\"]}", false },
        { "JSON", TEXT("{\"a\":{\"b\":\"c\"}}"), "{1 a={1 b=1:\"c\"}}", false },
        { "mappings in mappings", TEXT("a:\n  b:\n    c: d\n"), "{1 a={1 b={2 c=3:d}}}", false },
        { "quotes are kept apart", TEXT("a: 'x'\nb: \"x\"\nc: x\n"),
          "{1 a=1:\"x\" b=2:\"x\" c=3:x}", false },
        { "a block of text", TEXT("a: |\n  x\n  y\n"), "{1 a=1:\"x\ny\n\"}", false },
        { "escapes", TEXT("a: \"\\u00e9\\n\"\n"), "{1 a=1:\"\xc3\xa9\n\"}", false },
        { "an empty value", TEXT("a:\nb: ~\n"), "{1 a=1: b=2:~}", false },
        { "an empty key", TEXT("\"\": x\n"), "{1 =1:x}", false },
        { "a scalar", TEXT("hello"), "1:hello", false },
        { "a document start", TEXT("---\na: 1\n...\n"), "{2 a=2:1}", false },
        { "a comment", TEXT("# hello\na: 1 # there\n"), "{2 a=2:1}", false },
        { "the same key in two mappings", TEXT("a: {k: 1}\nb: {k: 1}\n"),
          "{1 a={1 k=1:1} b={2 k=2:1}}", false },
        { "nothing", TEXT(""), "-", false },
        { "only comments", TEXT("# hello\n\n# there\n"), "-", false },
        { "null", TEXT("null\n"), "-", false },
        { "only a document start", TEXT("---\n"), "-", false },
        { "a byte order mark of UTF-8",
          TEXT("\xef\xbb\xbf"
               "a: 1\n"),
          "{1 a=1:1}", false },
        { "a byte order mark before several lines",
          TEXT("\xef\xbb\xbf"
               "a: 1\nb: 2\n"),
          "{1 a=1:1 b=2:2}", false },
        { "only a byte order mark", TEXT("\xef\xbb\xbf"), "-", false },
        { "line ends of Windows", TEXT("a:\r\n  - 1\r\nb: |\r\n  x\r\n"),
          "{1 a=[1 2:1] b=3:\"x\n\"}", false },
        { "a duplicate key", TEXT("a: 1\nb: 2\na: 3\n"),
          "x.yaml:3: expected each key once, found one twice ('a')", true },
        { "a duplicate key in other quotes", TEXT("a: 1\n\"a\": 3\n"),
          "x.yaml:2: expected each key once, found one twice ('a')", true },
        { "a duplicate key, escaped", TEXT("a: 1\n\"\\x61\": 3\n"),
          "x.yaml:2: expected each key once, found one twice ('a')", true },
        { "an alias", TEXT("a: *x\n"), "x.yaml:1: expected plain YAML, found an alias (*)", true },
        { "an anchor at a scalar", TEXT("a: &x 1\n"),
          "x.yaml:1: expected plain YAML, found an anchor (&)", true },
        { "an anchor at a list", TEXT("a: &x [1]\n"),
          "x.yaml:1: expected plain YAML, found an anchor (&)", true },
        { "an anchor at a mapping", TEXT("a:\n  &x\n  b: 1\n"),
          "x.yaml:2: expected plain YAML, found an anchor (&)", true },
        { "an anchor at a key", TEXT("&x a: 1\n"),
          "x.yaml:1: expected plain YAML, found an anchor (&)", true },
        { "a tag at a scalar", TEXT("a: !!binary aGVsbG8=\n"),
          "x.yaml:1: expected plain YAML, found a tag (!)", true },
        { "a tag at a mapping", TEXT("a: !!set {b}\n"),
          "x.yaml:1: expected plain YAML, found a tag (!)", true },
        { "a tag of nothing", TEXT("a: ! b\n"), "x.yaml:1: expected plain YAML, found a tag (!)",
          true },
        { "a TAG directive", TEXT("%TAG ! tag:example.com,2000:\n---\na: 1\n"),
          "x.yaml:1: expected plain YAML, found a %TAG directive", true },
        { "a repeated token is not quoted",
          TEXT("abcdef.0123456789abcdef: 1\nabcdef.0123456789abcdef: 1\n"),
          "x.yaml:2: expected each key once, found one twice (what may be a token)", true },
        { "a merge key", TEXT("a: 1\n<<: {b: 2}\n"),
          "x.yaml:2: expected plain YAML, found the merge key '<<'", true },
        { "a second document", TEXT("a: 1\n---\nb: 2\n"),
          "x.yaml:2: expected one document, found a second one", true },
        { "a second document that is empty", TEXT("a: 1\n---\n"),
          "x.yaml:2: expected one document, found a second one", true },
        { "a second document after an empty one", TEXT("---\n---\na: 1\n"),
          "x.yaml:2: expected one document, found a second one", true },
        { "a list as key", TEXT("[a]: 1\n"),
          "x.yaml:1: expected a key that is plain text, found a list or mapping", true },
        { "a mapping as key", TEXT("? {a: b}\n: 1\n"),
          "x.yaml:1: expected a key that is plain text, found a list or mapping", true },
        { "a NUL in a string", TEXT("a: \"x\\0y\"\n"), "x.yaml:1: expected text, found a NUL in it",
          true },
        { "a NUL in a key", TEXT("\"a\\0b\": 1\n"), "x.yaml:1: expected text, found a NUL in it",
          true },
        { "a raw NUL", TEXT("a: x\0\n"),
          "x.yaml:1: expected UTF-8 text: control characters are not allowed", true },
        { "a control character", TEXT("a: \x1b[0m\n"),
          "x.yaml:1: expected UTF-8 text: control characters are not allowed", true },
        { "not UTF-8", TEXT("a: \xff\n"),
          "x.yaml:1: expected UTF-8 text: invalid leading UTF-8 octet", true },
        { "UTF-16",
          TEXT("\xff\xfe"
               "a\0:\0 \0"
               "1\0"),
          "x.yaml:1: expected UTF-8 text: invalid leading UTF-8 octet", true },
        { "a bracket that is not closed", TEXT("a: [1\n"),
          "x.yaml:2:1: expected YAML: did not find expected ',' or ']'", true },
        { "a quote that is not closed", TEXT("a: \"1\n"),
          "x.yaml:2:1: expected YAML: found unexpected end of stream", true },
        { "a tab as indentation", TEXT("a:\n\tb: 1\n"),
          "x.yaml:2:1: expected YAML: found a tab in the indentation", true },
        { "a tab after blanks as indentation", TEXT("\xc3\xa9: 1\nb:\n  - a\n  \t- b\n"),
          "x.yaml:4:3: expected YAML: found a tab in the indentation", true },
        { "a tab as indentation after a scalar", TEXT("a:\r\n  b: 1\r\n\tc: 2\r\n"),
          "x.yaml:3:1: expected YAML: found a tab in the indentation", true },
        { "an error after characters of several bytes",
          TEXT("\xc3\xa9\xe2\x82\xac: 1\n\xc3\xa9\xc3\xa9: [\xc3\xa9 }\n"),
          "x.yaml:2:8: expected YAML: did not find expected ',' or ']'", true },
        { "indentation gone wrong", TEXT("a:\n  b: 1\n c: 2\n"),
          "x.yaml:3:2: expected YAML: did not find expected key", true },
};

static void print(const struct nb_yaml_node *node, struct nb_buffer *out) {
        const char *quote = node->is_plain ? "" : "\"";

        if (node->key)
                nb_buffer_printf(out, "%s=", node->key);
        if (node->type == NB_YAML_SCALAR) {
                assert_int_equal(strlen(node->value), node->value_len);
                nb_buffer_printf(out, "%u:%s%s%s", node->line, quote, node->value, quote);
                return;
        }
        nb_buffer_printf(out, "%c%u", node->type == NB_YAML_MAPPING ? '{' : '[', node->line);
        for (const struct nb_yaml_node *child = node->first; child; child = child->next) {
                nb_buffer_append_string(out, " ");
                print(child, out);
        }
        nb_buffer_append_string(out, node->type == NB_YAML_MAPPING ? "}" : "]");
}

static void parses(void **state) {
        const struct yaml_case *c = *state;
        _cleanup_(nb_yaml_freep) struct nb_yaml_node *root = NULL;
        _cleanup_(nb_buffer_done) struct nb_buffer out = NB_BUFFER_INIT(1024);
        struct nb_failure f = {};
        int r;

        r = nb_yaml_parse("x.yaml", c->text, c->len, NB_SETTINGS_MALFORMED, 1, &root, &f);
        if (c->is_refused) {
                assert_true(r < 0);
                assert_null(root);
                assert_int_equal(f.code, NB_SETTINGS_MALFORMED);
                assert_string_equal(f.detail, c->expected);
                return;
        }
        assert_string_equal(f.detail, "");
        assert_int_equal(r, 0);
        if (root)
                print(root, &out);
        assert_string_equal(root ? out.data : "-", c->expected);
}

static int parse_repeated(const char *piece, unsigned n, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(1024 * 1024);
        _cleanup_(nb_yaml_freep) struct nb_yaml_node *root = NULL;

        for (unsigned i = 0; i < n; i++)
                nb_buffer_append_string(&text, piece);
        for (unsigned i = 0; piece[0] == '[' && i < n; i++)
                nb_buffer_append_string(&text, "]");
        return nb_yaml_parse("x.yaml", text.data, text.len, NB_SETTINGS_MALFORMED, 1, &root, f);
}

static void depth_has_a_limit(void **state) {
        struct nb_failure f = {};

        assert_int_equal(parse_repeated("[", NB_YAML_DEPTH_MAX, &f), 0);
        assert_true(parse_repeated("[", NB_YAML_DEPTH_MAX + 1, &f) < 0);
        assert_string_equal(f.detail, "x.yaml:1: expected at most 16 levels, found more");
        nb_failure_clear(&f);
        assert_true(parse_repeated("[", 100000, &f) < 0);
}

static void number_of_values_has_a_limit(void **state) {
        struct nb_failure f = {};

        assert_int_equal(parse_repeated("- x\n", NB_YAML_NODES_MAX - 1, &f), 0);
        assert_true(parse_repeated("- x\n", NB_YAML_NODES_MAX, &f) < 0);
        assert_string_equal(f.detail, "x.yaml:10000: expected at most 10000 values, found more");
}

static int parse_keys(unsigned n, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(1024 * 1024);
        _cleanup_(nb_yaml_freep) struct nb_yaml_node *root = NULL;

        for (unsigned i = 0; i < n; i++)
                nb_buffer_printf(&text, "k%u: x\n", i);
        return nb_yaml_parse("x.yaml", text.data, text.len, NB_SETTINGS_MALFORMED, 1, &root, f);
}

static void number_of_keys_has_a_limit(void **state) {
        struct nb_failure f = {};

        assert_int_equal(parse_keys(NB_YAML_KEYS_MAX, &f), 0);
        assert_true(parse_keys(NB_YAML_KEYS_MAX + 1, &f) < 0);
        assert_string_equal(f.detail,
                            "x.yaml:1001: expected at most 1000 keys in a mapping, found more");
}

struct type_case {
        const char *name;
        const char *text;
        const char *expected;
};

static struct type_case types[] = {
        { "type: text", "a: hello", "a string" },
        { "type: an address", "a: 10.0.0.10:6443", "a string" },
        { "type: a duration", "a: 30s", "a string" },
        { "type: a version", "a: 1.2.3", "a string" },
        { "type: digits in quotes", "a: \"10\"", "a string" },
        { "type: a dot", "a: .", "a string" },
        { "type: a sign", "a: -x", "a string" },
        { "type: an exponent without digits", "a: 1e", "a string" },
        { "type: two signs", "a: +-1", "a string" },
        { "type: digits", "a: 10", "a number" },
        { "type: a negative number", "a: -10", "a number" },
        { "type: a fraction", "a: 1.5", "a number" },
        { "type: a fraction that begins with the point", "a: .5", "a number" },
        { "type: a fraction that ends with the point", "a: 5.", "a number" },
        { "type: an exponent", "a: 1e-3", "a number" },
        { "type: true", "a: true", "a boolean" },
        { "type: False", "a: False", "a boolean" },
        { "type: true in quotes", "a: 'true'", "a string" },
        { "type: yes", "a: yes", "a string" },
        { "type: null", "a: null", "nothing" },
        { "type: a tilde", "a: ~", "nothing" },
        { "type: empty", "a:", "nothing" },
        { "type: empty quotes", "a: ''", "a string" },
        { "type: not there", "b: 1", "nothing" },
        { "type: a list", "a: []", "a list" },
        { "type: a mapping", "a: {}", "a mapping" },
};

static void names_types(void **state) {
        const struct type_case *c = *state;
        _cleanup_(nb_yaml_freep) struct nb_yaml_node *root = NULL;
        struct nb_failure f = {};

        assert_int_equal(nb_yaml_parse("x.yaml", c->text, strlen(c->text), NB_SETTINGS_MALFORMED, 1,
                                       &root, &f),
                         0);
        assert_string_equal(nb_yaml_type_name(nb_yaml_get(root, "a")), c->expected);
        assert_int_equal(nb_yaml_is_null(nb_yaml_get(root, "a")),
                         strcmp(c->expected, "nothing") == 0);
}

/* Of a value, no more than may be quoted. */
static void describes_for_messages(void **state) {
        static const struct {
                const char *text, *expected;
        } rows[] = {
                { "a: ''", "a string" }, { "a: [x]", "a list" },           { "a: abc", "'abc'" },
                { "a: 10", "'10'" },     { "a: secret1", "7 characters" },
        };
        char quoted[NB_TEXT_QUOTED_SIZE];

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                _cleanup_(nb_yaml_freep) struct nb_yaml_node *root = NULL;
                struct nb_failure f = {};

                assert_int_equal(nb_yaml_parse("x.yaml", rows[i].text, strlen(rows[i].text),
                                               NB_SETTINGS_MALFORMED, 1, &root, &f),
                                 0);
                assert_string_equal(nb_yaml_describe(nb_yaml_get(root, "a"), quoted),
                                    rows[i].expected);
        }
}

struct text_case {
        const char *name;
        const char *text;
        bool is_empty;
        const char *expected; /* NULL: none */
};

static struct text_case texts[] = {
        { "text: a word", "a: x", false, "x" },
        { "text: a number is text", "a: 10", false, "10" },
        { "text: null in quotes is text", "a: 'null'", false, "null" },
        { "text: a blank in quotes is text", "a: ' '", false, " " },
        { "text: null", "a: null", true, NULL },
        { "text: a tilde", "a: ~", true, NULL },
        { "text: empty quotes, which are no null", "a: ''", true, NULL },
        { "text: an empty block", "a: |\n", true, NULL },
        { "text: not there", "b: x", true, NULL },
        { "text: an empty list", "a: []", true, NULL },
        { "text: an empty mapping", "a: {}", true, NULL },
        { "text: a list of nothing", "a: [~]", false, NULL },
        { "text: a mapping", "a: {a: x}", false, NULL },
        { "text: in a list, which has no keys", "- a: x", true, NULL },
        { "text: in a scalar", "a", true, NULL },
};

static void finds_text(void **state) {
        const struct text_case *c = *state;
        struct nb_yaml_node *root = NULL;
        struct nb_failure f = {};
        const char *text;

        assert_int_equal(nb_yaml_parse("x.yaml", c->text, strlen(c->text), NB_SETTINGS_MALFORMED, 1,
                                       &root, &f),
                         0);
        text = nb_yaml_text(root, "a");
        assert_int_equal(nb_yaml_is_empty(nb_yaml_get(root, "a")), c->is_empty);
        assert_string_equal(text ? text : "(none)", c->expected ? c->expected : "(none)");
        nb_yaml_free(root);
        assert_true(nb_yaml_is_empty(NULL));
        assert_null(nb_yaml_text(NULL, "a"));
}

struct stream_case {
        const char *name;
        const char *text;
        const char *kinds;  /* of the documents: "a b"; NULL: refused */
        const char *detail; /* of the refusal */
};

static struct stream_case streams[] = {
        { "stream: nothing", "", "", NULL },
        { "stream: one", "k: a\n", "a", NULL },
        { "stream: one with a marker", "---\nk: a\n", "a", NULL },
        { "stream: three", "k: a\n---\nk: b\n...\n---\nk: c\n", "a b c", NULL },
        { "stream: those without content are left out",
          "---\n# x\n---\nk: a\n---\n---\nnull\n---\nk: b\n---\n", "a b", NULL },
        { "stream: the same key in two documents", "k: a\n---\nk: a\n", "a a", NULL },
        { "stream: the same key twice in one", "k: a\n---\nk: b\nk: b\n", NULL,
          "x.yaml:4: expected each key once, found one twice ('k')" },
        { "stream: an anchor in the second", "k: a\n---\nk: &x b\n", NULL,
          "x.yaml:3: expected plain YAML, found an anchor (&)" },
        { "stream: an alias to the first", "k: a\n---\nk: *x\n", NULL,
          "x.yaml:3: expected plain YAML, found an alias (*)" },
        { "stream: no YAML in the second", "k: a\n---\nk: [\n", NULL,
          "x.yaml:4:1: expected YAML: did not find expected node content" },
};

static void parses_stream(void **state) {
        const struct stream_case *c = *state;
        _cleanup_(nb_yaml_freep) struct nb_yaml_node *list = NULL;
        _cleanup_(nb_buffer_done) struct nb_buffer kinds = NB_BUFFER_INIT(64);
        struct nb_failure f = {};
        int r;

        r = nb_yaml_parse("x.yaml", c->text, strlen(c->text), NB_SETTINGS_MALFORMED,
                          NB_YAML_DOCUMENTS_MAX, &list, &f);
        assert_string_equal(f.detail, c->kinds ? "" : c->detail);
        assert_int_equal(r < 0, !c->kinds);
        if (r < 0) {
                assert_null(list);
                return;
        }
        for (const struct nb_yaml_node *root = list; root; root = root->next)
                nb_buffer_printf(&kinds, "%s%s", root == list ? "" : " ",
                                 nb_yaml_get(root, "k")->value);
        assert_string_equal(kinds.data ? kinds.data : "", c->kinds);
}

static int parse_many(const char *document, unsigned n, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(1024 * 1024);
        _cleanup_(nb_yaml_freep) struct nb_yaml_node *list = NULL;

        for (unsigned i = 0; i < n; i++)
                nb_buffer_printf(&text, "---\n%s", document);
        return nb_yaml_parse("x.yaml", text.data, text.len, NB_SETTINGS_MALFORMED,
                             NB_YAML_DOCUMENTS_MAX, &list, f);
}

static void number_of_documents_has_a_limit(void **state) {
        struct nb_failure f = {};

        assert_int_equal(parse_many("a: b\n", NB_YAML_DOCUMENTS_MAX, &f), 0);
        assert_true(parse_many("a: b\n", NB_YAML_DOCUMENTS_MAX + 1, &f) < 0);
        assert_string_equal(f.detail, "x.yaml:33: expected at most 16 documents, found more");
}

static void documents_share_one_limit(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer document = NB_BUFFER_INIT(1024 * 1024);
        struct nb_failure f = {};

        for (unsigned i = 0; i < NB_YAML_NODES_MAX / 2; i++)
                nb_buffer_append_string(&document, "- x\n");
        assert_true(parse_many(document.data, 2, &f) < 0);
        assert_string_equal(f.detail, "x.yaml:10001: expected at most 10000 values, found more");
}

static int run_stream(const void *input) {
        _cleanup_(nb_yaml_freep) struct nb_yaml_node *list = NULL;
        struct nb_failure f = {};

        return nb_yaml_parse("x.yaml", input, strlen(input), NB_SETTINGS_MALFORMED,
                             NB_YAML_DOCUMENTS_MAX, &list, &f);
}

static int run(const void *input) {
        _cleanup_(nb_yaml_freep) struct nb_yaml_node *root = NULL;
        struct nb_failure f = {};

        return nb_yaml_parse("x.yaml", input, strlen(input), NB_SETTINGS_MALFORMED, 1, &root, &f);
}

static void memory_runs_out(void **state) {
        allocation_try_all(run, "a: [1, {b: c}, [d]]\ne:\n  f: \"g\"\n  h: null\n");
        allocation_try_all(run_stream, "a: b\n---\n---\nc: [d]\n");
}

static struct yaml_case keys_of_others[] = {
        { "key: a mapping", TEXT("a: 1\nours:\n  k: v\nb: 2\n"), "{3 k=3:v}", false },
        { "key: a scalar", TEXT("ours: x\n"), "1:x", false },
        { "key: a list", TEXT("ours: [a, {b: c}]\n"), "[1 1:a {1 b=1:c}]", false },
        { "key: in quotes", TEXT("\"ours\": x\n"), "1:x", false },
        { "key: in flow style", TEXT("{a: [1], ours: {k: v}}"), "{1 k=1:v}", false },
        { "key: beside aliases, tags, merges and duplicates",
          TEXT("a: &x {b: !t c}\na: *x\n<<: *x\n*x : 1\n? [k]\n: v\nours: 1\nz: *x\n"), "7:1",
          false },
        { "key: missing", TEXT("a: {ours: 1}\nb: [ours, 1]\nc: ours\n"), "-", false },
        { "key: in a list", TEXT("- ours: 1\n"), "-", false },
        { "key: a text", TEXT("ours"), "-", false },
        { "key: nothing", TEXT(""), "-", false },
        { "key: in the second document", TEXT("a: 1\n---\nours: 1\n"), "-", false },
        { "key: before a malformed second document", TEXT("ours: 1\n---\n{[\n"), "1:1", false },
        { "key: twice", TEXT("ours: 1\nours: 1\n"),
          "x.yaml:2: expected each key once, found one twice (4 characters)", true },
        { "key: an alias", TEXT("a: &x 1\nours: *x\n"),
          "x.yaml:2: expected plain YAML, found an alias (*)", true },
        { "key: a tag", TEXT("ours: !t 1\n"), "x.yaml:1: expected plain YAML, found a tag (!)",
          true },
        { "key: a duplicate key in it", TEXT("ours: {a: 1, a: 1}\n"),
          "x.yaml:1: expected each key once, found one twice ('a')", true },
        { "key: before malformed text", TEXT("ours: 1\nb: [\n"),
          "x.yaml:3:1: expected YAML: did not find expected node content", true },
};

static void finds_key(void **state) {
        const struct yaml_case *c = *state;
        _cleanup_(nb_yaml_freep) struct nb_yaml_node *value = NULL;
        _cleanup_(nb_buffer_done) struct nb_buffer out = NB_BUFFER_INIT(1024);
        struct nb_failure f = { 0 };
        int r;

        r = nb_yaml_parse_key("x.yaml", c->text, c->len, NB_METADATA_MALFORMED, "ours", &value, &f);
        assert_int_equal(r < 0, c->is_refused);
        assert_int_equal(f.code, c->is_refused ? NB_METADATA_MALFORMED : NB_NONE);
        if (c->is_refused) {
                assert_null(value);
                assert_string_equal(f.detail, c->expected);
                return;
        }
        if (value)
                print(value, &out);
        assert_string_equal(value ? out.data : "-", c->expected);
}

static void depth_of_others_has_a_limit(void **state) {
        for (unsigned more = 0; more < 2; more++) {
                struct nb_yaml_node *value = NULL;
                struct nb_failure f = { 0 };
                char text[2 * NB_YAML_FOREIGN_DEPTH_MAX + 16] = "a: ";
                size_t n = NB_YAML_FOREIGN_DEPTH_MAX - 1 + more;

                memset(text + 3, '[', n);
                memset(text + 3 + n, ']', n);
                assert_int_equal(nb_yaml_parse_key("x.yaml", text, 3 + 2 * n, NB_METADATA_MALFORMED,
                                                   "ours", &value, &f) < 0,
                                 more);
                assert_null(value);
        }
}

int main(void) {
        CASES(documents, parses);
        CASE(depth_has_a_limit);
        CASE(number_of_values_has_a_limit);
        CASE(number_of_keys_has_a_limit);
        CASES(types, names_types);
        CASE(describes_for_messages);
        CASES(texts, finds_text);
        CASES(streams, parses_stream);
        CASE(number_of_documents_has_a_limit);
        CASE(documents_share_one_limit);
        CASES(keys_of_others, finds_key);
        CASE(depth_of_others_has_a_limit);
        CASE(memory_runs_out);
        return case_run("yaml");
}
