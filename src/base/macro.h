/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Ownership in scopes: `_cleanup_(nb_freep) char *s = NULL;`, and TAKE(s) where it is handed over. */

#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(f) __attribute__((cleanup(f)))
#define _unused_ __attribute__((unused))

#define TAKE(p) \
        ({ \
                __typeof__(p) _p = (p); \
                (p) = NULL; \
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
