/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A secret has one address, one length and one end: mapped pages of its own, locked (best effort), left out of
 * core dumps, wiped in a forked child, zeroed before they are unmapped. There is no way to grow one, since realloc
 * leaves copies behind.
 */

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

/* Appends; 0, or -E2BIG with nothing changed. */
int nb_secret_append(struct nb_secret *secret, const void *data, size_t len);

/* Zeroes, unmaps and empties; also fine on an empty one. */
void nb_secret_done(struct nb_secret *secret);
