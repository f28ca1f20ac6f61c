/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Plain YAML documents as trees. Refused: aliases, anchors, tags, duplicate keys, keys that are not
 * scalars, NUL, a second document unless it is expected, and more than the limits below, which are
 * for all documents together (libyaml has none). */

#include <stdbool.h>
#include <stddef.h>

#include "base/failure.h"

#define NB_YAML_DEPTH_MAX 16
#define NB_YAML_NODES_MAX 10000
#define NB_YAML_DOCUMENTS_MAX 16
#define NB_YAML_FOREIGN_DEPTH_MAX 256 /* of what nb_yaml_parse_key() skips */
#define NB_YAML_KEYS_MAX 1000         /* in one mapping: each is compared with all before it */

enum nb_yaml_type {
        NB_YAML_SCALAR,
        NB_YAML_SEQUENCE,
        NB_YAML_MAPPING,
};

struct nb_yaml_node {
        enum nb_yaml_type type;
        unsigned line; /* from 1; in a mapping that of the key */
        bool is_plain; /* scalar without quotes: only such ones are null, bool or int */
        char *key;     /* in a mapping: this entry's key; otherwise NULL */
        char *value;   /* scalar, NUL-terminated; otherwise NULL */
        size_t value_len;
        struct nb_yaml_node *first; /* children of a sequence or mapping, in order */
        struct nb_yaml_node *next;
};

/*
 * The documents, linked by `next`, without those that have no content; NULL for none. `origin`
 * names them in messages; `code` is the failure that is set.
 */
int nb_yaml_parse(const char *origin, const char *data, size_t len, enum nb_code code,
                  unsigned max_documents, struct nb_yaml_node **ret_documents,
                  struct nb_failure *f);

/* The value of one key at the top of a foreign document, or NULL. The value is as strict as above;
 * the rest may be anything that libyaml accepts. */
int nb_yaml_parse_key(const char *origin, const char *data, size_t len, enum nb_code code,
                      const char *key, struct nb_yaml_node **ret_value, struct nb_failure *f);

/* Also frees the nodes that follow by `next`. */
void nb_yaml_free(struct nb_yaml_node *root);
void nb_yaml_freep(struct nb_yaml_node **root);

/* The entry of a mapping, or NULL. */
const struct nb_yaml_node *nb_yaml_get(const struct nb_yaml_node *mapping, const char *key);

/* A plain scalar that is empty, ~ or null, or a missing node. */
bool nb_yaml_is_null(const struct nb_yaml_node *node);

/* For messages: "a list", "a mapping", "nothing", "a boolean", "a number" (plain scalars, YAML 1.2
 * core schema), or "a string". */
const char *nb_yaml_type_name(const struct nb_yaml_node *node);
