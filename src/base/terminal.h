/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One line at the foot of a terminal, redrawn in place each second: what is waited for, and for how long. It is for who has typed the command. Where
 * the descriptor is no terminal, or one that another job has (as a unit's StandardError=tty), or where escape sequences are unwanted, nothing
 * of it is written. log.c keeps its lines and this one apart.
 */

#include <stdbool.h>
#include <stdint.h>

#define NB_TERMINAL_LINE_SIZE 1024
#define NB_TERMINAL_WAITING "Waiting since " /* so begins what STATUS= says of a wait, with date, time and " UTC" after it */

/* It is a terminal, and neither TERM=dumb nor NO_COLOR says that it takes no escape sequences. */
bool nb_terminal_takes_escapes(int fd);

/* The line for a terminal of so many columns; pure. "Waiting since DATE UTC for X" becomes "Waiting 12 s for X", any other text "X, 12 s". */
void nb_terminal_line_format(const char *text, uint64_t elapsed_ms, unsigned columns, char ret[static NB_TERMINAL_LINE_SIZE]);

/* Draws it from now on. 1; 0 when there is to be none; -errno. */
int nb_terminal_line_begin(int fd);

/* What is waited for. The time begins anew, unless it is the same wait by its date. */
void nb_terminal_line_set(const char *text);

/* Around whatever else is written to the terminal. */
void nb_terminal_line_hide(void);
void nb_terminal_line_show(void);

/* Takes it away. */
void nb_terminal_line_end(void);
