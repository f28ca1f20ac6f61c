/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One line at the foot of a terminal that is rewritten in place: what a command is waiting for.
 * Nothing is drawn if the descriptor is no terminal, if escape sequences are unwanted, or while
 * another job is in the foreground. log.c removes the line before it prints and draws it again.
 */

#include <stdbool.h>
#include <stddef.h>

/* True on a terminal, unless TERM=dumb or NO_COLOR is set. */
bool nb_terminal_takes_escapes(int fd);

/* How many bytes of a UTF-8 text fit into so many columns. */
size_t nb_terminal_cut(const char *text, size_t columns);

/* False if no line will be drawn. */
bool nb_terminal_line_begin(int fd);

/* One line of printable text; "" removes it. */
void nb_terminal_line_set(const char *text);

/* Call them around any other output to the terminal. */
void nb_terminal_line_hide(void);
void nb_terminal_line_show(void);

void nb_terminal_line_end(void);

/*
 * The console of a machine may stop taking output: flow control at its other end, a full buffer, or
 * nobody who reads. Whatever is written there is written elsewhere, too, so it must not hold up a
 * join for longer than a moment.
 */
#define NB_CONSOLE_WAIT_MS 1000

/* Makes writes to the open file `fd` non-blocking, for every process that shares it. 0, -errno. */
int nb_console_init(int fd);

/* Writes all of it; gives up when nothing has been accepted for `wait_ms`: -ETIMEDOUT. 0, -errno.
 */
int nb_console_write(int fd, const char *text, size_t len, int wait_ms);
