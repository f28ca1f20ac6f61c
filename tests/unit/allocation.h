/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes allocations of our own code fail, one after the other (by the linker's --wrap, which does
 * not affect libraries). The address sanitizer then finds leaks on error paths, and a missing check
 * crashes.
 */

#include <stdbool.h>

/* Makes the k-th allocation from now on fail, counted from 0. */
void allocation_fail(unsigned k);

/* Makes all allocations succeed again. Returns whether one was made to fail. */
bool allocation_stop(void);

/* Calls `run` with the first allocation failing, then the second, until all succeed. `run` frees
 * what it allocates. It must return -ENOMEM if an allocation failed, and 0 or more in the end. */
void allocation_try_all(int (*run)(const void *input), const void *input);
