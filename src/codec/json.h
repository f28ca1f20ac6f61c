/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* JSON (RFC 8259) through json-c, made strict where json-c is not: duplicate keys, single quotes,
 * NaN, trailing bytes, U+0000 in a string, and more than the limits below are refused. Messages of
 * the getters name the path. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "base/failure.h"

#define NB_JSON_DEPTH_MAX 32         /* nested objects and lists */
#define NB_JSON_CONTAINERS_MAX 20000 /* objects and lists; a Node has some hundred */

struct json_object;

/*
 * A document, and the first failure of parsing it or of a getter. After a failure, every getter
 * behaves as if its value were missing, so check `r` once, after the last getter.
 */
struct nb_json {
        struct json_object *root;
        const char *what; /* names the document in messages: "cluster-info" */
        enum nb_code code;
        struct nb_failure *f;
        int r; /* 0, or negative with `f` set to `code` or lack of memory */
};

struct nb_json nb_json_parse(const char *data, size_t len, const char *what, enum nb_code code,
                             struct nb_failure *f);
void nb_json_done(struct nb_json *json);

/*
 * `path` is a dotted list of keys ("metadata.name", "status.conditions[0].type", or "[0].name" for
 * a document that is a list); "status.conditions[type=Ready].status" selects the first entry whose
 * `type` is "Ready". The document owns the results. A value of another type is a failure; a missing
 * or null value is not.
 */

/* NULL if the value is missing. */
const char *nb_json_string(struct nb_json *json, const char *path);
struct json_object *nb_json_object(struct nb_json *json, const char *path);

/* A string, or an integer's digits. Missing, too, if what should contain it has another type. */
const char *nb_json_identifier(struct nb_json *json, const char *path);

/* 0 if the value is missing. */
int64_t nb_json_integer(struct nb_json *json, const char *path);

/* 0 or 1; -1 if the value is missing. */
int nb_json_boolean(struct nb_json *json, const char *path);

/* The number of entries; -1 if the list is missing. */
ssize_t nb_json_array(struct nb_json *json, const char *path);

/* The JSON text, without blanks, of an object ('{') or a list ('['), with its members in the order
 * of the document. NULL if it is missing. */
const char *nb_json_text(struct nb_json *json, const char *path, char bracket);

/* Copies a required string. If it is missing, empty, not printable or does not fit, that is a
 * failure, and `ret` is unchanged. */
void nb_json_copy(struct nb_json *json, const char *path, char *ret, size_t size);

/* Copies a string for messages, cut to `size` and made printable; "" if it is missing. */
void nb_json_line(struct nb_json *json, const char *path, char *ret, size_t size);

/* The string at `path` must be `expected`. */
void nb_json_expect(struct nb_json *json, const char *path, const char *expected);

/* Returns the key that follows `key` in the object at `path`, or the first one if `key` is NULL;
 * NULL after the last one. */
const char *nb_json_next_key(struct nb_json *json, const char *path, const char *key);

/* Sets the failure "WHAT: PATH: expected EXPECTED, found 'FOUND'", unless an earlier one is set.
 * `found` NULL: "found nothing". */
void nb_json_refuse(struct nb_json *json, const char *path, const char *expected,
                    const char *found);

/* Appends a JSON string with its quotes. YAML reads it as the same string. Invalid UTF-8 sets the
 * error of the buffer to -EINVAL. */
void nb_json_quote(const char *text, size_t len, struct nb_buffer *ret);

/* Appends a document of a fixed form, which is written with ' instead of ", and with %s for each
 * string of the caller (NULL: null); not for secrets. Errors as above.
 *
 *      nb_json_format(&body, "{'kind':'Lease','metadata':{'name':%s}}", name);
 */
void nb_json_format(struct nb_buffer *ret, const char *form, ...)
        __attribute__((format(printf, 2, 3)));

/*
 * Writes one JSON document into a buffer; not for secrets. `key` is NULL for the outermost value
 * and in a list. The calls need no check: nb_json_finish() returns the error of the buffer.
 *
 *      struct nb_json_writer writer = { .buffer = &text, .is_indented = true };
 *
 *      nb_json_open(&writer, NULL, '{');
 *      nb_json_put_string(&writer, "node", name);
 *      nb_json_open(&writer, "pins", '[');
 *      for (…)
 *              nb_json_put_string(&writer, NULL, pin);
 *      return nb_json_finish(&writer);
 */
struct nb_json_writer {
        struct nb_buffer *buffer;
        bool is_indented; /* one value per line; otherwise compact, without a final newline */

        /* Private. */
        unsigned depth;
        char closing[NB_JSON_DEPTH_MAX];
        bool wants_comma;
};

/* Opens an object ('{') or a list ('['). */
void nb_json_open(struct nb_json_writer *writer, const char *key, char bracket);
/* Closes the innermost object or list. */
void nb_json_close(struct nb_json_writer *writer);

/* `text` NULL writes null. */
void nb_json_put_string(struct nb_json_writer *writer, const char *key, const char *text);
void nb_json_put_integer(struct nb_json_writer *writer, const char *key, int64_t value);
void nb_json_put_boolean(struct nb_json_writer *writer, const char *key, bool value);

/* Closes what is still open. 0, -E2BIG, -ENOMEM, -EINVAL for invalid UTF-8; on failure the buffer
 * holds an incomplete document. */
int nb_json_finish(struct nb_json_writer *writer);
