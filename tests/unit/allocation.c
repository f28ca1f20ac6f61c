/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <sys/mman.h>

#include "allocation.h"
#include "case.h"

static bool is_armed, has_failed;
static unsigned left;

void allocation_fail(unsigned k) {
        left = k;
        has_failed = false;
        is_armed = true;
}

bool allocation_stop(void) {
        is_armed = false;
        return has_failed;
}

static bool fails(void) {
        if (!is_armed || has_failed || left-- > 0)
                return false;
        has_failed = true;
        errno = ENOMEM;
        return true;
}

void allocation_try_all(int (*run)(const void *input), const void *input) {
        for (unsigned k = 0;; k++) {
                int r;

                allocation_fail(k);
                r = run(input);
                if (!allocation_stop()) {
                        assert_true(r >= 0);
                        return;
                }
                assert_int_equal(r, -ENOMEM);
        }
}

#define WRAP(type, name, parameters, arguments, failed) \
        type __real_##name parameters; \
        type __wrap_##name parameters; \
        type __wrap_##name parameters { \
                return fails() ? failed : __real_##name arguments; \
        }

WRAP(void *, malloc, (size_t size), (size), NULL)
WRAP(void *, calloc, (size_t n, size_t size), (n, size), NULL)
WRAP(void *, realloc, (void *p, size_t size), (p, size), NULL)
WRAP(char *, strdup, (const char *text), (text), NULL)
WRAP(char *, strndup, (const char *text, size_t len), (text, len), NULL)
WRAP(void *, mmap, (void *address, size_t len, int protection, int flags, int fd, off_t offset),
     (address, len, protection, flags, fd, offset), MAP_FAILED)
WRAP(void *, mmap64, (void *address, size_t len, int protection, int flags, int fd, off_t offset),
     (address, len, protection, flags, fd, offset), MAP_FAILED)
