/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A console that may have stopped to take output: flow control at its other end, a full buffer, nobody who reads. What
 * is written there is written elsewhere too, so that a join is held up by it for a moment and no longer.
 */

#include <stddef.h>

#define NB_CONSOLE_WAIT_MS 1000

/* From here on no write to the open file `fd` blocks, whoever else shares it. 0, -errno. */
int nb_console_init(int fd);

/* Writes all of it, and gives up once nothing has been taken for `wait_ms`: 0; -ETIMEDOUT; -errno. */
int nb_console_write(int fd, const char *text, size_t len, int wait_ms);
