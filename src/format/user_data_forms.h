/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The forms of user data that are more than a copy. Private to user_data*.c. */

#include <stdbool.h>
#include <stddef.h>

#include "base/failure.h"
#include "format/user_data.h"

#define NB_USER_DATA_WHERE_SIZE 192

/*
 * The value of node_bootstrap as a document by itself, each key in the line in which it stands in the cloud-config. 1; 0 without such a
 * key; NB_METADATA_MALFORMED.
 */
int nb_user_data_take_cloud_config(const char *where, const char *data, size_t len, struct nb_secret *ret_document, struct nb_failure *f);

/*
 * JSON. NB_USER_DATA_DOCUMENT or NB_USER_DATA_CREDENTIALS: that is for us, and is in `user_data`; 0: nothing is, and *ret_what says what
 * it is. NB_METADATA_MALFORMED.
 */
int nb_user_data_take_json(const char *where, const char *data, size_t len, struct nb_user_data *user_data, const char **ret_what,
                           struct nb_failure *f);

/* A line of block YAML at the margin. */
struct nb_user_data_line {
        const char *key, *value; /* without quotes and comment; NULL for none */
        size_t key_len, value_len;
        unsigned number; /* from 1 */
};

/* The one at *data, which is moved on; false at the end. `line` is empty at first. */
bool nb_user_data_next_line(const char **data, const char *end, struct nb_user_data_line *line);

/*
 * Text with nothing for us in it: what somebody who meant us got wrong, as nb_user_data.near_miss has it; "" where nobody did, as far as can be
 * told. Of the text it has nothing but words that are nearly those that were expected.
 */
void nb_user_data_find_near_miss(const char *data, size_t len, bool is_cloud_config, char *ret, size_t size);

bool nb_user_data_mentions(const char *data, size_t len, const char *text);

/* 0 or -ENOMEM. */
int nb_user_data_copy(const char *data, size_t len, struct nb_secret *ret);
