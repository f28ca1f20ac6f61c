/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"

#define FIRST_ALLOCATION 256

static int make_room(struct nb_buffer *buffer, size_t len) {
        size_t wanted, size;
        char *data;

        if (len > buffer->max - buffer->len)
                return -E2BIG;
        wanted = buffer->len + len + 1;
        if (wanted <= buffer->allocated)
                return 0;
        size = buffer->allocated ? buffer->allocated : FIRST_ALLOCATION;
        while (size < wanted)
                size *= 2;
        data = realloc(buffer->data, size);
        if (!data)
                return -ENOMEM;
        buffer->data = data;
        buffer->allocated = size;
        return 0;
}

int nb_buffer_append(struct nb_buffer *buffer, const void *data, size_t len) {
        int r;

        assert(buffer->len <= buffer->max);
        r = make_room(buffer, len);
        if (r < 0)
                return r;
        if (len > 0)
                memcpy(buffer->data + buffer->len, data, len);
        buffer->len += len;
        buffer->data[buffer->len] = '\0';
        return 0;
}

int nb_buffer_append_string(struct nb_buffer *buffer, const char *string) {
        return nb_buffer_append(buffer, string, strlen(string));
}

int nb_buffer_printf(struct nb_buffer *buffer, const char *format, ...) {
        va_list arguments, again;
        int len, r;

        va_start(arguments, format);
        va_copy(again, arguments);
        len = vsnprintf(NULL, 0, format, arguments);
        va_end(arguments);
        r = len < 0 ? -EINVAL : make_room(buffer, (size_t)len);
        if (r >= 0) {
                vsnprintf(buffer->data + buffer->len, (size_t)len + 1, format, again);
                buffer->len += (size_t)len;
        }
        va_end(again);
        return r;
}

void nb_buffer_consume(struct nb_buffer *buffer, size_t len) {
        assert(len <= buffer->len);
        if (len == 0)
                return;
        memmove(buffer->data, buffer->data + len, buffer->len - len + 1);
        buffer->len -= len;
}

void nb_buffer_clear(struct nb_buffer *buffer) {
        buffer->len = 0;
        if (buffer->data)
                buffer->data[0] = '\0';
}

void nb_buffer_done(struct nb_buffer *buffer) {
        free(buffer->data);
        *buffer = (struct nb_buffer)NB_BUFFER_INIT(buffer->max);
}
