/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Memory for a secret: mapped pages that hold nothing else, locked (best effort), excluded from
 * core dumps, wiped in a forked child, and zeroed before they are unmapped. It cannot grow, since
 * realloc leaves copies behind. */

#include <stddef.h>

struct nb_secret {
        char *data;  /* NUL-terminated; NULL when empty */
        size_t len;  /* bytes in use, without the NUL */
        size_t size; /* bytes that fit, without the NUL */
};

#define NB_SECRET_INIT \
        { NULL, 0, 0 }

/* Room for `size` bytes and a NUL. 0, or -ENOMEM. */
int nb_secret_init(struct nb_secret *ret_secret, size_t size);

/* A copy, with no room for more. 0, or -ENOMEM. */
int nb_secret_copy(struct nb_secret *ret_secret, const void *data, size_t len);

/* `prefix`, such as the name of a header, followed by a copy of the data, with no room for more. 0,
 * or -ENOMEM. */
int nb_secret_join(struct nb_secret *ret_secret, const char *prefix, const void *data, size_t len);

/* Appends; 0, or -E2BIG with nothing changed. */
int nb_secret_append(struct nb_secret *secret, const void *data, size_t len);

/* Zeroes and unmaps it. It may be empty. */
void nb_secret_done(struct nb_secret *secret);
