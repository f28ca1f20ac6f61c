/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the notes of handoff.h have in common: a JSON object of members that are all known. Private to format/. */

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/failure.h"
#include "format/handoff.h"
#include "format/json.h"

/* A string member of a note, for both directions. */
struct nb_note_member {
        const char *key;
        size_t offset;
        size_t size;
        bool (*is_accepted)(const char *text);
        const char *expected;
        enum nb_code code; /* NB_NONE: that of the document */
};

#define NB_NOTE_MEMBER(type, key, member, is_accepted, expected, code) \
        { key, offsetof(struct type, member), sizeof(((struct type *)NULL)->member), is_accepted, expected, code }

#define NB_NOTE_NODE "a node name"
#define NB_NOTE_CSR "the name of a certificate signing request, or nothing"
#define NB_NOTE_ENDPOINT "HOST:PORT"
#define NB_NOTE_TOKEN_ID "six characters of a-z and 0-9, or nothing"
#define NB_NOTE_LINE "a line of text"
#define NB_NOTE_CLOUD "the name of a cloud"

bool nb_note_is_csr_name_or_empty(const char *text);
bool nb_note_is_endpoint(const char *text);
bool nb_note_is_token_id_or_empty(const char *text);
bool nb_note_is_line(const char *text);
bool nb_note_is_filled_line(const char *text);
bool nb_note_is_node_name(const char *text);
bool nb_note_is_time(const char *text);
bool nb_note_is_cloud(const char *text);

/* --- Reading; `code` of the document where the member has none --- */

int nb_note_open(const char *text, size_t len, const char *what, enum nb_code code, struct nb_json *ret_json, struct nb_failure *f);
int nb_note_check_version(const struct nb_json *json, struct nb_failure *f);
int nb_note_get_text(const struct nb_json *json, const char *key, const char **ret, size_t *ret_len, struct nb_failure *f);
int nb_note_take_member(const struct nb_json *json, const struct nb_note_member *member, void *ret, struct nb_failure *f);
int nb_note_take_members(const struct nb_json *json, const struct nb_note_member *members, size_t n_members, void *ret, struct nb_failure *f);

/* 1: it stands there; 0: it does not, and *ret is as it was. */
int nb_note_take_optional(const struct nb_json *json, const struct nb_note_member *member, void *ret, struct nb_failure *f);

/* The keys of a note beside those in its table. */
struct nb_note_keys {
        const struct nb_json *json;
        const struct nb_note_member *members;
        size_t n_members;
        const char *const *others; /* ends with NULL */
};

int nb_note_check_keys(struct nb_note_keys *keys, struct nb_failure *f);

/* --- Writing: 0, -E2BIG, -ENOMEM --- */

int nb_note_write_start(struct nb_buffer *ret);
int nb_note_write_text(struct nb_buffer *ret, const char *key, const char *text);
int nb_note_write_members(struct nb_buffer *ret, const struct nb_note_member *members, size_t n_members, const void *from);
int nb_note_write_optional(struct nb_buffer *ret, const struct nb_note_member *members, size_t n_members, const void *from); /* those that are not "" */
int nb_note_write_end(struct nb_buffer *ret);
