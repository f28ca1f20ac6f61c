/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/encoding.h"
#include "base/macro.h"
#include "base/text.h"
#include "codec/json.h"
#include "codec/yaml.h"
#include "metadata/user_data.h"

#define KEY "node_bootstrap"
#define CLOUD_CONFIG "#cloud-config"
#define TEMPLATE "## template:"
#define WHERE_SIZE 256
#define ORIGIN_MAX 150
#define LINE_MAX_COMPARED 64
#define NOT_UNPACKED \
        "; node-bootstrap reads neither MIME nor gzip: let cloud-init write the settings to a " \
        "file (write_files), or use user data that is one document"

struct reading {
        struct nb_failure *f;
        char where[WHERE_SIZE]; /* for messages: "ORIGIN, in base64" */
        size_t origin_len;
        struct nb_user_data found;
        bool is_template;
};

static bool contains_text(const char *data, size_t len, const char *text) {
        return memmem(data, len, text, strlen(text)) != NULL;
}

static bool begins_with(const char *data, size_t len, const char *text) {
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

        json = nb_json_parse(data, len, reading->where, NB_METADATA_MALFORMED, &ignored);
        if (json.r == -ENOMEM)
                return nb_failure_set_memory(reading->f);
        if (json.r < 0)
                return pass_over(reading, "data of another program");
        for (size_t i = 0; i < N_ELEMENTS(ours); i++) {
                const char *text = nb_json_string(&json, ours[i].key);

                if (text && begins_with(text, strlen(text), ours[i].prefix))
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

        /* Most cloud-configs are for cloud-init alone, and need not be parsed. */
        if (contains_text(data, len, KEY))
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

        if (!newline || !begins_with(newline, (size_t)(data + len - newline), second_line) ||
            contains_text(data, len, "{%"))
                return pass_over(reading, "a template for cloud-init");
        reading->is_template = true;
        return take_cloud_config(reading, data, len);
}

/* As in cloud-init, the first line decides. A line must precede its own prefixes in this table. */
static const struct {
        const char *line;
        const char *what; /* the data of another program; or NULL */
        int (*take)(struct reading *reading, const char *data, size_t len);
        const char *hint;
} first_lines[] = {
        { "#!", "a shell script" },
        { CLOUD_CONFIG "-archive", "an archive for cloud-init" },
        { CLOUD_CONFIG "-jsonp", "a patch for cloud-init" },
        { CLOUD_CONFIG, .take = take_cloud_config },
        { "#cloud-boothook", "a boothook for cloud-init" },
        { "#include", "a list of addresses for cloud-init" },
        { "#part-handler", "a handler for cloud-init" },
        { "#upstart-job", "a job for Upstart" },
        { TEMPLATE, .take = take_template },
        { "{", .take = take_json },
        { "Content-Type:", "a MIME message", .hint = NOT_UNPACKED },
        { "MIME-Version:", "a MIME message", .hint = NOT_UNPACKED },
        { "\x1f\x8b", "gzip", .hint = NOT_UNPACKED },
};

/* 1 if the text is for this program, otherwise 0. Passes on empty lines at the beginning, so that
 * line numbers in messages are right. */
static int take_text(struct reading *reading, const char *data, size_t len) {
        static const char byte_order_mark[] = "\xef\xbb\xbf";
        const char *end = data + len, *first;

        if (begins_with(data, len, byte_order_mark))
                data += strlen(byte_order_mark);
        len = (size_t)(end - data);
        first = skip_space(data, len);
        if (first == end)
                return pass_over(reading, "empty");
        for (size_t i = 0; i < N_ELEMENTS(first_lines); i++) {
                if (!begins_with(first, (size_t)(end - first), first_lines[i].line))
                        continue;
                reading->found.hint = first_lines[i].hint;
                return first_lines[i].take ? first_lines[i].take(reading, data, len)
                                           : pass_over(reading, first_lines[i].what);
        }
        return take_yaml(reading, data, len);
}

/* --- Base64 --- */

static bool is_base64_text(const char *data, size_t len) {
        static const char characters[] = NB_LOWER NB_UPPER NB_DIGITS "+/=\r\n";

        for (size_t i = 0; i < len; i++)
                if (!data[i] || !strchr(characters, data[i]))
                        return false;
        return skip_space(data, len) < data + len;
}

/* A word may look like base64 by chance, so text that cannot be decoded is not an error. */
static int take_base64(struct reading *reading, const char *data, size_t len) {
        _cleanup_(nb_secret_done) struct nb_secret bytes = NB_SECRET_INIT;
        int r;

        r = nb_base64_decode_secret(data, len, &bytes);
        if (r == -ENOMEM)
                return nb_failure_set_memory(reading->f);
        if (r < 0)
                return pass_over(reading, "data of another program");
        snprintf(reading->where + reading->origin_len, sizeof(reading->where) - reading->origin_len,
                 ", in base64");
        return take_text(reading, bytes.data, bytes.len);
}

int nb_user_data_parse(const char *origin, const char *data, size_t len,
                       struct nb_user_data *ret_user_data, struct nb_failure *f) {
        struct reading reading = { .f = f };
        int r;

        if (len > NB_USER_DATA_MAX)
                return nb_failure_set(f, NB_METADATA_MALFORMED, E2BIG,
                                      "%s: expected at most %d KiB, found %zu bytes", origin,
                                      NB_USER_DATA_MAX / 1024, len);
        nb_text_copy_line(origin, strlen(origin), reading.where, ORIGIN_MAX + 1);
        reading.origin_len = strlen(reading.where);
        r = is_base64_text(data, len) ? take_base64(&reading, data, len)
                                      : take_text(&reading, data, len);
        if (r < 0) {
                nb_user_data_done(&reading.found);
                return r;
        }
        *ret_user_data = reading.found;
        return 0;
}

void nb_user_data_done(struct nb_user_data *user_data) {
        nb_secret_done(&user_data->document);
        *user_data = (struct nb_user_data)NB_USER_DATA_INIT;
}
