/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "codec/json.h"
#include "settings/settings.h"
#include "state_files/state_file.h"

#define NUMBER_MAX (INT64_C(1) << 53)
#define VERSION 1 /* of all files */

/* --- Writing --- */

static void put_field(struct nb_json_writer *writer, const struct nb_state_field *field,
                      const char *from) {
        const char *member = from + field->offset;
        char text[NB_URL_MAX];

        switch (field->form->kind) {
        case NB_STATE_TEXT:
                nb_json_put_string(writer, field->key, member);
                break;
        case NB_STATE_URL:
                nb_url_format((const struct nb_url *)member, text);
                nb_json_put_string(writer, field->key, text);
                break;
        case NB_STATE_PEM:
                nb_json_put_string(writer, field->key, *(char *const *)member);
                break;
        case NB_STATE_PINS:
                nb_json_open(writer, field->key, '[');
                for (unsigned i = 0; i < *(const unsigned *)(from + field->n_offset); i++) {
                        nb_pin_format((const uint8_t *)member + (size_t)i * NB_PIN_SIZE, text);
                        nb_json_put_string(writer, NULL, text);
                }
                nb_json_close(writer);
                break;
        case NB_STATE_BOOL:
                nb_json_put_boolean(writer, field->key, *(const bool *)member);
                break;
        case NB_STATE_NUMBER:
                nb_json_put_integer(writer, field->key, *(const int64_t *)(const void *)member);
        }
}

static bool is_empty(const struct nb_state_field *field, const char *from) {
        const char *text = from + field->offset;

        /* A false boolean also begins with a zero byte. */
        if (field->form->kind == NB_STATE_PEM)
                text = *(char *const *)text;
        if (field->form->kind == NB_STATE_NUMBER)
                return *(const uint64_t *)(const void *)text == 0;
        return !text || !text[0];
}

int nb_state_file_format(const struct nb_state_file *file, const void *from,
                         struct nb_buffer *ret) {
        struct nb_json_writer writer = { .buffer = ret, .is_indented = true };

        nb_json_open(&writer, NULL, '{');
        if (!file->is_open)
                nb_json_put_integer(&writer, "version", VERSION);
        for (size_t i = 0; i < file->n_fields; i++) {
                const struct nb_state_field *field = &file->fields[i];

                if (file->is_open || field->presence != NB_STATE_OPTIONAL || !is_empty(field, from))
                        put_field(&writer, field, from);
        }
        return nb_json_finish(&writer);
}

/* --- Reading --- */

struct reader {
        const struct nb_state_file *file;
        struct nb_json json;
};

static bool is_known(const struct nb_state_file *file, const char *key) {
        for (size_t i = 0; i < file->n_fields; i++)
                if (!strcmp(file->fields[i].key, key))
                        return true;
        return !strcmp(key, "version");
}

static void verify_keys(struct reader *reader) {
        const struct nb_state_file *file = reader->file;
        struct nb_json *json = &reader->json;
        int64_t version = nb_json_integer(json, "version");

        if (version != VERSION)
                json->r = nb_failure_set(json->f, file->code, 0,
                                         "%s: version: expected %d, found %lld", file->name,
                                         VERSION, (long long)version);
        for (const char *key = NULL; (key = nb_json_next_key(json, "", key));)
                if (!is_known(file, key))
                        json->r = nb_failure_set(json->f, file->code, 0, "%s: unknown key '%.64s'",
                                                 file->name, key);
}

/* `text` is NULL if there is none. */
static int refuse_text(const struct reader *reader, const struct nb_state_field *field,
                       const char *text) {
        const struct nb_state_file *file = reader->file;
        char quoted[NB_TEXT_QUOTED_SIZE];

        return nb_failure_set(
                reader->json.f,
                text && field->form->is_connection ? file->connection_code : file->code, 0,
                "%s: %s: expected %s%s, found %s", file->name, field->key, field->form->expected,
                field->presence == NB_STATE_REQUIRED ? "" : " or ''",
                text ? nb_text_quote(text, strlen(text), quoted) : "nothing");
}

static bool has_form(const struct nb_state_form *form, const char *text, size_t len) {
        if (form->verify)
                return form->verify(text) >= 0;
        return len >= form->len_min && (form->len_max == 0 || len <= form->len_max) &&
               (!form->characters || strspn(text, form->characters) == len);
}

/* 0; -EINVAL, -ENOMEM. */
static int store_text(const struct nb_state_field *field, const char *text, size_t len, char *ret) {
        char *member = ret + field->offset;

        if (len == 0 && field->presence == NB_STATE_REQUIRED)
                return -EINVAL;
        if (field->form->kind == NB_STATE_URL)
                return nb_url_parse(text, len, (struct nb_url *)member);
        if (len > 0 && !has_form(field->form, text, len))
                return -EINVAL;
        if (field->form->kind == NB_STATE_PEM) {
                if (len == 0 && field->presence == NB_STATE_OPTIONAL)
                        return 0;
                if (field->n_offset > 0)
                        *(size_t *)(ret + field->n_offset) = len;
                *(char **)member = strdup(text);
                return *(char **)member ? 0 : -ENOMEM;
        }
        if (len >= field->size)
                return -EINVAL;
        memcpy(member, text, len + 1);
        return 0;
}

static int take_text(struct reader *reader, const struct nb_state_field *field, char *ret) {
        const char *text = nb_json_string(&reader->json, field->key);
        int r;

        if (!text)
                return field->presence == NB_STATE_OPTIONAL ? 0 : refuse_text(reader, field, NULL);
        r = store_text(field, text, strlen(text), ret);
        if (r == -ENOMEM)
                return nb_failure_set_memory(reader->json.f);
        return r < 0 ? refuse_text(reader, field, text) : 0;
}

static int take_pins(struct reader *reader, const struct nb_state_field *field, char *ret) {
        ssize_t n = nb_json_array(&reader->json, field->key);
        bool is_valid = n >= 0 && n <= NB_SETTINGS_PINS_MAX;
        uint8_t *pins = (uint8_t *)ret + field->offset;

        for (ssize_t i = 0; is_valid && i < n; i++) {
                const char *text;
                char path[64];

                snprintf(path, sizeof(path), "%s[%zd]", field->key, i);
                text = nb_json_string(&reader->json, path);
                is_valid = text && nb_pin_parse(text, strlen(text), pins + i * NB_PIN_SIZE) >= 0;
        }
        if (!is_valid)
                return nb_failure_set(reader->json.f, reader->file->code, 0,
                                      "%s: %s: expected a list of at most %d hashes, each sha256: "
                                      "and 64 hex digits",
                                      reader->file->name, field->key, NB_SETTINGS_PINS_MAX);
        *(unsigned *)(ret + field->n_offset) = (unsigned)n;
        return 0;
}

static int take_number(struct reader *reader, const struct nb_state_field *field, char *ret) {
        int64_t number = nb_json_integer(&reader->json, field->key);

        if (number < 0 || number > NUMBER_MAX)
                return nb_failure_set(reader->json.f, reader->file->code, 0,
                                      "%s: %s: expected 0 to 2^53, found %lld", reader->file->name,
                                      field->key, (long long)number);
        *(int64_t *)(void *)(ret + field->offset) = number;
        return 0;
}

static int take_all(struct reader *reader, char *ret) {
        const struct nb_state_file *file = reader->file;
        int r;

        if (!file->is_open)
                verify_keys(reader);
        for (size_t i = 0; i < file->n_fields && reader->json.r >= 0; i++) {
                const struct nb_state_field *field = &file->fields[i];

                if (field->form->kind == NB_STATE_BOOL) {
                        *(bool *)(ret + field->offset) = nb_json_boolean(&reader->json,
                                                                         field->key) > 0;
                        continue;
                }
                r = field->form->kind == NB_STATE_PINS     ? take_pins(reader, field, ret)
                    : field->form->kind == NB_STATE_NUMBER ? take_number(reader, field, ret)
                                                           : take_text(reader, field, ret);
                if (r < 0)
                        return r;
        }
        return reader->json.r;
}

int nb_state_file_parse(const struct nb_state_file *file, const char *text, size_t len, void *ret,
                        struct nb_failure *f) {
        struct reader reader = { .file = file };
        int r;

        memset(ret, 0, file->size);
        if (len > NB_HANDOFF_MAX)
                return nb_failure_set(f, file->code, 0, "%s: expected at most %d bytes, found %zu",
                                      file->name, NB_HANDOFF_MAX, len);
        reader.json = nb_json_parse(text, len, file->name, file->code, f);
        r = take_all(&reader, ret);
        nb_json_done(&reader.json);
        if (r >= 0)
                return 0;
        for (size_t i = 0; i < file->n_fields; i++)
                if (file->fields[i].form->kind == NB_STATE_PEM)
                        free(*(char **)((char *)ret + file->fields[i].offset));
        memset(ret, 0, file->size);
        return r;
}

/* --- The state directory --- */

static int refuse_write(const char *name, int r, struct nb_failure *f) {
        return nb_failure_set(f, NB_STATE_UNWRITABLE, r, "'%s' in the state directory: %m", name);
}

int nb_state_file_write(int state_fd, const char *name, const struct nb_buffer *text,
                        struct nb_failure *f) {
        int r = nb_file_write(state_fd, name, 0600, text->data, text->len);

        return r < 0 ? refuse_write(name, r, f) : 0;
}

int nb_state_file_clear(int state_fd, const char *name, struct nb_failure *f) {
        char temporary[NAME_MAX + 1];
        int r;

        snprintf(temporary, sizeof(temporary), ".%s.tmp", name);
        r = nb_file_clear(state_fd, name);
        if (r >= 0)
                r = nb_file_clear(state_fd, temporary);
        return r < 0 ? refuse_write(name, r, f) : 0;
}
