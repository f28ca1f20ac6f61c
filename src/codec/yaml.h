/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Plain YAML documents as trees. Refused: aliases, anchors, tags, duplicate keys, keys that are not
 * scalars, NUL, a second document unless it is expected, and more than the limits below, which
 * apply to all documents together (libyaml has no such limits). */

#include <stdbool.h>
#include <stddef.h>

#include "base/failure.h"
#include "base/text.h"

#define NB_YAML_DEPTH_MAX 16
#define NB_YAML_NODES_MAX 10000
#define NB_YAML_DOCUMENTS_MAX 16
#define NB_YAML_FOREIGN_DEPTH_MAX 256 /* in the values that nb_yaml_parse_key() skips */
#define NB_YAML_KEYS_MAX 1000         /* in one mapping: each is compared with all before it */

enum nb_yaml_type {
        NB_YAML_SCALAR,
        NB_YAML_SEQUENCE,
        NB_YAML_MAPPING,
};

struct nb_yaml_node {
        enum nb_yaml_type type;
        unsigned line; /* from 1; for an entry of a mapping, the line of its key */
        bool is_plain; /* a scalar without quotes; only these can be null, bool or int */
        char *key;     /* in a mapping: this entry's key; otherwise NULL */
        char *value;   /* scalar, NUL-terminated; otherwise NULL */
        size_t value_len;
        struct nb_yaml_node *first; /* children of a sequence or mapping, in order */
        struct nb_yaml_node *next;
};

/*
 * Parses documents into trees that are linked by `next`. Leaves out documents without content;
 * *ret_documents is NULL if no document remains. `origin` names the documents in messages. `code`
 * is the failure that is set, except for lack of memory.
 */
int nb_yaml_parse(const char *origin, const char *data, size_t len, enum nb_code code,
                  unsigned max_documents, struct nb_yaml_node **ret_documents,
                  struct nb_failure *f);

/* Parses the value of one top-level key of a foreign document. *ret_value must be NULL on entry,
 * and stays NULL if there is no such key. The value is parsed as strictly as above; the rest may be
 * anything that libyaml accepts. */
int nb_yaml_parse_key(const char *origin, const char *data, size_t len, enum nb_code code,
                      const char *key, struct nb_yaml_node **ret_value, struct nb_failure *f);

/* Also frees the nodes that follow by `next`. */
void nb_yaml_free(struct nb_yaml_node *root);
void nb_yaml_freep(struct nb_yaml_node **root);

/* The entry of a mapping, or NULL. */
const struct nb_yaml_node *nb_yaml_get(const struct nb_yaml_node *mapping, const char *key);

/* A plain scalar that is empty, ~ or null, or a missing node. */
bool nb_yaml_is_null(const struct nb_yaml_node *node);

/* A null, an empty scalar, or a list or mapping without entries. */
bool nb_yaml_is_empty(const struct nb_yaml_node *node);

/* The scalar of an entry; NULL if it is missing, empty or not a scalar. */
const char *nb_yaml_text(const struct nb_yaml_node *mapping, const char *key);

/* For messages: "a list", "a mapping", "nothing", "a boolean", "a number" (plain scalars, YAML 1.2
 * core schema), or "a string". */
const char *nb_yaml_type_name(const struct nb_yaml_node *node);
/* The same, or what nb_text_quote_value() shows of the value. */
const char *nb_yaml_describe(const struct nb_yaml_node *node, char ret[static NB_TEXT_QUOTED_SIZE]);
