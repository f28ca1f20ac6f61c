/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The texts in `data` of a ConfigMap or a Secret, and lists in such texts. */

#include <stdbool.h>
#include <stddef.h>

#include "codec/json.h"

#define NB_LIST_SIZE 4096
#define NB_ITEM_SIZE 256

/* Copies the next item of a list such as "a,b" (cut if it is too long for a DNS name or a prefix),
 * and moves *list to the one that follows, or to NULL. false if *list is NULL. */
bool nb_list_next(const char **list, char ret_item[static NB_ITEM_SIZE]);

/* Whether the text is an item of the list. */
bool nb_list_has(const char *list, const char *text);

/* A key, and the member of a struct that gets its text. */
struct nb_data_field {
        const char *key;
        const char *expected;               /* a description of the value */
        bool (*is_valid)(const char *text); /* the value, or each item of a list; NULL: any is */
        bool is_list;
        size_t offset, size;
};
#define NB_DATA_FIELD(type, member) offsetof(type, member), sizeof(((type *)NULL)->member)

/* Validates the text, and copies it into the struct. Whether it is valid. */
bool nb_data_set(const struct nb_data_field *field, const char *text, void *ret);

/* Reads all keys into the struct; in a Secret, values are base64. json->r is set with the code of
 * the document for an invalid value, and for an unknown key, which may be a limit that is
 * misspelled. */
void nb_data_read(struct nb_json *json, const struct nb_data_field *fields, size_t n,
                  bool is_secret, void *ret);
