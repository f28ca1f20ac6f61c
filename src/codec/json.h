/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* JSON (RFC 8259) through json-c, made strict where json-c is not: duplicate keys, single quotes,
 * NaN, trailing bytes, U+0000 in a string, and more than NB_JSON_DEPTH_MAX levels are refused.
 * Messages of the getters name the path. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/failure.h"

#define NB_JSON_DEPTH_MAX 32 /* of objects and lists in each other */

struct json_object;

/* `what` names the document in messages ("cluster-info"); `code` is the failure that is set here
 * and by the getters. */
struct nb_json {
        struct json_object *root;
        const char *what;
        enum nb_code code;
};

int nb_json_parse(const char *data, size_t len, const char *what, enum nb_code code,
                  struct nb_json *ret_json, struct nb_failure *f);
void nb_json_done(struct nb_json *json);

/*
 * `path` is a dotted list of keys ("metadata.name", "status.conditions[0].type", or "[0].name" for
 * a document that is a list); "status.conditions[type=Ready].status" is of the first entry with
 * this string. Strings belong to the document. 1 found; 0 not there or null; negative with `f` set
 * when it is there and of another type.
 */
int nb_json_string(const struct nb_json *json, const char *path, const char **ret, size_t *ret_len,
                   struct nb_failure *f);
/* Copies a string that must be there, not be empty, be printable, and fit: 0, or negative with `f`
 * set. */
int nb_json_copy(const struct nb_json *json, const char *path, char *ret, size_t size,
                 struct nb_failure *f);
/* Copies a string for messages, cut to `size` and made printable; "" if it is missing. */
int nb_json_line(const struct nb_json *json, const char *path, char *ret, size_t size,
                 struct nb_failure *f);
int nb_json_integer(const struct nb_json *json, const char *path, int64_t *ret,
                    struct nb_failure *f);
int nb_json_boolean(const struct nb_json *json, const char *path, bool *ret, struct nb_failure *f);
int nb_json_object(const struct nb_json *json, const char *path, struct json_object **ret,
                   struct nb_failure *f);
int nb_json_array(const struct nb_json *json, const char *path, size_t *ret_n,
                  struct nb_failure *f);

/* 0 if the string at `path` is `expected`, otherwise negative with `f` set. */
int nb_json_expect(const struct nb_json *json, const char *path, const char *expected,
                   struct nb_failure *f);

/* Calls for each key of the object at `path`, in order; stops at a negative return. Not there: no
 * call, 0. */
int nb_json_each_key(const struct nb_json *json, const char *path,
                     int (*each)(void *userdata, const char *key, struct nb_failure *f),
                     void *userdata, struct nb_failure *f);

/* Appends a JSON string with its quotes. YAML reads it as the same string. 0, -E2BIG, -ENOMEM,
 * -EINVAL for invalid UTF-8. */
int nb_json_quote(const char *text, size_t len, struct nb_buffer *ret);

/*
 * Writes one JSON document into a buffer; not for secrets. `key` is NULL for the outermost value
 * and in a list. The calls need no check: after the first failure they do nothing, and
 * nb_json_finish() returns it.
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
        int r;
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
