/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Lets allocations of our own code fail, one after the other (the linker's --wrap; libraries are
 * left alone): what an error path leaks, the address sanitizer then finds, and what it does not
 * check crashes.
 */

#include <stdbool.h>

/* From here on the k-th allocation fails, from 0. */
void allocation_fail(unsigned k);

/* Lets all succeed again; whether one was made to fail. */
bool allocation_stop(void);

/* Calls `run` with the first allocation failing, then the second, until all succeed. `run` cleans
 * up by itself; it has to return -ENOMEM when an allocation failed, and something that is no
 * failure in the end. */
void allocation_try_all(int (*run)(const void *input), const void *input);
