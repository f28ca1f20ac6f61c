/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/secret.h"

static size_t mapping_size(size_t size) {
        size_t page = (size_t)sysconf(_SC_PAGESIZE);

        return (size + 1 + page - 1) / page * page;
}

int nb_secret_init(struct nb_secret *ret_secret, size_t size) {
        size_t mapped = mapping_size(size);
        char *data;

        data = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (data == MAP_FAILED)
                return -ENOMEM;
        /* Best effort: RLIMIT_MEMLOCK may be 0 for a user without privileges. The secret can then
         * be swapped out if the administrator has enabled swap. */
        (void)mlock(data, mapped);
        (void)madvise(data, mapped, MADV_DONTDUMP);
        (void)madvise(data, mapped, MADV_WIPEONFORK);
        *ret_secret = (struct nb_secret){ .data = data, .len = 0, .size = size };
        return 0;
}

int nb_secret_join(struct nb_secret *ret_secret, const char *prefix, const void *data, size_t len) {
        int r = nb_secret_init(ret_secret, strlen(prefix) + len);

        if (r < 0)
                return r;
        (void)nb_secret_append(ret_secret, prefix, strlen(prefix));
        return nb_secret_append(ret_secret, data, len);
}

int nb_secret_copy(struct nb_secret *ret_secret, const void *data, size_t len) {
        return nb_secret_join(ret_secret, "", data, len);
}

int nb_secret_append(struct nb_secret *secret, const void *data, size_t len) {
        assert(secret->data);
        if (len > secret->size - secret->len)
                return -E2BIG;
        if (len > 0)
                memcpy(secret->data + secret->len, data, len);
        secret->len += len;
        secret->data[secret->len] = '\0';
        return 0;
}

void nb_secret_done(struct nb_secret *secret) {
        if (secret->data) {
                size_t mapped = mapping_size(secret->size);

                explicit_bzero(secret->data, mapped);
                (void)munmap(secret->data, mapped);
        }
        *secret = (struct nb_secret)NB_SECRET_INIT;
}
