/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/encoding.h"
#include "base/macro.h"
#include "codec/mime.h"

struct parsing {
        nb_mime_each each;
        void *userdata;
        unsigned n_parts;
        const char **ret_wrong;
};

/* The fields of a header that matter. */
struct header {
        char type[NB_MIME_TYPE_MAX + 1];
        char boundary[NB_MIME_BOUNDARY_MAX + 1]; /* "" for none */
        enum nb_mime_encoding encoding;
        bool has_type, has_encoding;
};

static int wrong(const struct parsing *parsing, const char *what) {
        *parsing->ret_wrong = what;
        return -EBADMSG;
}

static bool is_blank(char c) {
        return c == ' ' || c == '\t';
}

/* RFC 2045, 5.1. */
static bool is_token(char c) {
        return c > ' ' && c < 0x7f && !strchr("()<>@,;:\\\"/[]?=", c);
}

static size_t token_len(const char *text) {
        size_t len = 0;

        while (is_token(text[len]))
                len++;
        return len;
}

/* The length of the line at `text` without its end, and the start of the next line. */
static size_t line_len(const char *text, const char *end, const char **ret_next) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t len = (size_t)((newline ? newline : end) - text);

        *ret_next = newline ? newline + 1 : end;
        return newline && len > 0 && text[len - 1] == '\r' ? len - 1 : len;
}

/* Skips the line that tools for mail write first. */
static const char *skip_mailbox_line(const char *data, const char *end) {
        const char *next = data;

        if (end - data > 5 && memcmp(data, "From ", 5) == 0)
                (void)line_len(data, end, &next);
        return next;
}

/* --- Headers --- */

static bool is_field(const char *line, size_t len, const char *name) {
        size_t name_len = strlen(name);

        return len > name_len && line[name_len] == ':' && strncasecmp(line, name, name_len) == 0;
}

bool nb_mime_looks_like(const char *data, size_t len) {
        const char *line = skip_mailbox_line(data, data + len), *next;
        size_t n = line_len(line, data + len, &next);

        return is_field(line, n, "Content-Type") || is_field(line, n, "MIME-Version");
}

static const char *skip_blanks(const char *p) {
        return p + strspn(p, " \t");
}

/* The value of a parameter, a token or in quotes; NULL for anything else. It is part of a field, so
 * it fits. */
static const char *take_value(const char *p, char ret[static NB_MIME_FIELD_MAX + 1]) {
        bool is_quoted = *p == '"';
        size_t n = 0;

        for (p += is_quoted; is_quoted ? *p != '"' : is_token(*p); p++) {
                if (*p == '\\')
                        p++;
                if (!*p)
                        return NULL;
                ret[n++] = *p;
        }
        ret[n] = '\0';
        return n > 0 || is_quoted ? p + is_quoted : NULL;
}

/* Any number of `; name=value`, of which only the boundary matters. False for anything else. */
static bool parse_parameters(const char *p, struct header *header) {
        char value[NB_MIME_FIELD_MAX + 1];

        for (p = skip_blanks(p); *p == ';'; p = skip_blanks(p)) {
                const char *name = skip_blanks(p + 1);
                size_t len = token_len(name), value_len;

                /* Some writers end with a semicolon. */
                if (!*name)
                        return true;
                if (len == 0 || name[len] != '=')
                        return false;
                p = take_value(name + len + 1, value);
                if (!p)
                        return false;
                if (len != strlen("boundary") || strncasecmp(name, "boundary", len) != 0)
                        continue;
                value_len = strlen(value);
                if (value_len == 0 || value_len > NB_MIME_BOUNDARY_MAX ||
                    is_blank(value[value_len - 1]))
                        return false;
                memcpy(header->boundary, value, value_len + 1);
        }
        return !*p;
}

static int parse_type(const struct parsing *parsing, const char *text, struct header *header) {
        size_t type_len = token_len(text), subtype_len, len;

        if (header->has_type)
                return wrong(parsing, "a second Content-Type in a header");
        subtype_len = text[type_len] == '/' ? token_len(text + type_len + 1) : 0;
        len = type_len + 1 + subtype_len;
        if (type_len == 0 || subtype_len == 0 || len > NB_MIME_TYPE_MAX ||
            !strchr("; \t", text[len]) || !parse_parameters(text + len, header))
                return wrong(parsing, "an invalid Content-Type");
        for (size_t i = 0; i < len; i++)
                header->type[i] = (char)tolower((unsigned char)text[i]);
        header->type[len] = '\0';
        header->has_type = true;
        return 0;
}

static int parse_encoding(const struct parsing *parsing, const char *text, struct header *header) {
        static const char *const plain[] = { "7bit", "8bit", "binary" };
        size_t len = strcspn(text, " \t");
        char name[16] = "";

        if (header->has_encoding)
                return wrong(parsing, "a second Content-Transfer-Encoding in a header");
        header->has_encoding = true;
        if (len < sizeof(name) && !*skip_blanks(text + len))
                memcpy(name, text, len);
        header->encoding = strcasecmp(name, "base64") == 0 ? NB_MIME_BASE64 : NB_MIME_UNKNOWN;
        for (size_t i = 0; i < N_ELEMENTS(plain); i++)
                if (strcasecmp(name, plain[i]) == 0)
                        header->encoding = NB_MIME_PLAIN;
        return 0;
}

static int parse_field(const struct parsing *parsing, const char *field, size_t len,
                       struct header *header) {
        size_t name_len = token_len(field);
        const char *value;

        if (name_len == 0 || field[name_len] != ':')
                return wrong(parsing, "a header line that is not a field");
        value = skip_blanks(field + name_len + 1);
        if (is_field(field, len, "Content-Type"))
                return parse_type(parsing, value, header);
        if (is_field(field, len, "Content-Transfer-Encoding"))
                return parse_encoding(parsing, value, header);
        return 0;
}

/* Joins a field and its continuation lines in `ret`, and moves *next after them. */
static int unfold(const struct parsing *parsing, const char **next, const char *end,
                  char ret[static NB_MIME_FIELD_MAX + 1], size_t *ret_len) {
        size_t n = 0;

        do {
                const char *line = *next;
                size_t len = line_len(line, end, next);

                if (len > NB_MIME_FIELD_MAX - n)
                        return wrong(parsing, "a header field that is too long");
                if (memchr(line, '\0', len))
                        return wrong(parsing, "a NUL in a header");
                memcpy(ret + n, line, len);
                n += len;
        } while (*next < end && is_blank(**next));
        ret[n] = '\0';
        *ret_len = n;
        return 0;
}

/* Reads the fields up to the empty line. */
static int parse_header(const struct parsing *parsing, const char *data, const char *end,
                        struct header *ret_header, const char **ret_body) {
        struct header header = { .type = "text/plain" };
        char field[NB_MIME_FIELD_MAX + 1];
        const char *next = data, *after;
        size_t len;
        int r;

        for (unsigned n = 0; next < end; n++) {
                if (line_len(next, end, &after) == 0) {
                        next = after;
                        break;
                }
                if (n == NB_MIME_FIELDS_MAX)
                        return wrong(parsing, "too many header fields");
                r = unfold(parsing, &next, end, field, &len);
                if (r < 0)
                        return r;
                r = parse_field(parsing, field, len, &header);
                if (r < 0)
                        return r;
        }
        *ret_body = next;
        *ret_header = header;
        return 0;
}

/* --- Bodies --- */

static int parse_entity(struct parsing *parsing, const char *data, const char *end, unsigned depth);

/* Whether a line is the boundary: 1; 2 the last one; 0. */
static int is_boundary(const char *line, size_t len, const char *boundary) {
        size_t boundary_len = strlen(boundary);
        int kind = 1;

        if (len < 2 + boundary_len || memcmp(line, "--", 2) != 0 ||
            memcmp(line + 2, boundary, boundary_len) != 0)
                return 0;
        line += 2 + boundary_len;
        len -= 2 + boundary_len;
        if (len >= 2 && memcmp(line, "--", 2) == 0) {
                kind = 2;
                line += 2;
                len -= 2;
        }
        for (size_t i = 0; i < len; i++)
                if (!is_blank(line[i]))
                        return 0;
        return kind;
}

/* The line end before a boundary belongs to that. */
static const char *part_end(const char *start, const char *boundary_line) {
        const char *end = boundary_line;

        if (end > start && end[-1] == '\n')
                end--;
        if (end > start && end < boundary_line && end[-1] == '\r')
                end--;
        return end;
}

static int parse_multipart(struct parsing *parsing, const struct header *header, const char *body,
                           const char *end, unsigned depth) {
        const char *start = NULL, *next;
        int kind, r;

        if (!header->boundary[0])
                return wrong(parsing, "a multipart without a boundary");
        if (header->encoding != NB_MIME_PLAIN)
                return wrong(parsing, "a multipart with a Content-Transfer-Encoding");
        if (depth == NB_MIME_DEPTH_MAX)
                return wrong(parsing, "too many nested multiparts");
        for (const char *line = body; line < end; line = next) {
                size_t len = line_len(line, end, &next);

                kind = is_boundary(line, len, header->boundary);
                if (kind == 0)
                        continue;
                if (start) {
                        r = parse_entity(parsing, start, part_end(start, line), depth + 1);
                        if (r < 0)
                                return r;
                }
                if (kind == 2)
                        return 0;
                start = next;
        }
        return wrong(parsing,
                     start ? "a part without a closing boundary" : "a multipart without parts");
}

static int parse_entity(struct parsing *parsing, const char *data, const char *end,
                        unsigned depth) {
        struct nb_mime_part part = { 0 };
        struct header header;
        int r;

        r = parse_header(parsing, data, end, &header, &part.body);
        if (r < 0)
                return r;
        if (strncmp(header.type, "multipart/", strlen("multipart/")) == 0)
                return parse_multipart(parsing, &header, part.body, end, depth);
        if (parsing->n_parts == NB_MIME_PARTS_MAX)
                return wrong(parsing, "too many parts");
        part.number = ++parsing->n_parts;
        part.encoding = header.encoding;
        part.len = (size_t)(end - part.body);
        strcpy(part.type, header.type);
        return parsing->each(parsing->userdata, &part);
}

int nb_mime_parse(const char *data, size_t len, nb_mime_each each, void *userdata,
                  const char **ret_wrong) {
        struct parsing parsing = { .each = each, .userdata = userdata, .ret_wrong = ret_wrong };

        return parse_entity(&parsing, skip_mailbox_line(data, data + len), data + len, 0);
}

/* --- Encodings --- */

int nb_mime_decode_base64(const char *text, size_t len, struct nb_secret *ret) {
        _cleanup_(nb_secret_done) struct nb_secret digits = NB_SECRET_INIT, bytes = NB_SECRET_INIT;
        struct nb_buffer buffer;
        int r;

        if (nb_secret_init(&digits, len) < 0 || nb_secret_init(&bytes, len) < 0)
                return -ENOMEM;
        for (size_t i = 0; i < len; i++)
                if (!text[i] || !strchr(" \t\r\n", text[i]))
                        digits.data[digits.len++] = text[i];
        /* Decode into the secret itself, which is large enough, so that no copy is left. */
        buffer = (struct nb_buffer){ .data = bytes.data,
                                     .allocated = bytes.size + 1,
                                     .max = bytes.size };
        r = nb_base64_decode(digits.data, digits.len, &buffer);
        if (r < 0)
                return r == -EINVAL ? -EBADMSG : r;
        bytes.len = buffer.len;
        *ret = bytes;
        bytes = (struct nb_secret)NB_SECRET_INIT;
        return 0;
}
