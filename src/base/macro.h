/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Ownership by scope: `_cleanup_(nb_freep) char *s = NULL;`, and TAKE(s) to pass it on. */

#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(f) __attribute__((cleanup(f)))
#define _unused_ __attribute__((unused))

/* Returns the value of a variable and sets the variable to zero. For pointers, and for structs that
 * own nothing when they are zero. */
#define TAKE(p) \
        ({ \
                __typeof__(p) _p = (p); \
                (p) = (__typeof__(p)){ 0 }; \
                _p; \
        })

#define TAKE_FD(fd) \
        ({ \
                int _fd = (fd); \
                (fd) = -1; \
                _fd; \
        })

#define N_ELEMENTS(a) (sizeof(a) / sizeof((a)[0]))

static inline void nb_freep(void *p) {
        free(*(void **)p);
}

static inline void nb_closep(const int *fd) {
        if (*fd >= 0)
                (void)close(*fd);
}
