/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/encoding.h"
#include "base/macro.h"
#include "codec/mime.h"

#define BLANKS " \t"
/* RFC 2045, 5.1. */
#define TOKEN "!#$%&'*+-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ^_`abcdefghijklmnopqrstuvwxyz{|}~"

struct parsing {
        nb_mime_each each;
        void *userdata;
        unsigned n_parts;
        const char **ret_wrong;
};

/* The fields of a header that matter. */
struct header {
        char type[NB_MIME_TYPE_MAX + 1];         /* "" before it is read */
        char boundary[NB_MIME_BOUNDARY_MAX + 1]; /* "" for none */
        enum nb_mime_encoding encoding;
        bool has_encoding;
};

static bool is_blank(char c) {
        return c == ' ' || c == '\t';
}

/* The length of the line at `text` without its end, and the start of the next line. */
static size_t line_len(const char *text, const char *end, const char **ret_next) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t len = (size_t)((newline ? newline : end) - text);

        *ret_next = newline ? newline + 1 : end;
        return newline && len > 0 && text[len - 1] == '\r' ? len - 1 : len;
}

/* --- Headers. These return NULL, or what is wrong. --- */

static bool is_field(const char *line, size_t len, const char *name) {
        size_t name_len = strlen(name);

        return len > name_len && line[name_len] == ':' && strncasecmp(line, name, name_len) == 0;
}

bool nb_mime_looks_like(const char *data, size_t len) {
        return is_field(data, len, "Content-Type") || is_field(data, len, "MIME-Version");
}

/* Copies a parameter's value, which is a token or a quoted string. It fits, because it is part of a
 * field. Returns the text after the value; NULL if a quote is missing. */
static const char *take_value(const char *p, char ret[static NB_MIME_FIELD_MAX + 1]) {
        bool is_quoted = *p == '"';
        size_t n = 0;

        if (!is_quoted) {
                n = strspn(p, TOKEN);
                memcpy(ret, p, n);
                ret[n] = '\0';
                return p + n;
        }
        for (p++; *p && *p != '"'; p++) {
                p += *p == '\\' && p[1];
                ret[n++] = *p;
        }
        ret[n] = '\0';
        return *p ? p + 1 : NULL;
}

/* Parses any number of `; name=value` and keeps the boundary. Returns false for any other text. */
static bool parse_parameters(const char *p, struct header *header) {
        char value[NB_MIME_FIELD_MAX + 1];

        for (p += strspn(p, BLANKS); *p == ';'; p += strspn(p, BLANKS)) {
                const char *name = p + 1 + strspn(p + 1, BLANKS);
                size_t name_len = strspn(name, TOKEN), len;

                /* Some writers end with a semicolon. */
                if (!*name)
                        return true;
                if (name_len == 0 || name[name_len] != '=')
                        return false;
                p = take_value(name + name_len + 1, value);
                if (!p)
                        return false;
                if (strncasecmp(name, "boundary=", strlen("boundary=")) != 0)
                        continue;
                len = strlen(value);
                if (len == 0 || len > NB_MIME_BOUNDARY_MAX || is_blank(value[len - 1]))
                        return false;
                memcpy(header->boundary, value, len + 1);
        }
        return !*p;
}

static const char *parse_type(const char *text, struct header *header) {
        size_t type_len = strspn(text, TOKEN), subtype_len, len;

        if (header->type[0])
                return "a second Content-Type in a header";
        subtype_len = text[type_len] == '/' ? strspn(text + type_len + 1, TOKEN) : 0;
        len = type_len + 1 + subtype_len;
        if (type_len == 0 || subtype_len == 0 || len > NB_MIME_TYPE_MAX ||
            !strchr(";" BLANKS, text[len]) || !parse_parameters(text + len, header))
                return "an invalid Content-Type";
        for (size_t i = 0; i < len; i++)
                header->type[i] = (char)tolower((unsigned char)text[i]);
        return NULL;
}

static const char *parse_encoding(const char *text, struct header *header) {
        static const char *const plain[] = { "7bit", "8bit", "binary" };
        char name[16] = "", extra;

        if (header->has_encoding)
                return "a second Content-Transfer-Encoding in a header";
        header->has_encoding = true;
        header->encoding = NB_MIME_UNKNOWN;
        if (sscanf(text, "%15s %c", name, &extra) != 1)
                return NULL;
        if (strcasecmp(name, "base64") == 0)
                header->encoding = NB_MIME_BASE64;
        for (size_t i = 0; i < N_ELEMENTS(plain); i++)
                if (strcasecmp(name, plain[i]) == 0)
                        header->encoding = NB_MIME_PLAIN;
        return NULL;
}

/* Joins a field and its continuation lines in `ret`, and moves *next past them. */
static const char *unfold(const char **next, const char *end,
                          char ret[static NB_MIME_FIELD_MAX + 1]) {
        size_t n = 0;

        do {
                const char *line = *next;
                size_t len = line_len(line, end, next);

                if (len > NB_MIME_FIELD_MAX - n)
                        return "a header field that is too long";
                if (memchr(line, '\0', len))
                        return "a NUL in a header";
                memcpy(ret + n, line, len);
                n += len;
        } while (*next < end && is_blank(**next));
        ret[n] = '\0';
        return NULL;
}

/* Reads the fields up to the empty line, and moves *next past that line. */
static const char *parse_header(const char **next, const char *end, struct header *header) {
        char field[NB_MIME_FIELD_MAX + 1] = "";
        const char *after, *value, *wrong = NULL;
        size_t len;

        for (unsigned n = 0; *next < end && !wrong; n++) {
                if (line_len(*next, end, &after) == 0) {
                        *next = after;
                        break;
                }
                if (n == NB_MIME_FIELDS_MAX)
                        return "too many header fields";
                wrong = unfold(next, end, field);
                if (wrong)
                        return wrong;
                len = strspn(field, TOKEN);
                if (len == 0 || field[len] != ':')
                        return "a header line that is not a field";
                value = field + len + 1 + strspn(field + len + 1, BLANKS);
                if (is_field(field, len + 1, "Content-Type"))
                        wrong = parse_type(value, header);
                else if (is_field(field, len + 1, "Content-Transfer-Encoding"))
                        wrong = parse_encoding(value, header);
        }
        return wrong;
}

/* --- Bodies --- */

static int refuse(const struct parsing *parsing, const char *what) {
        *parsing->ret_wrong = what;
        return -EBADMSG;
}

static int parse_entity(struct parsing *parsing, const char *data, const char *end, unsigned depth);

/* 1: the line is the boundary; 2: it is the closing boundary; 0: neither. */
static int is_boundary(const char *line, size_t len, const char *boundary) {
        size_t boundary_len = 2 + strlen(boundary);

        while (len > 0 && is_blank(line[len - 1]))
                len--;
        if (len < boundary_len || memcmp(line, "--", 2) != 0 ||
            memcmp(line + 2, boundary, boundary_len - 2) != 0)
                return 0;
        if (len == boundary_len)
                return 1;
        return len == boundary_len + 2 && memcmp(line + boundary_len, "--", 2) == 0 ? 2 : 0;
}

static int parse_multipart(struct parsing *parsing, const struct header *header, const char *body,
                           const char *end, unsigned depth) {
        const char *start = NULL, *next, *part_end;
        int kind, r;

        if (!header->boundary[0])
                return refuse(parsing, "a multipart without a boundary");
        if (header->encoding != NB_MIME_PLAIN)
                return refuse(parsing, "a multipart with a Content-Transfer-Encoding");
        if (depth == NB_MIME_DEPTH_MAX)
                return refuse(parsing, "too many nested multiparts");
        for (const char *line = body; line < end; line = next) {
                kind = is_boundary(line, line_len(line, end, &next), header->boundary);
                if (kind == 0)
                        continue;
                if (start) {
                        /* The line end before a boundary belongs to the boundary. */
                        part_end = line > start ? line - 1 : line;
                        part_end -= part_end > start && part_end[-1] == '\r';
                        r = parse_entity(parsing, start, part_end, depth + 1);
                        if (r < 0)
                                return r;
                }
                if (kind == 2)
                        return 0;
                start = next;
        }
        return refuse(parsing,
                      start ? "a part without a closing boundary" : "a multipart without parts");
}

static int parse_entity(struct parsing *parsing, const char *data, const char *end,
                        unsigned depth) {
        struct header header = { 0 };
        const char *body = data, *wrong = parse_header(&body, end, &header);
        struct nb_mime_part part = { .body = body,
                                     .len = (size_t)(end - body),
                                     .encoding = header.encoding };

        if (wrong)
                return refuse(parsing, wrong);
        if (strncmp(header.type, "multipart/", strlen("multipart/")) == 0)
                return parse_multipart(parsing, &header, body, end, depth);
        if (parsing->n_parts == NB_MIME_PARTS_MAX)
                return refuse(parsing, "too many parts");
        part.number = ++parsing->n_parts;
        strcpy(part.type, header.type[0] ? header.type : "text/plain");
        return parsing->each(parsing->userdata, &part);
}

int nb_mime_parse(const char *data, size_t len, nb_mime_each each, void *userdata,
                  const char **ret_wrong) {
        struct parsing parsing = { .each = each, .userdata = userdata, .ret_wrong = ret_wrong };

        return parse_entity(&parsing, data, data + len, 0);
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
        *ret = TAKE(bytes);
        return 0;
}
