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

struct user_data_case {
        const char *name;
        const char *text;
        enum nb_user_data_kind kind;
        const char *what;
        const char *document; /* NULL: the text, where there is one */
        const char *detail;   /* of the refusal */
};

static struct user_data_case cases[] = {
        { "nothing", "", NOTHING, "empty" },
        { "white space", " \r\n\t\n", NOTHING, "empty" },
        { "a document", OURS, DOCUMENT, "a NodeBootstrap document" },
        { "a document after a byte order mark", "\xef\xbb\xbf" OURS, DOCUMENT,
          "a NodeBootstrap document", OURS },
        { "a document after comments", "# ours\n---\n" OURS, DOCUMENT, "a NodeBootstrap document" },
        { "a document with CR LF", "apiVersion: node-bootstrap/v1\r\nkind: NodeBootstrap\r\n",
          DOCUMENT, "a NodeBootstrap document" },
        { "a document with quotes", "'apiVersion' : \"node-bootstrap/v1\" # ours\n", DOCUMENT,
          "a NodeBootstrap document" },
        { "a document without apiVersion", "kind: NodeBootstrap\n", DOCUMENT,
          "a NodeBootstrap document" },
        { "a document of a later version", "apiVersion: node-bootstrap/v9\n", DOCUMENT,
          "a NodeBootstrap document" },
        { "a document with invalid YAML", "kind: NodeBootstrap\n{[\n", DOCUMENT,
          "a NodeBootstrap document" },
        { "a document in JSON",
          "{\"apiVersion\": \"node-bootstrap/v1\", \"kind\": \"NodeBootstrap\"}", DOCUMENT,
          "a document in JSON" },
        { "a JoinConfiguration", JOIN, DOCUMENT, "a JoinConfiguration" },
        { "a JoinConfiguration after another document",
          "apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\n---\n" JOIN, DOCUMENT,
          "a JoinConfiguration" },
        { "kubeadm's configuration of a control plane",
          "apiVersion: kubeadm.k8s.io/v1beta3\nkind: InitConfiguration\n", NOTHING,
          "data of another program" },
        { "a document inside another one",
          "apiVersion: v1\nkind: ConfigMap\ndata:\n  a: |\n    kind: NodeBootstrap\n", NOTHING,
          "data of another program" },
        { "other values of kind and apiVersion",
          "kind: NodeBootstrapX\napiVersion: xnode-bootstrap/v1\n", NOTHING,
          "data of another program" },
        { "a shell script", "#!/bin/sh\ncat <<E\n" OURS "E\n", NOTHING, "a shell script" },
        { "a shell script after empty lines", "\n\n#!/bin/sh\ncat <<E\n" OURS "E\n", NOTHING,
          "a shell script" },
        { "a list of addresses", "#include\nhttps://a/b\n", NOTHING,
          "a list of addresses for cloud-init" },
        { "a boothook", "#cloud-boothook\n#!/bin/sh\n", NOTHING, "a boothook for cloud-init" },
        { "a template with an expression",
          "## template: jinja\n#cloud-config\nnode_bootstrap: {{ x }}\n", NOTHING,
          "a template for cloud-init" },
        { "a template with an expression in a string",
          "## template: jinja\n#cloud-config\nnode_bootstrap: {node: {name: \"{{ x }}\"}}\n",
          NOTHING, "a template for cloud-init" },
        { "a template with a statement",
          "## template: jinja\n#cloud-config\nnode_bootstrap: {}\n{% if x %}\n", NOTHING,
          "a template for cloud-init" },
        { "a template of another kind",
          "## template: jinja\n#!/bin/sh\n#cloud-config\nnode_bootstrap: {}\n", NOTHING,
          "a template for cloud-init" },
        { "a template without an expression in our key",
          "## template: jinja\n#cloud-config\nhostname: \"{{ x }}\"\nnode_bootstrap: {}\n",
          DOCUMENT, "a cloud-config" },
        { "an archive", "#cloud-config-archive\n- node_bootstrap: 1\n", NOTHING,
          "an archive for cloud-init" },
        { "an Ignition config", "{\"ignition\": {\"version\": \"3.3.0\"}}", NOTHING,
          "an Ignition config" },
        { "JSON of another program", "{\"a\": 1}", NOTHING, "JSON of another program" },
        { "invalid JSON", "{a: node-bootstrap.token}", NOTHING, "data of another program" },
        { "text", "hello world\n", NOTHING, "data of another program" },
        { "MIME, which is not read", MULTIPART PART, NOTHING, "a MIME message" },
        { "MIME in another case", "\nmime-version: 1.0\n\n" OURS, NOTHING, "a MIME message" },
        { "gzip, which is not read", "\x1f\x8b\x08", NOTHING, "gzip" },
        { "a word that could be base64", "aGVsbG8=", NOTHING,
          "data of another program, in base64" },
        { "a word that is not base64", "abcde\n", NOTHING, "data of another program" },

        { "a cloud-config without the key", "#cloud-config\nusers: [*x, !!a b]\n- broken\n",
          NOTHING, "a cloud-config without the key node_bootstrap" },
        { "a cloud-config that mentions the key",
          "#cloud-config\nwrite_files:\n- content: |\n    node_bootstrap: 1\n  path: /a\n", NOTHING,
          "a cloud-config without the key node_bootstrap" },
        { "a cloud-config",
          "#cloud-config\nusers: [&x a, *x]\nnode_bootstrap:\n  bootstrap:\n    token: " TOKEN
          "\n\n  timeout: 5m\nruncmd: [!a b]\n",
          DOCUMENT, "a cloud-config" },
        { "a cloud-config with a whole document",
          "#cloud-config\nnode_bootstrap: {apiVersion: node-bootstrap/v1, kind: NodeBootstrap}\n",
          DOCUMENT, "a cloud-config" },
        { "a cloud-config in JSON",
          "#cloud-config\n{\"a\": [{}], \"node_bootstrap\": {\"timeout\": \"5m\"}}\n", DOCUMENT,
          "a cloud-config" },
        { "a cloud-config after a byte order mark and an empty line",
          "\xef\xbb\xbf\r\n#Cloud-Config\nnode_bootstrap:\n  timeout: 5m\n", DOCUMENT,
          "a cloud-config", "\r\n#Cloud-Config\nnode_bootstrap:\n  timeout: 5m\n" },
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
          .detail = "x:3: expected each key once, found 'node_bootstrap' twice" },
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
        assert_int_equal(user_data.hint != NULL,
                         strstr(what, "MIME") != NULL || strstr(what, "gzip") != NULL);
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

        check(c, c->text, strlen(c->text), "");
}

/* Whatever it is, it is the same in base64. */
static void reads_base64(void **state) {
        const struct user_data_case *c = *state;
        _cleanup_(nb_buffer_done) struct nb_buffer base64 = NB_BUFFER_INIT(NB_USER_DATA_MAX);
        struct user_data_case wrapped = *c;

        /* Base64 is decoded only once. */
        if (wrapped.what && strstr(wrapped.what, ", in base64"))
                wrapped.what = "data of another program";
        nb_base64_encode(c->text, strlen(c->text), &base64);
        if (base64.data && base64.len > 0)
                check(&wrapped, base64.data, base64.len, ", in base64");
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
        CASE(refuses_more_than_the_limit);
        CASE(reads_our_key_in_a_large_cloud_config);
        CASE(survives_a_lack_of_memory);
        return case_run("user_data");
}
