/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * JSON (RFC 8259) through json-c, made strict where json-c is not: duplicate keys, single quotes, NaN and Infinity,
 * trailing bytes, U+0000 in any string, and more than NB_JSON_DEPTH_MAX levels are refused, as is a document that is
 * no object. Getters name the path.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/failure.h"

#define NB_JSON_DEPTH_MAX 32 /* of objects and lists in each other */

struct json_object;

/* `what` names the document in messages ("cluster-info"); `code` is the failure that is set here and by the getters. */
struct nb_json {
        struct json_object *root;
        const char *what;
        enum nb_code code;
};

int nb_json_parse(const char *data, size_t len, const char *what, enum nb_code code, struct nb_json *ret_json,
                  struct nb_failure *f);
void nb_json_done(struct nb_json *json);

/*
 * `path` is a dotted list of keys ("metadata.name", or "status.conditions[0].type"). Strings belong to the document.
 * 1 found; 0 not there or null; negative with `f` set when it is there and of another type.
 */
int nb_json_string(const struct nb_json *json, const char *path, const char **ret, size_t *ret_len,
                   struct nb_failure *f);
/* Copies a string for people, cut to `size` and made printable; "" when there is none. */
int nb_json_line(const struct nb_json *json, const char *path, char *ret, size_t size, struct nb_failure *f);
int nb_json_integer(const struct nb_json *json, const char *path, int64_t *ret, struct nb_failure *f);
int nb_json_boolean(const struct nb_json *json, const char *path, bool *ret, struct nb_failure *f);
int nb_json_object(const struct nb_json *json, const char *path, struct json_object **ret, struct nb_failure *f);
int nb_json_array(const struct nb_json *json, const char *path, size_t *ret_n, struct nb_failure *f);

/* 0 when the string at `path` is `expected`; otherwise, also when there is none, negative with `f` set. */
int nb_json_expect(const struct nb_json *json, const char *path, const char *expected, struct nb_failure *f);

/* Calls for each key of the object at `path`, in order; stops at a negative return. Not there: no call, 0. */
int nb_json_each_key(const struct nb_json *json, const char *path,
                     int (*each)(void *userdata, const char *key, struct nb_failure *f), void *userdata,
                     struct nb_failure *f);

/* Appends a JSON string with its quotes, escaped in a way that YAML reads as the same. 0, -E2BIG, -ENOMEM, -EINVAL for
 * invalid UTF-8. */
int nb_json_quote(const char *text, size_t len, struct nb_buffer *ret);
