/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/file.h"
#include "folder.h"

/* valgrind does not know openat2(2), without which nothing can be looked up below a root. */
static inline void folder_skip_without_lookup(void) {
        int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int fd = nb_path_open(root_fd, "/", O_RDONLY | O_DIRECTORY);

        (void)close(root_fd);
        if (fd == -ENOSYS)
                skip();
        (void)close(fd);
}
