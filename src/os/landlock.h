/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Landlock (landlock(7)): what this process and those that it starts may still access. It cannot be
 * undone. */

#include <stddef.h>
#include <stdint.h>

/* From linux/landlock.h of Linux 6.12; older headers lack the later members. */
struct nb_landlock {
        uint64_t fs, net, scoped; /* what is forbidden, unless a rule permits it */
};
#define NB_LANDLOCK_EXECUTE (UINT64_C(1) << 0)
#define NB_LANDLOCK_WRITE_FILE (UINT64_C(1) << 1)
#define NB_LANDLOCK_READ_FILE (UINT64_C(1) << 2)
#define NB_LANDLOCK_READ_DIR (UINT64_C(1) << 3)
#define NB_LANDLOCK_REMOVE_AND_MAKE (UINT64_C(0x1ff) << 4)        /* REMOVE_DIR to MAKE_SYM */
#define NB_LANDLOCK_TRUNCATE (UINT64_C(1) << 14)                  /* from version 3 on */
#define NB_LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET (UINT64_C(1) << 0) /* from version 6 on */
#define NB_LANDLOCK_SCOPE_SIGNAL (UINT64_C(1) << 1)               /* likewise */

struct nb_landlock_rule {
        const char *path; /* of a file or directory; follows links; skipped if it does not exist */
        uint64_t fs;      /* what is permitted there */
};

/* The version that the kernel offers; 0 if it has none; -errno if it refuses the question. */
int nb_landlock_version(void);

/* Needs no_new_privs. 1; 0 on a kernel without Landlock; -errno. */
int nb_landlock_restrict(const struct nb_landlock *forbidden, const struct nb_landlock_rule *rules,
                         size_t n);
