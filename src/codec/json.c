/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>
#include <json-c/json_visit.h>

#include "base/macro.h"
#include "base/text.h"
#include "codec/json.h"

#define STEP_MAX 128 /* bytes of one step of a getter's path */

static inline void tokener_freep(struct json_tokener **tokener) {
        if (*tokener)
                json_tokener_free(*tokener);
}

/*
 * json-c accepts single quotes, NaN, numbers such as 01 and overlong UTF-8, cuts keys at an escaped
 * NUL, and lets the last of two equal keys win. Its strict mode refuses some of this, but in
 * version 0.18 it also refuses every character that is not ASCII. So this scanner checks all tokens
 * first, and json-c runs without that mode. `n_members` counts the colons: json-c's tree must have
 * as many members, or a key was repeated. `previous` is the last character that is not a space.
 * `n_containers` counts objects and lists: json-c allocates 780 bytes for "{}".
 */
struct scanner {
        const char *next;
        const char *end;
        size_t n_members;
        unsigned n_containers;
        char previous;
};

static const char *scan_string(struct scanner *scanner) {
        static const char null[] = "\\u0000";
        uint32_t code_point;
        size_t left, n;

        for (scanner->next++; scanner->next < scanner->end && *scanner->next != '"';
             scanner->next += n) {
                left = (size_t)(scanner->end - scanner->next);
                n = nb_utf8_decode(scanner->next, left, &code_point);
                if (n == 0)
                        return "a string that is not UTF-8";
                if (code_point < 0x20)
                        return "a control character in a string";
                if (left >= strlen(null) && memcmp(scanner->next, null, strlen(null)) == 0)
                        return "\\u0000 in a string";
                n += code_point == '\\' && left > 1; /* json-c checks the escaped character */
        }
        if (scanner->next == scanner->end)
                return "a string without an end";
        scanner->next++;
        return NULL;
}

/* Returns whether there was a digit. */
static bool skip_digits(struct scanner *scanner) {
        const char *start = scanner->next;

        while (scanner->next < scanner->end && *scanner->next >= '0' && *scanner->next <= '9')
                scanner->next++;
        return scanner->next > start;
}

static bool skip_one_of(struct scanner *scanner, const char *characters) {
        if (scanner->next == scanner->end || !*scanner->next || !strchr(characters, *scanner->next))
                return false;
        scanner->next++;
        return true;
}

static const char *scan_number(struct scanner *scanner) {
        const char *start = scanner->next;
        bool is_valid;

        skip_one_of(scanner, "-");
        is_valid = skip_one_of(scanner, "0") ? !skip_digits(scanner) : skip_digits(scanner);
        if (is_valid && skip_one_of(scanner, "."))
                is_valid = skip_digits(scanner);
        if (is_valid && skip_one_of(scanner, "eE")) {
                skip_one_of(scanner, "+-");
                is_valid = skip_digits(scanner);
        }
        if (is_valid)
                return NULL;
        scanner->next = start;
        return "a number that JSON does not allow";
}

static const char *scan_word(struct scanner *scanner) {
        static const char *const words[] = { "true", "false", "null" };

        for (size_t i = 0; i < N_ELEMENTS(words); i++) {
                size_t len = strlen(words[i]);

                if ((size_t)(scanner->end - scanner->next) >= len &&
                    memcmp(scanner->next, words[i], len) == 0) {
                        scanner->next += len;
                        return NULL;
                }
        }
        return "an unexpected character";
}

/* Returns NULL if all tokens are valid; otherwise a description of the text at scanner->next. */
static const char *scan_tokens(struct scanner *scanner) {
        while (scanner->next < scanner->end) {
                char c = *scanner->next;
                const char *found = NULL;

                if (skip_one_of(scanner, " \t\r\n"))
                        continue;
                if (scanner->previous == ',' && (c == '}' || c == ']'))
                        return "the end of a list or object after a comma";
                if ((c == '{' || c == '[') && scanner->n_containers++ == NB_JSON_CONTAINERS_MAX)
                        return "too many objects and lists";
                if (c == '"')
                        found = scan_string(scanner);
                else if (c == '-' || (c >= '0' && c <= '9'))
                        found = scan_number(scanner);
                else if (!skip_one_of(scanner, "{}[],:"))
                        found = scan_word(scanner);
                if (found)
                        return found;
                scanner->n_members += c == ':';
                scanner->previous = c;
        }
        return NULL;
}

static int count_member(json_object *object _unused_, int flags, json_object *parent _unused_,
                        const char *key, size_t *index _unused_, void *userdata) {
        size_t *n_members = userdata;

        if (key && !(flags & JSON_C_VISIT_SECOND))
                (*n_members)++;
        return JSON_C_VISIT_RETURN_CONTINUE;
}

static const char *type_name(enum json_type type) {
        switch (type) {
        case json_type_null:
                return "null";
        case json_type_boolean:
                return "a boolean";
        case json_type_double:
                return "a fraction";
        case json_type_int:
                return "an integer";
        case json_type_object:
                return "an object";
        case json_type_array:
                return "a list";
        case json_type_string:
                return "a string";
        default:
                return "something else";
        }
}

struct nb_json nb_json_parse(const char *data, size_t len, const char *what, enum nb_code code,
                             struct nb_failure *f) {
        struct nb_json json = { .what = what, .code = code, .f = f };
        _cleanup_(tokener_freep) struct json_tokener *tokener = NULL;
        struct scanner scanner = { .next = data, .end = data + len };
        enum json_tokener_error error;
        size_t n_members = 0, end;
        const char *found;

        assert(len <= INT_MAX);
        tokener = json_tokener_new_ex(NB_JSON_DEPTH_MAX + 1);
        if (!tokener) {
                json.r = nb_failure_set_memory(f);
                return json;
        }
        found = scan_tokens(&scanner);
        end = (size_t)(scanner.next - data);
        if (!found) {
                json.root = json_tokener_parse_ex(tokener, data, (int)len);
                error = json_tokener_get_error(tokener);
                end = json_tokener_get_parse_end(tokener);
                if (error == json_tokener_continue)
                        found = "the end";
                else if (error != json_tokener_success)
                        found = json_tokener_error_desc(error);
                else if (end != len)
                        found = "a second document";
        }
        (void)json_c_visit(json.root, 0, count_member, &n_members);
        if (found)
                json.r = nb_failure_set(f, code, 0, "%s: expected JSON, found at byte %zu: %s",
                                        what, end, found);
        else if (n_members != scanner.n_members)
                json.r = nb_failure_set(f, code, 0, "%s: expected each key once, found one twice",
                                        what);
        return json;
}

void nb_json_done(struct nb_json *json) {
        (void)json_object_put(json->root);
        json->root = NULL;
}

/* `step` is an index, or "key=value". NULL if there is no such entry. */
static struct json_object *find_entry(struct json_object *list, char *step) {
        char *value = strchr(step, '=');

        if (!value)
                return json_object_array_get_idx(list, strtoul(step, NULL, 10));
        *value++ = '\0';
        for (size_t i = 0; i < json_object_array_length(list); i++) {
                struct json_object *entry = json_object_array_get_idx(list, i),
                                   *member = json_object_object_get(entry, step);

                if (json_object_is_type(member, json_type_string) &&
                    strcmp(json_object_get_string(member), value) == 0)
                        return entry;
        }
        return NULL;
}

static void refuse_value(struct nb_json *json, const char *path, size_t path_len,
                         const char *expected, const char *found) {
        if (json->r >= 0)
                json->r = nb_failure_set(json->f, json->code, 0, "%s: %.*s%sexpected %s, found %s",
                                         json->what, (int)path_len, path, path_len > 0 ? ": " : "",
                                         expected, found);
}

void nb_json_refuse(struct nb_json *json, const char *path, const char *expected,
                    const char *found) {
        char quoted[NB_TEXT_QUOTED_SIZE];

        refuse_value(json, path, strlen(path), expected,
                     found ? nb_text_quote(found, strlen(found), quoted) : "nothing");
}

/* Follows the path to its end, or to a value that can have no such member; *path is then the rest.
 * Returns false if there is no value. */
static bool follow(const struct nb_json *json, const char **path, struct json_object **ret) {
        struct json_object *object = json->root;
        const char *p = *path;
        char step[STEP_MAX];

        while (*p && json_object_is_type(object, *p == '[' ? json_type_array : json_type_object)) {
                bool is_index = *p == '[';
                size_t len;

                p += is_index || *p == '.';
                len = strcspn(p, is_index ? "]" : ".[");
                if (len >= sizeof(step))
                        return false;
                memcpy(step, p, len);
                step[len] = '\0';
                object = is_index ? find_entry(object, step) : json_object_object_get(object, step);
                if (!object)
                        return false;
                p += len + is_index;
        }
        *path = p;
        *ret = object;
        return true;
}

/* Returns the value at `path`; NULL if it is missing or, with the failure set, of another type. */
static struct json_object *find_value(struct nb_json *json, const char *path, enum json_type type) {
        struct json_object *object = NULL;
        const char *rest = path;

        if (json->r < 0 || !follow(json, &rest, &object))
                return NULL;
        type = *rest == '[' ? json_type_array : *rest ? json_type_object : type;
        if (json_object_is_type(object, type))
                return object;
        refuse_value(json, path, (size_t)(rest - path), type_name(type),
                     type_name(json_object_get_type(object)));
        return NULL;
}

const char *nb_json_string(struct nb_json *json, const char *path) {
        return json_object_get_string(find_value(json, path, json_type_string));
}

void nb_json_expect(struct nb_json *json, const char *path, const char *expected) {
        const char *text = nb_json_string(json, path);
        char quoted[NB_TEXT_QUOTED_SIZE];

        if (!text || strcmp(text, expected) != 0)
                nb_json_refuse(json, path, nb_text_quote(expected, strlen(expected), quoted), text);
}

void nb_json_copy(struct nb_json *json, const char *path, char *ret, size_t size) {
        const char *text = nb_json_string(json, path);
        size_t len = text ? strlen(text) : 0;
        char expected[64];

        if (len > 0 && len < size && nb_text_is_printable(text, len)) {
                memcpy(ret, text, len + 1);
                return;
        }
        snprintf(expected, sizeof(expected), "printable text of at most %zu bytes", size - 1);
        nb_json_refuse(json, path, expected, len > 0 ? text : NULL);
}

void nb_json_line(struct nb_json *json, const char *path, char *ret, size_t size) {
        const char *text = nb_json_string(json, path);

        ret[0] = '\0';
        if (text)
                nb_text_copy_line(text, strlen(text), ret, size);
}

int64_t nb_json_integer(struct nb_json *json, const char *path) {
        int64_t value = json_object_get_int64(find_value(json, path, json_type_int));

        /* json-c also returns this value for every larger integer. */
        if (value == INT64_MAX)
                refuse_value(json, path, strlen(path), "an integer of 64 bits", "a larger one");
        return value;
}

/* Some clouds write identifiers as numbers, and an object without members as []. */
const char *nb_json_identifier(struct nb_json *json, const char *path) {
        struct json_object *object = NULL;
        const char *rest = path;

        if (json->r < 0 || !follow(json, &rest, &object) || *rest)
                return NULL;
        return json_object_is_type(object, json_type_int) &&
                               json_object_get_int64(object) != INT64_MAX
                       ? json_object_get_string(object)
                       : nb_json_string(json, path);
}

int nb_json_boolean(struct nb_json *json, const char *path) {
        struct json_object *object = find_value(json, path, json_type_boolean);

        return object ? json_object_get_boolean(object) : -1;
}

struct json_object *nb_json_object(struct nb_json *json, const char *path) {
        return find_value(json, path, json_type_object);
}

ssize_t nb_json_array(struct nb_json *json, const char *path) {
        struct json_object *object = find_value(json, path, json_type_array);

        return object ? (ssize_t)json_object_array_length(object) : -1;
}

const char *nb_json_text(struct nb_json *json, const char *path, char bracket) {
        struct json_object *object = find_value(
                json, path, bracket == '[' ? json_type_array : json_type_object);
        const char *text = NULL;

        if (object)
                text = json_object_to_json_string_ext(
                        object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
        if (object && !text)
                json->r = nb_failure_set_memory(json->f);
        return text;
}

const char *nb_json_next_key(struct nb_json *json, const char *path, const char *key) {
        struct json_object *object = find_value(json, path, json_type_object);
        struct lh_table *table = object ? json_object_get_object(object) : NULL;
        struct lh_entry *entry;

        if (!table)
                return NULL;
        entry = key ? lh_table_lookup_entry(table, key)->next : lh_table_head(table);
        return entry ? lh_entry_k(entry) : NULL;
}

static void quote_character(const char *text, size_t n, uint32_t code_point,
                            struct nb_buffer *ret) {
        if (code_point == '"' || code_point == '\\')
                nb_buffer_printf(ret, "\\%c", (char)code_point);
        else if (code_point == '\n')
                nb_buffer_append_string(ret, "\\n");
        else if (!nb_code_point_is_control(code_point))
                nb_buffer_append(ret, text, n);
        else if (code_point > 0xffff) /* as a surrogate pair */
                nb_buffer_printf(ret, "\\u%04" PRIx32 "\\u%04" PRIx32, 0xd7c0 + (code_point >> 10),
                                 0xdc00 + (code_point & 0x3ff));
        else
                nb_buffer_printf(ret, "\\u%04" PRIx32, code_point);
}

void nb_json_quote(const char *text, size_t len, struct nb_buffer *ret) {
        uint32_t code_point;
        size_t n;

        nb_buffer_append(ret, "\"", 1);
        for (size_t i = 0; i < len; i += n) {
                n = nb_utf8_decode(text + i, len - i, &code_point);
                if (n == 0) {
                        ret->error = -EINVAL;
                        return;
                }
                quote_character(text + i, n, code_point, ret);
        }
        nb_buffer_append(ret, "\"", 1);
}

/* --- Writing --- */

void nb_json_format(struct nb_buffer *ret, const char *form, ...) {
        va_list texts;

        va_start(texts, form);
        for (; *form; form++) {
                if (*form == '%') {
                        const char *text = va_arg(texts, const char *);

                        assert(form[1] == 's');
                        form++;
                        if (text)
                                nb_json_quote(text, strlen(text), ret);
                        else
                                nb_buffer_append_string(ret, "null");
                } else
                        nb_buffer_append(ret, *form == '\'' ? "\"" : form, 1);
        }
        va_end(texts);
}

static void write_text(struct nb_json_writer *writer, const char *text) {
        nb_buffer_append_string(writer->buffer, text);
}

static void write_line_break(struct nb_json_writer *writer) {
        if (!writer->is_indented)
                return;
        write_text(writer, "\n");
        for (unsigned i = 0; i < writer->depth; i++)
                write_text(writer, "  ");
}

/* Writes everything that precedes a value. */
static void write_key(struct nb_json_writer *writer, const char *key) {
        if (writer->wants_comma)
                write_text(writer, ",");
        if (writer->depth > 0)
                write_line_break(writer);
        if (key) {
                nb_json_quote(key, strlen(key), writer->buffer);
                write_text(writer, writer->is_indented ? ": " : ":");
        }
        writer->wants_comma = true;
}

void nb_json_open(struct nb_json_writer *writer, const char *key, char bracket) {
        assert(writer->depth < NB_JSON_DEPTH_MAX);
        write_key(writer, key);
        write_text(writer, bracket == '{' ? "{" : "[");
        writer->closing[writer->depth++] = bracket == '{' ? '}' : ']';
        writer->wants_comma = false;
}

void nb_json_close(struct nb_json_writer *writer) {
        bool is_empty = !writer->wants_comma;

        assert(writer->depth > 0);
        writer->depth--;
        if (!is_empty)
                write_line_break(writer);
        write_text(writer, writer->closing[writer->depth] == '}' ? "}" : "]");
        writer->wants_comma = true;
}

void nb_json_put_string(struct nb_json_writer *writer, const char *key, const char *text) {
        write_key(writer, key);
        if (text)
                nb_json_quote(text, strlen(text), writer->buffer);
        else
                write_text(writer, "null");
}

void nb_json_put_integer(struct nb_json_writer *writer, const char *key, int64_t value) {
        write_key(writer, key);
        nb_buffer_printf(writer->buffer, "%" PRId64, value);
}

void nb_json_put_boolean(struct nb_json_writer *writer, const char *key, bool value) {
        write_key(writer, key);
        write_text(writer, value ? "true" : "false");
}

int nb_json_finish(struct nb_json_writer *writer) {
        while (writer->depth > 0)
                nb_json_close(writer);
        write_line_break(writer);
        return writer->buffer->error;
}
