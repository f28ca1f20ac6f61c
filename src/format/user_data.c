/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/macro.h"
#include "format/gunzip.h"
#include "format/mime.h"
#include "format/user_data_forms.h"

/* What something may still be wrapped in, so that nothing can be wrapped without end. */
enum wrapping {
        BASE64 = 1,
        GZIP = 2,
        MIME = 4,
};

struct reading {
        const char *origin;
        struct nb_failure *f;
        char where[NB_USER_DATA_WHERE_SIZE]; /* for messages: the origin, and the part of it */
        char wrapped[72];                    /* ", in part 2 of a MIME message, in gzip" */
        struct nb_user_data found;
        char nothing[sizeof(((struct nb_user_data *)0)->what)];        /* what it is when there is nothing for us, */
        char near_miss[sizeof(((struct nb_user_data *)0)->near_miss)]; /* though there was meant to be */
        unsigned part;                                                 /* that has something for us; 0 for none */
        bool is_ours;                                                  /* by its type, whatever is in it */
        bool is_unreadable;                                            /* some of it, as `nothing` says */
};

bool nb_user_data_mentions(const char *data, size_t len, const char *text) {
        return memmem(data, len, text, strlen(text)) != NULL;
}

int nb_user_data_copy(const char *data, size_t len, struct nb_secret *ret) {
        struct nb_secret copy = NB_SECRET_INIT;
        int r;

        r = nb_secret_init(&copy, len);
        if (r >= 0)
                r = nb_secret_append(&copy, data, len);
        if (r < 0)
                return r;
        *ret = copy;
        return 0;
}

static bool begins(const char *data, size_t len, const char *text) {
        return len >= strlen(text) && memcmp(data, text, strlen(text)) == 0;
}

/* 0, for the caller to return. */
static int pass_over(struct reading *reading, const char *what) {
        (void)snprintf(reading->nothing, sizeof(reading->nothing), "%s%s", what, reading->wrapped);
        return 0;
}

/* The same for text in which something for us may have been meant. */
static int pass_over_text(struct reading *reading, const char *what, const char *data, size_t len, bool is_cloud_config) {
        char near_miss[sizeof(reading->near_miss) - sizeof(reading->wrapped)];

        nb_user_data_find_near_miss(data, len, is_cloud_config, near_miss, sizeof(near_miss));
        if (near_miss[0])
                (void)snprintf(reading->near_miss, sizeof(reading->near_miss), "%s%s", near_miss, reading->wrapped);
        return pass_over(reading, what);
}

/* 1, likewise. */
static int take(struct reading *reading, enum nb_user_data_kind kind, const char *what) {
        reading->found.kind = kind;
        (void)snprintf(reading->found.what, sizeof(reading->found.what), "%s%s", what, reading->wrapped);
        return 1;
}

static int take_document(struct reading *reading, const char *data, size_t len, const char *what) {
        if (nb_user_data_copy(data, len, &reading->found.document) < 0)
                return nb_failure_set_memory(reading->f);
        return take(reading, NB_USER_DATA_DOCUMENT, what);
}

/* --- What a text is --- */

/* Whether some line at the margin says so: a document of ours that stands in another one is indented there. */
static bool has_line(const char *data, size_t len, const char *key, const char *value, bool is_prefix) {
        struct nb_user_data_line line = { 0 };

        for (const char *end = data + len; nb_user_data_next_line(&data, end, &line);) {
                if (!line.key || line.key_len != strlen(key) || memcmp(line.key, key, line.key_len) != 0 || !line.value)
                        continue;
                if ((is_prefix ? line.value_len >= strlen(value) : line.value_len == strlen(value)) && memcmp(line.value, value, strlen(value)) == 0)
                        return true;
        }
        return false;
}

static int take_yaml(struct reading *reading, const char *data, size_t len) {
        if (has_line(data, len, "apiVersion", "node-bootstrap/", true) || has_line(data, len, "kind", "NodeBootstrap", false))
                return take_document(reading, data, len, "a NodeBootstrap document");
        if (has_line(data, len, "kind", "JoinConfiguration", false))
                return take_document(reading, data, len, "a JoinConfiguration");
        return pass_over_text(reading, "data of another program", data, len, false);
}

static int take_cloud_config(struct reading *reading, const char *data, size_t len) {
        int r = nb_user_data_take_cloud_config(reading->where, data, len, &reading->found.document, reading->f);

        if (r <= 0)
                return r < 0 ? r : pass_over_text(reading, "a cloud-config without the key node_bootstrap", data, len, true);
        return take(reading, NB_USER_DATA_DOCUMENT, "a cloud-config");
}

static int take_json(struct reading *reading, const char *data, size_t len) {
        const char *what = "";
        int r = nb_user_data_take_json(reading->where, data, len, &reading->found, &what, reading->f);

        if (r <= 0)
                return r < 0 ? r : pass_over(reading, what);
        return take(reading, (enum nb_user_data_kind)r, r == NB_USER_DATA_DOCUMENT ? "a document in JSON" : "credentials in JSON");
}

static int take_template(struct reading *reading, const char *data, size_t len) {
        return pass_over_text(reading, "a template for cloud-init", data, len, false);
}

/* The first line says what the rest is, as for cloud-init; the longer ones stand before those that they begin with. */
static const struct {
        const char *line;
        const char *what;                                                         /* that is nothing for us; or */
        int (*take)(struct reading *reading, const char *data, size_t len);       /* with this line, or */
        int (*take_below)(struct reading *reading, const char *data, size_t len); /* without it */
} first_lines[] = {
        { "#!", "a shell script", NULL, NULL },
        { "#cloud-config-archive", "an archive for cloud-init", NULL, NULL },
        { "#cloud-config-jsonp", "a patch for cloud-init", NULL, NULL },
        { "#cloud-config", NULL, take_cloud_config, NULL },
        { "#cloud-boothook", "a boothook for cloud-init", NULL, NULL },
        { "#include", "a list of addresses for cloud-init", NULL, NULL },
        { "#part-handler", "a handler for cloud-init", NULL, NULL },
        { "#upstart-job", "a job for Upstart", NULL, NULL },
        { "#systemd-userdata", NULL, NULL, take_json },
        { "## template:", NULL, take_template, NULL },
};

static bool is_first_line(const char *data, size_t len, const char *line) {
        return len >= strlen(line) && strncasecmp(data, line, strlen(line)) == 0;
}

/* Text that is wrapped in nothing any more. Its lines are counted from where it begins, also where the first ones are empty. 1: ours, 0: not. */
static int take_text(struct reading *reading, const char *data, size_t len) {
        const char *first = data, *end = data + len, *newline;

        while (first < end && isspace((unsigned char)*first))
                first++;
        for (size_t i = 0; i < N_ELEMENTS(first_lines); i++) {
                if (!is_first_line(first, (size_t)(end - first), first_lines[i].line))
                        continue;
                if (first_lines[i].what)
                        return pass_over(reading, first_lines[i].what);
                if (first_lines[i].take)
                        return first_lines[i].take(reading, data, len);
                newline = memchr(first, '\n', (size_t)(end - first));
                return first_lines[i].take_below(reading, newline ? newline + 1 : end, newline ? (size_t)(end - newline) - 1 : 0);
        }
        if (begins(first, (size_t)(end - first), "{"))
                return take_json(reading, data, len);
        return take_yaml(reading, data, len);
}

/* --- What it is wrapped in --- */

static int unwrap(struct reading *reading, const char *data, size_t len, unsigned wrappings);

static void note_wrapping(struct reading *reading, const char *text) {
        size_t len = strlen(reading->wrapped);

        (void)snprintf(reading->wrapped + len, sizeof(reading->wrapped) - len, "%s", text);
}

static int take_gzip(struct reading *reading, const char *data, size_t len, unsigned wrappings) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        const char *what;
        int r;

        r = nb_gunzip(data, len, NB_USER_DATA_TEXT_MAX, &text);
        if (r == -ENOMEM)
                return nb_failure_set_memory(reading->f);
        if (r < 0) {
                what = r == -E2BIG ? "gzip of more than 1 MiB" : "gzip that is cut or damaged";
                if (reading->is_ours)
                        return nb_failure_set(reading->f, NB_METADATA_MALFORMED, -r, "%s: expected text, found %s", reading->where, what);
                reading->is_unreadable = true;
                return pass_over(reading, what);
        }
        note_wrapping(reading, ", in gzip");
        return unwrap(reading, text.data, text.len, wrappings);
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

/* A word can be base64 by chance, so that what comes out has to be something for it to count. */
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

/* Whether a part is of a type that is meant for us, or for cloud-init, which may be. */
static bool is_own_type(const char *type) {
        return strcmp(type, "application/vnd.node-bootstrap+yaml") == 0;
}

static bool is_cloud_config_type(const char *type) {
        return strcmp(type, "text/cloud-config") == 0;
}

static bool is_foreign_type(const char *type) {
        static const char *const types[] = { "text/x-shellscript", "text/cloud-boothook", "text/part-handler", "text/jinja2", "text/x-include-url",
                                             "text/x-include-once-url", "text/cloud-config-archive", "text/cloud-config-jsonp", "text/upstart-job" };

        for (size_t i = 0; i < N_ELEMENTS(types); i++)
                if (strcmp(type, types[i]) == 0)
                        return true;
        return strncmp(type, "text/x-shellscript-", strlen("text/x-shellscript-")) == 0;
}

static int take_decoded(struct reading *reading, const struct nb_mime_part *part, const struct nb_secret *body) {
        if (is_own_type(part->type) && !nb_gzip_is_meant(body->data, body->len))
                return take_document(reading, body->data, body->len, "a document of its own type");
        if (is_cloud_config_type(part->type) && !nb_gzip_is_meant(body->data, body->len) && !begins(body->data, body->len, "## template:"))
                return take_cloud_config(reading, body->data, body->len);
        return unwrap(reading, body->data, body->len, GZIP);
}

/* With a result of its own, which only becomes the message's when it is for us. */
static int take_part(void *userdata, const struct nb_mime_part *part) {
        _cleanup_(nb_secret_done) struct nb_secret body = NB_SECRET_INIT;
        struct reading *reading = userdata;
        struct reading inner = { .origin = reading->origin, .f = reading->f, .found = NB_USER_DATA_INIT, .is_ours = is_own_type(part->type) };
        int r;

        if (is_foreign_type(part->type))
                return 0;
        (void)snprintf(inner.where, sizeof(inner.where), "%.150s, MIME part %u", reading->origin, part->number);
        (void)snprintf(inner.wrapped, sizeof(inner.wrapped), ", in part %u of a MIME message%.30s", part->number, reading->wrapped);
        r = nb_mime_decode(part, &body);
        if (r == -ENOMEM)
                return nb_failure_set_memory(reading->f);
        if (r < 0 && !is_own_type(part->type) && !is_cloud_config_type(part->type))
                return 0;
        if (r < 0)
                return nb_failure_set(reading->f, NB_METADATA_MALFORMED, EBADMSG,
                                      "%s: expected %s in the Content-Transfer-Encoding that it names, found something else", inner.where, part->type);
        r = take_decoded(&inner, part, &body);
        if (r > 0 && reading->part > 0)
                r = nb_failure_set(reading->f, NB_METADATA_MALFORMED, EINVAL, "%s: expected one part for this program, found two: %u and %u",
                                   reading->where, reading->part, part->number);
        if (r <= 0) {
                if (inner.near_miss[0])
                        memcpy(reading->near_miss, inner.near_miss, sizeof(reading->near_miss));
                if (inner.is_unreadable) {
                        reading->is_unreadable = true;
                        memcpy(reading->nothing, inner.nothing, sizeof(reading->nothing));
                }
                nb_user_data_done(&inner.found);
                return r;
        }
        reading->part = part->number;
        reading->found = inner.found;
        return 0;
}

static bool is_any_of_ours(const char *data, size_t len) {
        static const char *const words[] = { "node-bootstrap", "node_bootstrap", "NodeBootstrap", "JoinConfiguration" };

        for (size_t i = 0; i < N_ELEMENTS(words); i++)
                if (nb_user_data_mentions(data, len, words[i]))
                        return true;
        return false;
}

static int take_mime(struct reading *reading, const char *data, size_t len) {
        const char *wrong = "";
        int r;

        r = nb_mime_parse(data, len, take_part, reading, &wrong);
        if (r < 0 && reading->f->code != NB_NONE)
                return r;
        if (r >= 0 && reading->part > 0)
                return 1;
        if (r >= 0)
                return reading->is_unreadable ? 0 : pass_over(reading, "a MIME message without a part for this program");
        if (is_any_of_ours(data, len) || reading->part > 0)
                return nb_failure_set(reading->f, NB_METADATA_MALFORMED, EBADMSG, "%s: expected a MIME message, found %s", reading->where, wrong);
        return pass_over(reading, "a MIME message with an error in it");
}

static bool is_space(const char *data, size_t len) {
        for (size_t i = 0; i < len; i++)
                if (!isspace((unsigned char)data[i]))
                        return false;
        return true;
}

static int unwrap(struct reading *reading, const char *data, size_t len, unsigned wrappings) {
        static const char byte_order_mark[] = "\xef\xbb\xbf";

        if (begins(data, len, byte_order_mark)) {
                data += strlen(byte_order_mark);
                len -= strlen(byte_order_mark);
        }
        if (is_space(data, len))
                return pass_over(reading, "empty");
        if ((wrappings & GZIP) && nb_gzip_is_meant(data, len))
                return take_gzip(reading, data, len, wrappings & MIME);
        if ((wrappings & BASE64) && is_base64_text(data, len))
                return take_base64(reading, data, len);
        if ((wrappings & MIME) && nb_mime_is_meant(data, len))
                return take_mime(reading, data, len);
        return take_text(reading, data, len);
}

int nb_user_data_parse(const char *origin, const char *data, size_t len, struct nb_user_data *ret_user_data, struct nb_failure *f) {
        struct reading reading = { .origin = origin, .f = f, .found = NB_USER_DATA_INIT };
        int r;

        (void)snprintf(reading.where, sizeof(reading.where), "%s", origin);
        if (len > NB_USER_DATA_MAX)
                return nb_failure_set(f, NB_METADATA_MALFORMED, E2BIG, "%s: expected at most %d KiB, found %zu bytes", origin, NB_USER_DATA_MAX / 1024, len);
        r = unwrap(&reading, data, len, BASE64 | GZIP | MIME);
        if (r < 0) {
                nb_user_data_done(&reading.found);
                return r;
        }
        if (r == 0) {
                reading.found.kind = reading.is_unreadable ? NB_USER_DATA_UNREADABLE : NB_USER_DATA_NOTHING;
                (void)snprintf(reading.found.what, sizeof(reading.found.what), "%s", reading.nothing);
                memcpy(reading.found.near_miss, reading.near_miss, sizeof(reading.near_miss));
        }
        *ret_user_data = reading.found;
        return 0;
}

void nb_user_data_done(struct nb_user_data *user_data) {
        nb_secret_done(&user_data->document);
        nb_secret_done(&user_data->token);
        nb_secret_done(&user_data->tls_bootstrap_token);
        *user_data = (struct nb_user_data)NB_USER_DATA_INIT;
}
