/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "codec/mime.h"

#include "case.h"

#define HEAD "Content-Type: multipart/mixed; boundary=b\n\n"
#define END "\n--b--\n"

struct mime_case {
        const char *name;
        const char *text;
        const char *parts; /* "1 text/plain <body>;" for each, or what is wrong */
        bool is_refused;
};

static struct mime_case messages[] = {
        { "one part", HEAD "--b\nContent-Type: text/a\n\nx\ny" END, "1 text/a <x\ny>;", false },
        { "two parts", HEAD "--b\n\nx\n--b\n\ny" END, "1 text/plain <x>;2 text/plain <y>;", false },
        { "CR LF",
          "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; "
          "boundary=\"b\"\r\n\r\n--b\r\nContent-Type: text/a\r\n\r\nx\r\ny\r\n--b--\r\n",
          "1 text/a <x\r\ny>;", false },
        { "text before the first part and after the last",
          HEAD "hello\n--b\n\nx" END "hello\n--b\n", "1 text/plain <x>;", false },
        { "a mailbox line first", "From nobody\n" HEAD "--b\n\nx" END,
          "a header line that is not a field", true },
        { "no newline after the last boundary", HEAD "--b\n\nx\n--b--", "1 text/plain <x>;",
          false },
        { "blanks after a boundary", HEAD "--b \t\n\nx\n--b-- \n", "1 text/plain <x>;", false },
        { "an empty part", HEAD "--b\n--b--\n", "1 text/plain <>;", false },
        { "a part without a body", HEAD "--b\nContent-Type: text/a\n--b--\n", "1 text/a <>;",
          false },
        { "a line that only begins like the boundary", HEAD "--b\n\n--bc\n--b x\n-b" END,
          "1 text/plain <--bc\n--b x\n-b>;", false },
        { "capitals and blanks", "content-type:  Multipart/Mixed ;\tBoundary = b\n\n",
          "an invalid Content-Type", true },
        { "capitals",
          "CONTENT-TYPE:Multipart/Mixed;BOUNDARY=b\n\n--b\ncontent-type: Text/A; "
          "Charset=UTF-8\n\nx" END,
          "1 text/a <x>;", false },
        { "a boundary in quotes with blanks and escapes",
          "Content-Type: multipart/mixed; boundary=\"=_ (1)\\\"\"\n\n--=_ (1)\"\n\nx\n--=_ "
          "(1)\"--\n",
          "1 text/plain <x>;", false },
        { "a folded field",
          "Content-Type: multipart/mixed;\n charset=us-ascii;\n\tboundary=b\n\n--b\n\nx" END,
          "1 text/plain <x>;", false },
        { "a semicolon at the end", "Content-Type: multipart/mixed; boundary=b;\n\n--b\n\nx" END,
          "1 text/plain <x>;", false },
        { "other fields",
          HEAD "--b\nContent-Disposition: attachment; filename=\"x\"\nX: ?\n\nx" END,
          "1 text/plain <x>;", false },
        { "a nested multipart",
          HEAD "--b\nContent-Type: multipart/mixed; "
               "boundary=c\n\n--c\n\nx\n--c\n\ny\n--c--\n--b\n\nz" END,
          "1 text/plain <x>;2 text/plain <y>;3 text/plain <z>;", false },
        { "a message without parts", "Content-Type: text/a\n\nx\n", "1 text/a <x\n>;", false },
        { "a message without a body", "Content-Type: text/a\n", "1 text/a <>;", false },
        { "three nested multiparts",
          HEAD "--b\nContent-Type: multipart/mixed; boundary=c\n\n--c\nContent-Type: "
               "multipart/mixed; boundary=d\n\n--d\n\nx\n--d--\n--c--" END,
          "too many nested multiparts", true },
        { "no boundary", "Content-Type: multipart/mixed\n\n--b\n\nx" END,
          "a multipart without a boundary", true },
        { "an empty boundary", "Content-Type: multipart/mixed; boundary=\"\"\n\n--b\n\nx" END,
          "an invalid Content-Type", true },
        { "a boundary that ends with a blank",
          "Content-Type: multipart/mixed; boundary=\"b \"\n\n--b\n\nx" END,
          "an invalid Content-Type", true },
        { "a boundary with an unterminated quote",
          "Content-Type: multipart/mixed; boundary=\"b\n\n--b\n\nx" END, "an invalid Content-Type",
          true },
        { "a boundary that is too long",
          "Content-Type: multipart/mixed; "
          "boundary=01234567890123456789012345678901234567890123456789012345678901234567890\n\n",
          "an invalid Content-Type", true },
        { "a multipart in base64",
          "Content-Type: multipart/mixed; boundary=b\nContent-Transfer-Encoding: base64\n\n",
          "a multipart with a Content-Transfer-Encoding", true },
        { "no parts", HEAD "x\n", "a multipart without parts", true },
        { "only the last boundary", HEAD "--b--\n", "", false },
        { "a part without a closing boundary", HEAD "--b\n\nx\n",
          "a part without a closing boundary", true },
        { "an invalid header line", HEAD "--b\nhello\n\nx" END, "a header line that is not a field",
          true },
        { "a header with a NUL", NULL, "a NUL in a header", true },
        { "no header before the text", HEAD "--b\nhello: x y\nz" END,
          "a header line that is not a field", true },
        { "two types", HEAD "--b\nContent-Type: text/a\nContent-Type: text/b\n\nx" END,
          "a second Content-Type in a header", true },
        { "two encodings",
          HEAD "--b\nContent-Transfer-Encoding: 7bit\nContent-Transfer-Encoding: base64\n\nx" END,
          "a second Content-Transfer-Encoding in a header", true },
        { "a type without a subtype", HEAD "--b\nContent-Type: text\n\nx" END,
          "an invalid Content-Type", true },
        { "a type with an empty subtype", HEAD "--b\nContent-Type: text/\n\nx" END,
          "an invalid Content-Type", true },
        { "a type with two slashes", HEAD "--b\nContent-Type: text/a/b\n\nx" END,
          "an invalid Content-Type", true },
        { "a type with text after it", HEAD "--b\nContent-Type: text/a b\n\nx" END,
          "an invalid Content-Type", true },
};

static int describe(void *userdata, const struct nb_mime_part *part) {
        nb_buffer_printf(userdata, "%u %s <%.*s>;", part->number, part->type, (int)part->len,
                         part->body);
        return 0;
}

static void parses(void **state) {
        static const char with_nul[] = HEAD "--b\nX: a\0b\n\nx" END;
        const struct mime_case *c = *state;
        _cleanup_(nb_buffer_done) struct nb_buffer parts = NB_BUFFER_INIT(4096);
        const char *wrong = "";
        int r;

        nb_buffer_append_string(&parts, "");
        r = nb_mime_parse(c->text ? c->text : with_nul,
                          c->text ? strlen(c->text) : sizeof(with_nul) - 1, describe, &parts,
                          &wrong);
        assert_int_equal(r, c->is_refused ? -EBADMSG : 0);
        assert_string_equal(c->is_refused ? wrong : parts.data, c->parts);
}

static int count(void *userdata, const struct nb_mime_part *part) {
        ++*(unsigned *)userdata;
        return 0;
}

static int stop_at_once(void *userdata, const struct nb_mime_part *part) {
        ++*(unsigned *)userdata;
        return -ECANCELED;
}

static int parse_repeated(const char *before, const char *text, unsigned n, const char *after,
                          unsigned *ret_n, const char **ret_wrong) {
        _cleanup_(nb_buffer_done) struct nb_buffer message = NB_BUFFER_INIT(65536);

        nb_buffer_append_string(&message, before);
        for (unsigned i = 0; i < n; i++)
                nb_buffer_append_string(&message, text);
        nb_buffer_append_string(&message, after);
        *ret_n = 0;
        return nb_mime_parse(message.data, message.len, count, ret_n, ret_wrong);
}

static void limits_parts_and_fields(void **state) {
        const char *wrong = "";
        unsigned n;

        assert_int_equal(
                parse_repeated(HEAD, "--b\n\nx\n", NB_MIME_PARTS_MAX, "--b--\n", &n, &wrong), 0);
        assert_int_equal(n, NB_MIME_PARTS_MAX);
        assert_int_equal(
                parse_repeated(HEAD, "--b\n\nx\n", NB_MIME_PARTS_MAX + 1, "--b--\n", &n, &wrong),
                -EBADMSG);
        assert_string_equal(wrong, "too many parts");
        assert_int_equal(n, NB_MIME_PARTS_MAX);
        assert_int_equal(parse_repeated("", "X: y\n", NB_MIME_FIELDS_MAX, "\nx", &n, &wrong), 0);
        assert_int_equal(parse_repeated("", "X: y\n", NB_MIME_FIELDS_MAX + 1, "\nx", &n, &wrong),
                         -EBADMSG);
        assert_string_equal(wrong, "too many header fields");
        assert_int_equal(parse_repeated("X:", " 345678901\n", 90, "\nx", &n, &wrong), 0);
        assert_int_equal(parse_repeated("X:", " 345678901\n", 101, "\nx", &n, &wrong), -EBADMSG);
        assert_string_equal(wrong, "a header field that is too long");
}

static void stops_if_the_callback_fails(void **state) {
        static const char text[] = HEAD "--b\n\nx\n--b\n\ny" END;
        const char *wrong = "";
        unsigned n = 0;

        assert_int_equal(nb_mime_parse(text, strlen(text), stop_at_once, &n, &wrong), -ECANCELED);
        assert_int_equal(n, 1);
}

struct base64_case {
        const char *name;
        const char *body;
        const char *expected; /* NULL: refused */
};

static struct base64_case base64_cases[] = {
        { "lines", "YWJj\r\nZGVm\nZw==\n", "abcdefg" },
        { "empty", "", "" },
        { "cut", "YWJjZ", NULL },
        { "another character", "YW-j", NULL },
        { "text after the padding", "YQ==YQ==", NULL },
};

static void decodes_base64(void **state) {
        const struct base64_case *c = *state;
        _cleanup_(nb_secret_done) struct nb_secret body = NB_SECRET_INIT;

        assert_int_equal(nb_mime_decode_base64(c->body, strlen(c->body), &body),
                         c->expected ? 0 : -EBADMSG);
        if (!c->expected) {
                assert_null(body.data);
                return;
        }
        assert_int_equal(body.len, strlen(c->expected));
        assert_string_equal(body.data, c->expected);
}

struct beginning_case {
        const char *name;
        const char *text;
        bool is_mime;
};

static struct beginning_case beginnings[] = {
        { "begins with a type", "Content-Type: text/plain\n", true },
        { "begins with a version", "mime-version: 1.0\r\n", true },
        { "begins with a line of a mailbox", "From nobody Sun\nContent-Type: a/b\n", false },
        { "begins with another field", "Subject: x\nContent-Type: a/b\n", false },
        { "begins with YAML", "kind: x\n", false },
        { "begins with a longer field", "Content-Type-X: a/b\n", false },
        { "begins with nothing", "", false },
};

static void recognises_a_message(void **state) {
        const struct beginning_case *c = *state;

        assert_int_equal(nb_mime_looks_like(c->text, strlen(c->text)), c->is_mime);
}

int main(void) {
        CASES(messages, parses);
        CASE(limits_parts_and_fields);
        CASE(stops_if_the_callback_fails);
        CASES(base64_cases, decodes_base64);
        CASES(beginnings, recognises_a_message);
        return case_run("mime");
}
