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

bool nb_user_data_mentions(const char *data, size_t len, const char *text);

/* 0 or -ENOMEM. */
int nb_user_data_copy(const char *data, size_t len, struct nb_secret *ret);
