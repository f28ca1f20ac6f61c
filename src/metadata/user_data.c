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
#define TEMPLATE "## template:"
#define WHERE_SIZE 256
#define ORIGIN_MAX 150
#define LINE_MAX_COMPARED 64

/* Encodings that have not been removed yet: each is removed at most once. */
enum wrapping {
        BASE64 = 1,
        GZIP = 2,
        MIME = 4,
};

struct reading {
        struct nb_failure *f;
        char where[WHERE_SIZE]; /* for messages: "ORIGIN, in gzip, in part 2 of a MIME message" */
        size_t origin_len;
        const char *type; /* of the MIME part; "" for none */
        struct nb_user_data found;
        unsigned part; /* MIME part that is for this program; 0 for none */
        bool is_template;
        const struct nb_user_data_files *files; /* if set, only search for files */
};

static bool contains(const char *data, size_t len, const char *text) {
        return memmem(data, len, text, strlen(text)) != NULL;
}

static bool begins(const char *data, size_t len, const char *text) {
        return len >= strlen(text) && strncasecmp(data, text, strlen(text)) == 0;
}

static const char *skip_space(const char *data, size_t len) {
        const char *end = data + len;

        while (data < end && isspace((unsigned char)*data))
                data++;
        return data;
}

/* Describes data that is not for this program. Returns 0, so that the caller can return it. */
static int pass_over(struct reading *reading, const char *what) {
        snprintf(reading->found.what, sizeof(reading->found.what), "%s%s", what,
                 reading->where + reading->origin_len);
        return 0;
}

static int take_document(struct reading *reading, const char *data, size_t len, const char *what) {
        if (nb_secret_copy(&reading->found.document, data, len) < 0)
                return nb_failure_set_memory(reading->f);
        reading->found.kind = NB_USER_DATA_DOCUMENT;
        (void)pass_over(reading, what);
        return 1;
}

/* --- Text --- */

/* Copies a line without quotes, blanks and comment. An indented line becomes "", since it may
 * belong to a document inside another one. */
static void reduce_line(const char *line, const char *end, char ret[static LINE_MAX_COMPARED]) {
        size_t n = 0;

        for (const char *p = line; p < end && *p != '#' && !isblank((unsigned char)*line); p++)
                if (!strchr("\"' \t\r", *p) && n < LINE_MAX_COMPARED - 1)
                        ret[n++] = *p;
        ret[n] = '\0';
}

static int take_yaml(struct reading *reading, const char *data, size_t len) {
        static const char version[] = "apiVersion:node-bootstrap/";
        const char *end = data + len, *what = NULL;
        char line[LINE_MAX_COMPARED];

        for (const char *p = data, *line_end; p < end; p = line_end + 1) {
                line_end = memchr(p, '\n', (size_t)(end - p));
                line_end = line_end ? line_end : end;
                reduce_line(p, line_end, line);
                if (strncmp(line, version, strlen(version)) == 0 ||
                    strcmp(line, "kind:NodeBootstrap") == 0)
                        what = "a NodeBootstrap document";
                else if (!what && strcmp(line, "kind:JoinConfiguration") == 0)
                        what = "a JoinConfiguration";
        }
        return what ? take_document(reading, data, len, what)
                    : pass_over(reading, "data of another program");
}

static int take_json(struct reading *reading, const char *data, size_t len) {
        static const struct {
                const char *key, *prefix;
        } ours[] = { { "apiVersion", "node-bootstrap/" },
                     { "kind", "NodeBootstrap" },
                     { "kind", "JoinConfiguration" } };
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        struct nb_failure ignored = { 0 };

        if (reading->files)
                return contains(data, len, "\"ignition\"")
                               ? nb_user_data_pass_files(NB_USER_DATA_IGNITION, reading->where,
                                                         data, len, reading->files, reading->f)
                               : 0;
        json = nb_json_parse(data, len, reading->where, NB_METADATA_MALFORMED, &ignored);
        if (json.r == -ENOMEM)
                return nb_failure_set_memory(reading->f);
        if (json.r < 0)
                return pass_over(reading, "data of another program");
        for (size_t i = 0; i < N_ELEMENTS(ours); i++) {
                const char *text = nb_json_string(&json, ours[i].key);

                if (text && begins(text, strlen(text), ours[i].prefix))
                        return take_document(reading, data, len, "a document in JSON");
                json.r = 0; /* ignore a value of another type */
        }
        return pass_over(reading, nb_json_object(&json, "ignition") ? "an Ignition config"
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
        struct nb_failure f = { 0 };
        int r = 0;

        if (reading->files)
                r = nb_user_data_pass_files(NB_USER_DATA_CLOUD_CONFIG, reading->where, data, len,
                                            reading->files, &f);
        /* Most cloud-configs are for cloud-init alone, and need not be parsed. */
        else if (contains(data, len, KEY))
                r = nb_yaml_parse_key(reading->where, data, len, NB_METADATA_MALFORMED, KEY, &root,
                                      &f);
        /* cloud-init renders Jinja before it parses the text, so a syntax error in a template is
         * not an error, and a value with an expression is unknown here. */
        if (reading->is_template && (f.code == NB_METADATA_MALFORMED || has_expression(root)))
                return pass_over(reading, "a template for cloud-init");
        if (r < 0) {
                *reading->f = f;
                return r;
        }
        if (!root)
                return pass_over(reading, "a cloud-config without the key " KEY);
        if (root->type != NB_YAML_MAPPING)
                return nb_failure_set(reading->f, NB_METADATA_MALFORMED, EINVAL,
                                      "%s:%u: " KEY ": expected a mapping, found %s%s",
                                      reading->where, root->line, nb_yaml_type_name(root),
                                      nb_yaml_is_null(root) ? "; indent the keys below it" : "");
        reading->found.key = KEY;
        return take_document(reading, data, len, "a cloud-config");
}

/* The template line is a YAML comment, so the text is parsed without rendering it. */
static int take_template(struct reading *reading, const char *data, size_t len) {
        static const char second_line[] = "\n" CLOUD_CONFIG "\n";
        const char *newline = memchr(data, '\n', len);

        if (!newline || !begins(newline, (size_t)(data + len - newline), second_line) ||
            contains(data, len, "{%"))
                return pass_over(reading, "a template for cloud-init");
        reading->is_template = true;
        return take_cloud_config(reading, data, len);
}

/* As in cloud-init, the first line decides. A line must precede its own prefixes in this table. */
static const struct {
        const char *line;
        const char *what; /* the data of another program; or NULL */
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
        { TEMPLATE, NULL, take_template },
        { "{", NULL, take_json },
};

/* 1 if the text is for this program, otherwise 0. Passes on all of `data`, including empty lines at
 * the beginning, so that line numbers in messages are right. */
static int take_text(struct reading *reading, const char *data, size_t len) {
        const char *first = skip_space(data, len);
        size_t first_len = len - (size_t)(first - data);

        if (strcmp(reading->type, OWN_TYPE) == 0)
                return take_document(reading, data, len, "a document of its own type");
        if (strcmp(reading->type, CLOUD_CONFIG_TYPE) == 0 && !begins(first, first_len, TEMPLATE))
                return take_cloud_config(reading, data, len);
        for (size_t i = 0; i < N_ELEMENTS(first_lines); i++)
                if (begins(first, first_len, first_lines[i].line))
                        return first_lines[i].take ? first_lines[i].take(reading, data, len)
                                                   : pass_over(reading, first_lines[i].what);
        return take_yaml(reading, data, len);
}

/* --- Encodings --- */

static int unwrap(struct reading *reading, const char *data, size_t len, unsigned wrappings);

static void note_wrapping(struct reading *reading, const char *text) {
        size_t len = strlen(reading->where);

        snprintf(reading->where + len, sizeof(reading->where) - len, "%s", text);
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
        what = r == -E2BIG ? "gzip of more than 1 MiB" : "truncated or damaged gzip data";
        if (strcmp(reading->type, OWN_TYPE) == 0)
                return nb_failure_set(reading->f, NB_METADATA_MALFORMED, -r,
                                      "%s: expected text, found %s", reading->where, what);
        reading->found.kind = NB_USER_DATA_UNREADABLE;
        return pass_over(reading, what);
}

static bool is_base64_text(const char *data, size_t len) {
        static const char characters[] =
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\r\n";

        for (size_t i = 0; i < len; i++)
                if (!data[i] || !strchr(characters, data[i]))
                        return false;
        return true;
}

/* A word may look like base64 by chance, so text that cannot be decoded is not an error. */
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

/* Types that cloud-init has for scripts and similar. */
static bool is_foreign_type(const char *type) {
        return strncmp(type, "text/", strlen("text/")) == 0 && strcmp(type, "text/plain") != 0 &&
               strcmp(type, CLOUD_CONFIG_TYPE) != 0 && !strstr(type, "yaml");
}

static int decode_part(struct reading *reading, const struct nb_mime_part *part) {
        _cleanup_(nb_secret_done) struct nb_secret bytes = NB_SECRET_INIT;
        int r = -EBADMSG;

        if (part->encoding == NB_MIME_PLAIN)
                return unwrap(reading, part->body, part->len, GZIP);
        if (part->encoding == NB_MIME_BASE64)
                r = nb_mime_decode_base64(part->body, part->len, &bytes);
        if (r >= 0)
                return unwrap(reading, bytes.data, bytes.len, GZIP);
        if (r == -ENOMEM)
                return nb_failure_set_memory(reading->f);
        if (strcmp(part->type, OWN_TYPE) != 0 && strcmp(part->type, CLOUD_CONFIG_TYPE) != 0)
                return 0;
        return nb_failure_set(reading->f, NB_METADATA_MALFORMED, EBADMSG,
                              "%s: expected text or valid base64, found another "
                              "Content-Transfer-Encoding or invalid base64",
                              reading->where);
}

/* Reads one part separately. Its result becomes the result of the message only if the part is for
 * this program. */
static int take_part(void *userdata, const struct nb_mime_part *part) {
        struct reading *reading = userdata, inner = *reading;
        char wrapping[64];
        int r;

        if (is_foreign_type(part->type))
                return 0;
        inner.type = part->type;
        inner.found = (struct nb_user_data)NB_USER_DATA_INIT;
        snprintf(wrapping, sizeof(wrapping), ", in part %u of a MIME message", part->number);
        note_wrapping(&inner, wrapping);
        r = decode_part(&inner, part);
        if (r > 0 && reading->part > 0) {
                nb_user_data_done(&inner.found);
                return nb_failure_set(reading->f, NB_METADATA_MALFORMED, EINVAL,
                                      "%s: expected one part for this program, found two: %u and "
                                      "%u",
                                      reading->where, reading->part, part->number);
        }
        if (r > 0)
                reading->part = part->number;
        if (r > 0 || (reading->part == 0 && inner.found.kind == NB_USER_DATA_UNREADABLE))
                reading->found = inner.found;
        return r < 0 ? r : 0;
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
                return pass_over(reading, "a malformed MIME message");
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
        if (skip_space(data, len) == data + len)
                return pass_over(reading, "empty");
        if ((wrappings & GZIP) && nb_gzip_looks_like(data, len))
                return take_gzip(reading, data, len, wrappings & MIME);
        if ((wrappings & BASE64) && is_base64_text(data, len))
                return take_base64(reading, data, len);
        if ((wrappings & MIME) && nb_mime_looks_like(data, len))
                return take_mime(reading, data, len);
        return take_text(reading, data, len);
}

static int read_all(const char *origin, const char *data, size_t len,
                    const struct nb_user_data_files *files, struct nb_user_data *ret,
                    struct nb_failure *f) {
        struct reading reading = { .f = f, .type = "", .files = files };
        int r;

        if (len > NB_USER_DATA_MAX)
                return nb_failure_set(f, NB_METADATA_MALFORMED, E2BIG,
                                      "%s: expected at most %d KiB, found %zu bytes", origin,
                                      NB_USER_DATA_MAX / 1024, len);
        snprintf(reading.where, sizeof(reading.where), "%.*s", ORIGIN_MAX, origin);
        reading.origin_len = strlen(reading.where);
        r = unwrap(&reading, data, len, BASE64 | GZIP | MIME);
        if (r < 0) {
                nb_user_data_done(&reading.found);
                return r;
        }
        *ret = reading.found;
        return 0;
}

int nb_user_data_parse(const char *origin, const char *data, size_t len,
                       struct nb_user_data *ret_user_data, struct nb_failure *f) {
        return read_all(origin, data, len, NULL, ret_user_data, f);
}

int nb_user_data_find_files(const char *origin, const char *data, size_t len,
                            const struct nb_user_data_files *files, struct nb_failure *f) {
        struct nb_user_data ignored = NB_USER_DATA_INIT;
        int r = read_all(origin, data, len, files, &ignored, f);

        nb_user_data_done(&ignored);
        return r;
}

void nb_user_data_done(struct nb_user_data *user_data) {
        nb_secret_done(&user_data->document);
        *user_data = (struct nb_user_data)NB_USER_DATA_INIT;
}
