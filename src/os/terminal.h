/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a terminal can show, and a console that may stall. */

#include <stdbool.h>
#include <stddef.h>

/* True on a terminal, unless TERM=dumb or NO_COLOR is set. */
bool nb_terminal_takes_escapes(int fd);

/* With TERM=dumb, or in a locale that is set and is not UTF-8. */
bool nb_terminal_is_ascii(void);

/* The width of the terminal; 80 if there is none, or if it does not say. */
size_t nb_terminal_columns(int fd);

/*
 * A console may stop accepting output, because of flow control, a full buffer or a missing reader.
 * The journal has the same messages, so the console must not delay a join.
 */
#define NB_CONSOLE_WAIT_MS 1000

/* Makes writes to the open file `fd` non-blocking, for every process that shares it. 0, -errno. */
int nb_console_init(int fd);

/* Writes all data. 0; -ETIMEDOUT if the console accepts nothing for `wait_ms`; -errno. */
int nb_console_write(int fd, const char *text, size_t len, int wait_ms);
