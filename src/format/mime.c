/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/encoding.h"
#include "base/macro.h"
#include "format/mime.h"

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

static size_t token_len(const char *text, const char *end) {
        const char *p = text;

        while (p < end && is_token(*p))
                p++;
        return (size_t)(p - text);
}

/* A line from `text` on, without its end; *ret_next: behind that. */
static size_t line_len(const char *text, const char *end, const char **ret_next) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t len = (size_t)((newline ? newline : end) - text);

        *ret_next = newline ? newline + 1 : end;
        return newline && len > 0 && text[len - 1] == '\r' ? len - 1 : len;
}

/* --- Headers --- */

static bool is_field(const char *line, size_t len, const char *name) {
        size_t name_len = strlen(name);

        return len > name_len && line[name_len] == ':' && strncasecmp(line, name, name_len) == 0;
}

bool nb_mime_is_meant(const char *data, size_t len) {
        const char *line = data, *end = data + len, *next;
        size_t n;

        n = line_len(line, end, &next);
        /* What tools that write mail put before it. */
        if (n > 5 && memcmp(line, "From ", 5) == 0) {
                line = next;
                n = line_len(line, end, &next);
        }
        return is_field(line, n, "Content-Type") || is_field(line, n, "MIME-Version");
}

static const char *skip_blanks(const char *p) {
        return p + strspn(p, " \t");
}

/* The value of a parameter, a token or in quotes; NULL when it is neither, or too long. */
static const char *take_value(const char *p, char *ret, size_t size) {
        size_t n = 0;

        if (*p != '"') {
                n = token_len(p, p + strlen(p));
                if (n == 0 || n >= size)
                        return NULL;
                memcpy(ret, p, n);
                ret[n] = '\0';
                return p + n;
        }
        for (p++; *p != '"'; p++) {
                if (*p == '\\')
                        p++;
                if (!*p || n + 1 >= size)
                        return NULL;
                ret[n++] = *p;
        }
        ret[n] = '\0';
        return p + 1;
}

/* `; name=value` as often as it stands there; of them only the boundary matters. False for anything else. */
static bool parse_parameters(const char *p, struct header *header) {
        char value[NB_MIME_FIELD_MAX + 1];

        for (p = skip_blanks(p); *p == ';'; p = skip_blanks(p)) {
                const char *name = skip_blanks(p + 1);
                size_t len = token_len(name, name + strlen(name));
                bool is_boundary = len == strlen("boundary") && strncasecmp(name, "boundary", len) == 0;

                /* Some writers end with a semicolon. */
                if (!*name)
                        return true;
                if (len == 0 || name[len] != '=')
                        return false;
                p = is_boundary ? take_value(name + len + 1, header->boundary, sizeof(header->boundary))
                                : take_value(name + len + 1, value, sizeof(value));
                if (!p || (is_boundary && (!header->boundary[0] || is_blank(header->boundary[strlen(header->boundary) - 1]))))
                        return false;
        }
        return !*p;
}

static int parse_type(const struct parsing *parsing, const char *text, struct header *header) {
        static const char unreadable[] = "a Content-Type that cannot be read";
        const char *p = skip_blanks(text);
        size_t len = strcspn(p, "; \t"), type_len = token_len(p, p + len);

        if (header->has_type)
                return wrong(parsing, "a second Content-Type in a header");
        if (len > NB_MIME_TYPE_MAX || type_len == 0 || p[type_len] != '/' || token_len(p + type_len + 1, p + len) + type_len + 1 != len ||
            len == type_len + 1 || !parse_parameters(p + len, header))
                return wrong(parsing, unreadable);
        for (size_t i = 0; i < len; i++)
                header->type[i] = (char)tolower((unsigned char)p[i]);
        header->type[len] = '\0';
        header->has_type = true;
        return 0;
}

static int parse_encoding(const struct parsing *parsing, const char *text, struct header *header) {
        static const struct {
                const char *name;
                enum nb_mime_encoding encoding;
        } encodings[] = { { "7bit", NB_MIME_PLAIN },
                          { "8bit", NB_MIME_PLAIN },
                          { "binary", NB_MIME_PLAIN },
                          { "quoted-printable", NB_MIME_QUOTED_PRINTABLE },
                          { "base64", NB_MIME_BASE64 } };
        const char *p = skip_blanks(text);
        size_t len = strcspn(p, " \t");

        if (header->has_encoding)
                return wrong(parsing, "a second Content-Transfer-Encoding in a header");
        header->has_encoding = true;
        header->encoding = NB_MIME_UNKNOWN;
        for (size_t i = 0; i < N_ELEMENTS(encodings); i++)
                if (strlen(encodings[i].name) == len && strncasecmp(encodings[i].name, p, len) == 0 && !*skip_blanks(p + len))
                        header->encoding = encodings[i].encoding;
        return 0;
}

static int parse_field(const struct parsing *parsing, const char *field, size_t len, struct header *header) {
        size_t name_len = token_len(field, field + len);

        if (name_len == 0 || field[name_len] != ':')
                return wrong(parsing, "a line in a header that is no field");
        if (is_field(field, len, "Content-Type"))
                return parse_type(parsing, field + name_len + 1, header);
        if (is_field(field, len, "Content-Transfer-Encoding"))
                return parse_encoding(parsing, field + name_len + 1, header);
        return 0;
}

/* One field with the lines that go on with it, in `ret`. The lines after it begin at *next. */
static int unfold(const struct parsing *parsing, const char **next, const char *end, char ret[static NB_MIME_FIELD_MAX + 1], size_t *ret_len) {
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

/* Up to the line that is empty; *ret_body: behind it. */
static int parse_header(const struct parsing *parsing, const char *data, const char *end, struct header *ret_header, const char **ret_body) {
        struct header header = { .type = "text/plain" };
        char field[NB_MIME_FIELD_MAX + 1];
        const char *next = data, *after;
        size_t len;
        int r;

        for (unsigned n = 0; next < end; n++) {
                if (line_len(next, end, &after) == 0) {
                        *ret_body = after;
                        *ret_header = header;
                        return 0;
                }
                if (n == NB_MIME_FIELDS_MAX)
                        return wrong(parsing, "more header fields than there may be");
                r = unfold(parsing, &next, end, field, &len);
                if (r >= 0)
                        r = parse_field(parsing, field, len, &header);
                if (r < 0)
                        return r;
        }
        *ret_body = end;
        *ret_header = header;
        return 0;
}

/* --- Bodies --- */

static int parse_entity(struct parsing *parsing, const char *data, const char *end, unsigned depth);

/* Whether a line is the boundary: 1; 2 the last one; 0. */
static int is_boundary(const char *line, size_t len, const char *boundary) {
        size_t boundary_len = strlen(boundary);
        int kind = 1;

        if (len < 2 + boundary_len || memcmp(line, "--", 2) != 0 || memcmp(line + 2, boundary, boundary_len) != 0)
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

static int parse_multipart(struct parsing *parsing, const struct header *header, const char *body, const char *end, unsigned depth) {
        const char *start = NULL, *next;
        int kind, r;

        if (!header->boundary[0])
                return wrong(parsing, "a multipart without a boundary");
        if (header->encoding != NB_MIME_PLAIN)
                return wrong(parsing, "a multipart that is encoded as a whole");
        if (depth == NB_MIME_DEPTH_MAX)
                return wrong(parsing, "more multiparts in each other than there may be");
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
        return wrong(parsing, start ? "a part without an end" : "a multipart without parts");
}

static int parse_entity(struct parsing *parsing, const char *data, const char *end, unsigned depth) {
        struct nb_mime_part part = { 0 };
        struct header header;
        int r;

        r = parse_header(parsing, data, end, &header, &part.body);
        if (r < 0)
                return r;
        if (strncmp(header.type, "multipart/", strlen("multipart/")) == 0)
                return parse_multipart(parsing, &header, part.body, end, depth);
        if (parsing->n_parts == NB_MIME_PARTS_MAX)
                return wrong(parsing, "more parts than there may be");
        part.number = ++parsing->n_parts;
        part.encoding = header.encoding;
        part.len = (size_t)(end - part.body);
        (void)strcpy(part.type, header.type);
        return parsing->each(parsing->userdata, &part);
}

int nb_mime_parse(const char *data, size_t len, nb_mime_each each, void *userdata, const char **ret_wrong) {
        struct parsing parsing = { .each = each, .userdata = userdata, .ret_wrong = ret_wrong };
        const char *start = data;

        if (len > 5 && memcmp(data, "From ", 5) == 0)
                (void)line_len(data, data + len, &start);
        return parse_entity(&parsing, start, data + len, 0);
}

/* --- Encodings --- */

static bool is_space(char c) {
        return is_blank(c) || c == '\r' || c == '\n';
}

int nb_mime_decode_base64(const char *text, size_t len, struct nb_secret *ret) {
        _cleanup_(nb_secret_done) struct nb_secret digits = NB_SECRET_INIT, bytes = NB_SECRET_INIT;
        struct nb_buffer buffer;
        int r;

        r = nb_secret_init(&digits, len);
        if (r >= 0)
                r = nb_secret_init(&bytes, len);
        if (r < 0)
                return r;
        for (size_t i = 0; i < len; i++)
                if (!is_space(text[i]))
                        digits.data[digits.len++] = text[i];
        /* It never grows past what is there, so that nothing of it is copied about. */
        buffer = (struct nb_buffer){ .data = bytes.data, .allocated = bytes.size + 1, .max = bytes.size };
        r = nb_base64_decode(digits.data, digits.len, &buffer);
        if (r < 0)
                return r == -EINVAL ? -EBADMSG : r;
        bytes.len = buffer.len;
        *ret = bytes;
        bytes = (struct nb_secret)NB_SECRET_INIT;
        return 0;
}

/* RFC 2045, 6.7: one line into `ret`. False for what is not of this encoding. */
static bool decode_line(const char *line, size_t len, const char *line_end, size_t line_end_len, struct nb_secret *ret) {
        while (len > 0 && is_blank(line[len - 1]))
                len--;
        for (size_t i = 0; i < len; i++) {
                uint8_t byte = (uint8_t)line[i];

                if (byte == '=' && i + 1 == len)
                        return true;
                if (byte == '=') {
                        if (len - i < 3 || nb_hex_decode(line + i + 1, 2, &byte, 1) < 0)
                                return false;
                        i += 2;
                } else if ((byte < ' ' && byte != '\t') || byte > '~')
                        return false;
                if (nb_secret_append(ret, &byte, 1) < 0)
                        return false;
        }
        return nb_secret_append(ret, line_end, line_end_len) >= 0;
}

static int decode_quoted_printable(const char *text, size_t len, struct nb_secret *ret) {
        _cleanup_(nb_secret_done) struct nb_secret bytes = NB_SECRET_INIT;
        const char *end = text + len, *next;
        int r;

        r = nb_secret_init(&bytes, len);
        if (r < 0)
                return r;
        for (const char *line = text; line < end; line = next) {
                size_t n = line_len(line, end, &next);

                if (!decode_line(line, n, line + n, (size_t)(next - line) - n, &bytes))
                        return -EBADMSG;
        }
        *ret = bytes;
        bytes = (struct nb_secret)NB_SECRET_INIT;
        return 0;
}

static int copy(const char *text, size_t len, struct nb_secret *ret) {
        int r = nb_secret_init(ret, len);

        return r < 0 ? r : nb_secret_append(ret, text, len);
}

int nb_mime_decode(const struct nb_mime_part *part, struct nb_secret *ret) {
        switch (part->encoding) {
        case NB_MIME_PLAIN:
                return copy(part->body, part->len, ret);
        case NB_MIME_QUOTED_PRINTABLE:
                return decode_quoted_printable(part->body, part->len, ret);
        case NB_MIME_BASE64:
                return nb_mime_decode_base64(part->body, part->len, ret);
        case NB_MIME_UNKNOWN:
        default:
                return -EBADMSG;
        }
}
