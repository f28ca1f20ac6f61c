/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "format/mime.h"

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
        { "the lines of mail", "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"b\"\r\n\r\n--b\r\nContent-Type: text/a\r\n\r\nx\r\ny\r\n--b--\r\n",
          "1 text/a <x\r\ny>;", false },
        { "text before the first and behind the last", HEAD "hello\n--b\n\nx" END "hello\n--b\n", "1 text/plain <x>;", false },
        { "a line of a mailbox before it", "From nobody\n" HEAD "--b\n\nx" END, "1 text/plain <x>;", false },
        { "no line end behind the last boundary", HEAD "--b\n\nx\n--b--", "1 text/plain <x>;", false },
        { "blanks behind a boundary", HEAD "--b \t\n\nx\n--b-- \n", "1 text/plain <x>;", false },
        { "an empty part", HEAD "--b\n--b--\n", "1 text/plain <>;", false },
        { "a part of a header alone", HEAD "--b\nContent-Type: text/a\n--b--\n", "1 text/a <>;", false },
        { "a line that only begins like the boundary", HEAD "--b\n\n--bc\n--b x\n-b" END, "1 text/plain <--bc\n--b x\n-b>;", false },
        { "capitals and blanks", "content-type:  Multipart/Mixed ;\tBoundary = b\n\n", "a Content-Type that cannot be read", true },
        { "capitals", "CONTENT-TYPE:Multipart/Mixed;BOUNDARY=b\n\n--b\ncontent-type: Text/A; Charset=UTF-8\n\nx" END, "1 text/a <x>;", false },
        { "a boundary in quotes with blanks and escapes", "Content-Type: multipart/mixed; boundary=\"=_ (1)\\\"\"\n\n--=_ (1)\"\n\nx\n--=_ (1)\"--\n", "1 text/plain <x>;", false },
        { "a field on several lines", "Content-Type: multipart/mixed;\n charset=us-ascii;\n\tboundary=b\n\n--b\n\nx" END, "1 text/plain <x>;", false },
        { "a semicolon at the end", "Content-Type: multipart/mixed; boundary=b;\n\n--b\n\nx" END, "1 text/plain <x>;", false },
        { "other fields", HEAD "--b\nContent-Disposition: attachment; filename=\"x\"\nX: ?\n\nx" END, "1 text/plain <x>;", false },
        { "a multipart in a multipart", HEAD "--b\nContent-Type: multipart/mixed; boundary=c\n\n--c\n\nx\n--c\n\ny\n--c--\n--b\n\nz" END,
          "1 text/plain <x>;2 text/plain <y>;3 text/plain <z>;", false },
        { "no multipart", "Content-Type: text/a\n\nx\n", "1 text/a <x\n>;", false },
        { "a header alone", "Content-Type: text/a\n", "1 text/a <>;", false },
        { "three multiparts in each other",
          HEAD "--b\nContent-Type: multipart/mixed; boundary=c\n\n--c\nContent-Type: multipart/mixed; boundary=d\n\n--d\n\nx\n--d--\n--c--" END,
          "more multiparts in each other than there may be", true },
        { "no boundary", "Content-Type: multipart/mixed\n\n--b\n\nx" END, "a multipart without a boundary", true },
        { "a boundary of nothing", "Content-Type: multipart/mixed; boundary=\"\"\n\n--b\n\nx" END, "a Content-Type that cannot be read", true },
        { "a boundary that ends with a blank", "Content-Type: multipart/mixed; boundary=\"b \"\n\n--b\n\nx" END, "a Content-Type that cannot be read", true },
        { "a boundary without its second quote", "Content-Type: multipart/mixed; boundary=\"b\n\n--b\n\nx" END, "a Content-Type that cannot be read", true },
        { "a boundary that is too long",
          "Content-Type: multipart/mixed; boundary=01234567890123456789012345678901234567890123456789012345678901234567890\n\n", "a Content-Type that cannot be read", true },
        { "a multipart in base64", "Content-Type: multipart/mixed; boundary=b\nContent-Transfer-Encoding: base64\n\n", "a multipart that is encoded as a whole", true },
        { "no parts", HEAD "x\n", "a multipart without parts", true },
        { "the last boundary alone", HEAD "--b--\n", "", false },
        { "a part without an end", HEAD "--b\n\nx\n", "a part without an end", true },
        { "a header line that is none", HEAD "--b\nhello\n\nx" END, "a line in a header that is no field", true },
        { "a header with a NUL", NULL, "a NUL in a header", true },
        { "no header before the text", HEAD "--b\nhello: x y\nz" END, "a line in a header that is no field", true },
        { "two types", HEAD "--b\nContent-Type: text/a\nContent-Type: text/b\n\nx" END, "a second Content-Type in a header", true },
        { "two encodings", HEAD "--b\nContent-Transfer-Encoding: 7bit\nContent-Transfer-Encoding: base64\n\nx" END, "a second Content-Transfer-Encoding in a header", true },
        { "a type without a subtype", HEAD "--b\nContent-Type: text\n\nx" END, "a Content-Type that cannot be read", true },
        { "a type with an empty subtype", HEAD "--b\nContent-Type: text/\n\nx" END, "a Content-Type that cannot be read", true },
        { "a type with two slashes", HEAD "--b\nContent-Type: text/a/b\n\nx" END, "a Content-Type that cannot be read", true },
        { "a type with something behind it", HEAD "--b\nContent-Type: text/a b\n\nx" END, "a Content-Type that cannot be read", true },
};

static int describe(void *userdata, const struct nb_mime_part *part) {
        return nb_buffer_printf(userdata, "%u %s <%.*s>;", part->number, part->type, (int)part->len, part->body);
}

static void parses(void **state) {
        static const char with_nul[] = HEAD "--b\nX: a\0b\n\nx" END;
        const struct mime_case *c = *state;
        _cleanup_(nb_buffer_done) struct nb_buffer parts = NB_BUFFER_INIT(4096);
        const char *wrong = "";
        int r;

        assert_int_equal(nb_buffer_append_string(&parts, ""), 0);
        r = nb_mime_parse(c->text ? c->text : with_nul, c->text ? strlen(c->text) : sizeof(with_nul) - 1, describe, &parts, &wrong);
        assert_int_equal(r, c->is_refused ? -EBADMSG : 0);
        assert_string_equal(c->is_refused ? wrong : parts.data, c->parts);
}

static int count(void *userdata, const struct nb_mime_part *part) {
        ++*(unsigned *)userdata;
        return 0;
}

static int stop(void *userdata, const struct nb_mime_part *part) {
        ++*(unsigned *)userdata;
        return -ECANCELED;
}

static int parse_repeated(const char *before, const char *text, unsigned n, const char *after, unsigned *ret_n, const char **ret_wrong) {
        _cleanup_(nb_buffer_done) struct nb_buffer message = NB_BUFFER_INIT(65536);

        assert_int_equal(nb_buffer_append_string(&message, before), 0);
        for (unsigned i = 0; i < n; i++)
                assert_int_equal(nb_buffer_append_string(&message, text), 0);
        assert_int_equal(nb_buffer_append_string(&message, after), 0);
        *ret_n = 0;
        return nb_mime_parse(message.data, message.len, count, ret_n, ret_wrong);
}

static void numbers_have_a_limit(void **state) {
        const char *wrong = "";
        unsigned n;

        assert_int_equal(parse_repeated(HEAD, "--b\n\nx\n", NB_MIME_PARTS_MAX, "--b--\n", &n, &wrong), 0);
        assert_int_equal(n, NB_MIME_PARTS_MAX);
        assert_int_equal(parse_repeated(HEAD, "--b\n\nx\n", NB_MIME_PARTS_MAX + 1, "--b--\n", &n, &wrong), -EBADMSG);
        assert_string_equal(wrong, "more parts than there may be");
        assert_int_equal(n, NB_MIME_PARTS_MAX);
        assert_int_equal(parse_repeated("", "X: y\n", NB_MIME_FIELDS_MAX, "\nx", &n, &wrong), 0);
        assert_int_equal(parse_repeated("", "X: y\n", NB_MIME_FIELDS_MAX + 1, "\nx", &n, &wrong), -EBADMSG);
        assert_string_equal(wrong, "more header fields than there may be");
        assert_int_equal(parse_repeated("X:", " 345678901\n", 90, "\nx", &n, &wrong), 0);
        assert_int_equal(parse_repeated("X:", " 345678901\n", 101, "\nx", &n, &wrong), -EBADMSG);
        assert_string_equal(wrong, "a header field that is too long");
}

static void who_reads_can_stop(void **state) {
        static const char text[] = HEAD "--b\n\nx\n--b\n\ny" END;
        const char *wrong = "";
        unsigned n = 0;

        assert_int_equal(nb_mime_parse(text, strlen(text), stop, &n, &wrong), -ECANCELED);
        assert_int_equal(n, 1);
}

struct body_case {
        const char *name;
        enum nb_mime_encoding encoding;
        const char *body;
        const char *expected; /* NULL: refused */
};

static struct body_case bodies[] = {
        { "plain", NB_MIME_PLAIN, "a=b\r\n", "a=b\r\n" },
        { "plain: nothing", NB_MIME_PLAIN, "", "" },
        { "an encoding that is not known", NB_MIME_UNKNOWN, "a", NULL },
        { "base64", NB_MIME_BASE64, "YWJj\r\nZGVm\nZw==\n", "abcdefg" },
        { "base64: nothing", NB_MIME_BASE64, "", "" },
        { "base64: cut", NB_MIME_BASE64, "YWJjZ", NULL },
        { "base64: another character", NB_MIME_BASE64, "YW-j", NULL },
        { "base64: something behind the end", NB_MIME_BASE64, "YQ==YQ==", NULL },
        { "quoted-printable", NB_MIME_QUOTED_PRINTABLE, "a=3Db\nc =E2=82=ac\r\n", "a=b\nc \xe2\x82\xac\r\n" },
        { "quoted-printable: a line that goes on", NB_MIME_QUOTED_PRINTABLE, "a=\nb= \r\nc", "abc" },
        { "quoted-printable: blanks at the end of a line", NB_MIME_QUOTED_PRINTABLE, "a \t\nb=20\n", "a\nb \n" },
        { "quoted-printable: one digit", NB_MIME_QUOTED_PRINTABLE, "a=4", NULL },
        { "quoted-printable: no digits", NB_MIME_QUOTED_PRINTABLE, "a=xy", NULL },
        { "quoted-printable: a byte that has to be encoded", NB_MIME_QUOTED_PRINTABLE, "\xe2\x82\xac", NULL },
        { "quoted-printable: a control character", NB_MIME_QUOTED_PRINTABLE, "a\x01", NULL },
};

static void decodes(void **state) {
        const struct body_case *c = *state;
        const struct nb_mime_part part = { .encoding = c->encoding, .body = c->body, .len = strlen(c->body) };
        _cleanup_(nb_secret_done) struct nb_secret body = NB_SECRET_INIT;

        assert_int_equal(nb_mime_decode(&part, &body), c->expected ? 0 : -EBADMSG);
        if (!c->expected) {
                assert_null(body.data);
                return;
        }
        assert_int_equal(body.len, strlen(c->expected));
        assert_string_equal(body.data, c->expected);
}

struct meant_case {
        const char *name;
        const char *text;
        bool is_meant;
};

static struct meant_case beginnings[] = {
        { "begins with a type", "Content-Type: text/plain\n", true },
        { "begins with a version", "mime-version: 1.0\r\n", true },
        { "begins with a line of a mailbox", "From nobody Sun\nContent-Type: a/b\n", true },
        { "begins with another field", "Subject: x\nContent-Type: a/b\n", false },
        { "begins with YAML", "kind: x\n", false },
        { "begins with a longer field", "Content-Type-X: a/b\n", false },
        { "begins with nothing", "", false },
};

static void tells(void **state) {
        const struct meant_case *c = *state;

        assert_int_equal(nb_mime_is_meant(c->text, strlen(c->text)), c->is_meant);
}

int main(void) {
        CASES(messages, parses);
        CASE(numbers_have_a_limit);
        CASE(who_reads_can_stop);
        CASES(bodies, decodes);
        CASES(beginnings, tells);
        return case_run("mime");
}
