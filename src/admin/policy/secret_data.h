/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Secrets in kube-system, and the values in their `data`, which are base64. */

#include "base/buffer.h"
#include "codec/json.h"

/* Appends the decoded bytes of data.KEY, if there is one. 0 or ret->error. */
int nb_secret_data_decode(struct nb_json *json, const char *key, struct nb_buffer *ret);

/* Decodes data.KEY; leaves `ret` an empty text if there is none. `expected` describes a value of at
 * most ret->max bytes. The failure does not quote the value. */
void nb_secret_data_read(struct nb_json *json, const char *key, const char *expected,
                         struct nb_buffer *ret);

/* Writes the beginning of a Secret; its metadata stays open for more. */
void nb_secret_begin(struct nb_json_writer *writer, const char *name);

/* Writes a value that is not "". */
void nb_secret_data_put(struct nb_json_writer *writer, const char *key, const char *value);
