/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The one way in which memory grows with what another party sends: up to a ceiling that the owner names. Not for
 * secrets (see secret.h): growing leaves copies.
 */

#include <stddef.h>

struct nb_buffer {
        char *data; /* NUL-terminated once anything was appended; NULL before */
        size_t len; /* without the NUL */
        size_t allocated;
        size_t max; /* ceiling for len */
};

#define NB_BUFFER_INIT(ceiling) \
        { NULL, 0, 0, (ceiling) }

/* 0, -E2BIG past the ceiling, -ENOMEM; on failure nothing was appended. */
int nb_buffer_append(struct nb_buffer *buffer, const void *data, size_t len);
int nb_buffer_append_string(struct nb_buffer *buffer, const char *string);
int nb_buffer_printf(struct nb_buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Drops the first `len` bytes (a line that was dealt with). */
void nb_buffer_consume(struct nb_buffer *buffer, size_t len);

/* Empties, keeps the memory and the ceiling. */
void nb_buffer_clear(struct nb_buffer *buffer);
void nb_buffer_done(struct nb_buffer *buffer);
