/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded, it kills the process at its n-th call that changes something on disk or is about to:
 * crashes at every step, one after the other. /etc/e2e-die-at holds "PROGRAM N"; without it nothing
 * happens.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int left = -1;

__attribute__((constructor)) static void read_order(void) {
        char program[64];
        int number;
        FILE *f = fopen("/etc/e2e-die-at", "re");

        if (!f)
                return;
        if (fscanf(f, "%63s %d", program, &number) == 2 &&
            strcmp(program, program_invocation_short_name) == 0)
                left = number;
        fclose(f);
}

static void step(void) {
        if (left > 0 && --left == 0)
                kill(getpid(), SIGKILL);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define WRAP(name, params, args) \
        int name params { \
                step(); \
                return NEXT(name) args; \
        }

WRAP(fsync, (int fd), (fd))
WRAP(fdatasync, (int fd), (fd))
WRAP(fchmod, (int fd, mode_t mode), (fd, mode))
WRAP(rename, (const char *a, const char *b), (a, b))
WRAP(renameat, (int a, const char *b, int c, const char *d), (a, b, c, d))
WRAP(renameat2, (int a, const char *b, int c, const char *d, unsigned e), (a, b, c, d, e))
WRAP(linkat, (int a, const char *b, int c, const char *d, int e), (a, b, c, d, e))
WRAP(symlinkat, (const char *a, int b, const char *c), (a, b, c))
WRAP(unlink, (const char *a), (a))
WRAP(unlinkat, (int a, const char *b, int c), (a, b, c))
WRAP(mkdirat, (int a, const char *b, mode_t c), (a, b, c))

/* Opening counts where it creates. */
#define WRAP_OPEN(name) \
        int name(int fd, const char *path, int flags, ...) { \
                __builtin_va_list list; \
                __builtin_va_start(list, flags); \
                mode_t mode = flags & (O_CREAT | O_TMPFILE) ? __builtin_va_arg(list, mode_t) : 0; \
                __builtin_va_end(list); \
                if (flags & O_CREAT) \
                        step(); \
                return NEXT(name)(fd, path, flags, mode); \
        }

WRAP_OPEN(openat)
WRAP_OPEN(openat64)
