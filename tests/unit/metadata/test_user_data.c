/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/encoding.h"
#include "metadata/user_data.h"

#include "allocation.h"
#include "case.h"

#define TOKEN "abcdef.0123456789abcdef"
#define OURS "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\nbootstrap:\n  token: " TOKEN "\n"
#define JOIN \
        "apiVersion: kubeadm.k8s.io/v1beta3\nkind: JoinConfiguration\ndiscovery: " \
        "{tlsBootstrapToken: " TOKEN "}\n"
#define NOTHING NB_USER_DATA_NOTHING
#define DOCUMENT NB_USER_DATA_DOCUMENT
#define MULTIPART "Content-Type: multipart/mixed; boundary=b\nMIME-Version: 1.0\n\n"
#define PART "--b\nContent-Type: text/cloud-config\n\nnode_bootstrap: {}\n--b--\n"

#define UNKNOWN "data of another program"
#define ONLY_ONE "; node-bootstrap reads neither MIME nor gzip"
#define KEY_ALONE "node_bootstrap:\n  timeout: 5m\n"
#define CONFIG_BASE64_TWICE "STJOc2IzVmtMV052Ym1acFp3cHViMlJsWDJKdmIzUnpkSEpoY0RvZ2UzMEs="
#define AT_ITS_END "; encode it again, with the = at its end"
#define WITHOUT_FIRST_LINE \
        "data that mentions node_bootstrap, but does not begin with #cloud-config"
#define FIRST_LINE "; make #cloud-config its first line"
#define NO_DOCUMENT "data that mentions NodeBootstrap, but is no such document"
#define LINE "; in YAML, the line \"kind: NodeBootstrap\" must not be indented"
#define ICONV "; node-bootstrap reads UTF-8"
#define BYTES(bytes) bytes, .len = sizeof(bytes) - 1

struct user_data_case {
        const char *name;
        const char *text;
        size_t len; /* of a text with NULs */
        enum nb_user_data_kind kind;
        const char *what;
        const char *document; /* NULL: the text, where there is one */
        const char *detail;   /* of the refusal */
        const char *hint;     /* its beginning; NULL: none */
};

static struct user_data_case cases[] = {
        { "nothing", "", .kind = NOTHING, .what = "empty" },
        { "white space", " \r\n\t\n", .kind = NOTHING, .what = "empty" },
        { "a document", OURS, .kind = DOCUMENT, .what = "a NodeBootstrap document" },
        { "a document after a byte order mark", "\xef\xbb\xbf" OURS, .kind = DOCUMENT,
          .what = "a NodeBootstrap document", .document = OURS },
        { "a document after comments", "# ours\n---\n" OURS, .kind = DOCUMENT,
          .what = "a NodeBootstrap document" },
        { "a document with CR LF", "apiVersion: node-bootstrap/v1\r\nkind: NodeBootstrap\r\n",
          .kind = DOCUMENT, .what = "a NodeBootstrap document" },
        { "a document with quotes", "'apiVersion' : \"node-bootstrap/v1\" # ours\n",
          .kind = DOCUMENT, .what = "a NodeBootstrap document" },
        { "a document without apiVersion", "kind: NodeBootstrap\n", .kind = DOCUMENT,
          .what = "a NodeBootstrap document" },
        { "a document of a later version", "apiVersion: node-bootstrap/v9\n", .kind = DOCUMENT,
          .what = "a NodeBootstrap document" },
        { "a document with invalid YAML", "kind: NodeBootstrap\n{[\n", .kind = DOCUMENT,
          .what = "a NodeBootstrap document" },
        { "a document in JSON",
          "{\"apiVersion\": \"node-bootstrap/v1\", \"kind\": \"NodeBootstrap\"}", .kind = DOCUMENT,
          .what = "a document in JSON" },
        { "a JoinConfiguration", JOIN, .kind = DOCUMENT, .what = "a JoinConfiguration" },
        { "a JoinConfiguration after another document",
          "apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\n---\n" JOIN,
          .kind = DOCUMENT, .what = "a JoinConfiguration" },
        { "kubeadm's configuration of a control plane",
          "apiVersion: kubeadm.k8s.io/v1beta3\nkind: InitConfiguration\n", .kind = NOTHING,
          .what = UNKNOWN },
        { "a document inside another one",
          "apiVersion: v1\nkind: ConfigMap\ndata:\n  a: |\n    kind: NodeBootstrap\n",
          .kind = NOTHING, .what = NO_DOCUMENT, .hint = LINE },
        { "other values of kind and apiVersion",
          "kind: NodeBootstrapX\napiVersion: xnode-bootstrap/v1\n", .kind = NOTHING,
          .what = NO_DOCUMENT, .hint = LINE },
        { "an indented document", "    apiVersion: node-bootstrap/v1\n    kind: NodeBootstrap\n",
          .kind = NOTHING, .what = NO_DOCUMENT, .hint = LINE },
        { "a document in one line", "{apiVersion: node-bootstrap/v1, kind: NodeBootstrap}",
          .kind = NOTHING, .what = NO_DOCUMENT, .hint = LINE },
        { "a document in JSON with an error", "{\"kind\": \"NodeBootstrap\",}", .kind = NOTHING,
          .what = NO_DOCUMENT, .hint = LINE },
        { "a shell script", "#!/bin/sh\ncat <<E\n" OURS "E\n", .kind = NOTHING,
          .what = "a shell script" },
        { "a shell script after empty lines", "\n\n#!/bin/sh\ncat <<E\n" OURS "E\n",
          .kind = NOTHING, .what = "a shell script" },
        { "a list of addresses", "#include\nhttps://a/b\n", .kind = NOTHING,
          .what = "a list of addresses for cloud-init" },
        { "a boothook", "#cloud-boothook\n#!/bin/sh\n", .kind = NOTHING,
          .what = "a boothook for cloud-init" },
        { "a template with an expression",
          "## template: jinja\n#cloud-config\nnode_bootstrap: {{ x }}\n", .kind = NOTHING,
          .what = "a template for cloud-init" },
        { "a template with an expression in a string",
          "## template: jinja\n#cloud-config\nnode_bootstrap: {node: {name: \"{{ x }}\"}}\n",
          .kind = NOTHING, .what = "a template for cloud-init" },
        { "a template with a statement",
          "## template: jinja\n#cloud-config\nnode_bootstrap: {}\n{% if x %}\n", .kind = NOTHING,
          .what = "a template for cloud-init" },
        { "a template of another kind",
          "## template: jinja\n#!/bin/sh\n#cloud-config\nnode_bootstrap: {}\n", .kind = NOTHING,
          .what = "a template for cloud-init" },
        { "a template without an expression in our key",
          "## template: jinja\n#cloud-config\nhostname: \"{{ x }}\"\nnode_bootstrap: {}\n",
          .kind = DOCUMENT, .what = "a cloud-config" },
        { "an archive", "#cloud-config-archive\n- node_bootstrap: 1\n", .kind = NOTHING,
          .what = "an archive for cloud-init" },
        { "an Ignition config", "{\"ignition\": {\"version\": \"3.3.0\"}}", .kind = NOTHING,
          .what = "an Ignition config" },
        { "JSON of another program", "{\"a\": 1}", .kind = NOTHING, .what = UNKNOWN },
        { "invalid JSON", "{a: node-bootstrap.token}", .kind = NOTHING, .what = UNKNOWN },
        { "text", "hello world\n", .kind = NOTHING, .what = UNKNOWN },
        { "MIME, which is not read", MULTIPART PART, .kind = NOTHING, .what = "a MIME message",
          .hint = ONLY_ONE },
        { "MIME in another case", "\nmime-version: 1.0\n\n" OURS, .kind = NOTHING,
          .what = "a MIME message", .hint = ONLY_ONE },
        { "MIME from its first boundary",
          "--b\nContent-Type: text/cloud-config\nMIME-Version: 1.0\n\n#cloud-config\n" KEY_ALONE,
          .kind = NOTHING, .what = "a MIME message", .hint = ONLY_ONE },
        { "MIME in an mbox", "From nobody Mon Nov 30 02:46:47 2026\n" MULTIPART PART,
          .kind = NOTHING, .what = "a MIME message", .hint = ONLY_ONE },
        { "MIME as write-mime-multipart has it", "Number-Attachments: 1\n" MULTIPART PART,
          .kind = NOTHING, .what = "a MIME message", .hint = ONLY_ONE },
        { "MIME after the headers of a mail", "To: a\nSubject: b\n" MULTIPART PART, .kind = NOTHING,
          .what = "a MIME message", .hint = ONLY_ONE },
        { "MIME with CR LF and a document of ours",
          "\r\n--b\r\nmIME-vERSION:1.0\r\n\r\nkind: NodeBootstrap\r\n", .kind = NOTHING,
          .what = "a MIME message", .hint = ONLY_ONE },
        { "MIME without its version", "content-type: multipart/mixed; boundary=b\n\n" PART,
          .kind = NOTHING, .what = "a MIME message", .hint = ONLY_ONE },
        { "a cloud-config that mentions MIME",
          "#cloud-config\n# MIME-Version: 1.0\nnode_bootstrap: {}\n", .kind = DOCUMENT,
          .what = "a cloud-config" },
        { "a template with CR LF", "## template: jinja\r\n#cloud-config\r\nnode_bootstrap: {}\r\n",
          .kind = DOCUMENT, .what = "a cloud-config" },
        { "a template with empty lines", "## template: jinja\n\n\r\n#cloud-config\n" KEY_ALONE,
          .kind = DOCUMENT, .what = "a cloud-config" },
        { "a template with blanks", "## template: jinja \n  #cloud-config \n" KEY_ALONE,
          .kind = DOCUMENT, .what = "a cloud-config" },
        { "a template with white space before all of it, in another case",
          "\xef\xbb\xbf\n  ## Template: Jinja\n\n \n#Cloud-Config\n" KEY_ALONE, .kind = DOCUMENT,
          .what = "a cloud-config",
          .document = "\n  ## Template: Jinja\n\n \n#Cloud-Config\n" KEY_ALONE },
        { "a template with a comment before the first line",
          "## template: jinja\n# ours\n#cloud-config\n" KEY_ALONE, .kind = NOTHING,
          .what = "a template for cloud-init" },
        { "a template with an archive",
          "## template: jinja\n\n#cloud-config-archive\n- node_bootstrap: 1\n", .kind = NOTHING,
          .what = "a template for cloud-init" },
        { "a template without any text", "## template: jinja", .kind = NOTHING,
          .what = "a template for cloud-init" },
        { "gzip, which is not read", "\x1f\x8b\x08", .kind = NOTHING, .what = "gzip",
          .hint = ONLY_ONE },
        { "a word that could be base64", "aGVsbG8=", .kind = NOTHING, .what = UNKNOWN },
        { "a word that is not base64", "abcde\n", .kind = NOTHING, .what = UNKNOWN },
        { "a short word", "abc", .kind = NOTHING, .what = UNKNOWN },
        { "words of base64", "some text", .kind = NOTHING, .what = UNKNOWN },

        { "our key without a first line", KEY_ALONE, .kind = NOTHING, .what = WITHOUT_FIRST_LINE,
          .hint = FIRST_LINE },
        { "our key after ---", "---\n#cloud-config\n" KEY_ALONE, .kind = NOTHING,
          .what = WITHOUT_FIRST_LINE, .hint = FIRST_LINE },
        { "our key after a comment", "# ours\n#cloud-config\n" KEY_ALONE, .kind = NOTHING,
          .what = WITHOUT_FIRST_LINE, .hint = FIRST_LINE },
        { "our key after a misspelt first line", "# cloud-config\n" KEY_ALONE, .kind = NOTHING,
          .what = WITHOUT_FIRST_LINE, .hint = FIRST_LINE },
        { "our key after a no-break space", "\xc2\xa0#cloud-config\n" KEY_ALONE, .kind = NOTHING,
          .what = WITHOUT_FIRST_LINE, .hint = FIRST_LINE },
        { "our key in JSON", "{\"node_bootstrap\": {\"timeout\": \"5m\"}}", .kind = NOTHING,
          .what = WITHOUT_FIRST_LINE, .hint = FIRST_LINE },
        { "UTF-16", BYTES("\xff\xfe#\0c\0l\0o\0u\0d\0"), .kind = NOTHING, .what = "text in UTF-16",
          .hint = ICONV },
        { "UTF-16 in the other byte order", BYTES("\xfe\xff\0#\0c\0l\0o\0u\0d"), .kind = NOTHING,
          .what = "text in UTF-16", .hint = ICONV },
        { "UTF-16 without a byte order mark", BYTES("k\0i\0n\0d\0:\0"), .kind = NOTHING,
          .what = "text in UTF-16", .hint = ICONV },
        { "UTF-16 in the other byte order, without a mark", BYTES("\0\n\0k\0i\0n\0d"),
          .kind = NOTHING, .what = "text in UTF-16", .hint = ICONV },
        { "bytes that are no text", BYTES("\0\x01\x02\x03\0\0"), .kind = NOTHING, .what = UNKNOWN },
        { "base64 of base64", CONFIG_BASE64_TWICE, .kind = NOTHING, .what = "base64, in base64",
          .hint = "; encode it only once" },
        { "base64 with blanks", " I2Nsb3VkLWNvbmZpZwpu\n  b2RlX2Jvb3RzdHJhcDoge30K\n",
          .kind = DOCUMENT, .what = "a cloud-config, in base64",
          .document = "#cloud-config\nnode_bootstrap: {}\n" },
        { "base64 without two =", "I2Nsb3VkLWNvbmZpZwpub2RlX2Jvb3RzdHJhcDoge30KCg", .kind = NOTHING,
          .what = "incomplete base64", .hint = AT_ITS_END },
        { "base64 without one =, before CR LF", "bm9kZV9ib290c3RyYXA6IHt9Cgo\r\n", .kind = NOTHING,
          .what = "incomplete base64", .hint = AT_ITS_END },
        { "base64 of JSON that was cut off", "eyJub2RlX2Jvb3RzdHJhcCI6e319Z", .kind = NOTHING,
          .what = "incomplete base64", .hint = AT_ITS_END },
        { "base64 of a script without =", "IyEvYmluL3No\nCg", .kind = NOTHING,
          .what = "incomplete base64", .hint = AT_ITS_END },

        { "a cloud-config without the key", "#cloud-config\nusers: [*x, !!a b]\n- broken\n",
          .kind = NOTHING, .what = "a cloud-config without the key node_bootstrap" },
        { "a cloud-config that mentions the key",
          "#cloud-config\nwrite_files:\n- content: |\n    node_bootstrap: 1\n  path: /a\n",
          .kind = NOTHING, .what = "a cloud-config without the key node_bootstrap" },
        { "a cloud-config",
          "#cloud-config\nusers: [&x a, *x]\nnode_bootstrap:\n  bootstrap:\n    token: " TOKEN
          "\n\n  timeout: 5m\nruncmd: [!a b]\n",
          .kind = DOCUMENT, .what = "a cloud-config" },
        { "a cloud-config with a whole document",
          "#cloud-config\nnode_bootstrap: {apiVersion: node-bootstrap/v1, kind: NodeBootstrap}\n",
          .kind = DOCUMENT, .what = "a cloud-config" },
        { "a cloud-config in JSON",
          "#cloud-config\n{\"a\": [{}], \"node_bootstrap\": {\"timeout\": \"5m\"}}\n",
          .kind = DOCUMENT, .what = "a cloud-config" },
        { "a cloud-config after a byte order mark and an empty line",
          "\xef\xbb\xbf\r\n#Cloud-Config\nnode_bootstrap:\n  timeout: 5m\n", .kind = DOCUMENT,
          .what = "a cloud-config",
          .document = "\r\n#Cloud-Config\nnode_bootstrap:\n  timeout: 5m\n" },
        { "a cloud-config whose keys are not indented",
          "#cloud-config\nnode_bootstrap:\ntimeout: 5m\n",
          .detail = "x:2: node_bootstrap: expected a mapping, found nothing; indent the keys "
                    "below it" },
        { "a cloud-config with a list", "#cloud-config\nnode_bootstrap:\n- a\n",
          .detail = "x:3: node_bootstrap: expected a mapping, found a list" },
        { "a cloud-config with an alias in it",
          "#cloud-config\na: &x {}\nnode_bootstrap:\n  kubelet: *x\n",
          .detail = "x:4: expected plain YAML, found an alias (*)" },
        { "a cloud-config with the key twice",
          "#cloud-config\nnode_bootstrap: {}\nnode_bootstrap: {}\n",
          .detail = "x:3: expected each key once, found one twice (14 characters)" },
        { "a cloud-config with invalid YAML", "#cloud-config\nnode_bootstrap: {\n",
          .detail = "x:3:1: expected YAML: did not find expected node content" },

};

static void check(const struct user_data_case *c, const char *data, size_t len,
                  const char *wrapped) {
        struct nb_user_data user_data = NB_USER_DATA_INIT;
        struct nb_failure f = { 0 };
        char what[256] = "", detail[256] = "";
        int r;

        r = nb_user_data_parse("x", data, len, &user_data, &f);
        if (c->detail)
                (void)snprintf(detail, sizeof(detail), "x%s%s", wrapped, c->detail + 1);
        assert_string_equal(f.detail, detail);
        assert_int_equal(f.code, c->detail ? NB_METADATA_MALFORMED : NB_NONE);
        assert_int_equal(r < 0, c->detail != NULL);
        assert_int_equal(user_data.kind, c->kind);
        if (c->what)
                (void)snprintf(what, sizeof(what), "%s%s", c->what, wrapped);
        assert_string_equal(user_data.what, what);
        if (c->hint)
                assert_memory_equal(user_data.hint, c->hint, strlen(c->hint));
        else
                assert_null(user_data.hint);
        assert_int_equal(user_data.document.data != NULL, c->kind == DOCUMENT || c->document);
        if (user_data.document.data)
                assert_string_equal(user_data.document.data, c->document ? c->document : c->text);
        if (c->kind == DOCUMENT && strcmp(c->what, "a cloud-config") == 0)
                assert_string_equal(user_data.key, "node_bootstrap");
        else if (c->kind != DOCUMENT)
                assert_null(user_data.key);
        nb_user_data_done(&user_data);
}

static void reads(void **state) {
        const struct user_data_case *c = *state;

        check(c, c->text, c->len > 0 ? c->len : strlen(c->text), "");
}

/* Whatever it is, it is the same in base64, but base64 is decoded only once. */
static void reads_base64(void **state) {
        const struct user_data_case *c = *state;
        _cleanup_(nb_buffer_done) struct nb_buffer base64 = NB_BUFFER_INIT(NB_USER_DATA_MAX);
        struct user_data_case wrapped = *c;
        bool is_encoded = c->what && strstr(c->what, ", in base64"), is_unknown;

        if (is_encoded) {
                wrapped.what = c->kind == DOCUMENT ? "base64" : UNKNOWN;
                wrapped.hint = c->kind == DOCUMENT ? "; encode it only once" : NULL;
                wrapped.kind = NOTHING;
                wrapped.document = NULL;
        }
        is_unknown = wrapped.what && !strcmp(wrapped.what, UNKNOWN);
        nb_base64_encode(c->text, c->len > 0 ? c->len : strlen(c->text), &base64);
        if (base64.data && base64.len > 0)
                check(&wrapped, base64.data, base64.len, is_unknown ? "" : ", in base64");
}

/* cloud-init searches the first 4096 bytes. */
static void searches_for_mime_as_far_as_cloud_init(_unused_ void **state) {
        static const char header[] = "MIME-Version:";

        for (unsigned i = 0; i < 2; i++) {
                _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_USER_DATA_MAX);
                struct nb_user_data user_data = NB_USER_DATA_INIT;
                struct nb_failure f = { 0 };

                nb_buffer_append_string(&text, "--b\n");
                while (text.len < 4096 - strlen(header) + i)
                        nb_buffer_append_string(&text, "x");
                nb_buffer_append_string(&text, header);
                assert_int_equal(nb_user_data_parse("x", text.data, text.len, &user_data, &f), 0);
                assert_string_equal(user_data.what, i == 0 ? "a MIME message" : UNKNOWN);
                nb_user_data_done(&user_data);
        }
}

static int parse(const struct nb_buffer *text, struct nb_failure *f) {
        struct nb_user_data user_data = NB_USER_DATA_INIT;
        int r = nb_user_data_parse("x", text->data, text->len, &user_data, f);

        nb_user_data_done(&user_data);
        return r;
}

static void refuses_more_than_the_limit(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_USER_DATA_MAX + 1);
        struct nb_failure f = { 0 };

        while (text.len < NB_USER_DATA_MAX)
                nb_buffer_append(&text, "#\n", 2);
        assert_int_equal(parse(&text, &f), 0);
        nb_buffer_append(&text, "#", 1);
        assert_true(parse(&text, &f) < 0);
        assert_int_equal(f.code, NB_METADATA_MALFORMED);
}

/* As many values as another tool's document may have, and more levels than ours may have. */
static void reads_our_key_in_a_large_cloud_config(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_USER_DATA_MAX);
        struct nb_user_data user_data = NB_USER_DATA_INIT;
        struct nb_failure f = { 0 };

        nb_buffer_append_string(&text, "#cloud-config\nnode_bootstrap: {timeout: 5m}\ndeep: ");
        for (unsigned i = 0; i < 100; i++)
                nb_buffer_append_string(&text, "[");
        for (unsigned i = 0; i < 100; i++)
                nb_buffer_append_string(&text, "]");
        nb_buffer_append_string(&text, "\nruncmd:\n");
        for (unsigned i = 0; i < 50000; i++)
                nb_buffer_printf(&text, "- [a, %u]\n", i);
        assert_int_equal(nb_user_data_parse("x", text.data, text.len, &user_data, &f), 0);
        assert_string_equal(user_data.document.data, text.data);
        nb_user_data_done(&user_data);
}

static int run(const void *input) {
        struct nb_user_data user_data = NB_USER_DATA_INIT;
        struct nb_failure f = { 0 };
        int r = nb_user_data_parse("x", input, strlen(input), &user_data, &f);

        nb_user_data_done(&user_data);
        return r;
}

static void survives_a_lack_of_memory(void **state) {
        static const char *const texts[] = {
                OURS,
                "#cloud-config\nnode_bootstrap:\n  timeout: 5m\n",
                MULTIPART PART,
                "a2luZDogTm9kZUJvb3RzdHJhcAo=",
        };

        for (size_t i = 0; i < N_ELEMENTS(texts); i++)
                allocation_try_all(run, texts[i]);
}

int main(void) {
        CASES(cases, reads);
        CASES(cases, reads_base64);
        CASE(searches_for_mime_as_far_as_cloud_init);
        CASE(refuses_more_than_the_limit);
        CASE(reads_our_key_in_a_large_cloud_config);
        CASE(survives_a_lack_of_memory);
        return case_run("user_data");
}
