/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A folder for one test, used as a machine's root. */

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "case.h"

struct folder {
        char path[64];
        int fd;
};

static inline int folder_remove_one(const char *path, const struct stat *st, int type,
                                    struct FTW *where) {
        return remove(path);
}

static inline bool folder_make_below(struct folder *folder, const char *parent) {
        (void)snprintf(folder->path, sizeof(folder->path), "%s/node-bootstrap-test-XXXXXX", parent);
        if (!mkdtemp(folder->path))
                return false;
        folder->fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(folder->fd >= 0);
        return true;
}

static inline void folder_make(struct folder *folder) {
        assert_true(folder_make_below(folder, "/tmp"));
}

/* For thousands of fsync(2), which take a minute on a busy disk. Programs may not run there. */
static inline void folder_make_in_memory(struct folder *folder) {
        if (!folder_make_below(folder, "/dev/shm"))
                folder_make(folder);
}

static inline void folder_remove(struct folder *folder) {
        assert_int_equal(close(folder->fd), 0);
        assert_int_equal(nftw(folder->path, folder_remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/* `path` as it would be on the machine, with its folders. */
static inline void folder_locate(const struct folder *folder, const char *path,
                                 char ret[static PATH_MAX]) {
        assert_true(snprintf(ret, PATH_MAX, "%s%s", folder->path, path) < PATH_MAX);
        for (char *slash = strchr(ret + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
                *slash = '\0';
                (void)mkdir(ret, 0755);
                *slash = '/';
        }
}

static inline void folder_put(const struct folder *folder, const char *path, const char *text) {
        char full[PATH_MAX];
        FILE *file;

        folder_locate(folder, path, full);
        file = fopen(full, "we");
        assert_non_null(file);
        assert_true(fputs(text, file) >= 0);
        assert_int_equal(fclose(file), 0);
}

static inline void folder_link(const struct folder *folder, const char *path, const char *target) {
        char full[PATH_MAX];

        folder_locate(folder, path, full);
        assert_int_equal(symlink(target, full), 0);
}
