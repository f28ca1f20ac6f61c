/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/macro.h"
#include "codec/gunzip.h"
#include "codec/json.h"
#include "codec/mime.h"
#include "codec/yaml.h"
#include "metadata/user_data.h"

#define KEY "node_bootstrap"
#define CLOUD_CONFIG "#cloud-config"
#define OWN_TYPE "application/vnd.node-bootstrap+yaml"
#define CLOUD_CONFIG_TYPE "text/cloud-config"
#define WHERE_SIZE 192

/* Encodings that have not been removed yet: each is removed at most once. */
enum wrapping {
        BASE64 = 1,
        GZIP = 2,
        MIME = 4,
};

struct reading {
        const char *origin;
        struct nb_failure *f;
        char where[WHERE_SIZE]; /* for messages: the origin and the MIME part */
        char wrapped[72];       /* ", in part 2 of a MIME message, in gzip" */
        struct nb_user_data found;
        unsigned part; /* MIME part that is for us; 0 for none */
        bool is_ours;  /* by its MIME type */
        bool is_template;
        const struct nb_user_data_files *files; /* if set, search only for these */
};

static bool contains(const char *data, size_t len, const char *text) {
        return memmem(data, len, text, strlen(text)) != NULL;
}

static bool begins(const char *data, size_t len, const char *text) {
        return len >= strlen(text) && memcmp(data, text, strlen(text)) == 0;
}

static bool is_space(const char *data, size_t len) {
        for (size_t i = 0; i < len; i++)
                if (!isspace((unsigned char)data[i]))
                        return false;
        return true;
}

/* Returns 0, for the caller to return. */
static int pass_over(struct reading *reading, const char *what) {
        snprintf(reading->found.what, sizeof(reading->found.what), "%s%s", what, reading->wrapped);
        return 0;
}

static int take_document(struct reading *reading, const char *data, size_t len, const char *what) {
        struct nb_user_data *found = &reading->found;

        if (nb_secret_init(&found->document, len) < 0)
                return nb_failure_set_memory(reading->f);
        (void)nb_secret_append(&found->document, data, len);
        found->kind = NB_USER_DATA_DOCUMENT;
        (void)pass_over(reading, what);
        return 1;
}

/* --- Text --- */

/* Skips `word`, with or without quotes. NULL if the text has something else. */
static const char *skip_word(const char *text, const char *end, const char *word, bool is_prefix) {
        char quote = text < end && (*text == '"' || *text == '\'') ? *text++ : '\0';

        if (!begins(text, (size_t)(end - text), word))
                return NULL;
        text += strlen(word);
        if (quote && !is_prefix && (text == end || *text++ != quote))
                return NULL;
        return text;
}

static const char *skip_blanks(const char *text, const char *end) {
        while (text < end && isblank((unsigned char)*text))
                text++;
        return text;
}

/* Whether a line that is not indented is `key: value`. A document inside of another is indented. */
static bool has_line(const char *data, size_t len, const char *key, const char *value,
                     bool is_prefix) {
        const char *end = data + len, *line_end, *p, *rest;

        for (; data < end; data = line_end < end ? line_end + 1 : end) {
                line_end = memchr(data, '\n', (size_t)(end - data));
                line_end = line_end ? line_end : end;
                p = skip_word(data, line_end, key, false);
                p = p ? skip_blanks(p, line_end) : line_end;
                if (p == line_end || *p != ':')
                        continue;
                p = skip_word(skip_blanks(p + 1, line_end), line_end, value, is_prefix);
                if (!p)
                        continue;
                rest = skip_blanks(p, line_end);
                if (is_prefix || is_space(rest, (size_t)(line_end - rest)) ||
                    (rest > p && *rest == '#'))
                        return true;
        }
        return false;
}

static int take_yaml(struct reading *reading, const char *data, size_t len) {
        if (has_line(data, len, "apiVersion", "node-bootstrap/", true) ||
            has_line(data, len, "kind", "NodeBootstrap", false))
                return take_document(reading, data, len, "a NodeBootstrap document");
        if (has_line(data, len, "kind", "JoinConfiguration", false))
                return take_document(reading, data, len, "a JoinConfiguration");
        return pass_over(reading, "data of another program");
}

static bool has_string(const struct nb_json *json, const char *key, const char *prefix) {
        struct nb_failure ignored = { 0 };
        const char *text;
        size_t len;

        return nb_json_string(json, key, &text, &len, &ignored) > 0 && begins(text, len, prefix);
}

static int take_json(struct reading *reading, const char *data, size_t len) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        struct nb_failure ignored = { 0 };
        struct json_object *ignition;
        int r;

        if (reading->files)
                return nb_user_data_files_of_ignition(reading->where, data, len, reading->files,
                                                      reading->f);
        r = nb_json_parse(data, len, reading->where, NB_METADATA_MALFORMED, &json, &ignored);
        if (r == -ENOMEM)
                return nb_failure_set_memory(reading->f);
        if (r < 0)
                return pass_over(reading, "data of another program");
        if (has_string(&json, "apiVersion", "node-bootstrap/") ||
            has_string(&json, "kind", "NodeBootstrap") ||
            has_string(&json, "kind", "JoinConfiguration"))
                return take_document(reading, data, len, "a document in JSON");
        return pass_over(reading, nb_json_object(&json, "ignition", &ignition, &ignored) > 0
                                          ? "an Ignition config"
                                          : "JSON of another program");
}

static bool has_expression(const struct nb_yaml_node *node) {
        for (; node; node = node->next)
                if ((node->key && strstr(node->key, "{{")) ||
                    (node->value && strstr(node->value, "{{")) || has_expression(node->first))
                        return true;
        return false;
}

static int take_cloud_config(struct reading *reading, const char *data, size_t len) {
        _cleanup_(nb_yaml_freep) struct nb_yaml_node *root = NULL;
        int r = 0;

        if (reading->files)
                return nb_user_data_files_of_cloud_config(reading->where, data, len, reading->files,
                                                          reading->f);
        /* Most cloud-configs are for cloud-init alone, and need not be parsed. */
        if (contains(data, len, KEY))
                r = nb_yaml_parse_key(reading->where, data, len, NB_METADATA_MALFORMED, KEY, &root,
                                      reading->f);
        if (r < 0)
                return r;
        if (!root || (reading->is_template && has_expression(root)))
                return pass_over(reading, "a cloud-config without the key " KEY);
        if (nb_yaml_is_null(root))
                return nb_failure_set(reading->f, NB_METADATA_MALFORMED, EINVAL,
                                      "%s:%u: " KEY ": expected a mapping, found nothing; indent "
                                      "the keys below it",
                                      reading->where, root->line);
        if (root->type != NB_YAML_MAPPING)
                return nb_failure_set(reading->f, NB_METADATA_MALFORMED, EINVAL,
                                      "%s:%u: " KEY ": expected a mapping, found %s",
                                      reading->where, root->line, nb_yaml_type_name(root));
        reading->found.key = KEY;
        return take_document(reading, data, len, "a cloud-config");
}

/* cloud-init renders Jinja before it parses the text, so an error in a template is none of ours,
 * and a Jinja statement or an expression in our key makes it unknown. The template line is a YAML
 * comment. */
static int take_template(struct reading *reading, const char *data, size_t len) {
        static const char second_line[] = "\n" CLOUD_CONFIG "\n";
        const char *newline = memchr(data, '\n', len);
        struct nb_failure ignored = { 0 }, *f = reading->f;
        int r;

        if (!newline || !begins(newline, (size_t)(data + len - newline), second_line) ||
            contains(data, len, "{%"))
                return pass_over(reading, "a template for cloud-init");
        reading->f = &ignored;
        reading->is_template = true;
        r = take_cloud_config(reading, data, len);
        reading->f = f;
        if (r < 0 && ignored.code != NB_METADATA_MALFORMED) {
                *f = ignored;
                return r;
        }
        return r > 0 ? r : pass_over(reading, "a template for cloud-init");
}

/* As in cloud-init, the first line decides. A line precedes those that are a prefix of it. */
static const struct {
        const char *line;
        const char *what; /* of another program; or */
        int (*take)(struct reading *reading, const char *data, size_t len);
} first_lines[] = {
        { "#!", "a shell script", NULL },
        { CLOUD_CONFIG "-archive", "an archive for cloud-init", NULL },
        { CLOUD_CONFIG "-jsonp", "a patch for cloud-init", NULL },
        { CLOUD_CONFIG, NULL, take_cloud_config },
        { "#cloud-boothook", "a boothook for cloud-init", NULL },
        { "#include", "a list of addresses for cloud-init", NULL },
        { "#part-handler", "a handler for cloud-init", NULL },
        { "#upstart-job", "a job for Upstart", NULL },
        { "## template:", NULL, take_template },
        { "{", NULL, take_json },
};

/* 1: for us, 0: not. Lines are counted from `data`, including empty ones. */
static int take_text(struct reading *reading, const char *data, size_t len) {
        const char *first = data, *end = data + len;

        while (first < end && isspace((unsigned char)*first))
                first++;
        for (size_t i = 0; i < N_ELEMENTS(first_lines); i++) {
                size_t line_len = strlen(first_lines[i].line);

                if ((size_t)(end - first) < line_len ||
                    strncasecmp(first, first_lines[i].line, line_len) != 0)
                        continue;
                return first_lines[i].take ? first_lines[i].take(reading, data, len)
                                           : pass_over(reading, first_lines[i].what);
        }
        return take_yaml(reading, data, len);
}

/* --- Encodings --- */

static int unwrap(struct reading *reading, const char *data, size_t len, unsigned wrappings);

static void note_wrapping(struct reading *reading, const char *text) {
        size_t len = strlen(reading->wrapped);

        snprintf(reading->wrapped + len, sizeof(reading->wrapped) - len, "%s", text);
}

static int take_gzip(struct reading *reading, const char *data, size_t len, unsigned wrappings) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        const char *what;
        int r;

        r = nb_gunzip(data, len, NB_USER_DATA_TEXT_MAX, &text);
        if (r == -ENOMEM)
                return nb_failure_set_memory(reading->f);
        if (r >= 0) {
                note_wrapping(reading, ", in gzip");
                return unwrap(reading, text.data, text.len, wrappings);
        }
        what = r == -E2BIG ? "gzip of more than 1 MiB" : "gzip that is cut or damaged";
        if (reading->is_ours)
                return nb_failure_set(reading->f, NB_METADATA_MALFORMED, -r,
                                      "%s: expected text, found %s", reading->where, what);
        reading->found.kind = NB_USER_DATA_UNREADABLE;
        return pass_over(reading, what);
}

static bool is_base64_text(const char *data, size_t len) {
        bool has_digits = false;

        for (size_t i = 0; i < len; i++) {
                unsigned char c = (unsigned char)data[i];

                if (c >= 0x80 || (!isalnum(c) && !strchr("+/=\r\n", c)) || !c)
                        return false;
                has_digits = has_digits || isalnum(c);
        }
        return has_digits;
}

/* A word can be base64 by chance, so bytes that do not decode are no error. */
static int take_base64(struct reading *reading, const char *data, size_t len) {
        _cleanup_(nb_secret_done) struct nb_secret bytes = NB_SECRET_INIT;
        int r;

        r = nb_mime_decode_base64(data, len, &bytes);
        if (r == -ENOMEM)
                return nb_failure_set_memory(reading->f);
        if (r < 0)
                return pass_over(reading, "data of another program");
        note_wrapping(reading, ", in base64");
        return unwrap(reading, bytes.data, bytes.len, GZIP | MIME);
}

static bool is_foreign_type(const char *type) {
        static const char *const types[] = { "text/x-shellscript",        "text/cloud-boothook",
                                             "text/part-handler",         "text/jinja2",
                                             "text/x-include-url",        "text/x-include-once-url",
                                             "text/cloud-config-archive", "text/cloud-config-jsonp",
                                             "text/upstart-job" };

        for (size_t i = 0; i < N_ELEMENTS(types); i++)
                if (strcmp(type, types[i]) == 0)
                        return true;
        return strncmp(type, "text/x-shellscript-", strlen("text/x-shellscript-")) == 0;
}

static int take_body(struct reading *reading, const struct nb_mime_part *part, const char *data,
                     size_t len) {
        if (!nb_gzip_looks_like(data, len)) {
                if (reading->is_ours)
                        return take_document(reading, data, len, "a document of its own type");
                if (strcmp(part->type, CLOUD_CONFIG_TYPE) == 0 &&
                    !begins(data, len, "## template:"))
                        return take_cloud_config(reading, data, len);
        }
        return unwrap(reading, data, len, GZIP);
}

static int decode_body(struct reading *reading, const struct nb_mime_part *part) {
        _cleanup_(nb_secret_done) struct nb_secret bytes = NB_SECRET_INIT;
        int r = -EBADMSG;

        if (part->encoding == NB_MIME_PLAIN)
                return take_body(reading, part, part->body, part->len);
        if (part->encoding == NB_MIME_BASE64)
                r = nb_mime_decode_base64(part->body, part->len, &bytes);
        if (r >= 0)
                return take_body(reading, part, bytes.data, bytes.len);
        if (r == -ENOMEM)
                return nb_failure_set_memory(reading->f);
        if (!reading->is_ours && strcmp(part->type, CLOUD_CONFIG_TYPE) != 0)
                return 0;
        return nb_failure_set(reading->f, NB_METADATA_MALFORMED, EBADMSG,
                              "%s: expected %s as text or in valid base64, found another "
                              "Content-Transfer-Encoding or invalid base64",
                              reading->where, part->type);
}

/* Reads a part on its own; its result becomes that of the message only if it is for us. */
static int take_part(void *userdata, const struct nb_mime_part *part) {
        struct reading *reading = userdata;
        struct reading inner = { .origin = reading->origin,
                                 .f = reading->f,
                                 .found = NB_USER_DATA_INIT,
                                 .is_ours = strcmp(part->type, OWN_TYPE) == 0,
                                 .files = reading->files };
        int r;

        if (is_foreign_type(part->type))
                return 0;
        snprintf(inner.where, sizeof(inner.where), "%.150s, MIME part %u", reading->origin,
                 part->number);
        snprintf(inner.wrapped, sizeof(inner.wrapped), ", in part %u of a MIME message%.30s",
                 part->number, reading->wrapped);
        r = decode_body(&inner, part);
        if (r > 0 && reading->part > 0)
                r = nb_failure_set(reading->f, NB_METADATA_MALFORMED, EINVAL,
                                   "%s: expected one part for this program, found two: %u and %u",
                                   reading->where, reading->part, part->number);
        if (r > 0) {
                reading->part = part->number;
                reading->found = inner.found;
                return 0;
        }
        if (inner.found.kind == NB_USER_DATA_UNREADABLE && reading->part == 0)
                reading->found = inner.found;
        else
                nb_user_data_done(&inner.found);
        return r;
}

static bool names_us(const char *data, size_t len) {
        static const char *const words[] = { "node-bootstrap", KEY, "NodeBootstrap",
                                             "JoinConfiguration" };

        for (size_t i = 0; i < N_ELEMENTS(words); i++)
                if (contains(data, len, words[i]))
                        return true;
        return false;
}

static int take_mime(struct reading *reading, const char *data, size_t len) {
        const char *wrong = "";
        int r;

        r = nb_mime_parse(data, len, take_part, reading, &wrong);
        if (r < 0 && reading->f->code != NB_NONE)
                return r;
        if (r < 0 && (names_us(data, len) || reading->part > 0))
                return nb_failure_set(reading->f, NB_METADATA_MALFORMED, EBADMSG,
                                      "%s: expected a MIME message, found %s", reading->where,
                                      wrong);
        if (r < 0)
                return pass_over(reading, "a MIME message with an error in it");
        if (reading->part > 0)
                return 1;
        return reading->found.kind == NB_USER_DATA_UNREADABLE
                       ? 0
                       : pass_over(reading, "a MIME message without a part for this program");
}

static int unwrap(struct reading *reading, const char *data, size_t len, unsigned wrappings) {
        static const char byte_order_mark[] = "\xef\xbb\xbf";

        if (begins(data, len, byte_order_mark)) {
                data += strlen(byte_order_mark);
                len -= strlen(byte_order_mark);
        }
        if (is_space(data, len))
                return pass_over(reading, "empty");
        if ((wrappings & GZIP) && nb_gzip_looks_like(data, len))
                return take_gzip(reading, data, len, wrappings & MIME);
        if ((wrappings & BASE64) && is_base64_text(data, len))
                return take_base64(reading, data, len);
        if ((wrappings & MIME) && nb_mime_looks_like(data, len))
                return take_mime(reading, data, len);
        return take_text(reading, data, len);
}

int nb_user_data_parse(const char *origin, const char *data, size_t len,
                       struct nb_user_data *ret_user_data, struct nb_failure *f) {
        struct reading reading = { .origin = origin, .f = f, .found = NB_USER_DATA_INIT };
        int r;

        snprintf(reading.where, sizeof(reading.where), "%s", origin);
        if (len > NB_USER_DATA_MAX)
                return nb_failure_set(f, NB_METADATA_MALFORMED, E2BIG,
                                      "%s: expected at most %d KiB, found %zu bytes", origin,
                                      NB_USER_DATA_MAX / 1024, len);
        r = unwrap(&reading, data, len, BASE64 | GZIP | MIME);
        if (r < 0) {
                nb_user_data_done(&reading.found);
                return r;
        }
        *ret_user_data = reading.found;
        return 0;
}

int nb_user_data_find_files(const char *origin, const char *data, size_t len,
                            const struct nb_user_data_files *files, struct nb_failure *f) {
        struct reading reading = {
                .origin = origin, .f = f, .found = NB_USER_DATA_INIT, .files = files
        };
        int r;

        snprintf(reading.where, sizeof(reading.where), "%s", origin);
        r = unwrap(&reading, data, len, BASE64 | GZIP | MIME);
        nb_user_data_done(&reading.found);
        return r < 0 && f->code != NB_NONE ? r : 0;
}

void nb_user_data_done(struct nb_user_data *user_data) {
        nb_secret_done(&user_data->document);
        *user_data = (struct nb_user_data)NB_USER_DATA_INIT;
}
