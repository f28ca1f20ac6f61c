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
#define LINE_SIZE 64
#define EARLY 4096    /* bytes in which cloud-init searches for a header of MIME */
#define DECODED_MAX 2 /* of base64 of base64, the form is named */
#define DROPPED_MAX 5 /* three digits of base64, and the end of a line */
#define NOT_UNPACKED \
        "; node-bootstrap reads neither MIME nor gzip: let cloud-init write the settings to a " \
        "file (write_files), or use user data that is one document"
#define NOT_UTF8 "; node-bootstrap reads UTF-8: convert the text with iconv(1)"

struct text {
        const char *data; /* after a byte order mark */
        size_t len;
        const char *first; /* the first character that is no white space, or the end */
};

struct reading {
        struct nb_failure *f;
        char where[WHERE_SIZE]; /* for messages: "ORIGIN, in base64" */
        size_t origin_len;
        unsigned n_decoded; /* how often the text was decoded from base64 */
        bool is_template;
        bool is_known; /* the text has one of the forms in the table */
        struct nb_user_data found;
};

static int take_text(struct reading *reading, const char *data, size_t len);

static bool begins_with(const char *data, size_t len, const char *text) {
        return len >= strlen(text) && strncasecmp(data, text, strlen(text)) == 0;
}

static const char *skip_space(const char *data, size_t len) {
        const char *end = data + len;

        while (data < end && isspace((unsigned char)*data))
                data++;
        return data;
}

static int set_what(struct reading *reading, const char *what) {
        snprintf(reading->found.what, sizeof(reading->found.what), "%s%s", what,
                 reading->where + reading->origin_len);
        return 0;
}

/* --- How a form is recognised --- */

static bool is_empty(const struct text *text, _unused_ const char *word) {
        return text->first == text->data + text->len;
}

static bool begins(const struct text *text, const char *word) {
        return begins_with(text->first, (size_t)(text->data + text->len - text->first), word);
}

static bool mentions(const struct text *text, const char *word) {
        return memmem(text->data, text->len, word, strlen(word)) != NULL;
}

/* As convert_string() in cloudinit/user_data.py. */
static bool mentions_early(const struct text *text, const char *word) {
        size_t len = text->len < EARLY ? text->len : EARLY;

        for (size_t i = 0; i < len; i++)
                if (begins_with(text->data + i, len - i, word))
                        return true;
        return false;
}

static bool is_ascii(char c) {
        return c && !((unsigned char)c & 0x80);
}

/* Two characters of ASCII in either byte order, without a byte order mark, as in base64 that was
 * made with PowerShell. */
static bool is_utf16(const struct text *text, _unused_ const char *word) {
        for (unsigned i = 0; i < 2 && text->len >= 4; i++) {
                const char *text_bytes = text->data + i, *zeros = text->data + 1 - i;

                if (!zeros[0] && !zeros[2] && is_ascii(text_bytes[0]) && is_ascii(text_bytes[2]))
                        return true;
        }
        return false;
}

/* Only base64 and line ends, or blanks. */
static bool is_base64(const struct text *text, _unused_ const char *word) {
        static const char characters[] = NB_LOWER NB_UPPER NB_DIGITS "+/= \t\r\n";

        for (size_t i = 0; i < text->len; i++)
                if (!text->data[i] || !strchr(characters, text->data[i]))
                        return false;
        return true;
}

/* Copies a line without quotes, blanks and comment, and with a newline at its end. An indented line
 * becomes empty, since it may belong to a document inside another one. */
static void reduce_line(const char *line, const char *end, char ret[static LINE_SIZE]) {
        size_t n = 0;

        for (const char *p = line; p < end && *p != '#' && !isblank((unsigned char)*line); p++)
                if (!strchr("\"' \t\r", *p) && n < LINE_SIZE - 2)
                        ret[n++] = *p;
        ret[n++] = '\n';
        ret[n] = '\0';
}

/* Whether a line of YAML begins with this, after it was reduced. */
static bool has_line(const struct text *text, const char *word) {
        const char *end = text->data + text->len;
        char line[LINE_SIZE];

        for (const char *p = text->data, *line_end; p < end; p = line_end + 1) {
                line_end = memchr(p, '\n', (size_t)(end - p));
                line_end = line_end ? line_end : end;
                reduce_line(p, line_end, line);
                if (strncmp(line, word, strlen(word)) == 0)
                        return true;
        }
        return false;
}

/* --- How a form is read --- */

/* Reads the text and sets `found.what`; if it does not, the text has another form. `what` is that
 * of the row. 0, or a failure. */
typedef int taker(struct reading *reading, const struct text *text, const char *what);

static taker take_template, take_base64;

static int take_document(struct reading *reading, const struct text *text, const char *what) {
        if (nb_secret_copy(&reading->found.document, text->data, text->len) < 0)
                return nb_failure_set_memory(reading->f);
        reading->found.kind = NB_USER_DATA_DOCUMENT;
        return set_what(reading, what);
}

static int take_json(struct reading *reading, const struct text *text, const char *what) {
        static const struct {
                const char *key, *prefix;
        } ours[] = { { "apiVersion", "node-bootstrap/" },
                     { "kind", "NodeBootstrap" },
                     { "kind", "JoinConfiguration" } };
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        struct nb_failure ignored = { 0 };

        json = nb_json_parse(text->data, text->len, reading->where, NB_METADATA_MALFORMED,
                             &ignored);
        if (json.r == -ENOMEM)
                return nb_failure_set_memory(reading->f);
        if (json.r < 0)
                return 0;
        for (size_t i = 0; i < N_ELEMENTS(ours); i++) {
                const char *value = nb_json_string(&json, ours[i].key);

                if (value && begins_with(value, strlen(value), ours[i].prefix))
                        return take_document(reading, text, what);
                json.r = 0; /* ignore a value of another type */
        }
        return nb_json_object(&json, "ignition") ? set_what(reading, "an Ignition config") : 0;
}

static bool has_expression(const struct nb_yaml_node *node) {
        for (; node; node = node->next)
                if ((node->key && strstr(node->key, "{{")) ||
                    (node->value && strstr(node->value, "{{")) || has_expression(node->first))
                        return true;
        return false;
}

static int take_cloud_config(struct reading *reading, const struct text *text, const char *what) {
        _cleanup_(nb_yaml_freep) struct nb_yaml_node *root = NULL;
        struct nb_failure f = { 0 };
        int r = 0;

        /* Most cloud-configs are for cloud-init alone, and need not be parsed. */
        if (mentions(text, KEY))
                r = nb_yaml_parse_key(reading->where, text->data, text->len, NB_METADATA_MALFORMED,
                                      KEY, &root, &f);
        /* cloud-init renders Jinja before it parses the text, so a syntax error in a template is
         * not an error, and a value with an expression is unknown here. */
        if (reading->is_template && (f.code == NB_METADATA_MALFORMED || has_expression(root)))
                return set_what(reading, "a template for cloud-init");
        if (r < 0) {
                *reading->f = f;
                return r;
        }
        if (!root)
                return set_what(reading, "a cloud-config without the key " KEY);
        if (root->type != NB_YAML_MAPPING)
                return nb_failure_set(reading->f, NB_METADATA_MALFORMED, EINVAL,
                                      "%s:%u: " KEY ": expected a mapping, found %s%s",
                                      reading->where, root->line, nb_yaml_type_name(root),
                                      nb_yaml_is_null(root) ? "; indent the keys below it" : "");
        reading->found.key = KEY;
        return take_document(reading, text, what);
}

/* As in cloud-init, the first line decides; the first row that fits is used. A row without a
 * function is for data that is not read. */
static const struct form {
        bool (*is_it)(const struct text *text, const char *word);
        const char *word;
        const char *what;
        const char *hint;
        taker *take;
} forms[] = {
        { is_empty, NULL, "empty" },
        { is_base64, NULL, "base64", .take = take_base64 },
        { begins, "\x1f\x8b", "gzip", NOT_UNPACKED },
        { begins, "\xff\xfe", "text in UTF-16", NOT_UTF8 },
        { begins, "\xfe\xff", "text in UTF-16", NOT_UTF8 },
        { is_utf16, NULL, "text in UTF-16", NOT_UTF8 },
        { begins, "#!", "a shell script" },
        { begins, CLOUD_CONFIG "-archive", "an archive for cloud-init" },
        { begins, CLOUD_CONFIG "-jsonp", "a patch for cloud-init" },
        { begins, CLOUD_CONFIG, "a cloud-config", .take = take_cloud_config },
        { begins, "#cloud-boothook", "a boothook for cloud-init" },
        { begins, "#include", "a list of addresses for cloud-init" },
        { begins, "#part-handler", "a handler for cloud-init" },
        { begins, "#upstart-job", "a job for Upstart" },
        { begins, TEMPLATE, "a template for cloud-init", .take = take_template },
        { begins, "{", "a document in JSON", .take = take_json },
        { begins, "Content-Type:", "a MIME message", NOT_UNPACKED },
        { mentions_early, "mime-version:", "a MIME message", NOT_UNPACKED },
        { has_line, "apiVersion:node-bootstrap/", "a NodeBootstrap document",
          .take = take_document },
        { has_line, "kind:NodeBootstrap\n", "a NodeBootstrap document", .take = take_document },
        { has_line, "kind:JoinConfiguration\n", "a JoinConfiguration", .take = take_document },
        { mentions, KEY, "data that mentions " KEY ", but does not begin with " CLOUD_CONFIG,
          "; make " CLOUD_CONFIG " its first line" },
        { mentions, "NodeBootstrap", "data that mentions NodeBootstrap, but is no such document",
          "; in YAML, the line \"kind: NodeBootstrap\" must not be indented; JSON must have no "
          "error" },
};

/* As in cloud-init, white space may follow the line of the template. That line is a comment of
 * YAML, so the text is parsed without rendering it. */
static int take_template(struct reading *reading, const struct text *text, const char *what) {
        const char *end = text->data + text->len,
                   *newline = memchr(text->first, '\n', (size_t)(end - text->first));
        const struct form *form = forms;
        struct text rest = { .data = newline ? newline : end };

        rest.len = (size_t)(end - rest.data);
        rest.first = skip_space(rest.data, rest.len);
        while (form < forms + N_ELEMENTS(forms) && !form->is_it(&rest, form->word))
                form++;
        if (form == forms + N_ELEMENTS(forms) || form->take != take_cloud_config ||
            mentions(text, "{%"))
                return set_what(reading, what);
        reading->is_template = true;
        return take_cloud_config(reading, text, form->what);
}

/* Without its last characters if it cannot be decoded with them. -EBADMSG, -ENOMEM. */
static int decode_base64(const struct text *text, struct nb_secret *ret, bool *ret_is_whole) {
        size_t len = text->len;
        int r = nb_base64_decode_secret(text->data, len, ret);

        *ret_is_whole = r >= 0;
        for (unsigned i = 0; i < DROPPED_MAX && r == -EBADMSG && len > 4; i++)
                r = nb_base64_decode_secret(text->data, --len, ret);
        return r;
}

/* A word may look like base64 by chance, so the decoded text must have a known form. */
static int take_base64(struct reading *reading, const struct text *text, const char *what) {
        _cleanup_(nb_secret_done) struct nb_secret bytes = NB_SECRET_INIT;
        struct nb_failure f = { 0 };
        struct reading decoded = *reading;
        bool is_whole;
        int r;

        if (reading->n_decoded == DECODED_MAX)
                return 0;
        r = decode_base64(text, &bytes, &is_whole);
        if (r < 0)
                return r == -ENOMEM ? nb_failure_set_memory(reading->f) : 0;
        decoded.f = &f;
        decoded.n_decoded++;
        snprintf(decoded.where + decoded.origin_len, sizeof(decoded.where) - decoded.origin_len,
                 ", in base64");
        r = take_text(&decoded, bytes.data, bytes.len);
        if (r == -ENOMEM || (r < 0 && is_whole && reading->n_decoded == 0)) {
                *reading->f = f;
                return r;
        }
        if (!decoded.is_known)
                return 0;
        if (is_whole && reading->n_decoded == 0) {
                reading->found = decoded.found;
                return 0;
        }
        nb_user_data_done(&decoded.found);
        reading->found.hint = is_whole ? "; encode it only once"
                                       : "; encode it again, with the = at its end";
        return set_what(reading, is_whole ? what : "incomplete base64");
}

/* Leaves empty lines at the beginning, so that line numbers in messages are right. */
static int take_text(struct reading *reading, const char *data, size_t len) {
        static const char byte_order_mark[] = "\xef\xbb\xbf";
        struct text text = { .data = data, .len = len };

        if (begins_with(data, len, byte_order_mark)) {
                text.data += strlen(byte_order_mark);
                text.len -= strlen(byte_order_mark);
        }
        text.first = skip_space(text.data, text.len);
        for (size_t i = 0; i < N_ELEMENTS(forms); i++) {
                const struct form *form = &forms[i];
                int r;

                if (!form->is_it(&text, form->word))
                        continue;
                reading->is_known = true;
                reading->found.hint = form->hint;
                r = form->take ? form->take(reading, &text, form->what)
                               : set_what(reading, form->what);
                if (r < 0 || reading->found.what[0])
                        return r;
        }
        reading->is_known = false;
        return set_what(reading, "data of another program");
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
        r = take_text(&reading, data, len);
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
