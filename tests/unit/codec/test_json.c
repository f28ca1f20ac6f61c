/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "codec/json.h"

#include "case.h"

#define TEXT(s) (s), sizeof(s) - 1

struct json_case {
        const char *name;
        const char *text;
        size_t len;
        const char *detail; /* NULL: accepted */
};

static struct json_case documents[] = {
        { "an empty object", TEXT("{}"), NULL },
        { "an object of everything",
          TEXT("{\"a\":[1,-2,0,0.5,1e3,-1.25E-2,true,false,null,\"x\",{\"b\":{}}]}"), NULL },
        { "white space around it", TEXT(" \r\n\t{ } \n"), NULL },
        { "escapes", TEXT("{\"a\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00\"}"), NULL },
        { "characters that are not ASCII",
          TEXT("{\"m\":\"Ger\xc3\xa4t \xe2\x82\xac \xf0\x9f\x98\x80\"}"), NULL },
        { "the same key in two objects", TEXT("{\"a\":{\"k\":1},\"b\":{\"k\":1}}"), NULL },
        { "a colon and a brace in a string", TEXT("{\"a\":\":{}\"}"), NULL },
        { "nothing", TEXT(""), "doc: expected JSON, found at byte 0: the end" },
        { "cut in an object", TEXT("{\"a\":1"), "doc: expected JSON, found at byte 6: the end" },
        { "cut in a string", TEXT("{\"a"),
          "doc: expected JSON, found at byte 3: a string without an end" },
        { "cut in an escape", TEXT("{\"a\\"),
          "doc: expected JSON, found at byte 4: a string without an end" },
        { "a list", TEXT("[]"), NULL },
        { "two documents", TEXT("{}{}"), "doc: expected JSON, found at byte 2: a second document" },
        { "text after it", TEXT("{} x"),
          "doc: expected JSON, found at byte 3: an unexpected character" },
        { "a NUL after it", TEXT("{}\0"),
          "doc: expected JSON, found at byte 2: an unexpected character" },
        { "a byte order mark", TEXT("\xef\xbb\xbf{}"),
          "doc: expected JSON, found at byte 0: an unexpected character" },
        { "HTML", TEXT("<html>"), "doc: expected JSON, found at byte 0: an unexpected character" },
        { "a duplicate key", TEXT("{\"a\":1,\"a\":1}"),
          "doc: expected each key once, found one twice" },
        { "a duplicate key, escaped", TEXT("{\"a\":1,\"\\u0061\":1}"),
          "doc: expected each key once, found one twice" },
        { "a duplicate key, deep inside", TEXT("{\"a\":[{\"b\":{\"c\":1,\"c\":null}}]}"),
          "doc: expected each key once, found one twice" },
        { "a duplicate key that is null", TEXT("{\"a\":null,\"a\":null}"),
          "doc: expected each key once, found one twice" },
        { "a NUL in a string", TEXT("{\"a\":\"\\u0000\"}"),
          "doc: expected JSON, found at byte 6: \\u0000 in a string" },
        { "a NUL in a key", TEXT("{\"a\\u0000b\":1}"),
          "doc: expected JSON, found at byte 3: \\u0000 in a string" },
        { "a raw NUL in a string", TEXT("{\"a\":\"\0\"}"),
          "doc: expected JSON, found at byte 6: a control character in a string" },
        { "a newline in a string", TEXT("{\"a\":\"\n\"}"),
          "doc: expected JSON, found at byte 6: a control character in a string" },
        { "single quotes", TEXT("{'a':1}"),
          "doc: expected JSON, found at byte 1: an unexpected character" },
        { "a comment", TEXT("{/* */}"),
          "doc: expected JSON, found at byte 1: an unexpected character" },
        { "a comma at the end of an object", TEXT("{\"a\":1,}"),
          "doc: expected JSON, found at byte 7: the end of a list or object after a comma" },
        { "a comma at the end of a list", TEXT("{\"a\":[1,]}"),
          "doc: expected JSON, found at byte 8: the end of a list or object after a comma" },
        { "NaN", TEXT("{\"a\":NaN}"),
          "doc: expected JSON, found at byte 5: an unexpected character" },
        { "Infinity", TEXT("{\"a\":-Infinity}"),
          "doc: expected JSON, found at byte 5: a number that JSON does not allow" },
        { "True", TEXT("{\"a\":True}"),
          "doc: expected JSON, found at byte 5: an unexpected character" },
        { "a leading zero", TEXT("{\"a\":01}"),
          "doc: expected JSON, found at byte 5: a number that JSON does not allow" },
        { "a plus", TEXT("{\"a\":+1}"),
          "doc: expected JSON, found at byte 5: an unexpected character" },
        { "no digit after the point", TEXT("{\"a\":1.}"),
          "doc: expected JSON, found at byte 5: a number that JSON does not allow" },
        { "no digit before the point", TEXT("{\"a\":.5}"),
          "doc: expected JSON, found at byte 5: an unexpected character" },
        { "no digit in the exponent", TEXT("{\"a\":1e}"),
          "doc: expected JSON, found at byte 5: a number that JSON does not allow" },
        { "only a minus", TEXT("{\"a\":-}"),
          "doc: expected JSON, found at byte 5: a number that JSON does not allow" },
        { "not UTF-8", TEXT("{\"a\":\"\xff\"}"),
          "doc: expected JSON, found at byte 6: a string that is not UTF-8" },
        { "a slash in two bytes", TEXT("{\"a\":\"\xc0\xaf\"}"),
          "doc: expected JSON, found at byte 6: a string that is not UTF-8" },
        { "a surrogate", TEXT("{\"a\":\"\xed\xa0\x80\"}"),
          "doc: expected JSON, found at byte 6: a string that is not UTF-8" },
        { "half a character at the end", TEXT("{\"a\":\"\xc3"),
          "doc: expected JSON, found at byte 6: a string that is not UTF-8" },
        { "an escape at the end of the document", TEXT("{\"\\u000"),
          "doc: expected JSON, found at byte 7: a string without an end" },
        { "an unknown escape", TEXT("{\"a\":\"\\x\"}"),
          "doc: expected JSON, found at byte 7: invalid string sequence" },
        { "a key that is a number", TEXT("{1:1}"),
          "doc: expected JSON, found at byte 1: quoted object property name expected" },
        { "no colon", TEXT("{\"a\" 1}"),
          "doc: expected JSON, found at byte 5: object property name separator ':' expected" },
};

static void parses(void **state) {
        const struct json_case *c = *state;
        struct nb_failure f = {};
        _cleanup_(nb_json_done) struct nb_json json = nb_json_parse(c->text, c->len, "doc",
                                                                    NB_ANSWER_MALFORMED, &f);

        if (!c->detail) {
                assert_string_equal(f.detail, "");
                assert_int_equal(json.r, 0);
                return;
        }
        assert_true(json.r < 0);
        assert_null(nb_json_object(&json, ""));
        assert_int_equal(f.code, NB_ANSWER_MALFORMED);
        assert_string_equal(f.detail, c->detail);
}

static int parse_empty_objects(unsigned n, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(4 *
                                                                         NB_JSON_CONTAINERS_MAX);
        _cleanup_(nb_json_done) struct nb_json json = {};

        nb_buffer_append_string(&text, "[1");
        for (unsigned i = 0; i < n; i++)
                nb_buffer_append_string(&text, ",{}");
        nb_buffer_append_string(&text, "]");
        json = nb_json_parse(text.data, text.len, "doc", NB_ANSWER_MALFORMED, f);
        return json.r;
}

/* Without it, 1 MiB of them takes 266 MiB of memory. */
static void objects_have_a_limit(void **state) {
        struct nb_failure f = {};

        assert_int_equal(parse_empty_objects(NB_JSON_CONTAINERS_MAX - 1, &f), 0);
        assert_true(parse_empty_objects(NB_JSON_CONTAINERS_MAX, &f) < 0);
        assert_string_equal(f.detail, "doc: expected JSON, found at byte 60000: "
                                      "too many objects and lists");
}

/* `depth` levels, and a number in the innermost. */
static int parse_nested(unsigned depth, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = {};
        char text[256] = "{\"a\":";
        size_t len = strlen(text);

        for (unsigned i = 1; i < depth; i++)
                text[len++] = '[';
        text[len++] = '1';
        for (unsigned i = 1; i < depth; i++)
                text[len++] = ']';
        text[len++] = '}';
        json = nb_json_parse(text, len, "doc", NB_ANSWER_MALFORMED, f);
        return json.r;
}

static void depth_has_a_limit(void **state) {
        struct nb_failure f = {};

        assert_int_equal(parse_nested(NB_JSON_DEPTH_MAX, &f), 0);
        assert_true(parse_nested(NB_JSON_DEPTH_MAX + 1, &f) < 0);
        assert_string_equal(f.detail, "doc: expected JSON, found at byte 37: nesting too deep");
}

static const char sample[] =
        "{\"s\":\"text\",\"i\":-7,\"big\":9223372036854775808,\"fraction\":1.5,\"t\":true,\"n\":"
        "null,\"empty\":\"\","
        "\"o\":{\"p\":{\"q\":\"deep\"},\"a-b/c\":1},\"l\":[\"x\",{\"y\":\"z\"},[5]]}";

struct get_case {
        const char *name;
        char type;
        const char *path;
        int expected;       /* 1, 0, -1 */
        const char *result; /* a string, or what stands in `detail` */
};

static struct get_case gets[] = {
        { "a string", 's', "s", 1, "text" },
        { "an empty string", 's', "empty", 1, "" },
        { "a string deep inside", 's', "o.p.q", 1, "deep" },
        { "a string in a list", 's', "l[0]", 1, "x" },
        { "a string in an object in a list", 's', "l[1].y", 1, "z" },
        { "a string in the entry with a string", 's', "l[y=z].y", 1, "z" },
        { "a string in no entry with a string", 's', "l[y=x].y", 0, "" },
        { "a string in the entry of an object", 's', "o[y=z].y", -1,
          "doc: o: expected a list, found an object" },
        { "a missing string", 's', "x", 0, "" },
        { "a string in a missing object", 's', "x.y.z", 0, "" },
        { "a string beyond the end of a list", 's', "l[3]", 0, "" },
        { "a string that is null", 's', "n", 0, "" },
        { "a string in null", 's', "n.x", 0, "" },
        { "a string that is an integer", 's', "i", -1,
          "doc: i: expected a string, found an integer" },
        { "a string that is a boolean", 's', "t", -1,
          "doc: t: expected a string, found a boolean" },
        { "a string that is an object", 's', "o.p", -1,
          "doc: o.p: expected a string, found an object" },
        { "a string that is a list", 's', "l[2]", -1,
          "doc: l[2]: expected a string, found a list" },
        { "a key of a string", 's', "s.x", -1, "doc: s: expected an object, found a string" },
        { "a key of a list", 's', "l.x", -1, "doc: l: expected an object, found a list" },
        { "an index of an object", 's', "o[0]", -1, "doc: o: expected a list, found an object" },
        { "an integer", 'i', "i", 1, "-7" },
        { "an integer in lists", 'i', "l[2][0]", 1, "5" },
        { "a missing integer", 'i', "o.x", 0, "" },
        { "an integer of more than 64 bits", 'i', "big", -1,
          "doc: big: expected an integer of 64 bits, found a larger one" },
        { "an integer that is a fraction", 'i', "fraction", -1,
          "doc: fraction: expected an integer, found a fraction" },
        { "an integer that is a string", 'i', "s", -1,
          "doc: s: expected an integer, found a string" },
        { "an identifier that is a string", 'd', "s", 1, "text" },
        { "an identifier that is an integer", 'd', "i", 1, "-7" },
        { "a missing identifier", 'd', "x", 0, "" },
        { "an identifier in a list instead of an object", 'd', "l.x", 0, "" },
        { "an identifier in an object instead of a list", 'd', "o[0]", 0, "" },
        { "an identifier in a string", 'd', "s[a=b].x", 0, "" },
        { "an identifier in null", 'd', "n.x", 0, "" },
        { "an identifier that is a list", 'd', "l", -1, "doc: l: expected a string, found a list" },
        { "an identifier of more than 64 bits", 'd', "big", -1,
          "doc: big: expected a string, found an integer" },
        { "a boolean", 'b', "t", 1, "true" },
        { "a boolean that is an integer", 'b', "i", -1,
          "doc: i: expected a boolean, found an integer" },
        { "a list", 'l', "l", 1, "3" },
        { "a list that is an object", 'l', "o", -1, "doc: o: expected a list, found an object" },
        { "a missing list", 'l', "x", 0, "" },
};

/* Whether there is one. */
static bool get_text(struct nb_json *json, const struct get_case *c, char *ret, size_t size) {
        const char *text;
        ssize_t n;

        switch (c->type) {
        case 's':
        case 'd':
                text = c->type == 's' ? nb_json_string(json, c->path)
                                      : nb_json_identifier(json, c->path);
                (void)snprintf(ret, size, "%s", text ? text : "");
                return text;
        case 'i':
                n = nb_json_integer(json, c->path);
                (void)snprintf(ret, size, "%zd", n);
                return n != 0;
        case 'b':
                n = nb_json_boolean(json, c->path);
                (void)snprintf(ret, size, "%s", n ? "true" : "false");
                return n >= 0;
        default:
                n = nb_json_array(json, c->path);
                (void)snprintf(ret, size, "%zd", n);
                return n >= 0;
        }
}

static struct nb_json parse_sample(struct nb_failure *f) {
        struct nb_json json = nb_json_parse(sample, sizeof(sample) - 1, "doc", NB_ANSWER_MALFORMED,
                                            f);

        assert_int_equal(json.r, 0);
        return json;
}

static void gets_typed(void **state) {
        const struct get_case *c = *state;
        struct nb_failure f = {};
        _cleanup_(nb_json_done) struct nb_json json = parse_sample(&f);
        char text[64];
        bool is_found = get_text(&json, c, text, sizeof(text));

        assert_int_equal(json.r < 0, c->expected < 0);
        assert_int_equal(f.code, json.r < 0 ? NB_ANSWER_MALFORMED : NB_NONE);
        if (json.r < 0) {
                assert_string_equal(f.detail, c->result);
                return;
        }
        assert_int_equal(is_found, c->expected);
        if (is_found)
                assert_string_equal(text, c->result);
}

static void expects(void **state) {
        static const struct {
                const char *path, *expected, *detail;
        } cases[] = {
                { "s", "text", "" },
                { "s", "other", "doc: s: expected 'other', found 'text'" },
                { "x", "other", "doc: x: expected 'other', found nothing" },
        };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                struct nb_failure f = {};
                _cleanup_(nb_json_done) struct nb_json json = parse_sample(&f);

                nb_json_expect(&json, cases[i].path, cases[i].expected);
                assert_int_equal(json.r<0, i> 0);
                assert_string_equal(f.detail, cases[i].detail);
        }
}

struct copy_case {
        const char *name;
        const char *text; /* of the document */
        size_t size;
        const char *detail; /* "": copied */
};

static struct copy_case copies[] = {
        { "copy: the longest that fits", "{\"a\":\"1234567\"}", 8, "" },
        { "copy: a byte too long", "{\"a\":\"12345678\"}", 8,
          "doc: a: expected printable text of at most 7 bytes, found '12345678'" },
        { "copy: empty", "{\"a\":\"\"}", 8,
          "doc: a: expected printable text of at most 7 bytes, found nothing" },
        { "copy: missing", "{}", 8,
          "doc: a: expected printable text of at most 7 bytes, found nothing" },
        { "copy: a line end", "{\"a\":\"x\\ny\"}", 8,
          "doc: a: expected printable text of at most 7 bytes, found 'x?y'" },
        { "copy: an escape sequence", "{\"a\":\"\\u001b[2J\"}", 8,
          "doc: a: expected printable text of at most 7 bytes, found '?[2J'" },
        { "copy: a number, which is reported once", "{\"a\":1}", 8,
          "doc: a: expected a string, found an integer" },
};

static void copies_text(void **state) {
        const struct copy_case *c = *state;
        struct nb_failure f = {};
        _cleanup_(nb_json_done) struct nb_json json = nb_json_parse(c->text, strlen(c->text), "doc",
                                                                    NB_ANSWER_MALFORMED, &f);
        char text[16] = "before";

        nb_json_copy(&json, "a", text, c->size);
        assert_string_equal(f.detail, c->detail);
        assert_int_equal(json.r < 0, c->detail[0] != '\0');
        assert_string_equal(text, c->detail[0] ? "before" : "1234567");
}

static void finds_nothing_after_a_failure(void **state) {
        struct nb_failure f = {};
        _cleanup_(nb_json_done) struct nb_json json = parse_sample(&f);
        char line[8] = "before";

        assert_string_equal(nb_json_string(&json, "s"), "text");
        assert_null(nb_json_string(&json, "i"));
        assert_null(nb_json_string(&json, "s"));
        assert_null(nb_json_object(&json, "o"));
        assert_null(nb_json_next_key(&json, "o", NULL));
        assert_int_equal(nb_json_integer(&json, "i"), 0);
        assert_int_equal(nb_json_boolean(&json, "t"), -1);
        assert_int_equal(nb_json_array(&json, "l"), -1);
        nb_json_line(&json, "s", line, sizeof(line));
        assert_string_equal(line, "");
        nb_json_refuse(&json, "s", "something else", NULL);
        assert_true(json.r < 0);
        assert_string_equal(f.detail, "doc: i: expected a string, found an integer");
}

static void other_documents_have_no_keys(void **state) {
        static const struct {
                const char *text, *detail;
        } others[] = { { "[\"x\"]", "doc: expected an object, found a list" },
                       { "\"x\"", "doc: expected an object, found a string" },
                       { "null ", "doc: expected an object, found null" } };

        for (size_t i = 0; i < N_ELEMENTS(others); i++) {
                struct nb_failure f = {};
                _cleanup_(nb_json_done) struct nb_json json = nb_json_parse(
                        others[i].text, strlen(others[i].text), "doc", NB_ANSWER_MALFORMED, &f);

                assert_int_equal(json.r, 0);
                assert_null(nb_json_string(&json, "a"));
                assert_true(json.r < 0);
                assert_string_equal(f.detail, others[i].detail);
                json.r = 0;
                assert_int_equal(nb_json_string(&json, "[0]") != NULL, i == 0);
        }
}

static void visits_keys(void **state) {
        static const struct {
                const char *path, *keys;
        } cases[] = { { "o", "p a-b/c " }, { "x", "" }, { "", "s i big fraction t n empty o l " } };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                struct nb_failure f = {};
                _cleanup_(nb_json_done) struct nb_json json = parse_sample(&f);
                char keys[128] = "";

                for (const char *key = NULL; (key = nb_json_next_key(&json, cases[i].path, key));)
                        strcat(strcat(keys, key), " ");
                assert_string_equal(keys, cases[i].keys);
                assert_int_equal(json.r, 0);
        }
}

static void text_is_as_in_the_document(_unused_ void **state) {
        struct nb_failure f = {};
        _cleanup_(nb_json_done) struct nb_json json = parse_sample(&f);

        assert_string_equal(nb_json_text(&json, "o", '{'), "{\"p\":{\"q\":\"deep\"},\"a-b/c\":1}");
        assert_string_equal(nb_json_text(&json, "l", '['), "[\"x\",{\"y\":\"z\"},[5]]");
        assert_null(nb_json_text(&json, "missing", '{'));
        assert_int_equal(json.r, 0);
        assert_null(nb_json_text(&json, "l", '{'));
        assert_true(json.r < 0);
}

struct quote_case {
        const char *name;
        const char *text;
        size_t len;
        const char *expected; /* NULL: refused */
};

static struct quote_case quotes[] = {
        { "quoting: plain text", TEXT("abc"), "\"abc\"" },
        { "quoting: nothing", TEXT(""), "\"\"" },
        { "quoting: quotes and backslashes", TEXT("a\"b\\c"), "\"a\\\"b\\\\c\"" },
        { "quoting: newlines, tabs and other controls", TEXT("a\nb\tc\x1b\x7f"),
          "\"a\\nb\\u0009c\\u001b\\u007f\"" },
        { "quoting: a NUL", TEXT("a\0b"), "\"a\\u0000b\"" },
        { "quoting: what YAML reads as a line end",
          TEXT("\xc2\x85\xe2\x80\xa8\xe2\x80\xa9\xef\xbb\xbf"),
          "\"\\u0085\\u2028\\u2029\\ufeff\"" },
        { "quoting: a code point that is not a character, of four bytes", TEXT("\xf4\x8f\xbf\xbf"),
          "\"\\udbff\\udfff\"" },
        { "quoting: other alphabets", TEXT("\xc3\xa9\xf0\x9f\x98\x80"),
          "\"\xc3\xa9\xf0\x9f\x98\x80\"" },
        { "quoting: invalid UTF-8", TEXT("a\xff"), NULL },
        { "quoting: half a character", TEXT("a\xc3"), NULL },
};

static void quotes_text(void **state) {
        const struct quote_case *c = *state;
        _cleanup_(nb_buffer_done) struct nb_buffer buffer = NB_BUFFER_INIT(64);

        nb_json_quote(c->text, c->len, &buffer);
        assert_int_equal(buffer.error, c->expected ? 0 : -EINVAL);
        if (c->expected)
                assert_string_equal(buffer.data, c->expected);
}

static void quoting_keeps_the_ceiling(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer buffer = NB_BUFFER_INIT(4);

        nb_json_quote("abc", 3, &buffer);
        assert_int_equal(buffer.error, -E2BIG);
}

static void write_everything(struct nb_json_writer *writer) {
        nb_json_open(writer, NULL, '{');
        nb_json_put_string(writer, "text", "a\"b\n");
        nb_json_put_string(writer, "none", NULL);
        nb_json_put_integer(writer, "number", INT64_MIN);
        nb_json_open(writer, "empty", '[');
        nb_json_close(writer);
        nb_json_open(writer, "list", '[');
        nb_json_put_boolean(writer, NULL, true);
        nb_json_open(writer, NULL, '{');
        nb_json_put_boolean(writer, "last", false);
}

static void writes_a_compact_document(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer buffer = NB_BUFFER_INIT(256);
        struct nb_json_writer writer = { .buffer = &buffer };

        write_everything(&writer);
        assert_int_equal(nb_json_finish(&writer), 0);
        assert_string_equal(buffer.data,
                            "{\"text\":\"a\\\"b\\n\",\"none\":null,\"number\":-"
                            "9223372036854775808,\"empty\":[],\"list\":[true,{\"last\":false}]}");
}

static void writes_an_indented_document(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer buffer = NB_BUFFER_INIT(256);
        struct nb_json_writer writer = { .buffer = &buffer, .is_indented = true };

        write_everything(&writer);
        nb_json_close(&writer);
        nb_json_close(&writer);
        nb_json_put_integer(&writer, "after", 1);
        assert_int_equal(nb_json_finish(&writer), 0);
        assert_string_equal(buffer.data, "{\n"
                                         "  \"text\": \"a\\\"b\\n\",\n"
                                         "  \"none\": null,\n"
                                         "  \"number\": -9223372036854775808,\n"
                                         "  \"empty\": [],\n"
                                         "  \"list\": [\n"
                                         "    true,\n"
                                         "    {\n"
                                         "      \"last\": false\n"
                                         "    }\n"
                                         "  ],\n"
                                         "  \"after\": 1\n"
                                         "}\n");
}

static void writing_reports_the_first_failure(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer small = NB_BUFFER_INIT(8),
                                                   large = NB_BUFFER_INIT(64);
        struct nb_json_writer writer = { .buffer = &small };

        write_everything(&writer);
        assert_int_equal(nb_json_finish(&writer), -E2BIG);

        writer = (struct nb_json_writer){ .buffer = &large };
        nb_json_open(&writer, NULL, '[');
        nb_json_put_string(&writer, NULL, "a\xff");
        nb_json_put_integer(&writer, NULL, 1);
        assert_int_equal(nb_json_finish(&writer), -EINVAL);
}

static void fills_a_form(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer buffer = NB_BUFFER_INIT(100);
        const char *volatile missing = NULL;

        nb_json_format(&buffer, "{'a':[%s,%s],'b':{'c':%s}}", "it's", "\"", missing);
        assert_string_equal(buffer.data, "{\"a\":[\"it's\",\"\\\"\"],\"b\":{\"c\":null}}");
        nb_json_format(&buffer, "%s", "\xff");
        assert_int_equal(buffer.error, -EINVAL);
}

int main(void) {
        CASES(documents, parses);
        CASE(depth_has_a_limit);
        CASE(objects_have_a_limit);
        CASES(gets, gets_typed);
        CASE(expects);
        CASES(copies, copies_text);
        CASE(other_documents_have_no_keys);
        CASE(finds_nothing_after_a_failure);
        CASE(visits_keys);
        CASE(text_is_as_in_the_document);
        CASES(quotes, quotes_text);
        CASE(fills_a_form);
        CASE(quoting_keeps_the_ceiling);
        CASE(writes_a_compact_document);
        CASE(writes_an_indented_document);
        CASE(writing_reports_the_first_failure);
        return case_run("json");
}
