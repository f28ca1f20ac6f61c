/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include <zlib.h>

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
#define MULTIPART "Content-Type: multipart/mixed; boundary=\"b\"\nMIME-Version: 1.0\n\n"
#define PART(type, body) "--b\nContent-Type: " type "\n\n" body "\n"
#define END "--b--\n"
#define OWN "application/vnd.node-bootstrap+yaml"

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

        { "MIME: a part of its own type",
          MULTIPART PART("text/x-shellscript", "#!/bin/sh") PART(OWN, OURS) END, DOCUMENT,
          "a document of its own type, in part 2 of a MIME message", OURS },
        { "MIME: a document in a part of text",
          MULTIPART PART("text/plain; charset=\"utf-8\"", OURS) END, DOCUMENT,
          "a NodeBootstrap document, in part 1 of a MIME message", OURS },
        { "MIME: a cloud-config, by its first line",
          MULTIPART PART("text/plain", "#cloud-config\nnode_bootstrap: {}") END, DOCUMENT,
          "a cloud-config, in part 1 of a MIME message", "#cloud-config\nnode_bootstrap: {}" },
        { "MIME: a cloud-config, by its type",
          MULTIPART PART("text/cloud-config", "node_bootstrap: {}") END, DOCUMENT,
          "a cloud-config, in part 1 of a MIME message", "node_bootstrap: {}" },
        { "MIME: a message without parts", "MIME-Version: 1.0\nContent-Type: " OWN "\n\n" OURS,
          DOCUMENT, "a document of its own type, in part 1 of a MIME message", OURS },
        { "MIME: base64",
          MULTIPART "--b\nContent-Type: " OWN
                    "\nContent-Transfer-Encoding: base64\n\na2luZDog\nTm9kZUJvb3RzdHJhcAo=\n" END,
          DOCUMENT, "a document of its own type, in part 1 of a MIME message",
          "kind: NodeBootstrap\n" },
        { "MIME: no part for this program",
          MULTIPART PART("text/x-shellscript", OURS) PART("text/cloud-config", "a: b") END, NOTHING,
          "a MIME message without a part for this program" },
        { "MIME: a template",
          MULTIPART PART("text/jinja2", OURS)
                  PART("text/cloud-config", "## template: jinja\nnode_bootstrap: {}") END,
          NOTHING, "a MIME message without a part for this program" },
        { "MIME: two parts for us", MULTIPART PART(OWN, OURS) PART("text/plain", OURS) END,
          .detail = "x: expected one part for this program, found two: 1 and 2" },
        { "MIME: an error in our part",
          MULTIPART PART("text/cloud-config", "a: b") PART("text/cloud-config", "node_bootstrap: [")
                  END,
          .detail = "x, in part 2 of a MIME message:2:1: expected YAML: did not find expected node "
                    "content" },
        { "MIME: our part with invalid base64",
          MULTIPART "--b\nContent-Type: " OWN "\nContent-Transfer-Encoding: base64\n\n?\n" END,
          .detail = "x, in part 1 of a MIME message: expected text or valid base64, found another "
                    "Content-Transfer-Encoding or invalid base64" },
        { "MIME: our part in quoted-printable",
          MULTIPART "--b\nContent-Type: " OWN
                    "\nContent-Transfer-Encoding: quoted-printable\n\na\n" END,
          .detail = "x, in part 1 of a MIME message: expected text or valid base64, found another "
                    "Content-Transfer-Encoding or invalid base64" },
        { "MIME: another part with invalid base64",
          MULTIPART "--b\nContent-Transfer-Encoding: base64\n\n?\n" END, NOTHING,
          "a MIME message without a part for this program" },
        { "MIME: cut after our part", MULTIPART PART(OWN, OURS),
          .detail = "x: expected a MIME message, found a part without a closing boundary" },
        { "MIME: cut, without a part for this program", MULTIPART PART("text/plain", "a"), NOTHING,
          "a malformed MIME message" },
        { "MIME: a message inside a part is ignored",
          MULTIPART PART("text/plain", "MIME-Version: 1.0\nContent-Type: " OWN "\n\n") END, NOTHING,
          "a MIME message without a part for this program" },
};

static void check(const struct user_data_case *c, const char *data, size_t len,
                  const char *wrapped) {
        struct nb_user_data user_data = NB_USER_DATA_INIT;
        struct nb_failure f = { 0 };
        char what[256], detail[256] = "";
        const char *part = c->what ? strstr(c->what, ", in part") : NULL;
        int r, what_len = part ? (int)(part - c->what) : (int)strlen(c->what ? c->what : "");

        r = nb_user_data_parse("x", data, len, &user_data, &f);
        if (c->detail)
                (void)snprintf(detail, sizeof(detail), "x%s%s", wrapped, c->detail + 1);
        assert_string_equal(f.detail, detail);
        assert_int_equal(f.code, c->detail ? NB_METADATA_MALFORMED : NB_NONE);
        assert_int_equal(r < 0, c->detail != NULL);
        assert_int_equal(user_data.kind, c->kind);
        (void)snprintf(what, sizeof(what), "%.*s%s%s", what_len, c->what ? c->what : "",
                       c->what ? wrapped : "", part ? part : "");
        assert_string_equal(user_data.what, what);
        assert_int_equal(user_data.document.data != NULL, c->kind == DOCUMENT || c->document);
        if (user_data.document.data)
                assert_string_equal(user_data.document.data, c->document ? c->document : c->text);
        if (c->kind == DOCUMENT && strcmp(c->what, "a cloud-config") == 0)
                assert_string_equal(user_data.key, "node_bootstrap");
        else if (c->kind != DOCUMENT)
                assert_null(user_data.key);
        nb_user_data_done(&user_data);
}

static void compress_text(const char *data, size_t len, struct nb_buffer *ret) {
        z_stream stream = { 0 };
        unsigned char chunk[4096];
        int r;

        assert_int_equal(
                deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY), Z_OK);
        stream.next_in = (unsigned char *)(uintptr_t)data;
        stream.avail_in = (unsigned)len;
        do {
                stream.next_out = chunk;
                stream.avail_out = sizeof(chunk);
                r = deflate(&stream, Z_FINISH);
                nb_buffer_append(ret, chunk, sizeof(chunk) - stream.avail_out);
        } while (r == Z_OK);
        assert_int_equal(deflateEnd(&stream), Z_OK);
}

static void reads(void **state) {
        const struct user_data_case *c = *state;

        check(c, c->text, strlen(c->text), "");
}

/* Whatever it is, it is the same in gzip, in base64, and in base64 of gzip. */
static void reads_wrapped(void **state) {
        const struct user_data_case *c = *state;
        _cleanup_(nb_buffer_done) struct nb_buffer gzip = NB_BUFFER_INIT(NB_USER_DATA_MAX),
                                                   base64 = NB_BUFFER_INIT(NB_USER_DATA_MAX),
                                                   both = NB_BUFFER_INIT(NB_USER_DATA_MAX);
        struct user_data_case wrapped = *c;

        /* Base64 is decoded only once. */
        if (wrapped.what && strstr(wrapped.what, ", in base64"))
                wrapped.what = "data of another program";
        compress_text(c->text, strlen(c->text), &gzip);
        nb_base64_encode(c->text, strlen(c->text), &base64);
        nb_base64_encode(gzip.data, gzip.len, &both);
        check(&wrapped, gzip.data, gzip.len, ", in gzip");
        check(&wrapped, both.data, both.len, ", in base64, in gzip");
        if (base64.data && base64.len > 0)
                check(&wrapped, base64.data, base64.len, ", in base64");
}

static int parse(const struct nb_buffer *text, struct nb_failure *f) {
        struct nb_user_data user_data = NB_USER_DATA_INIT;
        int r = nb_user_data_parse("x", text->data, text->len, &user_data, f);

        nb_user_data_done(&user_data);
        return r;
}

#define CUT(type) PART(type, "\x1f\x8b\x08")
#define TEXT(text) \
        { .data = text, .len = sizeof(text) - 1 }

static void assert_kind(const struct nb_buffer *text, enum nb_user_data_kind kind,
                        const char *what) {
        struct nb_user_data user_data = NB_USER_DATA_INIT;
        struct nb_failure f = { 0 };

        assert_int_equal(nb_user_data_parse("x", text->data, text->len, &user_data, &f), 0);
        assert_int_equal(user_data.kind, kind);
        assert_string_equal(user_data.what, what);
        assert_null(user_data.document.data);
        nb_user_data_done(&user_data);
}

static void assert_nothing(const struct nb_buffer *text, const char *what) {
        assert_kind(text, NB_USER_DATA_NOTHING, what);
}

static void assert_unreadable(const struct nb_buffer *text, const char *what) {
        assert_kind(text, NB_USER_DATA_UNREADABLE, what);
}

static void limits_the_expanded_size_of_gzip(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer plain = NB_BUFFER_INIT(NB_USER_DATA_TEXT_MAX +
                                                                          1),
                                                   gzip = NB_BUFFER_INIT(NB_USER_DATA_MAX);
        struct nb_failure f = { 0 };

        for (size_t i = 0; i < NB_USER_DATA_TEXT_MAX / 16; i++)
                nb_buffer_append(&plain, "# 0123456789abc\n", 16);
        compress_text(plain.data, plain.len, &gzip);
        assert_int_equal(parse(&gzip, &f), 0);
        nb_buffer_clear(&gzip);
        nb_buffer_append(&plain, "#", 1);
        compress_text(plain.data, plain.len, &gzip);
        assert_true(gzip.len < 8192);
        assert_unreadable(&gzip, "gzip of more than 1 MiB");
}

static void reads_beside_a_part_of_cut_gzip(void **state) {
        static char other_parts[] = MULTIPART CUT("application/gzip") PART("text/plain", "a") END,
                    ours_beside[] = MULTIPART PART(OWN, OURS) CUT("application/gzip") END,
                    ours_cut[] = MULTIPART CUT(OWN) END;
        const struct nb_buffer others = TEXT(other_parts), beside = TEXT(ours_beside),
                               ours = TEXT(ours_cut);
        struct nb_failure f = { 0 };
        struct nb_user_data user_data = NB_USER_DATA_INIT;

        assert_unreadable(&others, "truncated or damaged gzip data, in part 1 of a MIME message");
        assert_int_equal(nb_user_data_parse("x", beside.data, beside.len, &user_data, &f), 0);
        assert_int_equal(user_data.kind, NB_USER_DATA_DOCUMENT);
        nb_user_data_done(&user_data);
        assert_true(parse(&ours, &f) < 0);
        assert_int_equal(f.code, NB_METADATA_MALFORMED);
        assert_string_equal(f.detail, "x, in part 1 of a MIME message: expected text, found "
                                      "truncated or damaged gzip data");
}

/* As `cat a.gz b.gz` makes it, and pigz; the limit applies to all of them together. */
static void reads_gzip_of_several_members(void **state) {
        static const char half[NB_USER_DATA_TEXT_MAX / 2] = "";
        _cleanup_(nb_buffer_done) struct nb_buffer gzip = NB_BUFFER_INIT(NB_USER_DATA_MAX);
        static const struct user_data_case whole = { "members", OURS, DOCUMENT,
                                                     "a NodeBootstrap document", OURS };

        for (size_t cut = 0; cut <= strlen(OURS); cut++) {
                nb_buffer_clear(&gzip);
                compress_text(OURS, cut, &gzip);
                compress_text(&OURS[cut], strlen(OURS) - cut, &gzip);
                check(&whole, gzip.data, gzip.len, ", in gzip");
        }
        nb_buffer_clear(&gzip);
        compress_text(half, sizeof(half), &gzip);
        compress_text(half, sizeof(half), &gzip);
        compress_text("", 0, &gzip);
        assert_nothing(&gzip, "data of another program, in gzip");
        compress_text("#", 1, &gzip);
        assert_unreadable(&gzip, "gzip of more than 1 MiB");
}

static void reports_damaged_gzip(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer gzip = NB_BUFFER_INIT(4096);

        compress_text(OURS, strlen(OURS), &gzip);
        for (size_t len = 2; len <= gzip.len + 1; len++) {
                struct nb_buffer cut = { .data = gzip.data, .len = len, .max = len };

                if (len != gzip.len)
                        assert_unreadable(&cut, "truncated or damaged gzip data");
        }
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
                MULTIPART PART("text/x-shellscript",
                               "#!/bin/sh") "--b\nContent-Transfer-Encoding: "
                                            "base64\n\na2luZDogTm9kZUJvb3RzdHJhcAo=\n" END,
                "H4sIAAAAAAACA8vOzEuxUvDLT0l1ys8vKS4pSizgAgAY4yuzFAAAAA==",
        };

        for (size_t i = 0; i < N_ELEMENTS(texts); i++)
                allocation_try_all(run, texts[i]);
}

int main(void) {
        CASES(cases, reads);
        CASES(cases, reads_wrapped);
        CASE(limits_the_expanded_size_of_gzip);
        CASE(reports_damaged_gzip);
        CASE(reads_beside_a_part_of_cut_gzip);
        CASE(reads_gzip_of_several_members);
        CASE(refuses_more_than_the_limit);
        CASE(reads_our_key_in_a_large_cloud_config);
        CASE(survives_a_lack_of_memory);
        return case_run("user_data");
}
