/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ZLIB_CONST /* makes next_in a const pointer */
#include <zlib.h>

#include "base/macro.h"
#include "codec/gunzip.h"

#define GZIP_ONLY (16 + MAX_WBITS) /* zlib.h: no other header is accepted */

/* Precedes each block that zlib allocates, so that release() knows how many bytes to zero. */
union block {
        size_t size;
        max_align_t alignment;
};

static void *allocate(void *opaque _unused_, unsigned n, unsigned size) {
        size_t len = (size_t)n * size;
        union block *block = calloc(1, sizeof(*block) + len);

        if (!block)
                return NULL;
        block->size = len;
        return block + 1;
}

static void release(void *opaque _unused_, void *address) {
        union block *block = (union block *)address - 1;

        explicit_bzero(address, block->size);
        free(block);
}

bool nb_gzip_looks_like(const char *data, size_t len) {
        static const char magic[] = { '\x1f', '\x8b' };

        return len >= sizeof(magic) && memcmp(data, magic, sizeof(magic)) == 0;
}

/* The output has room for one byte more than `max`; if that byte is used, the data exceeds the
 * limit. */
static int run(z_stream *stream, size_t max, struct nb_secret *output) {
        int r;

        stream->next_out = (unsigned char *)output->data;
        stream->avail_out = (unsigned)max + 1;
        do {
                r = inflate(stream, Z_FINISH);
                if (r == Z_MEM_ERROR)
                        return -ENOMEM;
                if (stream->avail_out == 0)
                        return -E2BIG;
                if (r != Z_STREAM_END)
                        return -EBADMSG;
        } while (stream->avail_in > 0 && inflateReset(stream) == Z_OK);
        output->len = max + 1 - stream->avail_out;
        output->data[output->len] = '\0';
        return 0;
}

int nb_gunzip(const char *data, size_t len, size_t max, struct nb_secret *ret) {
        _cleanup_(nb_secret_done) struct nb_secret output = NB_SECRET_INIT;
        z_stream stream = { .zalloc = allocate, .zfree = release };
        int r;

        r = nb_secret_init(&output, max + 1);
        if (r < 0)
                return r;
        stream.next_in = (const unsigned char *)data;
        stream.avail_in = (unsigned)len;
        if (inflateInit2(&stream, GZIP_ONLY) != Z_OK)
                return -ENOMEM;
        r = run(&stream, max, &output);
        (void)inflateEnd(&stream);
        if (r < 0)
                return r;
        *ret = TAKE(output);
        return 0;
}
