/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "format/note_internal.h"
#include "format/provider.h"

#define VERSION 1

/* --- What the members take --- */

bool nb_note_is_csr_name_or_empty(const char *text) {
        return text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:")] == '\0';
}

bool nb_note_is_endpoint(const char *text) {
        struct nb_url url;

        return nb_endpoint_parse(text, strlen(text), &url) >= 0;
}

bool nb_note_is_token_id_or_empty(const char *text) {
        return !text[0] || (strlen(text) == 6 && text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789")] == '\0');
}

bool nb_note_is_line(const char *text) {
        return nb_text_is_printable(text, strlen(text));
}

bool nb_note_is_filled_line(const char *text) {
        return text[0] && nb_note_is_line(text);
}

bool nb_note_is_node_name(const char *text) {
        char name[NB_NODE_NAME_MAX + 1];

        return nb_node_name_parse(text, strlen(text), name) >= 0 && strcmp(text, name) == 0;
}

bool nb_note_is_time(const char *text) {
        return strlen(text) >= strlen("2026-01-02T15:04:05Z") && text[strspn(text, "0123456789-:TZ")] == '\0';
}

bool nb_note_is_cloud(const char *text) {
        enum nb_provider provider;

        return nb_provider_parse(text, strlen(text), &provider) >= 0 && provider != NB_PROVIDER_NONE && provider != NB_PROVIDER_AUTO;
}

/* --- Reading --- */

int nb_note_open(const char *text, size_t len, const char *what, enum nb_code code, struct nb_json *ret_json,
                 struct nb_failure *f) {
        if (len > NB_HANDOFF_MAX)
                return nb_failure_set(f, code, 0, "%s: expected at most %d bytes, found %zu", what, NB_HANDOFF_MAX,
                                      len);
        return nb_json_parse(text, len, what, code, ret_json, f);
}

int nb_note_check_version(const struct nb_json *json, struct nb_failure *f) {
        int64_t version = 0;
        int r;

        r = nb_json_integer(json, "version", &version, f);
        if (r < 0)
                return r;
        if (version != VERSION)
                return nb_failure_set(f, json->code, 0, "%s: version: expected %d, found %lld", json->what, VERSION,
                                      (long long)version);
        return 0;
}

int nb_note_get_text(const struct nb_json *json, const char *key, const char **ret, size_t *ret_len,
                     struct nb_failure *f) {
        int r;

        r = nb_json_string(json, key, ret, ret_len, f);
        if (r < 0)
                return r;
        return r > 0 ? 0
                     : nb_failure_set(f, json->code, 0, "%s: %s: expected a string, found nothing", json->what, key);
}

int nb_note_take_member(const struct nb_json *json, const struct nb_note_member *member, void *ret, struct nb_failure *f) {
        char quoted[NB_TEXT_QUOTED_SIZE];
        const char *text;
        size_t len;
        int r;

        r = nb_note_get_text(json, member->key, &text, &len, f);
        if (r < 0)
                return r;
        if (len >= member->size || !member->is_accepted(text))
                return nb_failure_set(f, member->code != NB_NONE ? member->code : json->code, 0,
                                      "%s: %s: expected %s, found %s", json->what, member->key, member->expected,
                                      nb_text_quote(text, len, quoted));
        memcpy((char *)ret + member->offset, text, len + 1);
        return 0;
}

int nb_note_take_members(const struct nb_json *json, const struct nb_note_member *members, size_t n_members, void *ret,
                         struct nb_failure *f) {
        int r = 0;

        for (size_t i = 0; i < n_members && r >= 0; i++)
                r = nb_note_take_member(json, &members[i], ret, f);
        return r;
}

int nb_note_take_optional(const struct nb_json *json, const struct nb_note_member *member, void *ret, struct nb_failure *f) {
        const char *text;
        size_t len;
        int r;

        r = nb_json_string(json, member->key, &text, &len, f);
        if (r <= 0)
                return r;
        r = nb_note_take_member(json, member, ret, f);
        return r < 0 ? r : 1;
}

static int check_key(void *userdata, const char *key, struct nb_failure *f) {
        const struct nb_note_keys *keys = userdata;

        for (size_t i = 0; i < keys->n_members; i++)
                if (strcmp(keys->members[i].key, key) == 0)
                        return 0;
        for (const char *const *other = keys->others; *other; other++)
                if (strcmp(*other, key) == 0)
                        return 0;
        return nb_failure_set(f, keys->json->code, 0, "%s: expected no other keys than ours, found '%.64s'",
                              keys->json->what, key);
}

int nb_note_check_keys(struct nb_note_keys *keys, struct nb_failure *f) {
        return nb_json_each_key(keys->json, "", check_key, keys, f);
}

/* --- Writing --- */

int nb_note_write_text(struct nb_buffer *ret, const char *key, const char *text) {
        int r;

        r = nb_buffer_printf(ret, ",\n  \"%s\": ", key);
        return r < 0 ? r : nb_json_quote(text, strlen(text), ret);
}

int nb_note_write_start(struct nb_buffer *ret) {
        return nb_buffer_printf(ret, "{\n  \"version\": %d", VERSION);
}

int nb_note_write_members(struct nb_buffer *ret, const struct nb_note_member *members, size_t n_members, const void *from) {
        int r = 0;

        for (size_t i = 0; i < n_members && r >= 0; i++)
                r = nb_note_write_text(ret, members[i].key, (const char *)from + members[i].offset);
        return r;
}

int nb_note_write_optional(struct nb_buffer *ret, const struct nb_note_member *members, size_t n_members, const void *from) {
        int r = 0;

        for (size_t i = 0; i < n_members && r >= 0; i++)
                if (((const char *)from)[members[i].offset])
                        r = nb_note_write_members(ret, &members[i], 1, from);
        return r;
}

int nb_note_write_end(struct nb_buffer *ret) {
        return nb_buffer_append_string(ret, "\n}\n");
}
