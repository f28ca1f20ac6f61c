/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include <zlib.h>

#include "base/buffer.h"
#include "base/encoding.h"
#include "format/user_data.h"

#include "allocation.h"
#include "case.h"

#define TOKEN "abcdef.0123456789abcdef"
#define OURS "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\nbootstrap:\n  token: " TOKEN "\n"
#define JOIN "apiVersion: kubeadm.k8s.io/v1beta3\nkind: JoinConfiguration\ndiscovery: {tlsBootstrapToken: " TOKEN "}\n"
#define NOTHING NB_USER_DATA_NOTHING
#define DOCUMENT NB_USER_DATA_DOCUMENT
#define CREDENTIALS NB_USER_DATA_CREDENTIALS
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
        const char *token, *tls_token;
        const char *detail; /* of the refusal */
};

static struct user_data_case cases[] = {
        { "nothing", "", NOTHING, "empty" },
        { "white space", " \r\n\t\n", NOTHING, "empty" },
        { "a document", OURS, DOCUMENT, "a NodeBootstrap document" },
        { "a document behind a byte order mark", "\xef\xbb\xbf" OURS, DOCUMENT, "a NodeBootstrap document", OURS },
        { "a document behind comments", "# ours\n---\n" OURS, DOCUMENT, "a NodeBootstrap document" },
        { "a document with the lines of Windows", "apiVersion: node-bootstrap/v1\r\nkind: NodeBootstrap\r\n", DOCUMENT, "a NodeBootstrap document" },
        { "a document with quotes", "'apiVersion' : \"node-bootstrap/v1\" # ours\n", DOCUMENT, "a NodeBootstrap document" },
        { "a document whose version is missing", "kind: NodeBootstrap\n", DOCUMENT, "a NodeBootstrap document" },
        { "a document with a version of the future", "apiVersion: node-bootstrap/v9\n", DOCUMENT, "a NodeBootstrap document" },
        { "a document that is no YAML", "kind: NodeBootstrap\n{[\n", DOCUMENT, "a NodeBootstrap document" },
        { "a document in JSON", "{\"apiVersion\": \"node-bootstrap/v1\", \"kind\": \"NodeBootstrap\"}", DOCUMENT, "a document in JSON" },
        { "a JoinConfiguration", JOIN, DOCUMENT, "a JoinConfiguration" },
        { "a JoinConfiguration behind another document", "apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\n---\n" JOIN, DOCUMENT, "a JoinConfiguration" },
        { "kubeadm's configuration of a control plane", "apiVersion: kubeadm.k8s.io/v1beta3\nkind: InitConfiguration\n", NOTHING, "data of another program" },
        { "a document inside another one", "apiVersion: v1\nkind: ConfigMap\ndata:\n  a: |\n    kind: NodeBootstrap\n", NOTHING, "data of another program" },
        { "a value that is not ours", "kind: NodeBootstrapX\napiVersion: xnode-bootstrap/v1\n", NOTHING, "data of another program" },
        { "a shell script", "#!/bin/sh\ncat <<E\n" OURS "E\n", NOTHING, "a shell script" },
        { "a shell script behind empty lines", "\n\n#!/bin/sh\ncat <<E\n" OURS "E\n", NOTHING, "a shell script" },
        { "a list of addresses", "#include\nhttps://a/b\n", NOTHING, "a list of addresses for cloud-init" },
        { "a boothook", "#cloud-boothook\n#!/bin/sh\n", NOTHING, "a boothook for cloud-init" },
        { "a template", "## template: jinja\n#cloud-config\nnode_bootstrap: {{ x }}\n", NOTHING, "a template for cloud-init" },
        { "an archive", "#cloud-config-archive\n- node_bootstrap: 1\n", NOTHING, "an archive for cloud-init" },
        { "an Ignition config", "{\"ignition\": {\"version\": \"3.3.0\"}}", NOTHING, "an Ignition config" },
        { "JSON of another program", "{\"a\": 1}", NOTHING, "JSON of another program" },
        { "what begins as JSON", "{a: node-bootstrap.token}", NOTHING, "what begins as JSON and is none" },
        { "text", "hello world\n", NOTHING, "data of another program" },
        { "a word that could be base64", "aGVsbG8=", NOTHING, "data of another program, in base64" },
        { "a word that is none", "abcde\n", NOTHING, "data of another program" },

        { "a cloud-config of others", "#cloud-config\nusers: [*x, !!a b]\n- broken\n", NOTHING, "a cloud-config without the key node_bootstrap" },
        { "a cloud-config that mentions the key", "#cloud-config\nwrite_files:\n- content: |\n    node_bootstrap: 1\n  path: /a\n", NOTHING,
          "a cloud-config without the key node_bootstrap" },
        { "a cloud-config", "#cloud-config\nusers: [&x a, *x]\nnode_bootstrap:\n  bootstrap:\n    token: " TOKEN "\n\n  timeout: 5m\nruncmd: [!a b]\n", DOCUMENT,
          "a cloud-config",
          "{apiVersion: node-bootstrap/v1, kind: NodeBootstrap, \n\n\n\"bootstrap\": {\n\"token\": \"" TOKEN "\"}, \n\n\"timeout\": \"5m\"}\n" },
        { "a cloud-config with values of all types", "#cloud-config\nnode_bootstrap: {a: [1, true, ~, 'true', \"x\\ty\\\"\"], b: , c: {}, d: 'e: f'}\n", DOCUMENT, "a cloud-config",
          "{apiVersion: node-bootstrap/v1, kind: NodeBootstrap, \n\"a\": [1, true, null, \"true\", \"x\\u0009y\\\"\"], \"b\": null, \"c\": {}, \"d\": \"e: f\"}\n" },
        { "a cloud-config with a whole document", "#cloud-config\nnode_bootstrap: {apiVersion: node-bootstrap/v1, kind: NodeBootstrap}\n", DOCUMENT, "a cloud-config",
          "{\n\"apiVersion\": \"node-bootstrap/v1\", \"kind\": \"NodeBootstrap\"}\n" },
        { "a cloud-config in JSON", "#cloud-config\n{\"a\": [{}], \"node_bootstrap\": {\"timeout\": \"5m\"}}\n", DOCUMENT, "a cloud-config",
          "{apiVersion: node-bootstrap/v1, kind: NodeBootstrap, \n\"timeout\": \"5m\"}\n" },
        { "a cloud-config behind a byte order mark and an empty line", "\xef\xbb\xbf\r\n#Cloud-Config\nnode_bootstrap:\n  timeout: 5m\n", DOCUMENT, "a cloud-config",
          "{apiVersion: node-bootstrap/v1, kind: NodeBootstrap, \n\n\n\"timeout\": \"5m\"}\n" },
        { "a cloud-config whose keys are not indented", "#cloud-config\nnode_bootstrap:\ntimeout: 5m\n",
          .detail = "x:2: node_bootstrap: expected a mapping, found nothing; the keys below it have to be indented" },
        { "a cloud-config with a list", "#cloud-config\nnode_bootstrap:\n- a\n", .detail = "x:3: node_bootstrap: expected a mapping, found a list" },
        { "a cloud-config with an alias in it", "#cloud-config\na: &x {}\nnode_bootstrap:\n  kubelet: *x\n", .detail = "x:4: expected plain YAML, found an alias (*)" },
        { "a cloud-config with the key twice", "#cloud-config\nnode_bootstrap: {}\nnode_bootstrap: {}\n", .detail = "x:3: expected each key once, found 'node_bootstrap' twice" },
        { "a cloud-config that is broken", "#cloud-config\nnode_bootstrap: {\n", .detail = "x:3:1: expected YAML: did not find expected node content" },

        { "credentials", "{\"systemd.credentials\": [{\"name\": \"node-bootstrap.token\", \"text\": \"" TOKEN "\"}]}", CREDENTIALS, "credentials in JSON", .token = TOKEN },
        { "credentials behind their line and an empty one", "\n#systemd-userdata\n{\"systemd.credentials\": [{\"name\": \"node-bootstrap.token\", \"text\": \"" TOKEN "\"}]}",
          CREDENTIALS, "credentials in JSON", .token = TOKEN },
        { "credentials behind an empty line", "\n {\"systemd.credentials\": [{\"name\": \"node-bootstrap.token\", \"text\": \"" TOKEN "\"}]}", CREDENTIALS,
          "credentials in JSON", .token = TOKEN },
        { "credentials behind their line", "#systemd-userdata\n{\"systemd.credentials\": [{\"name\": \"node-bootstrap.token\", \"text\": \"" TOKEN "\"}]}", CREDENTIALS,
          "credentials in JSON", .token = TOKEN },
        { "all credentials that are taken",
          "{\"systemd.credentials\": [{\"name\": \"passwd\", \"encrypted\": \"?\"}, {\"name\": \"node-bootstrap.token\", \"data\": \"YWJjZGVmLjAxMjM0NTY3ODlhYmNkZWY=\"},\n"
          "{\"name\": \"node-bootstrap.tls-bootstrap-token\", \"text\": \"b\\n\"}, {\"name\": \"node-bootstrap.config\", \"text\": \"kind: a\\n\"}], \"more\": 1}",
          CREDENTIALS, "credentials in JSON", "kind: a\n", TOKEN, "b\n" },
        { "credentials of others", "{\"systemd.credentials\": [{\"name\": \"a\", \"text\": \"b\"}, {}]}", NOTHING, "credentials of other programs, in JSON" },
        { "a credential that is encrypted", "{\"systemd.credentials\": [{\"name\": \"node-bootstrap.token\", \"encrypted\": \"" TOKEN "\"}]}",
          .detail = "x: systemd.credentials[0]: expected text or data, found an encrypted one; only the import of user data in systemd 261 and newer takes these" },
        { "a credential that is not taken", "{\"systemd.credentials\": [{}, {\"name\": \"node-bootstrap.kubeconfig\", \"text\": \"a\"}]}",
          .detail = "x: systemd.credentials[1]: expected node-bootstrap.token, .tls-bootstrap-token or .config, found 'node-bootstrap.kubeconfig'; only the import of user data in "
                    "systemd 261 and newer takes others" },
        { "a token in the place of a name is not quoted", "{\"systemd.credentials\": [{\"name\": \"node-bootstrap." TOKEN "\", \"text\": \"a\"}]}",
          .detail = "x: systemd.credentials[0]: expected node-bootstrap.token, .tls-bootstrap-token or .config, found '(a token)'; only the import of user data in "
                    "systemd 261 and newer takes others" },
        { "a credential twice", "{\"systemd.credentials\": [{\"name\": \"node-bootstrap.token\", \"text\": \"a\"}, {\"name\": \"node-bootstrap.token\", \"text\": \"b\"}]}",
          .detail = "x: systemd.credentials[1]: expected each name once, found it twice" },
        { "a credential with two values", "{\"systemd.credentials\": [{\"name\": \"node-bootstrap.token\", \"text\": \"a\", \"data\": \"YQ==\"}]}",
          .detail = "x: systemd.credentials[0]: expected text or data, found both" },
        { "a credential without a value", "{\"systemd.credentials\": [{\"name\": \"node-bootstrap.token\"}]}",
          .detail = "x: systemd.credentials[0]: expected text or data, found neither" },
        { "a credential that is no base64", "{\"systemd.credentials\": [{\"name\": \"node-bootstrap.token\", \"data\": \"?\"}]}",
          .detail = "x: systemd.credentials[0]: data: expected base64, found something else" },
        { "a credential of another type", "{\"systemd.credentials\": [{\"name\": \"node-bootstrap.token\", \"text\": 5}]}",
          .detail = "x: systemd.credentials: [0].text: expected a string, found an integer" },
        { "credentials that are no list", "{\"systemd.credentials\": {}}", .detail = "x: systemd.credentials: expected a list, found something else" },
        { "credentials in broken JSON", "{\"systemd.credentials\": [{\"name\": \"node-bootstrap.token\", \"text\": \"" TOKEN "\"}]",
          .detail = "x: expected JSON, found 93 bytes of which the end is missing" },

        { "MIME: a part of its own type", MULTIPART PART("text/x-shellscript", "#!/bin/sh") PART(OWN, OURS) END, DOCUMENT,
          "a document of its own type, in part 2 of a MIME message", OURS },
        { "MIME: a document in a part of text", MULTIPART PART("text/plain; charset=\"utf-8\"", OURS) END, DOCUMENT, "a NodeBootstrap document, in part 1 of a MIME message", OURS },
        { "MIME: a cloud-config by its line", MULTIPART PART("text/plain", "#cloud-config\nnode_bootstrap: {}") END, DOCUMENT, "a cloud-config, in part 1 of a MIME message",
          "{apiVersion: node-bootstrap/v1, kind: NodeBootstrap, }\n" },
        { "MIME: a cloud-config by its type", MULTIPART PART("text/cloud-config", "node_bootstrap: {}") END, DOCUMENT, "a cloud-config, in part 1 of a MIME message",
          "{apiVersion: node-bootstrap/v1, kind: NodeBootstrap, }\n" },
        { "MIME: credentials", MULTIPART PART("application/json", "{\"systemd.credentials\": [{\"name\": \"node-bootstrap.token\", \"text\": \"a\"}]}") END, CREDENTIALS,
          "credentials in JSON, in part 1 of a MIME message", .token = "a" },
        { "MIME: no multipart", "MIME-Version: 1.0\nContent-Type: " OWN "\n\n" OURS, DOCUMENT, "a document of its own type, in part 1 of a MIME message", OURS },
        { "MIME: base64", MULTIPART "--b\nContent-Type: " OWN "\nContent-Transfer-Encoding: base64\n\na2luZDog\nTm9kZUJvb3RzdHJhcAo=\n" END, DOCUMENT,
          "a document of its own type, in part 1 of a MIME message", "kind: NodeBootstrap\n" },
        { "MIME: nothing for us", MULTIPART PART("text/x-shellscript", OURS) PART("text/cloud-config", "a: b") END, NOTHING, "a MIME message without a part for this program" },
        { "MIME: a template", MULTIPART PART("text/jinja2", OURS) PART("text/cloud-config", "## template: jinja\nnode_bootstrap: {}") END, NOTHING,
          "a MIME message without a part for this program" },
        { "MIME: two parts for us", MULTIPART PART(OWN, OURS) PART("text/plain", OURS) END, .detail = "x: expected one part for this program, found two: 1 and 2" },
        { "MIME: an error in our part", MULTIPART PART("text/cloud-config", "a: b") PART("text/cloud-config", "node_bootstrap: [") END,
          .detail = "x, MIME part 2:1:18: expected YAML: did not find expected node content" },
        { "MIME: our part is not of its encoding", MULTIPART "--b\nContent-Type: " OWN "\nContent-Transfer-Encoding: base64\n\n?\n" END,
          .detail = "x, MIME part 1: expected " OWN " in the Content-Transfer-Encoding that it names, found something else" },
        { "MIME: somebody's part is not of its encoding", MULTIPART "--b\nContent-Transfer-Encoding: base64\n\n?\n" END, NOTHING, "a MIME message without a part for this program" },
        { "MIME: cut behind our part", MULTIPART PART(OWN, OURS), .detail = "x: expected a MIME message, found a part without an end" },
        { "MIME: cut, of others", MULTIPART PART("text/plain", "a"), NOTHING, "a MIME message with an error in it" },
        { "MIME: a message in a part is nobody's", MULTIPART PART("text/plain", "MIME-Version: 1.0\nContent-Type: " OWN "\n\n") END, NOTHING,
          "a MIME message without a part for this program" },
};

struct near_case {
        const char *name, *text, *near_miss;
};

static struct near_case near_cases[] = {
        { "a hyphen in the key", "#cloud-config\nusers: []\nnode-bootstrap:\n  timeout: 5m\n", "line 3: expected 'node_bootstrap:', found 'node-bootstrap:'" },
        { "the key as the kind is written", "#cloud-config\nNodeBootstrap: {}\n", "line 2: expected 'node_bootstrap:', found 'NodeBootstrap:'" },
        { "the key in quotes, a letter short", "#cloud-config\n\"node_bootsrap\": {}\n", "line 2: expected 'node_bootstrap:', found 'node_bootsrap:'" },
        { "the key in another document", "#cloud-config\na: b\n...\nnode_bootstrap: {}\n", "line 4: expected 'node_bootstrap:' at the top of the first document, found it elsewhere" },
        { "a document below the first line of another tool", "#cloud-config\n" OURS,
          "line 2: expected the keys of the document below 'node_bootstrap:', or no '#cloud-config' above it; found 'apiVersion:'" },
        { "no first line", "hostname: a\nnode_bootstrap:\n  timeout: 5m\n", "line 2: expected '#cloud-config' in a line above 'node_bootstrap:', the first one; found none" },
        { "a first line with a space", "# cloud-config\nnode_bootstrap:\n  timeout: 5m\n",
          "line 2: expected '#cloud-config' in a line above 'node_bootstrap:', the first one; found none" },
        { "neither first line nor key", "node-bootstrap:\n  timeout: 5m\n", "line 1: expected 'node_bootstrap:' below a first line '#cloud-config', found 'node-bootstrap:'" },
        { "a template", "## template: jinja\n#cloud-config\nnode_bootstrap: {}\n",
          "line 3: expected '#cloud-config' in a line above 'node_bootstrap:', the first one; found none" },
        { "a kind in small letters", "kind: nodebootstrap\n", "line 1: expected 'kind: NodeBootstrap', found 'kind: nodebootstrap'" },
        { "a key of the header in capitals", "Kind: NodeBootstrap\n", "line 1: expected 'kind: NodeBootstrap', found 'Kind: NodeBootstrap'" },
        { "a JoinConfiguration in small letters", "apiVersion: kubeadm.k8s.io/v1beta4\nkind: joinconfiguration\n",
          "line 2: expected 'kind: JoinConfiguration', found 'kind: joinconfiguration'" },
        { "a version of another spelling", "apiVersion: NodeBootstrap/v1\n", "line 1: expected 'apiVersion: node-bootstrap/v1', found 'apiVersion: NodeBootstrap/...'" },
        { "what may be a token is not shown", "apiVersion: nodebootstrap/" TOKEN "\n", "line 1: expected 'apiVersion: node-bootstrap/v1', found 'apiVersion: nodebootstrap/...'" },
        { "a part of a message", MULTIPART PART("text/x-shellscript", "node_bootstrap:") PART("text/cloud-config", "node-bootstrap: {}") END,
          "line 1: expected 'node_bootstrap:', found 'node-bootstrap:', in part 2 of a MIME message" },

        { "no near miss: a cloud-config of others", "#cloud-config\nbootcmd: []\nnode: {}\nwrite_files:\n- content: |\n    node_bootstrap:\n", "" },
        { "no near miss: a script", "#!/bin/sh\nnode_bootstrap: a\nkind: nodebootstrap\n", "" },
        { "no near miss: objects of others", "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n---\nkind: InitConfiguration\n---\nkind: Node\n", "" },
        { "no near miss: a document inside another one", "apiVersion: v1\nkind: ConfigMap\ndata:\n  a: |\n    kind: nodebootstrap\n", "" },
        { "no near miss: no word", "n\001de_bootstrap: a\nn\xc3\xb6"
                                   "de_bootstrap: a\n: a\nkind:\nkind: 'nodebootstrap\n",
          "" },
        { "no near miss: ours", "#cloud-config\nnode_bootstrap: {}\nnode-bootstrap: {}\n", "" },
        { "no near miss: a part for us beside it", MULTIPART PART("text/plain", "node-bootstrap: {}") PART(OWN, OURS) END, "" },
};

static const char *text_of(const struct nb_secret *secret) {
        return secret->data ? secret->data : "";
}

static void check(const struct user_data_case *c, const char *data, size_t len, const char *wrapped) {
        struct nb_user_data user_data = NB_USER_DATA_INIT;
        struct nb_failure f = { 0 };
        char what[256];
        int r;

        r = nb_user_data_parse("x", data, len, &user_data, &f);
        assert_string_equal(f.detail, c->detail ? c->detail : "");
        assert_int_equal(f.code, c->detail ? NB_METADATA_MALFORMED : NB_NONE);
        assert_int_equal(r < 0, c->detail != NULL);
        assert_int_equal(user_data.kind, c->kind);
        (void)snprintf(what, sizeof(what), "%s%s", c->what ? c->what : "", c->what ? wrapped : "");
        assert_string_equal(user_data.what, what);
        assert_int_equal(user_data.document.data != NULL, c->kind == DOCUMENT || c->document);
        if (user_data.document.data)
                assert_string_equal(user_data.document.data, c->document ? c->document : c->text);
        assert_string_equal(text_of(&user_data.token), c->token ? c->token : "");
        assert_string_equal(text_of(&user_data.tls_bootstrap_token), c->tls_token ? c->tls_token : "");
        nb_user_data_done(&user_data);
}

static void tells_near_miss(void **state) {
        const struct near_case *c = *state;
        _cleanup_(nb_buffer_done) struct nb_buffer base64 = NB_BUFFER_INIT(NB_USER_DATA_MAX);
        struct nb_user_data user_data = NB_USER_DATA_INIT;
        struct nb_failure f = { 0 };
        char wrapped[256];

        assert_int_equal(nb_user_data_parse("x", c->text, strlen(c->text), &user_data, &f), 0);
        assert_string_equal(user_data.near_miss, c->near_miss);
        nb_user_data_done(&user_data);
        assert_int_equal(nb_base64_encode(c->text, strlen(c->text), &base64), 0);
        assert_int_equal(nb_user_data_parse("x", base64.data, base64.len, &user_data, &f), 0);
        (void)snprintf(wrapped, sizeof(wrapped), "%s%s", c->near_miss, c->near_miss[0] ? ", in base64" : "");
        assert_string_equal(user_data.near_miss, wrapped);
        nb_user_data_done(&user_data);
}

static void compress_text(const char *data, size_t len, struct nb_buffer *ret) {
        z_stream stream = { 0 };
        unsigned char chunk[4096];
        int r;

        assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY), Z_OK);
        stream.next_in = (unsigned char *)(uintptr_t)data;
        stream.avail_in = (unsigned)len;
        do {
                stream.next_out = chunk;
                stream.avail_out = sizeof(chunk);
                r = deflate(&stream, Z_FINISH);
                assert_int_equal(nb_buffer_append(ret, chunk, sizeof(chunk) - stream.avail_out), 0);
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
        _cleanup_(nb_buffer_done) struct nb_buffer gzip = NB_BUFFER_INIT(NB_USER_DATA_MAX), base64 = NB_BUFFER_INIT(NB_USER_DATA_MAX),
                                                   both = NB_BUFFER_INIT(NB_USER_DATA_MAX);
        struct user_data_case wrapped = *c;

        /* Base64 is looked for once. */
        if (wrapped.what && strstr(wrapped.what, ", in base64"))
                wrapped.what = "data of another program";
        compress_text(c->text, strlen(c->text), &gzip);
        assert_int_equal(nb_base64_encode(c->text, strlen(c->text), &base64), 0);
        assert_int_equal(nb_base64_encode(gzip.data, gzip.len, &both), 0);
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

static void assert_kind(const struct nb_buffer *text, enum nb_user_data_kind kind, const char *what) {
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

static void a_gzip_bomb_has_a_ceiling(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer plain = NB_BUFFER_INIT(NB_USER_DATA_TEXT_MAX + 1), gzip = NB_BUFFER_INIT(NB_USER_DATA_MAX);
        struct nb_failure f = { 0 };

        for (size_t i = 0; i < NB_USER_DATA_TEXT_MAX / 16; i++)
                assert_int_equal(nb_buffer_append(&plain, "# 0123456789abc\n", 16), 0);
        compress_text(plain.data, plain.len, &gzip);
        assert_int_equal(parse(&gzip, &f), 0);
        nb_buffer_clear(&gzip);
        assert_int_equal(nb_buffer_append(&plain, "#", 1), 0);
        compress_text(plain.data, plain.len, &gzip);
        assert_true(gzip.len < 8192);
        assert_unreadable(&gzip, "gzip of more than 1 MiB");
}

static void a_part_of_gzip_that_is_cut(void **state) {
        static char other_parts[] = MULTIPART CUT("application/gzip") PART("text/plain", "a") END, ours_beside[] = MULTIPART PART(OWN, OURS) CUT("application/gzip") END,
                    ours_cut[] = MULTIPART CUT(OWN) END;
        const struct nb_buffer others = TEXT(other_parts), beside = TEXT(ours_beside), ours = TEXT(ours_cut);
        struct nb_failure f = { 0 };
        struct nb_user_data user_data = NB_USER_DATA_INIT;

        assert_unreadable(&others, "gzip that is cut or damaged, in part 1 of a MIME message");
        assert_int_equal(nb_user_data_parse("x", beside.data, beside.len, &user_data, &f), 0);
        assert_int_equal(user_data.kind, NB_USER_DATA_DOCUMENT);
        nb_user_data_done(&user_data);
        assert_true(parse(&ours, &f) < 0);
        assert_int_equal(f.code, NB_METADATA_MALFORMED);
        assert_string_equal(f.detail, "x, MIME part 1: expected text, found gzip that is cut or damaged");
}

/* As `cat a.gz b.gz` makes it, and pigz; the ceiling is for all of them. */
static void gzip_of_several_members(void **state) {
        static const char half[NB_USER_DATA_TEXT_MAX / 2] = "";
        _cleanup_(nb_buffer_done) struct nb_buffer gzip = NB_BUFFER_INIT(NB_USER_DATA_MAX);
        static const struct user_data_case whole = { "members", OURS, DOCUMENT, "a NodeBootstrap document", OURS };

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

static void gzip_that_is_cut_or_longer_is_unreadable(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer gzip = NB_BUFFER_INIT(4096);

        compress_text(OURS, strlen(OURS), &gzip);
        for (size_t len = 2; len <= gzip.len + 1; len++) {
                struct nb_buffer cut = { .data = gzip.data, .len = len, .max = len };

                if (len != gzip.len)
                        assert_unreadable(&cut, "gzip that is cut or damaged");
        }
}

static void too_much_is_refused_unread(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_USER_DATA_MAX + 1);
        struct nb_failure f = { 0 };

        while (text.len < NB_USER_DATA_MAX)
                assert_int_equal(nb_buffer_append(&text, "#\n", 2), 0);
        assert_int_equal(parse(&text, &f), 0);
        assert_int_equal(nb_buffer_append(&text, "#", 1), 0);
        assert_true(parse(&text, &f) < 0);
        assert_int_equal(f.code, NB_METADATA_MALFORMED);
}

/* As many values as another tool's may have, and more levels than ours may. */
static void a_large_cloud_config_of_others_is_passed_over(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_USER_DATA_MAX);
        struct nb_user_data user_data = NB_USER_DATA_INIT;
        struct nb_failure f = { 0 };

        assert_int_equal(nb_buffer_append_string(&text, "#cloud-config\nnode_bootstrap: {timeout: 5m}\ndeep: "), 0);
        for (unsigned i = 0; i < 100; i++)
                assert_int_equal(nb_buffer_append_string(&text, "["), 0);
        for (unsigned i = 0; i < 100; i++)
                assert_int_equal(nb_buffer_append_string(&text, "]"), 0);
        assert_int_equal(nb_buffer_append_string(&text, "\nruncmd:\n"), 0);
        for (unsigned i = 0; i < 50000; i++)
                assert_int_equal(nb_buffer_printf(&text, "- [a, %u]\n", i), 0);
        assert_int_equal(nb_user_data_parse("x", text.data, text.len, &user_data, &f), 0);
        assert_string_equal(user_data.document.data, "{apiVersion: node-bootstrap/v1, kind: NodeBootstrap, \n\"timeout\": \"5m\"}\n");
        nb_user_data_done(&user_data);
}

static int run(const void *input) {
        struct nb_user_data user_data = NB_USER_DATA_INIT;
        struct nb_failure f = { 0 };
        int r = nb_user_data_parse("x", input, strlen(input), &user_data, &f);

        nb_user_data_done(&user_data);
        return r;
}

static void memory_runs_out(void **state) {
        static const char *const texts[] = {
                OURS,
                "#cloud-config\nnode_bootstrap:\n  timeout: 5m\n",
                MULTIPART PART("text/x-shellscript", "#!/bin/sh") "--b\nContent-Transfer-Encoding: base64\n\na2luZDogTm9kZUJvb3RzdHJhcAo=\n" END,
                "H4sIAAAAAAACA8vOzEuxUvDLT0l1ys8vKS4pSizgAgAY4yuzFAAAAA==",
        };

        for (size_t i = 0; i < N_ELEMENTS(texts); i++)
                allocation_try_all(run, texts[i]);
}

int main(void) {
        CASES(cases, reads);
        CASES(cases, reads_wrapped);
        CASES(near_cases, tells_near_miss);
        CASE(a_gzip_bomb_has_a_ceiling);
        CASE(gzip_that_is_cut_or_longer_is_unreadable);
        CASE(a_part_of_gzip_that_is_cut);
        CASE(gzip_of_several_members);
        CASE(too_much_is_refused_unread);
        CASE(a_large_cloud_config_of_others_is_passed_over);
        CASE(memory_runs_out);
        return case_run("user_data");
}
