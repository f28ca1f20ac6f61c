/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/encoding.h"
#include "base/macro.h"
#include "crypto/pem.h"

#define BEGIN "-----BEGIN "
#define END "-----END "
#define DASHES "-----"

/* Finds `needle` at the beginning of a line, or NULL. */
static const char *find_line(const char *at, const char *start, const char *end,
                             const char *needle) {
        size_t len = strlen(needle);

        while ((at = memmem(at, (size_t)(end - at), needle, len))) {
                if (at == start || at[-1] == '\n')
                        return at;
                at += len;
        }
        return NULL;
}

/* Parses the label from `at` to the hyphens at the end of the line. */
static int parse_label(const char *at, const char *end, const char **ret_label, size_t *ret_len) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *line_end = newline ? newline : end;
        const char *dashes = memmem(at, (size_t)(line_end - at), DASHES, strlen(DASHES));

        if (!dashes || dashes == at)
                return -EINVAL;
        *ret_label = at;
        *ret_len = (size_t)(dashes - at);
        return 0;
}

/* Finds the end of the block with this label. The first line after BEGIN that starts with hyphens
 * must be its END line. */
static const char *find_end(const char *label, size_t label_len, const char *start,
                            const char *end) {
        const char *stop = find_line(label + label_len, start, end, DASHES), *end_label;
        size_t end_label_len;

        if (!stop || (size_t)(end - stop) < strlen(END) || memcmp(stop, END, strlen(END)) != 0)
                return NULL;
        if (parse_label(stop + strlen(END), end, &end_label, &end_label_len) < 0)
                return NULL;
        if (label_len != end_label_len || memcmp(label, end_label, label_len) != 0)
                return NULL;
        return end_label + end_label_len + strlen(DASHES);
}

int nb_pem_next(const char *pem, size_t len, size_t *offset, struct nb_pem_block *ret_block) {
        const char *at, *end, *begin, *stop, *label;
        size_t label_len;

        if (*offset >= len)
                return 0;
        at = pem + *offset;
        end = pem + len;
        begin = find_line(at, pem, end, BEGIN);
        if (!begin)
                return memchr(at, '\0', (size_t)(end - at)) ? -EINVAL : 0;
        if (parse_label(begin + strlen(BEGIN), end, &label, &label_len) < 0)
                return -EINVAL;
        stop = find_end(label, label_len, pem, end);
        if (!stop || memchr(at, '\0', (size_t)(stop - at)))
                return -EINVAL;
        *ret_block = (struct nb_pem_block){ label, label_len, begin, (size_t)(stop - begin) };
        *offset = (size_t)(stop - pem);
        return 1;
}

bool nb_pem_block_is(const struct nb_pem_block *block, const char *label) {
        return block->label_len == strlen(label) &&
               memcmp(block->label, label, block->label_len) == 0;
}

bool nb_pem_block_is_private_key(const struct nb_pem_block *block) {
        static const char type[] = "PRIVATE KEY";
        const char *at = block->label + block->label_len - strlen(type);

        return block->label_len >= strlen(type) && memcmp(at, type, strlen(type)) == 0 &&
               (at == block->label || at[-1] == ' ');
}

#define LINE_SIZE 128

/* Skips `line` at *at, up to and including its newline, which only the last line may lack. */
static bool skip_line(const char **at, const char *end, const char *line) {
        size_t len = strlen(line);

        if ((size_t)(end - *at) < len || memcmp(*at, line, len) != 0)
                return false;
        *at += len;
        if (*at == end)
                return true;
        return *(*at)++ == '\n';
}

int nb_pem_decode(const char *pem, size_t len, size_t *offset, const char *label,
                  struct nb_buffer *ret_der) {
        _cleanup_(nb_buffer_done) struct nb_buffer base64 = NB_BUFFER_INIT(ret_der->max * 2);
        const char *at = pem + *offset, *end = pem + len, *newline;
        char begin_line[LINE_SIZE], end_line[LINE_SIZE];
        int r;

        snprintf(begin_line, sizeof(begin_line), BEGIN "%s" DASHES, label);
        snprintf(end_line, sizeof(end_line), END "%s" DASHES, label);
        if (!skip_line(&at, end, begin_line))
                return -EINVAL;
        for (; at < end && *at != '-'; at = newline + 1) {
                newline = memchr(at, '\n', (size_t)(end - at));
                if (!newline)
                        return -EINVAL;
                nb_buffer_append(&base64, at, (size_t)(newline - at));
        }
        if (base64.error < 0)
                return base64.error;
        if (!skip_line(&at, end, end_line) || base64.len == 0)
                return -EINVAL;
        r = nb_base64_decode(base64.data, base64.len, ret_der);
        if (r < 0)
                return r;
        *offset = (size_t)(at - pem);
        return 0;
}
