/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A buffer that grows up to a limit set by its owner, so that another party cannot make this
 * program use more memory. Not for secrets (see secret.h), since growing leaves copies. */

#include <stddef.h>

struct nb_buffer {
        char *data; /* NULL until something is appended; then NUL-terminated */
        size_t len; /* without the NUL */
        size_t allocated;
        size_t max; /* limit for len */
        int error;  /* 0; -E2BIG above the limit, -ENOMEM, or an error of a function that appends.
                       Once it is set, nothing more is appended */
};

#define NB_BUFFER_INIT(ceiling) \
        { NULL, 0, 0, (ceiling), 0 }
/* A buffer in an array: it never grows, so it may hold a secret. Not for nb_buffer_done(). */
#define NB_BUFFER_IN(array) \
        { (array), 0, sizeof(array), sizeof(array) - 1, 0 }

/* Append everything or nothing. Instead of each call, check `error` after the last one. */
void nb_buffer_append(struct nb_buffer *buffer, const void *data, size_t len);
void nb_buffer_append_string(struct nb_buffer *buffer, const char *string);
void nb_buffer_printf(struct nb_buffer *buffer, const char *format, ...)
        __attribute__((format(printf, 2, 3)));

/* Removes the first `len` bytes. */
void nb_buffer_consume(struct nb_buffer *buffer, size_t len);

/* Removes all data and the error; keeps the memory and the limit. */
void nb_buffer_clear(struct nb_buffer *buffer);
void nb_buffer_done(struct nb_buffer *buffer);
/* nb_buffer_done() for a buffer that held a secret. */
void nb_buffer_wipe(struct nb_buffer *buffer);
