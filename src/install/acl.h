/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One entry of a POSIX access control list (acl(5)), as the kernel takes it
 * (linux/posix_acl_xattr.h): mode 0600, and one more user who may read.
 */

#include <sys/types.h>

/* Of an open file that nobody else has a name for yet. 0; -EOPNOTSUPP where the file system has no
 * such lists; -errno. */
int nb_acl_let_read(int fd, uid_t reader);
