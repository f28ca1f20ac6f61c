/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/macro.h"

#define FIRST_ALLOCATION 256

void nb_buffer_append(struct nb_buffer *buffer, const void *data, size_t len) {
        size_t wanted = buffer->len + len + 1, size;
        char *grown;

        assert(buffer->len <= buffer->max);
        if (buffer->error < 0)
                return;
        if (len > buffer->max - buffer->len) {
                buffer->error = -E2BIG;
                return;
        }
        if (wanted > buffer->allocated) {
                size = buffer->allocated ? buffer->allocated : FIRST_ALLOCATION;
                while (size < wanted)
                        size *= 2;
                grown = realloc(buffer->data, size);
                if (!grown) {
                        buffer->error = -ENOMEM;
                        return;
                }
                buffer->data = grown;
                buffer->allocated = size;
        }
        if (len > 0)
                memcpy(buffer->data + buffer->len, data, len);
        buffer->len += len;
        buffer->data[buffer->len] = '\0';
}

void nb_buffer_append_string(struct nb_buffer *buffer, const char *string) {
        nb_buffer_append(buffer, string, strlen(string));
}

void nb_buffer_printf(struct nb_buffer *buffer, const char *format, ...) {
        _cleanup_(nb_freep) char *text = NULL;
        va_list arguments;
        int len;

        va_start(arguments, format);
        len = vasprintf(&text, format, arguments);
        va_end(arguments);
        if (len >= 0)
                nb_buffer_append(buffer, text, (size_t)len);
        else
                buffer->error = -ENOMEM;
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
        buffer->error = 0;
        if (buffer->data)
                buffer->data[0] = '\0';
}

void nb_buffer_done(struct nb_buffer *buffer) {
        free(buffer->data);
        *buffer = (struct nb_buffer)NB_BUFFER_INIT(buffer->max);
}

void nb_buffer_wipe(struct nb_buffer *buffer) {
        if (buffer->data)
                explicit_bzero(buffer->data, buffer->allocated);
        nb_buffer_done(buffer);
}
